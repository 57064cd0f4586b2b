use proptest::prelude::*;

use super::*;
use crate::domain::outcome::class;

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
    /// Intervals have no jitter here.
    fn with(policy: Policy) -> Self {
        // Any instant would do: nothing here asks how late it is.
        let beginning = <Instant>::now();
        let view = View {
            revision: Revision::default().next(),
            knowledge: Knowledge::Contact(beginning),
            witnessed: false,
        };
        let cadence = Cadence::new(policy, 7);
        Self { beginning, now: 0, cadence, view, contact: None }
    }

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

fn after(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn the_first_report_goes_out_as_soon_as_the_list_is_complete_and_confirmed() {
    let mut story = Story::begins();
    story.view.knowledge = Knowledge::Unlisted;
    assert_eq!(story.step(), UNLISTED);
    story.view.revision = story.view.revision.next();
    story.view.knowledge = Knowledge::Unconfirmed;
    assert_eq!(story.at(500_000).step(), Step::Withhold { why: Withheld::Unconfirmed });
    story.view.knowledge = Knowledge::Contact(story.beginning);
    assert_eq!(story.step(), FIRST);
}

#[test]
fn a_change_waits_two_seconds_for_company_and_company_makes_it_wait_again() {
    let mut story = Story::reported();
    assert_eq!(story.at(20_000).changes().until(), 22_000);
    assert_eq!(story.at(21_500).changes().until(), 23_500);
    assert_eq!(story.at(23_499).until(), 23_500);
    assert_eq!(story.at(23_500).step(), CHANGE);
}

#[test]
fn changes_without_a_pause_are_reported_after_ten_seconds() {
    let mut story = Story::reported();
    for ms in (20_000..30_000).step_by(1_000) {
        assert!(story.at(ms).changes().until() <= 30_000);
    }
    assert_eq!(story.until(), 30_000);
    assert_eq!(story.at(30_000).sends_in(100, ACCEPTED), CHANGE);
    assert_eq!(story.cadence.pending_since(), None);
    // The next one counts from itself.
    assert_eq!(story.at(40_000).changes().until(), 42_000);
}

#[test]
fn a_debounce_beyond_ten_seconds_is_kept() {
    let mut story = Story::with(Policy { debounce: Duration::from_secs(15), ..Policy::default() });
    story.sends_in(0, ACCEPTED);
    assert_eq!(story.at(20_000).changes().until(), 35_000);
}

#[test]
fn without_change_a_report_goes_out_a_minute_after_the_start_of_the_last() {
    let mut story = Story::begins();
    story.sends_in(1_500, ACCEPTED);
    assert_eq!(story.waits().now, 60_000);
    assert_eq!(story.sends_in(2_000, ACCEPTED), HEARTBEAT);
    assert_eq!(story.until(), 120_000);
}

#[test]
fn a_heartbeat_that_is_due_while_a_change_waits_takes_it_along() {
    let mut story = Story::reported();
    story.at(59_000).changes();
    assert_eq!(story.waits().now, 60_000);
    assert_eq!(story.sends_in(0, ACCEPTED), HEARTBEAT);
    assert_eq!(story.until(), 120_000);
}

#[test]
fn intervals_differ_by_a_tenth_and_from_one_environment_to_the_next() {
    let intervals = |seed| {
        let mut story = Story::begins();
        story.cadence = Cadence::new(Policy::default(), seed);
        let mut starts: Vec<u64> = Vec::new();
        for _ in 0..50 {
            starts.push(story.now);
            story.sends_in(0, ACCEPTED);
            story.waits();
        }
        starts.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let some = intervals(1);
    assert!(some.iter().all(|ms| (54_000..=66_000).contains(ms)), "{some:?}");
    assert!(some.iter().min() < Some(&56_000) && some.iter().max() > Some(&64_000), "{some:?}");
    assert_ne!(some, intervals(2));
    assert_eq!(some, intervals(1));
}

#[test]
fn after_an_upload_the_next_report_starts_twenty_times_as_long_after_its_start_but_a_minute_at_most() {
    for (took, next) in [(0, 12_000), (600, 12_000), (1_000, 20_000), (3_000, 60_000), (50_000, 60_000)] {
        let mut story = Story::begins();
        story.sends_in(took, ACCEPTED);
        let seen = story.at(10_000.max(took)).changes().now;
        assert_eq!(story.until(), next.max(seen + 2_000), "{took}");
    }
    // A heartbeat keeps to it as well.
    let mut story = Story::with(Policy { jitter: 0, interval: Duration::from_secs(10), ..Policy::default() });
    story.sends_in(2_000, ACCEPTED);
    assert_eq!(story.until(), 40_000);
}

#[test]
fn what_is_sent_is_what_is_then_and_one_report_at_a_time() {
    let mut story = Story::reported();
    story.at(20_000).changes().at(22_000);
    story.begins_report();
    let held = story.view.revision;
    story.at(22_500).changes();
    assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));
    assert_eq!(story.at(25_000).begins_with(CHANGE, 0), Begun::Busy);
    assert!(matches!(story.step(), Step::Wait { .. }));
    assert_eq!(story.answered(ACCEPTED).accepted, Some((held, Carried::Nothing)));
    // What came meanwhile has had its company, and waits only for the distance to the last report.
    assert_eq!(story.cadence.pending_since(), Some(story.time(22_500)));
    assert_eq!(story.until(), 22_000 + 60_000);
}

