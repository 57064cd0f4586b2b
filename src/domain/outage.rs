//! What an operator is told of something that keeps failing: its beginning, each change, a reminder
//! once a minute, and its end. Not every try.
//!
//! `agent` keeps one for each watch and each environment, and logs what it says.

use std::time::{Duration, Instant};

/// Something that works, or has been failing for a while.
#[derive(Debug)]
pub struct Outage {
    remind: Duration,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    failures: u64,
    /// What was last said, and when.
    said: (String, Instant),
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
        Self { remind, failing: None }
    }

    /// It failed, in these words.
    pub fn failed(&mut self, words: &str, now: Instant) -> Say {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Failing { since: now, failures: 1, said: (words.to_owned(), now) });
            return Say::This;
        };
        failing.failures += 1;
        let (said, at) = &failing.said;
        let say = if said != words {
            Say::This
        } else if now.saturating_duration_since(*at) >= self.remind {
            Say::Still(failing.failures, now.saturating_duration_since(failing.since))
        } else {
            return Say::Nothing;
        };
        failing.said = (words.to_owned(), now);
        say
    }

    /// It works: how often and for how long it had failed, where it had.
    pub fn over(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let failing = self.failing.take()?;
        Some((failing.failures, now.saturating_duration_since(failing.since)))
    }

    /// What was last said, while it fails.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        self.failing.as_ref().map(|failing| failing.said.0.as_str())
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
}
