//! Failed uploads, and other results of uploads.

use std::iter::repeat;

use super::*;

#[test]
fn undone_change_is_not_reported_and_does_not_move_heartbeat() {
    let mut story = Story::reported();
    let before = hash_of(story.view.revision);
    story.at(20_000).change();
    let step = story.at(22_000).step();
    assert_eq!(story.begin_with(step, before), BeginResult::Unchanged);
    assert_eq!(story.cadence.pending_since(), None);
    assert_eq!(story.advance_to_due().now, 60_000);
    let step = story.step();
    assert_eq!((step, story.begin_with(step, before)), (HEARTBEAT, BeginResult::Upload));
}

#[test]
fn undone_change_is_reported_if_the_change_may_have_arrived() {
    let mut story = Story::reported();
    let before = hash_of(story.view.revision);
    story.at(20_000).change().at(22_000).send_and_finish(0, TRANSIENT);
    story.change();
    let step = story.advance_to_due().step();
    assert_eq!((step, story.begin_with(step, before)), (RETRY, BeginResult::Upload));

    // The same at shutdown, with a report in flight at its begin.
    let mut story = Story::reported();
    story.at(20_000).change().at(22_000).begin_report();
    story.change().shut_down();
    story.finish(TRANSIENT);
    let step = story.step();
    assert_eq!((step, story.begin_with(step, before)), (SHUTDOWN, BeginResult::Upload));
}

#[test]
fn transient_failure_is_retried_with_backoff_from_one_second_to_one_minute() {
    let mut story = Story::reported();
    story.at(20_000).change();
    story.advance_to_due();
    let mut delays = Vec::new();
    for _ in 0..10 {
        story.send_and_finish(0, TRANSIENT);
        let failed = story.now;
        delays.push(story.advance_to_due().now - failed);
        assert_eq!(story.step(), RETRY);
    }
    for (delay, nominal) in
        delays.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000].into_iter().chain(repeat(30_000)))
    {
        assert!((nominal..=2 * nominal).contains(delay), "{delays:?}");
    }
    assert!(delays[5..].windows(2).all(|two| two[0] != two[1]), "delays without jitter: {delays:?}");
    let failing = story.cadence.failing().unwrap();
    assert_eq!((failing.failures, failing.since), (10, story.time(22_000)));
    assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));

    // An accepted report resets the backoff.
    story.send_and_finish(0, ACCEPTED);
    assert_eq!((story.cadence.failing(), story.cadence.pending_since()), (None, None));
    assert_eq!(story.until(), story.now + 60_000);
    story.advance_to_due().send_and_finish(0, TRANSIENT);
    assert!(story.until() <= story.now + 2_000);
}

#[test]
fn changes_during_an_outage_are_reported_and_do_not_advance_retries() {
    let mut story = Story::reported();
    let mut attempts = 0;
    while story.now < 3_600_000 {
        story.advance_to_due().change();
        story.send_and_finish(100, TRANSIENT);
        let again = story.until();
        assert_eq!(story.change().until(), again);
        attempts += 1;
    }
    assert!((60..125).contains(&attempts), "{attempts}");
    story.advance_to_due();
    let now = story.view.revision;
    story.begin_report();
    assert_eq!(story.finish(ACCEPTED).accepted, Some((now, Contents::Running)));
}

#[test]
fn retry_after_is_honored_up_to_five_minutes() {
    for (failure, retry_after, delay) in [
        (UploadFailure::Transient, Some(seconds(120)), 120_000),
        (UploadFailure::Transient, Some(seconds(3_600)), 300_000),
        (UploadFailure::Permanent, Some(seconds(1)), 60_000),
        (UploadFailure::Permanent, Some(seconds(120)), 120_000),
        (UploadFailure::Transient, Some(Duration::MAX), 300_000),
    ] {
        let mut story = Story::new();
        story.send_and_finish(1_000, UploadResult::Failed { failure, retry_after });
        assert_eq!(story.change().until(), 1_000 + delay, "{failure:?} {retry_after:?}");
    }
    // A shorter Retry-After does not shorten the delay.
    let mut story = Story::new();
    story.send_and_finish(
        0,
        UploadResult::Failed { failure: UploadFailure::Transient, retry_after: Some(seconds(0)) },
    );
    assert!(story.until() >= 1_000);
}

#[test]
fn statuses_are_classified_as_transient_or_permanent() {
    for (failure, statuses) in [
        (UploadFailure::Transient, &[408, 409, 429, 500, 502, 503, 504][..]),
        (UploadFailure::Permanent, &[401, 403, 400, 404, 413, 422, 501, 301, 304, 200]),
    ] {
        for status in statuses {
            assert_eq!(UploadFailure::from(classify(*status)), failure, "{status}");
        }
    }
}

