//! Failures, and what else an answer shows.

use std::iter::repeat;

use super::*;

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
    for (pause, nominal) in
        pauses.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000].into_iter().chain(repeat(30_000)))
    {
        assert!((nominal..=2 * nominal).contains(pause), "{pauses:?}");
    }
    assert!(pauses[5..].windows(2).all(|two| two[0] != two[1]), "they keep no step: {pauses:?}");
    let failing = story.cadence.failing().unwrap();
    assert_eq!((failing.failures, failing.since), (10, story.time(22_000)));
    assert_eq!(story.cadence.pending_since(), Some(story.time(20_000)));

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
    assert!((60..125).contains(&tries), "{tries}");
    story.waits();
    let now = story.view.revision;
    story.begins_report();
    assert_eq!(story.answered(ACCEPTED).accepted, Some((now, Carried::Nothing)));
}

#[test]
fn a_retry_after_is_honoured_and_believed_up_to_five_minutes() {
    for (failure, asked, waited) in [
        (Failure::Passing, Some(seconds(120)), 120_000),
        (Failure::Passing, Some(seconds(3_600)), 300_000),
        (Failure::Lasting, Some(seconds(1)), 60_000),
        (Failure::Lasting, Some(seconds(120)), 120_000),
        (Failure::Passing, Some(Duration::MAX), 300_000),
    ] {
        let mut story = Story::begins();
        story.sends_in(1_000, Answer::Failed { failure, retry_after: asked });
        assert_eq!(story.changes().until(), 1_000 + waited, "{failure:?} {asked:?}");
    }
    // A shorter one does not shorten the wait.
    let mut story = Story::begins();
    story.sends_in(0, Answer::Failed { failure: Failure::Passing, retry_after: Some(seconds(0)) });
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
fn however_short_the_interval_a_refusal_is_not_repeated_more_than_once_a_minute() {
    let mut story = Story::with(Policy { interval: Duration::from_secs(1), jitter: 0, ..Policy::default() });
    for _ in 0..3 {
        story.sends_in(0, LASTING);
        assert_eq!(story.until(), story.now + 60_000);
        story.waits();
    }
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
fn an_answer_to_nothing_is_nothing() {
    let mut story = Story::begins();
    assert_eq!(story.answered(ACCEPTED), Answered::default());
    assert_eq!(story.answered(PASSING), Answered::default());
    assert_eq!((story.step(), story.cadence.failing()), (FIRST, None));
}

#[test]
fn what_was_too_large_with_the_pods_to_witness_is_sent_without_them_at_the_next_heartbeat() {
    let mut story = Story::reported();
    story.at(20_000).changes();
    story.view.witnessed = true;
    let too_large = Answer::Failed { failure: Failure::TooLarge, retry_after: None };
    story.waits().sends_in(0, too_large);
    assert_eq!(story.waits().step(), Step::Send { why: Why::Smaller });
    story.sends_in(0, ACCEPTED);
    // They are still to be told, and may fit by then.
    assert!(matches!(story.waits().step(), Step::Send { why: Why::Change | Why::Heartbeat }));
}

#[test]
fn what_was_too_large_without_any_is_tried_again_with_what_there_is_then() {
    let mut story = Story::reported();
    story.at(20_000).changes();
    story.waits().sends_in(0, Answer::Failed { failure: Failure::TooLarge, retry_after: None });
    assert_eq!(story.waits().step(), RETRY);
}
