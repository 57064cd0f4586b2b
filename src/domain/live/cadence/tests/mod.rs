//! One environment's story at a time: what is due when. `pace` has those in which all goes well,
//! `answers` those in which the service does not take a report, or says more than that it did, and
//! `ending` the last words. Time moves only when a story says so.

mod answers;
mod ending;
mod pace;

use proptest::prelude::*;

use super::*;
use crate::domain::retry::class;

const ACCEPTED: Answer = Answer::Accepted { new_snapshot: None };
const PASSING: Answer = Answer::Failed { failure: Failure::Passing, retry_after: None };
const LASTING: Answer = Answer::Failed { failure: Failure::Lasting, retry_after: None };

const FIRST: Step = Step::Send { why: Why::First };
const CHANGE: Step = Step::Send { why: Why::Change };
const HEARTBEAT: Step = Step::Send { why: Why::Heartbeat };
const RETRY: Step = Step::Send { why: Why::Retry };
const FOLLOW_UP: Step = Step::Send { why: Why::FollowUp };
const LAST_WORD: Step = Step::Send { why: Why::LastWord };
const UNLISTED: Step = Step::Withhold { why: Withheld::Unlisted };

/// One environment, and a time that moves only when it is told to: in milliseconds from the beginning.
struct Story {
    beginning: Instant,
    now: u64,
    cadence: Cadence,
    view: View,
    /// Until when the watch was heard of; `None` where it is heard of all the time.
    contact: Option<u64>,
}

impl Story {
    fn with(policy: Policy) -> Self {
        // Any instant would do: nothing here asks how late it is.
        let beginning = Instant::now();
        let view = View {
            revision: Revision::default().next(),
            knowledge: Knowledge::Contact(beginning),
            witnessed: false,
        };
        let cadence = Cadence::new(policy, 7);
        Self { beginning, now: 0, cadence, view, contact: None }
    }

    /// Intervals have no jitter here.
    fn begins() -> Self {
        Self::with(Policy { jitter: 0, ..Policy::default() })
    }

    /// The list is complete and the first report was accepted, both at 0.
    fn reported() -> Self {
        let mut story = Self::begins();
        assert_eq!(story.sends_in(0, ACCEPTED), FIRST);
        story
    }

    fn time(&self, ms: u64) -> Instant {
        self.beginning + Duration::from_millis(ms)
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = ms;
        self
    }

    fn changes(&mut self) -> &mut Self {
        self.view.revision = self.view.revision.next();
        self.step();
        self
    }

    fn step(&mut self) -> Step {
        if let Knowledge::Contact(contact) = &mut self.view.knowledge {
            *contact = self.beginning + Duration::from_millis(self.contact.unwrap_or(u64::from(u32::MAX)));
        }
        self.cadence.next(&self.view, self.time(self.now))
    }

    /// The time at which to ask again, rounded up.
    fn until(&mut self) -> u64 {
        match self.step() {
            Step::Wait { until: Some(until) } => {
                u64::try_from((until - self.beginning).as_nanos().div_ceil(1_000_000)).unwrap()
            }
            step => panic!("{step:?}"),
        }
    }

    /// Begins what is due; no other revision has its bytes.
    fn begins_report(&mut self) -> Step {
        let step = self.step();
        let hash = bytes(self.view.revision) ^ u64::from(self.carries(step) == Carried::Witnessed);
        assert_eq!(self.begins_with(step, hash), Begun::Upload);
        step
    }

    fn carries(&self, step: Step) -> Carried {
        match step {
            Step::Send { why } if self.view.witnessed && why.takes_witnessed() => Carried::Witnessed,
            Step::Send { .. } => Carried::Nothing,
            step => panic!("{step:?} at {}", self.now),
        }
    }

    fn begins_with(&mut self, step: Step, hash: u64) -> Begun {
        let carried = self.carries(step);
        let Step::Send { why } = step else { panic!("{step:?}") };
        let draft = Draft { why, revision: self.view.revision, hash, carried };
        self.cadence.begin(draft, self.time(self.now))
    }

    fn answered(&mut self, answer: Answer) -> Answered {
        let answered = self.cadence.answered(answer, self.time(self.now));
        if let Some((_, Carried::Witnessed)) = answered.accepted {
            self.view.witnessed = false;
        }
        answered
    }

    /// What is due is sent, and answered so much later.
    fn sends_in(&mut self, ms: u64, answer: Answer) -> Step {
        let step = self.begins_report();
        self.now += ms;
        self.answered(answer);
        step
    }

    /// Goes to where the next report is due.
    fn waits(&mut self) -> &mut Self {
        self.now = self.until();
        self
    }

    fn shuts_down(&mut self) -> Step {
        self.cadence.shut_down(self.time(self.now));
        self.step()
    }
}

fn bytes(revision: Revision) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    revision.hash(&mut hasher);
    hasher.finish()
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..600_000_u64).prop_map(Duration::from_millis),
        any::<Duration>()
    ]
}

proptest! {
    #[test]
    fn no_policy_and_no_order_of_calls_panics(
        durations in proptest::collection::vec(any_duration(), 10),
        (jitter, spacing_factor, seed) in (any::<u32>(), any::<u32>(), any::<u64>()),
        calls in proptest::collection::vec((0..9_u8, 0..4_000_000_u64, any::<bool>(), any_duration()), 0..40),
    ) {
        let policy = Policy {
            debounce: durations[0],
            most_debounce: durations[1],
            interval: durations[2],
            jitter,
            spacing_factor,
            most_spacing: durations[3],
            stale: durations[4],
            backoff: crate::domain::retry::Backoff {
                first: durations[5],
                most: durations[6],
                most_asked: durations[7],
            },
            last_word: durations[8],
        };
        let mut story = Story::with(policy);
        story.cadence = Cadence::new(policy, seed);
        for (call, ms, witnessed, asked) in calls {
            story.at(ms).view.witnessed = witnessed;
            match call {
                0 => story.view.revision = story.view.revision.next(),
                1 => story.contact = witnessed.then_some(ms),
                2 => drop(story.answered(ACCEPTED)),
                3 => drop(story.answered(Answer::Failed { failure: Failure::Passing, retry_after: Some(asked) })),
                4 => drop(story.answered(LASTING)),
                5 if ms % 8 == 0 => drop(story.shuts_down()),
                _ => {}
            }
            let step = story.step();
            if let Step::Wait { until: Some(until) } = step {
                prop_assert!(until > story.time(ms), "{:?}", step);
            }
            if call > 5 && matches!(step, Step::Send { .. }) {
                story.begins_with(step, ms);
            }
        }
    }
}
