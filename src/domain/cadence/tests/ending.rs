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

#[test]
fn at_the_end_a_failure_before_is_no_reason_to_wait_and_a_failure_of_the_last_word_is_the_end() {
    for failed in
        [PASSING, LASTING, Answer::Failed { failure: Failure::Passing, retry_after: Some(seconds(300)) }]
    {
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
    // Not even the follow-up that was owed is sent after it.
    let mut story = Story::reported();
    story.view.witnessed = true;
    story.at(20_000).changes().waits().sends_in(0, ACCEPTED);
    story.shuts_down();
    assert_eq!(story.sends_in(10, PASSING), LAST_WORD);
    assert_eq!(story.step(), Step::Stop);
    // A heartbeat that fails leaves nothing unsaid.
    let mut story = Story::reported();
    story.waits().begins_report();
    story.shuts_down();
    story.answered(PASSING);
    assert_eq!(story.step(), Step::Stop);
}
