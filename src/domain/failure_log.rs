//! What an operator is told of something that keeps failing: its beginning, each change, a reminder
//! once a minute, and its end. Not every try.
//!
//! `agent` keeps one for each watch and each environment, and logs what it says.

use std::time::{Duration, Instant};

/// How often the same words are said as new within the time of a reminder: what fails and works by turns
/// is not said each time.
const MOST: usize = 3;

/// Something that works, or has been failing for a while.
#[derive(Debug)]
pub struct Outage {
    remind: Duration,
    failing: Option<Failing>,
    /// What was said as new, and when: of late.
    said: Vec<(String, Instant)>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    failures: u64,
    words: String,
    /// When that was last said, if it was.
    said_at: Option<Instant>,
}

/// What to say of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// It is new, or another one than before.
    This,
    /// It goes on: so many failures, for so long.
    Still(u64, Duration),
    /// Nothing that was not said a moment ago.
    Nothing,
}

impl Outage {
    /// Something that works; of a failure that goes on it is said every so often.
    #[must_use]
    pub fn new(remind: Duration) -> Self {
        Self { remind, failing: None, said: Vec::new() }
    }

    /// It failed, in these words.
    pub fn failed(&mut self, words: &str, now: Instant) -> Say {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < self.remind;
        self.said.retain(|(_, at)| is_recent(*at));
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: now,
            failures: 0,
            words: words.to_owned(),
            said_at: None,
        });
        failing.failures += 1;
        if failing.words != words {
            words.clone_into(&mut failing.words);
            failing.said_at = None;
        }
        match failing.said_at {
            Some(at) if is_recent(at) => Say::Nothing,
            Some(_) => {
                failing.said_at = Some(now);
                Say::Still(failing.failures, now.saturating_duration_since(failing.since))
            }
            None if self.said.iter().filter(|(said, _)| said == words).count() >= MOST => Say::Nothing,
            None => {
                failing.said_at = Some(now);
                self.said.push((words.to_owned(), now));
                Say::This
            }
        }
    }

    /// It works: how often and for how long it had failed, where it had and that was said.
    pub fn over(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let failing = self.failing.take()?;
        failing.said_at?;
        Some((failing.failures, now.saturating_duration_since(failing.since)))
    }

    /// How it fails, while it does.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        self.failing.as_ref().map(|failing| failing.words.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_at_its_start_on_change_once_a_minute_and_at_its_end() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::new(Duration::from_mins(1));
        assert_eq!(outage.over(at(0)), None);
        let table = [
            (0, "refused", Say::This),
            (10, "refused", Say::Nothing),
            (20, "timed out", Say::This),
            (79, "timed out", Say::Nothing),
            (80, "timed out", Say::Still(5, Duration::from_secs(80))),
            (139, "timed out", Say::Nothing),
            (140, "timed out", Say::Still(7, Duration::from_secs(140))),
            (141, "refused", Say::This),
        ];
        for (seconds, words, say) in table {
            assert_eq!(outage.failed(words, at(seconds)), say, "{seconds}");
        }
        assert_eq!(outage.words(), Some("refused"));
        assert_eq!(outage.over(at(150)), Some((8, Duration::from_secs(150))));
        assert_eq!((outage.over(at(151)), outage.words()), (None, None));
        assert_eq!(outage.failed("refused", at(152)), Say::This);
    }

    #[test]
    fn what_fails_and_works_by_turns_is_not_said_each_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::new(Duration::from_mins(1));
        let mut said = 0;
        for second in 0..60 {
            said += u32::from(outage.failed("refused", at(second)) == Say::This);
            said += u32::from(outage.over(at(second)).is_some());
        }
        assert_eq!(said, 6);
        // Another failure is news, and so is this one after a while.
        assert_eq!(outage.failed("timed out", at(60)), Say::This);
        assert_eq!(outage.failed("refused", at(61)), Say::This);
        // One that was not said at its start is said as soon as it may.
        let mut outage = Outage::new(Duration::from_mins(1));
        for second in 0..3 {
            outage.failed("refused", at(second));
            outage.over(at(second));
        }
        assert_eq!(outage.failed("refused", at(3)), Say::Nothing);
        assert_eq!(outage.words(), Some("refused"));
        assert_eq!(outage.failed("refused", at(60)), Say::This);
        assert_eq!(outage.over(at(61)), Some((2, Duration::from_secs(58))));
    }
}