#[test]
fn permanent_failure_is_retried_at_the_heartbeat_interval_despite_changes() {
    let mut story = Story::reported();
    story.at(20_000).change();
    story.advance_to_due();
    for minute in 0..5 {
        story.send_and_finish(0, PERMANENT);
        let failed = story.now;
        assert_eq!(failed, 22_000 + minute * 60_000);
        assert_eq!(story.at(failed + 1_000).change().until(), failed + 60_000);
        assert_eq!(story.advance_to_due().step(), RETRY);
    }
    story.send_and_finish(0, ACCEPTED);
    assert_eq!(story.cadence.pending_since(), None);
    assert_eq!(story.change().until(), story.now + 2_000);
}

#[test]
fn permanent_failure_is_retried_at_most_once_a_minute() {
    let mut story = Story::with_timing(CadenceTiming {
        interval: Duration::from_secs(1),
        jitter: 0,
        ..CadenceTiming::default()
    });
    for _ in 0..3 {
        story.send_and_finish(0, PERMANENT);
        assert_eq!(story.until(), story.now + 60_000);
        story.advance_to_due();
    }
}

#[test]
fn retry_of_follow_up_includes_pods_that_departed_meanwhile() {
    let mut story = Story::reported();
    story.view.has_departed_pods = true;
    story.at(20_000).change().advance_to_due().send_and_finish(0, ACCEPTED);
    assert_eq!(story.send_and_finish(0, TRANSIENT), FOLLOW_UP);
    story.view.has_departed_pods = true;
    assert_eq!(story.advance_to_due().send_and_finish(0, ACCEPTED), RETRY);
    assert!(!story.view.has_departed_pods);
    assert_eq!(story.send_and_finish(0, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.until(), story.now + 60_000);
}

#[test]
fn new_snapshot_of_unchanged_body_reveals_another_writer() {
    let new = UploadResult::Accepted { new_snapshot: Some(true) };
    let not_new = UploadResult::Accepted { new_snapshot: Some(false) };
    let mut story = Story::new();
    story.begin_report();
    assert!(!story.finish(new).another_writer, "first report");
    for (result, is_revealed) in [(not_new, false), (ACCEPTED, false), (new, true)] {
        story.advance_to_due().begin_report();
        assert_eq!(story.finish(result).another_writer, is_revealed, "{result:?}");
    }
    story.change().advance_to_due().begin_report();
    assert!(!story.finish(new).another_writer, "changed body");

    // Another body may have arrived in between, so a new snapshot is expected.
    let before = hash_of(story.view.revision);
    story.change().advance_to_due().send_and_finish(0, TRANSIENT);
    let step = story.change().advance_to_due().step();
    assert_eq!(story.begin_with(step, before), BeginResult::Upload);
    assert!(!story.finish(new).another_writer);

    // A failed heartbeat has the same body, so the stored body is known.
    let revision = story.view.revision;
    let step = story.advance_to_due().step();
    story.begin_with(step, before);
    story.finish(TRANSIENT);
    let step = story.advance_to_due().step();
    assert_eq!((step, story.view.revision), (RETRY, revision));
    story.begin_with(step, before);
    assert!(story.finish(new).another_writer);
}

#[test]
fn result_without_upload_is_ignored() {
    let mut story = Story::new();
    assert_eq!(story.finish(ACCEPTED), Completion::default());
    assert_eq!(story.finish(TRANSIENT), Completion::default());
    assert_eq!((story.step(), story.cadence.failing()), (FIRST, None));
}

#[test]
fn report_too_large_with_departed_pods_is_retried_without_them() {
    let mut story = Story::reported();
    story.at(20_000).change();
    story.view.has_departed_pods = true;
    let too_large = UploadResult::Failed { failure: UploadFailure::TooLarge, retry_after: None };
    story.advance_to_due().send_and_finish(0, too_large);
    assert_eq!(story.advance_to_due().step(), Step::Send { reason: SendReason::Smaller });
    story.send_and_finish(0, ACCEPTED);
    // Departed pods are still unreported and may fit into the next report.
    assert!(matches!(
        story.advance_to_due().step(),
        Step::Send { reason: SendReason::Change | SendReason::Heartbeat }
    ));
}

#[test]
fn report_too_large_without_departed_pods_is_retried() {
    let mut story = Story::reported();
    story.at(20_000).change();
    story
        .advance_to_due()
        .send_and_finish(0, UploadResult::Failed { failure: UploadFailure::TooLarge, retry_after: None });
    assert_eq!(story.advance_to_due().step(), RETRY);
}
