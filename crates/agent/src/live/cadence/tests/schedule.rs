//! Debounce, heartbeat, spacing, follow-ups and freshness.

use super::*;

#[test]
fn first_report_is_sent_once_list_is_complete_and_confirmed() {
    let mut story = Story::new();
    story.view.knowledge = Knowledge::Unlisted;
    assert_eq!(story.step(), UNLISTED);
    story.view.revision = story.view.revision.next();
    story.view.knowledge = Knowledge::Unconfirmed;
    assert_eq!(story.at(500_000).step(), Step::Withhold { reason: WithholdReason::Unconfirmed });
    story.view.knowledge = Knowledge::Contact(story.beginning);
    assert_eq!(story.step(), FIRST);
}

#[test]
fn debounce_ends_two_seconds_after_the_last_change() {
    let mut story = Story::reported();
    assert_eq!(story.at(20_000).change().until(), 22_000);
    assert_eq!(story.at(21_500).change().until(), 23_500);
    assert_eq!(story.at(23_499).until(), 23_500);
    assert_eq!(story.at(23_500).step(), CHANGE);
}

#[test]
fn continuous_changes_are_reported_after_ten_seconds() {
    let mut story = Story::reported();
    for ms in (20_000..30_000).step_by(1_000) {
        assert!(story.at(ms).change().until() <= 30_000);
    }
    assert_eq!(story.until(), 30_000);
    assert_eq!(story.at(30_000).send_and_finish(100, ACCEPTED), CHANGE);
    assert_eq!(story.cadence.pending_since(), None);
    // The next change starts a new debounce.
    assert_eq!(story.at(40_000).change().until(), 42_000);
}

#[test]
fn debounce_above_ten_seconds_is_honored() {
    let mut story =
        Story::with_timing(CadenceTiming { debounce: Duration::from_secs(15), ..CadenceTiming::default() });
    story.send_and_finish(0, ACCEPTED);
    assert_eq!(story.at(20_000).change().until(), 35_000);
}

#[test]
fn heartbeat_is_sent_a_minute_after_the_start_of_the_last_report() {
    let mut story = Story::new();
    story.send_and_finish(1_500, ACCEPTED);
    assert_eq!(story.advance_to_due().now, 60_000);
    assert_eq!(story.send_and_finish(2_000, ACCEPTED), HEARTBEAT);
    assert_eq!(story.until(), 120_000);
}

#[test]
fn heartbeat_during_debounce_includes_the_change() {
    let mut story = Story::reported();
    story.at(59_000).change();
    assert_eq!(story.advance_to_due().now, 60_000);
    assert_eq!(story.send_and_finish(0, ACCEPTED), HEARTBEAT);
    assert_eq!(story.until(), 120_000);
}