#[test]
fn a_change_that_was_undone_is_nothing_to_report_and_the_heartbeat_stays_where_it_was() {
    let mut story = Story::reported();
    let before = bytes(story.view.revision);
    story.at(20_000).changes();
    let step = story.at(22_000).step();
    assert_eq!(story.begins_with(step, before), Begun::Repetition);
    assert_eq!(story.cadence.pending_since(), None);
    assert_eq!(story.waits().now, 60_000);
    let step = story.step();
    assert_eq!((step, story.begins_with(step, before)), (HEARTBEAT, Begun::Upload));
}

#[test]
fn a_change_that_was_undone_is_reported_where_the_change_may_have_arrived() {
    let mut story = Story::reported();
    let before = bytes(story.view.revision);
    story.at(20_000).changes().at(22_000).sends_in(0, PASSING);
    story.changes();
    let step = story.waits().step();
    assert_eq!((step, story.begins_with(step, before)), (RETRY, Begun::Upload));

    // At the end too, and with the answer still to come when it begins.
    let mut story = Story::reported();
    story.at(20_000).changes().at(22_000).begins_report();
    story.changes().shuts_down();
    story.answered(PASSING);
    let step = story.step();
    assert_eq!((step, story.begins_with(step, before)), (LAST_WORD, Begun::Upload));
}

#[test]
fn a_failure_that_may_pass_is_tried_again_after_a_second_that_doubles_to_a_minute() {
    let mut story = Story::reported();
    story.at(20_000).changes();
    story.waits();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        story.sends_in(0, PASSING);
        let failed = story.now;
        pauses.push(story.waits().now - failed);
        assert_eq!(story.step(), RETRY);
    }
    for (pause, nominal) in pauses.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000, 32_000]) {
        assert!((nominal..=2 * nominal).contains(pause), "{pauses:?}");
    }
    assert!(pauses[6..].iter().all(|pause| *pause == 60_000), "{pauses:?}");
    let failing = story.cadence.failing().unwrap();
    assert_eq!((failing.failures, failing.since), (10, story.time(22_000)));
    assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));
    assert_eq!(story.cadence.last_accepted_at(), Some(story.time(0)));

    // The service is back: everything begins anew.
    story.sends_in(0, ACCEPTED);
    assert_eq!((story.cadence.failing(), story.cadence.pending_since()), (None, None));
    assert_eq!(story.until(), story.now + 60_000);
    story.waits().sends_in(0, PASSING);
    assert!(story.until() <= story.now + 2_000);
}

#[test]
fn an_outage_of_an_hour_loses_no_change_and_changes_do_not_hurry_the_next_try() {
    let mut story = Story::reported();
    let mut tries = 0;
    while story.now < 3_600_000 {
        story.waits().changes();
        story.sends_in(100, PASSING);
        let again = story.until();
        assert_eq!(story.changes().until(), again);
        tries += 1;
    }
    assert!((60..70).contains(&tries), "{tries}");
    story.waits();
    let now = story.view.revision;
    story.begins_report();
    assert_eq!(story.answered(ACCEPTED).accepted, Some((now, Carried::Nothing)));
}

