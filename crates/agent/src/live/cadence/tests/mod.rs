//! Table tests of the cadence: one environment with a manual clock, one step per line.
//!
//! `schedule` covers accepted reports, `results` failures and other results of uploads, `shutdown` the final
//! report.

mod results;
mod schedule;
mod shutdown;

use proptest::prelude::*;

use super::*;
use model::retry::classify;

const ACCEPTED: UploadResult = UploadResult::Accepted { new_snapshot: None };
const TRANSIENT: UploadResult = UploadResult::Failed { failure: UploadFailure::Transient, retry_after: None };
const PERMANENT: UploadResult = UploadResult::Failed { failure: UploadFailure::Permanent, retry_after: None };

const FIRST: Step = Step::Send { reason: SendReason::First };
const CHANGE: Step = Step::Send { reason: SendReason::Change };
const HEARTBEAT: Step = Step::Send { reason: SendReason::Heartbeat };
const RETRY: Step = Step::Send { reason: SendReason::Retry };
const FOLLOW_UP: Step = Step::Send { reason: SendReason::FollowUp };
const SHUTDOWN: Step = Step::Send { reason: SendReason::Shutdown };
const UNLISTED: Step = Step::Withhold { reason: WithholdReason::Unlisted };

/// One environment with a manual clock, in milliseconds since `beginning`.
struct Story {
    beginning: Instant,
    now: u64,
    cadence: Cadence,
    view: View,
    /// Time of the last contact; `None` if contact is permanent.
    contact: Option<u64>,
}

impl Story {
    fn with_timing(timing: CadenceTiming) -> Self {
        // The clock is not read again.
        let beginning = Instant::now();
        let view = View {
            revision: Revision::default().next(),
            knowledge: Knowledge::Contact(beginning),
            has_departed_pods: false,
        };
        let cadence = Cadence::new(timing, 7);
        Self { beginning, now: 0, cadence, view, contact: None }
    }

    /// Intervals without jitter.
    fn new() -> Self {
        Self::with_timing(CadenceTiming { jitter: 0, ..CadenceTiming::default() })
    }

    /// An environment whose first report was accepted at 0.
    fn reported() -> Self {
        let mut story = Self::new();
        assert_eq!(story.send_and_finish(0, ACCEPTED), FIRST);
        story
    }

    fn time(&self, ms: u64) -> Instant {
        self.beginning + Duration::from_millis(ms)
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = ms;
        self
    }

    fn change(&mut self) -> &mut Self {
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

    /// End of the current wait, rounded up.
    fn until(&mut self) -> u64 {
        match self.step() {
            Step::Wait { until: Some(until) } => {
                u64::try_from((until - self.beginning).as_nanos().div_ceil(1_000_000)).unwrap()
            }
            step => panic!("{step:?}"),
        }
    }

    /// Begins the report that is due. Its hash is unique to the revision and the contents.
    fn begin_report(&mut self) -> Step {
        let step = self.step();
        let hash =
            hash_of(self.view.revision) ^ u64::from(self.contents(step) == Contents::RunningAndDeparted);
        assert_eq!(self.begin_with(step, hash), BeginResult::Upload);
        step
    }

    fn contents(&self, step: Step) -> Contents {
        match step {
            Step::Send { reason } if self.view.has_departed_pods && reason.includes_departed_pods() => {
                Contents::RunningAndDeparted
            }
            Step::Send { .. } => Contents::Running,
            step => panic!("{step:?} at {}", self.now),
        }
    }

    fn begin_with(&mut self, step: Step, hash: u64) -> BeginResult {
        let contents = self.contents(step);
        let Step::Send { reason } = step else { panic!("{step:?}") };
        let draft = Draft { reason, revision: self.view.revision, hash, contents };
        self.cadence.begin(draft, self.time(self.now))
    }

    fn finish(&mut self, result: UploadResult) -> Completion {
        let completion = self.cadence.finish(result, self.time(self.now));
        if let Some((_, Contents::RunningAndDeparted)) = completion.accepted {
            self.view.has_departed_pods = false;
        }
        completion
    }

    /// Begins the report that is due, and finishes it after `ms`.
    fn send_and_finish(&mut self, ms: u64, result: UploadResult) -> Step {
        let step = self.begin_report();
        self.now += ms;
        self.finish(result);
        step
    }

    /// Advances the clock to the end of the current wait.
    fn advance_to_due(&mut self) -> &mut Self {
        self.now = self.until();
        self
    }

    fn shut_down(&mut self) -> Step {
        self.cadence.shut_down(self.time(self.now));
        self.step()
    }
}

fn hash_of(revision: Revision) -> u64 {
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
    fn no_timing_or_call_order_panics(
        durations in proptest::collection::vec(any_duration(), 10),
        (jitter, spacing_factor, seed) in (any::<u32>(), any::<u32>(), any::<u64>()),
        calls in proptest::collection::vec((0..9_u8, 0..4_000_000_u64, any::<bool>(), any_duration()), 0..40),
    ) {
        let timing = CadenceTiming {
            debounce: durations[0],
            max_debounce: durations[1],
            interval: durations[2],
            jitter,
            spacing_factor,
            max_spacing: durations[3],
            stale_after: durations[4],
            backoff: model::retry::Backoff {
                initial: durations[5],
                max: durations[6],
                max_retry_after: durations[7],
            },
            shutdown_timeout: durations[8],
        };
        let mut story = Story::with_timing(timing);
        story.cadence = Cadence::new(timing, seed);
        for (call, ms, flag, asked) in calls {
            story.at(ms).view.has_departed_pods = flag;
            match call {
                0 => story.view.revision = story.view.revision.next(),
                1 => story.contact = flag.then_some(ms),
                2 => drop(story.finish(ACCEPTED)),
                3 => drop(story.finish(UploadResult::Failed { failure: UploadFailure::Transient, retry_after: Some(asked) })),
                4 => drop(story.finish(PERMANENT)),
                5 if ms % 8 == 0 => drop(story.shut_down()),
                _ => {}
            }
            let step = story.step();
            if let Step::Wait { until: Some(until) } = step {
                prop_assert!(until > story.time(ms), "{:?}", step);
            }
            if call > 5 && matches!(step, Step::Send { .. }) {
                story.begin_with(step, ms);
            }
        }
    }
}
