//! The final report of a shutdown.

use super::*;

#[test]
fn final_report_is_sent_only_for_unreported_changes() {
    let mut story = Story::reported();
    assert_eq!(story.shut_down(), Step::Stop);
    assert_eq!(story.change().step(), Step::Stop, "the stop is final");

    let mut story = Story::reported();
    story.at(20_000).change();
    assert_eq!(story.shut_down(), SHUTDOWN);
    assert_eq!(story.send_and_finish(10, ACCEPTED), SHUTDOWN);
    assert_eq!(story.step(), Step::Stop);

    // An undone change: the body is the same.
    let mut story = Story::reported();
    let before = hash_of(story.view.revision);
    let step = story.change().shut_down();
    assert_eq!(story.begin_with(step, before), BeginResult::Unchanged);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn final_report_is_withheld_without_complete_knowledge() {
    for knowledge in [Knowledge::Unlisted, Knowledge::Unconfirmed] {
        let mut story = Story::new();
        story.view.knowledge = knowledge;
        assert_eq!(story.shut_down(), Step::Stop);
    }
    let mut story = Story::reported();
    story.contact = Some(0);
    story.at(240_000).change();
    assert_eq!(story.shut_down(), Step::Stop);
    // Complete, but not yet reported.
    assert_eq!(Story::new().shut_down(), SHUTDOWN);
}

#[test]
fn final_report_with_departed_pods_has_a_follow_up() {
    let mut story = Story::reported();
    story.change().view.has_departed_pods = true;
    assert_eq!(story.shut_down(), SHUTDOWN);
    story.send_and_finish(10, ACCEPTED);
    assert_eq!(story.send_and_finish(10, ACCEPTED), FOLLOW_UP);
    assert_eq!(story.step(), Step::Stop);

    // The final report replaces a due follow-up.
    let mut story = Story::reported();
    story.view.has_departed_pods = true;
    story.at(20_000).change().advance_to_due().send_and_finish(0, ACCEPTED);
    assert_eq!(story.shut_down(), SHUTDOWN);
    story.send_and_finish(10, ACCEPTED);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn shutdown_waits_up_to_five_seconds_for_report_in_flight() {
    let mut story = Story::reported();
    story.at(20_000).change().advance_to_due().begin_report();
    assert_eq!(story.shut_down(), Step::Wait { until: Some(story.time(27_000)) });
    // A second call has no effect.
    assert_eq!(story.at(25_000).shut_down(), Step::Wait { until: Some(story.time(27_000)) });
    let mut finished = Story { cadence: story.cadence.clone(), ..story };
    finished.finish(ACCEPTED);
    assert_eq!(finished.step(), Step::Stop);
    assert_eq!(story.at(27_000).step(), Step::Stop);
    story.finish(ACCEPTED);
    assert_eq!(story.change().step(), Step::Stop);
}

#[test]
fn change_during_upload_is_in_final_report_within_the_same_deadline() {
    let mut story = Story::reported();
    story.at(20_000).change().advance_to_due().begin_report();
    story.change().shut_down();
    story.at(26_000).finish(ACCEPTED);
    assert_eq!(story.begin_report(), SHUTDOWN);
    assert_eq!(story.step(), Step::Wait { until: Some(story.time(27_000)) });
    assert_eq!(story.at(27_000).step(), Step::Stop);
}

/// An environment whose final report failed 10 ms after its start.
fn final_report_failed(failed: UploadResult) -> Story {
    let mut story = Story::reported();
    story.at(20_000).change();
    assert_eq!(story.shut_down(), SHUTDOWN);
    story.send_and_finish(10, failed);
    story
}

#[test]
fn final_report_is_retried_with_backoff_until_the_deadline() {
    for seed in 0..20 {
        let mut story = Story::reported();
        story.cadence.seed = seed;
        story.at(20_000).change().shut_down();
        story.send_and_finish(10, TRANSIENT);
        let mut delays = Vec::new();
        while story.step() != Step::Stop {
            let failed = story.now;
            delays.push(story.advance_to_due().now - failed);
            assert!(story.now < 25_000, "{delays:?}");
            assert_eq!(story.send_and_finish(10, TRANSIENT), SHUTDOWN);
        }
        for (delay, nominal) in delays.iter().zip([100, 200].into_iter().chain(std::iter::repeat(250))) {
            assert!((nominal..=2 * nominal + 1).contains(delay), "{delays:?}");
        }
        assert!((24_500..25_010).contains(&story.now), "{} {delays:?}", story.now);
        assert!((10..20).contains(&delays.len()), "{delays:?}");
        let attempts = usize::try_from(story.cadence.attempts_at_shutdown()).unwrap();
        assert_eq!(attempts, delays.len() + 1);
        assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));
    }
}