#[test]
fn a_retry_after_is_honoured_and_believed_up_to_five_minutes() {
    for (failure, asked, waited) in [
        (Failure::Passing, after(120), 120_000),
        (Failure::Passing, after(3_600), 300_000),
        (Failure::Lasting, after(1), 60_000),
        (Failure::Lasting, after(120), 120_000),
        (Failure::Passing, Some(Duration::MAX), 300_000),
    ] {
        let mut story = Story::begins();
        story.sends_in(1_000, Answer::Failed { failure, retry_after: asked });
        assert_eq!(story.changes().until(), 1_000 + waited, "{failure:?} {asked:?}");
    }
    // A shorter one does not shorten the wait.
    let mut story = Story::begins();
    story.sends_in(0, Answer::Failed { failure: Failure::Passing, retry_after: after(0) });
    assert!(story.until() >= 1_000);
}

#[test]
fn which_answers_may_pass() {
    for (failure, statuses) in [
        (Failure::Passing, &[408, 409, 429, 500, 502, 503, 504][..]),
        (Failure::Lasting, &[401, 403, 400, 404, 413, 422, 501, 301, 304, 200]),
    ] {
        for status in statuses {
            assert_eq!(Failure::from(class(*status)), failure, "{status}");
        }
    }
}

#[test]
fn a_refused_report_keeps_the_pace_of_the_heartbeat_until_the_token_is_rotated_whatever_changes() {
    let mut story = Story::reported();
    story.at(20_000).changes();
    story.waits();
    for minute in 0..5 {
        story.sends_in(0, LASTING);
        let failed = story.now;
        assert_eq!(failed, 22_000 + minute * 60_000);
        assert_eq!(story.at(failed + 1_000).changes().until(), failed + 60_000);
        assert_eq!(story.waits().step(), RETRY);
    }
    story.sends_in(0, ACCEPTED);
    assert_eq!(story.cadence.pending_since(), None);
    assert_eq!(story.changes().until(), story.now + 2_000);
}