#[test]
fn intervals_have_ten_percent_jitter_by_seed() {
    let intervals = |seed| {
        let mut story = Story::new();
        story.cadence = Cadence::new(CadenceTiming::default(), seed);
        let mut starts: Vec<u64> = Vec::new();
        for _ in 0..50 {
            starts.push(story.now);
            story.send_and_finish(0, ACCEPTED);
            story.advance_to_due();
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
fn reports_are_spaced_by_twenty_upload_times_up_to_a_minute() {
    for (took, next) in [(0, 12_000), (600, 12_000), (1_000, 20_000), (3_000, 60_000), (50_000, 60_000)] {
        let mut story = Story::new();
        story.send_and_finish(took, ACCEPTED);
        let seen = story.at(10_000.max(took)).change().now;
        assert_eq!(story.until(), next.max(seen + 2_000), "{took}");
    }
    // Heartbeats are spaced as well.
    let mut story = Story::with_timing(CadenceTiming {
        jitter: 0,
        interval: Duration::from_secs(10),
        ..CadenceTiming::default()
    });
    story.send_and_finish(2_000, ACCEPTED);
    assert_eq!(story.until(), 40_000);
}

#[test]
fn only_one_report_is_in_flight() {
    let mut story = Story::reported();
    story.at(20_000).change().at(22_000);
    story.begin_report();
    let reported = story.view.revision;
    story.at(22_500).change();
    assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));
    assert_eq!(story.at(25_000).begin_with(CHANGE, 0), BeginResult::Busy);
    assert!(matches!(story.step(), Step::Wait { .. }));
    assert_eq!(story.finish(ACCEPTED).accepted, Some((reported, Contents::Running)));
    // The debounce of the later change has ended; only the spacing remains.
    assert_eq!(story.cadence.pending_since(), Some(story.time(22_500)));
    assert_eq!(story.until(), 22_000 + 60_000);
}

#[test]
fn report_with_departed_pods_is_followed_at_once_by_one_without() {
    let mut story = Story::reported();
    story.view.has_departed_pods = true;
    story.at(20_000).change().advance_to_due().begin_report();
    // Another pod starts and ends meanwhile: the follow-up does not include it.
    story.at(25_000).change();
    let completion = story.finish(ACCEPTED);
    assert_eq!(completion.accepted.map(|(_, contents)| contents), Some(Contents::RunningAndDeparted));
    story.view.has_departed_pods = true;
    assert_eq!(story.send_and_finish(1_000, ACCEPTED), FOLLOW_UP);
    // The next report includes it. The spacing covers both uploads: 20 × (3 s + 1 s) exceeds the maximum.
    assert!(story.view.has_departed_pods);
    assert_eq!(story.advance_to_due().now, 25_000 + 60_000);
    assert_eq!(story.send_and_finish(0, ACCEPTED), CHANGE);
    assert_eq!(story.send_and_finish(0, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.until(), story.now + 60_000);
}

#[test]
fn spacing_includes_the_upload_time_of_the_follow_up() {
    let mut story = Story::reported();
    story.view.has_departed_pods = true;
    story.at(20_000).change().advance_to_due().send_and_finish(1_000, ACCEPTED);
    assert_eq!(story.send_and_finish(500, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.change().until(), 23_000 + 30_000);
}

#[test]
fn report_is_withheld_after_four_minutes_without_contact() {
    let mut story = Story::reported();
    story.contact = Some(30_000);
    for heartbeat in [60_000, 120_000, 180_000, 240_000] {
        assert_eq!(story.advance_to_due().now, heartbeat);
        assert_eq!(story.send_and_finish(0, ACCEPTED), HEARTBEAT);
    }
    // The wait ends when the view becomes stale, although no report is due then.
    assert_eq!(story.until(), 270_000);
    assert!(matches!(story.at(269_999).step(), Step::Wait { .. }));
    let stale = Step::Withhold { reason: WithholdReason::Stale { contact: story.time(30_000) } };
    assert_eq!(story.at(270_000).step(), stale);
    assert_eq!(story.at(1_000_000).change().step(), stale);
    // The first event after an outage may be the first of many.
    story.contact = None;
    assert_eq!(story.until(), 1_002_000);
    assert_eq!(story.at(1_002_000).step(), HEARTBEAT);
}

#[test]
fn change_while_stale_is_reported_after_contact_returns() {
    let mut story = Story::reported();
    story.contact = Some(0);
    story.at(59_999).change().advance_to_due().send_and_finish(0, ACCEPTED);
    story.at(1_000_000).change();
    story.contact = None;
    assert!(matches!(story.at(1_100_000).step(), Step::Wait { .. }));
    assert!(matches!(story.advance_to_due().step(), Step::Send { .. }));
}

#[test]
fn report_in_flight_continues_while_stale() {
    let mut story = Story::reported();
    story.contact = Some(10_000);
    story.at(60_000).begin_report();
    assert_eq!(story.until(), 250_000);
    assert!(matches!(story.at(250_000).step(), Step::Withhold { reason: WithholdReason::Stale { .. } }));
    assert!(story.finish(ACCEPTED).accepted.is_some());
}

#[test]
fn stopped_or_backward_clock_is_harmless() {
    let mut story = Story::reported();
    assert_eq!(story.at(20_000).change().at(10_000).until(), 22_000);
    assert_eq!(story.change().until(), 12_000);
    story.at(22_000).begin_report();
    story.at(5_000).finish(ACCEPTED);
    assert_eq!(story.until(), 82_000);
    let mut story = Story::reported();
    for _ in 0..5 {
        story.change();
        assert_eq!(story.until(), 2_000);
    }
}

#[test]
fn departed_pods_alone_trigger_a_report() {
    let mut story = Story::reported();
    story.view.has_departed_pods = true;
    assert_eq!(story.at(20_000).until(), 22_000);
    assert_eq!(story.at(22_000).step(), CHANGE);
}