#[test]
fn final_report_that_is_accepted_after_a_retry_ends_the_shutdown() {
    let mut story = final_report_failed(TRANSIENT);
    story.advance_to_due().send_and_finish(10, TRANSIENT);
    assert_eq!(story.advance_to_due().send_and_finish(10, ACCEPTED), SHUTDOWN);
    assert_eq!((story.step(), story.cadence.pending_since()), (Step::Stop, None));
}

#[test]
fn final_report_is_not_retried_after_a_permanent_failure() {
    let too_large = UploadResult::Failed { failure: UploadFailure::TooLarge, retry_after: None };
    for failed in [PERMANENT, too_large] {
        let mut story = final_report_failed(failed);
        assert_eq!((story.step(), story.cadence.attempts_at_shutdown()), (Step::Stop, 1));
        let mut story = final_report_failed(TRANSIENT);
        story.advance_to_due().send_and_finish(10, failed);
        assert_eq!((story.step(), story.cadence.attempts_at_shutdown()), (Step::Stop, 2));
    }
}

#[test]
fn retry_after_delays_the_final_report_or_ends_the_shutdown_if_it_exceeds_the_deadline() {
    let failed = |retry_after| UploadResult::Failed {
        failure: UploadFailure::Transient,
        retry_after: Some(retry_after),
    };
    let mut story = final_report_failed(failed(seconds(2)));
    assert_eq!(story.until(), 22_010);
    // A shorter Retry-After does not shorten the backoff.
    assert!(final_report_failed(failed(seconds(0))).until() >= 20_110);
    for late in [seconds(5), seconds(300), Duration::MAX] {
        assert_eq!(final_report_failed(failed(late)).step(), Step::Stop, "{late:?}");
    }
}

#[test]
fn final_report_is_sent_at_once_after_earlier_failures() {
    let later = UploadResult::Failed { failure: UploadFailure::Transient, retry_after: Some(seconds(300)) };
    for failed in [TRANSIENT, PERMANENT, later] {
        // A report that was in flight at the signal fails.
        let mut story = Story::reported();
        story.at(20_000).change().advance_to_due().begin_report();
        story.shut_down();
        story.finish(failed);
        assert_eq!(story.send_and_finish(10, failed), SHUTDOWN);
        assert_eq!(story.cadence.attempts_at_shutdown(), 2);
        // A report had failed before the signal.
        let mut story = Story::reported();
        story.at(20_000).change().advance_to_due().send_and_finish(0, failed);
        assert_eq!(story.shut_down(), SHUTDOWN);
        assert_eq!(story.cadence.attempts_at_shutdown(), 0);
    }
    // A heartbeat that fails leaves nothing unreported.
    let mut story = Story::reported();
    story.advance_to_due().begin_report();
    story.shut_down();
    story.finish(TRANSIENT);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn follow_up_is_retried_at_shutdown_unless_its_failure_is_permanent() {
    // The final report replaces a follow-up that was due before the signal.
    for (failed, step) in [(TRANSIENT, SHUTDOWN), (PERMANENT, Step::Stop)] {
        let mut story = Story::reported();
        story.view.has_departed_pods = true;
        story.at(20_000).change().advance_to_due().send_and_finish(0, ACCEPTED);
        story.shut_down();
        assert_eq!(story.send_and_finish(10, failed), SHUTDOWN);
        if step != Step::Stop {
            story.advance_to_due();
        }
        assert_eq!(story.step(), step);
    }
    // The follow-up of the final report.
    for (failed, step) in [(TRANSIENT, SHUTDOWN), (PERMANENT, Step::Stop)] {
        let mut story = Story::reported();
        story.change().view.has_departed_pods = true;
        story.shut_down();
        story.send_and_finish(10, ACCEPTED);
        assert_eq!(story.send_and_finish(10, failed), FOLLOW_UP);
        assert!(story.cadence.needs_follow_up());
        if step != Step::Stop {
            story.advance_to_due();
        }
        assert_eq!(story.step(), step);
        if step == SHUTDOWN {
            story.send_and_finish(10, ACCEPTED);
            assert_eq!((story.step(), story.cadence.needs_follow_up()), (Step::Stop, false));
        }
    }
}