#[test]
fn a_report_that_carried_witnessed_pods_is_followed_at_once_by_one_without_however_long_it_took() {
    let mut story = Story::reported();
    story.view.witnessed = true;
    story.at(20_000).changes().waits().begins_report();
    // Another pod comes and goes meanwhile: it does not ride on the follow-up.
    story.at(25_000).changes();
    let answered = story.answered(ACCEPTED);
    assert_eq!(answered.accepted.map(|(_, carried)| carried), Some(Carried::Witnessed));
    story.view.witnessed = true;
    assert_eq!(story.sends_in(1_000, ACCEPTED), FOLLOW_UP);
    // It goes with the next one; the distance to that makes up for both: 20 × (3 s + 1 s) is too much.
    assert!(story.view.witnessed);
    assert_eq!(story.waits().now, 25_000 + 60_000);
    assert_eq!(story.sends_in(0, ACCEPTED), CHANGE);
    assert_eq!(story.sends_in(0, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.until(), story.now + 60_000);
}

#[test]
fn a_follow_up_counts_with_its_forerunner_for_the_distance_to_the_next_report() {
    let mut story = Story::reported();
    story.view.witnessed = true;
    story.at(20_000).changes().waits().sends_in(1_000, ACCEPTED);
    assert_eq!(story.sends_in(500, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.changes().until(), 23_000 + 30_000);
}

#[test]
fn a_follow_up_that_fails_is_tried_again_and_the_retry_carries_who_left_meanwhile() {
    let mut story = Story::reported();
    story.view.witnessed = true;
    story.at(20_000).changes().waits().sends_in(0, ACCEPTED);
    assert_eq!(story.sends_in(0, PASSING), FOLLOW_UP);
    story.view.witnessed = true;
    assert_eq!(story.waits().sends_in(0, ACCEPTED), RETRY);
    assert!(!story.view.witnessed);
    assert_eq!(story.sends_in(0, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.until(), story.now + 60_000);
}

#[test]
fn an_environment_that_was_not_heard_of_for_four_minutes_is_withheld_until_it_is() {
    let mut story = Story::reported();
    story.contact = Some(30_000);
    for heartbeat in [60_000, 120_000, 180_000, 240_000] {
        assert_eq!(story.waits().now, heartbeat);
        assert_eq!(story.sends_in(0, ACCEPTED), HEARTBEAT);
    }
    // Woken exactly when it becomes stale, although no report is due then.
    assert_eq!(story.until(), 270_000);
    assert!(matches!(story.at(269_999).step(), Step::Wait { .. }));
    let stale = Step::Withhold { why: Withheld::Stale { contact: story.time(30_000) } };
    assert_eq!(story.at(270_000).step(), stale);
    assert_eq!(story.at(1_000_000).changes().step(), stale);
    story.contact = None;
    assert_eq!(story.step(), HEARTBEAT);
}

#[test]
fn what_changed_while_it_was_stale_is_reported_when_it_is_fresh_again() {
    let mut story = Story::reported();
    story.contact = Some(0);
    story.at(59_999).changes().waits().sends_in(0, ACCEPTED);
    story.at(1_000_000).changes();
    story.contact = None;
    assert!(matches!(story.at(1_100_000).step(), Step::Send { .. }));
}

#[test]
fn a_report_in_flight_is_not_cut_short_by_staleness() {
    let mut story = Story::reported();
    story.contact = Some(10_000);
    story.at(60_000).begins_report();
    assert_eq!(story.until(), 250_000);
    assert!(matches!(story.at(250_000).step(), Step::Withhold { why: Withheld::Stale { .. } }));
    assert!(story.answered(ACCEPTED).accepted.is_some());
}

#[test]
fn a_new_snapshot_of_bytes_that_the_service_had_shows_another_writer() {
    let new = Answer::Accepted { new_snapshot: Some(true) };
    let not_new = Answer::Accepted { new_snapshot: Some(false) };
    let mut story = Story::begins();
    story.begins_report();
    assert!(!story.answered(new).another_writer, "it was the first");
    for (answer, is_shown) in [(not_new, false), (ACCEPTED, false), (new, true)] {
        story.waits().begins_report();
        assert_eq!(story.answered(answer).another_writer, is_shown, "{answer:?}");
    }
    story.changes().waits().begins_report();
    assert!(!story.answered(new).another_writer, "it was another set");

    // Other bytes may have arrived before, and these be new for that reason.
    let before = bytes(story.view.revision);
    story.changes().waits().sends_in(0, PASSING);
    let step = story.changes().waits().step();
    assert_eq!(story.begins_with(step, before), Begun::Upload);
    assert!(!story.answered(new).another_writer);

    // A heartbeat in vain leaves no doubt: it was the same bytes.
    let revision = story.view.revision;
    let step = story.waits().step();
    story.begins_with(step, before);
    story.answered(PASSING);
    let step = story.waits().step();
    assert_eq!((step, story.view.revision), (RETRY, revision));
    story.begins_with(step, before);
    assert!(story.answered(new).another_writer);
}

#[test]
fn at_the_end_there_is_a_last_word_only_if_something_was_not_said() {
    assert_eq!(Story::reported().shuts_down(), Step::Stop);

    let mut story = Story::reported();
    story.at(20_000).changes();
    assert_eq!(story.shuts_down(), LAST_WORD);
    assert_eq!(story.sends_in(10, ACCEPTED), LAST_WORD);
    assert_eq!(story.step(), Step::Stop);
    assert_eq!(story.changes().at(0).step(), Step::Stop, "for good");

    // Undone: the caller finds that the bytes are the same.
    let mut story = Story::reported();
    let before = bytes(story.view.revision);
    let step = story.changes().shuts_down();
    assert_eq!(story.begins_with(step, before), Begun::Repetition);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn what_cannot_be_vouched_for_is_not_said_at_the_end_either() {
    for knowledge in [Knowledge::Unlisted, Knowledge::Unconfirmed] {
        let mut story = Story::begins();
        story.view.knowledge = knowledge;
        assert_eq!(story.shuts_down(), Step::Stop);
    }
    let mut story = Story::reported();
    story.contact = Some(0);
    story.at(240_000).changes();
    assert_eq!(story.shuts_down(), Step::Stop);
    // Listed, but not yet reported.
    assert_eq!(Story::begins().shuts_down(), LAST_WORD);
}

#[test]
fn the_last_word_carries_who_left_and_one_more_says_what_runs() {
    let mut story = Story::reported();
    story.changes().view.witnessed = true;
    assert_eq!(story.shuts_down(), LAST_WORD);
    story.sends_in(10, ACCEPTED);
    assert_eq!(story.sends_in(10, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.step(), Step::Stop);

    // The follow-up was owed before.
    let mut story = Story::reported();
    story.view.witnessed = true;
    story.at(20_000).changes().waits().sends_in(0, ACCEPTED);
    assert_eq!(story.shuts_down(), LAST_WORD);
    story.sends_in(10, ACCEPTED);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn the_end_waits_for_what_is_in_flight_five_seconds_at_most() {
    let mut story = Story::reported();
    story.at(20_000).changes().waits().begins_report();
    assert_eq!(story.shuts_down(), Step::Wait { until: Some(story.time(27_000)) });
    // A second time changes nothing.
    assert_eq!(story.at(25_000).shuts_down(), Step::Wait { until: Some(story.time(27_000)) });
    let mut answered = Story { cadence: story.cadence.clone(), ..story };
    answered.answered(ACCEPTED);
    assert_eq!(answered.step(), Step::Stop);
    assert_eq!(story.at(27_000).step(), Step::Stop);
    story.answered(ACCEPTED);
    assert_eq!(story.changes().step(), Step::Stop);
}

#[test]
fn what_changed_during_the_flight_is_the_last_word_and_shares_the_five_seconds() {
    let mut story = Story::reported();
    story.at(20_000).changes().waits().begins_report();
    story.changes().shuts_down();
    story.at(26_000).answered(ACCEPTED);
    assert_eq!(story.begins_report(), LAST_WORD);
    assert_eq!(story.step(), Step::Wait { until: Some(story.time(27_000)) });
    assert_eq!(story.at(27_000).step(), Step::Stop);
}

#[test]
fn at_the_end_a_failure_before_is_no_reason_to_wait_and_a_failure_of_the_last_word_is_the_end() {
    for failed in [PASSING, LASTING, Answer::Failed { failure: Failure::Passing, retry_after: after(300) }] {
        // What was in flight fails, and is said once more.
        let mut story = Story::reported();
        story.at(20_000).changes().waits().begins_report();
        story.shuts_down();
        story.answered(failed);
        assert_eq!(story.sends_in(10, failed), LAST_WORD);
        assert_eq!(story.step(), Step::Stop);
        // It had failed before.
        let mut story = Story::reported();
        story.at(20_000).changes().waits().sends_in(0, failed);
        assert_eq!(story.shuts_down(), LAST_WORD);
    }
    // A heartbeat that fails leaves nothing unsaid.
    let mut story = Story::reported();
    story.waits().begins_report();
    story.shuts_down();
    story.answered(PASSING);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_hurts_nothing() {
    let mut story = Story::reported();
    assert_eq!(story.at(20_000).changes().at(10_000).until(), 22_000);
    assert_eq!(story.changes().until(), 12_000);
    story.at(22_000).begins_report();
    story.at(5_000).answered(ACCEPTED);
    assert_eq!(story.until(), 82_000);
    let mut story = Story::reported();
    for _ in 0..5 {
        story.changes();
        assert_eq!(story.until(), 2_000);
    }
}

#[test]
fn an_answer_to_nothing_is_nothing() {
    let mut story = Story::begins();
    assert_eq!(story.answered(ACCEPTED), Answered::default());
    assert_eq!(story.answered(PASSING), Answered::default());
    assert_eq!((story.step(), story.cadence.failing()), (FIRST, None));
}

#[test]
fn witnessed_pods_alone_are_a_reason_to_report() {
    let mut story = Story::reported();
    story.view.witnessed = true;
    assert_eq!(story.at(20_000).until(), 22_000);
    assert_eq!(story.at(22_000).step(), CHANGE);
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
            backoff: crate::domain::outcome::Backoff {
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
