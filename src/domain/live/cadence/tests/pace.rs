//! Debounce, heartbeat, distance, follow-ups and freshness.

use super::*;

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
    // What it hears first may be the beginning of what it missed.
    story.contact = None;
    assert_eq!(story.until(), 1_002_000);
    assert_eq!(story.at(1_002_000).step(), HEARTBEAT);
}

#[test]
fn what_changed_while_it_was_stale_is_reported_when_it_is_fresh_again() {
    let mut story = Story::reported();
    story.contact = Some(0);
    story.at(59_999).changes().waits().sends_in(0, ACCEPTED);
    story.at(1_000_000).changes();
    story.contact = None;
    assert!(matches!(story.at(1_100_000).step(), Step::Wait { .. }));
    assert!(matches!(story.waits().step(), Step::Send { .. }));
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
fn witnessed_pods_alone_are_a_reason_to_report() {
    let mut story = Story::reported();
    story.view.witnessed = true;
    assert_eq!(story.at(20_000).until(), 22_000);
    assert_eq!(story.at(22_000).step(), CHANGE);
}
