//! What is said at the end, and what is not.

use super::*;

#[test]
fn at_the_end_there_is_a_last_word_only_if_something_was_not_said() {
    let mut story = Story::reported();
    assert_eq!(story.shuts_down(), Step::Stop);
    assert_eq!(story.changes().step(), Step::Stop, "for good");

    let mut story = Story::reported();
    story.at(20_000).changes();
    assert_eq!(story.shuts_down(), LAST_WORD);
    assert_eq!(story.sends_in(10, ACCEPTED), LAST_WORD);
    assert_eq!(story.step(), Step::Stop);

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

/// An environment whose last report failed like this, 10 ms after it began.
fn last_report_failed(failed: Answer) -> Story {
    let mut story = Story::reported();
    story.at(20_000).changes();
    assert_eq!(story.shuts_down(), LAST_WORD);
    story.sends_in(10, failed);
    story
}

#[test]
fn last_report_is_retried_with_backoff_until_the_deadline() {
    for seed in 0..20 {
        let mut story = Story::reported();
        story.cadence.seed = seed;
        story.at(20_000).changes().shuts_down();
        story.sends_in(10, PASSING);
        let mut pauses = Vec::new();
        while story.step() != Step::Stop {
            let failed = story.now;
            pauses.push(story.waits().now - failed);
            assert!(story.now < 25_000, "{pauses:?}");
            assert_eq!(story.sends_in(10, PASSING), LAST_WORD);
        }
        for (pause, nominal) in pauses.iter().zip([100, 200].into_iter().chain(std::iter::repeat(250))) {
            assert!((nominal..=2 * nominal + 1).contains(pause), "{pauses:?}");
        }
        assert!((24_500..25_010).contains(&story.now), "{} {pauses:?}", story.now);
        assert!((10..20).contains(&pauses.len()), "{pauses:?}");
        let attempts = usize::try_from(story.cadence.attempts_at_shutdown()).unwrap();
        assert_eq!(attempts, pauses.len() + 1);
        assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));
    }
}

#[test]
fn last_report_that_is_accepted_after_a_retry_ends_the_shutdown() {
    let mut story = last_report_failed(PASSING);
    story.waits().sends_in(10, PASSING);
    assert_eq!(story.waits().sends_in(10, ACCEPTED), LAST_WORD);
    assert_eq!((story.step(), story.cadence.pending_since()), (Step::Stop, None));
}

#[test]
fn last_report_is_not_retried_after_a_lasting_failure() {
    let too_large = Answer::Failed { failure: Failure::TooLarge, retry_after: None };
    for failed in [LASTING, too_large] {
        let mut story = last_report_failed(failed);
        assert_eq!((story.step(), story.cadence.attempts_at_shutdown()), (Step::Stop, 1));
        let mut story = last_report_failed(PASSING);
        story.waits().sends_in(10, failed);
        assert_eq!((story.step(), story.cadence.attempts_at_shutdown()), (Step::Stop, 2));
    }
}

#[test]
fn retry_after_delays_the_last_report_or_ends_the_shutdown_if_it_exceeds_the_deadline() {
    let asks = |retry_after| Answer::Failed { failure: Failure::Passing, retry_after: Some(retry_after) };
    let mut story = last_report_failed(asks(seconds(2)));
    assert_eq!(story.until(), 22_010);
    // A shorter one does not shorten the backoff.
    assert!(last_report_failed(asks(seconds(0))).until() >= 20_110);
    for late in [seconds(5), seconds(300), Duration::MAX] {
        assert_eq!(last_report_failed(asks(late)).step(), Step::Stop, "{late:?}");
    }
}

#[test]
fn last_report_is_sent_at_once_whatever_failed_before_it() {
    let later = Answer::Failed { failure: Failure::Passing, retry_after: Some(seconds(300)) };
    for failed in [PASSING, LASTING, later] {
        // A report that was in flight at the signal fails.
        let mut story = Story::reported();
        story.at(20_000).changes().waits().begins_report();
        story.shuts_down();
        story.answered(failed);
        assert_eq!(story.sends_in(10, failed), LAST_WORD);
        assert_eq!(story.cadence.attempts_at_shutdown(), 2);
        // A report had failed before the signal.
        let mut story = Story::reported();
        story.at(20_000).changes().waits().sends_in(0, failed);
        assert_eq!(story.shuts_down(), LAST_WORD);
        assert_eq!(story.cadence.attempts_at_shutdown(), 0);
    }
    // A heartbeat that fails leaves nothing unreported.
    let mut story = Story::reported();
    story.waits().begins_report();
    story.shuts_down();
    story.answered(PASSING);
    assert_eq!(story.step(), Step::Stop);
}

#[test]
fn follow_up_is_retried_at_shutdown_unless_its_failure_lasts() {
    // The follow-up was owed before the signal; the last report takes its place.
    for (failed, step) in [(PASSING, LAST_WORD), (LASTING, Step::Stop)] {
        let mut story = Story::reported();
        story.view.witnessed = true;
        story.at(20_000).changes().waits().sends_in(0, ACCEPTED);
        story.shuts_down();
        assert_eq!(story.sends_in(10, failed), LAST_WORD);
        if step != Step::Stop {
            story.waits();
        }
        assert_eq!(story.step(), step);
    }
    // It is owed for the last report.
    for (failed, step) in [(PASSING, LAST_WORD), (LASTING, Step::Stop)] {
        let mut story = Story::reported();
        story.changes().view.witnessed = true;
        story.shuts_down();
        story.sends_in(10, ACCEPTED);
        assert_eq!(story.sends_in(10, failed), FOLLOW_UP);
        assert!(story.cadence.owes_follow_up());
        if step != Step::Stop {
            story.waits();
        }
        assert_eq!(story.step(), step);
        if step == LAST_WORD {
            story.sends_in(10, ACCEPTED);
            assert_eq!((story.step(), story.cadence.owes_follow_up()), (Step::Stop, false));
        }
    }
}
