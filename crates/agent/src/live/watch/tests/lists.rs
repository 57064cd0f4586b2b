//! Streaming, paged and unpaged lists, and their failures.

use super::*;

#[test]
fn streaming_list_completes_at_its_bookmark_and_continues_as_watch() {
    streaming()
        .then(ResponseStarted, "read 30 s")
        .then(added("3"), "read 30 s")
        .then(added("4"), "read 30 s")
        .contact(None)
        .then(end_of_list("10"), "complete, read 100 s")
        .after(5)
        .contact(Some(5))
        .then(Input::Event(StreamEvent::Modified { resource_version: "11" }), "read 100 s")
        .then(Input::Event(StreamEvent::Deleted { resource_version: "12" }), "read 100 s")
        .contact(Some(0))
        .then(Ended, "ended: watch from 12");
}

#[test]
fn streaming_list_is_requested_once_from_server_without_support() {
    for status in [422, 400] {
        streaming()
            .then(error_status(status), "refused: list, request page")
            .then(ResponseStarted, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(error_status(410), "expired: list, request page");
    }
    let story = Story::new(WatchTiming { streaming: Streaming::Never, ..WatchTiming::default() });
    assert_eq!(describe(&story.last), "list, request page");
}

#[test]
fn streaming_list_without_bookmark_falls_back_to_pages_once() {
    for failure in [Silent, Ended, BrokenOff, Garbled, error(500, "InternalError"), error(410, "Expired")] {
        let story = streaming().then(ResponseStarted, "read 30 s").then(added("3"), "read 30 s");
        let reason = failure.failure().unwrap().reason.as_str();
        story
            .then(failure, &format!("{reason}: list, request page"))
            .then(ResponseStarted, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(ResponseStarted, "read 100 s")
            .then(error(410, "Expired"), "expired: list, request stream");
    }
    // An ERROR event does not show whether the server supports streaming lists.
    streaming()
        .then(ResponseStarted, "read 30 s")
        .then(error(422, "Invalid"), "refused: list, request page")
        .then(ResponseStarted, "read 60 s")
        .then(page("", "10"), "complete, watch from 10")
        .then(error_status(410), "expired: list, request stream");
    streaming().then(Silent, "silent: list, request page");
    streaming().then(ResponseStarted, "read 30 s").then(end_of_list(""), "garbled: list, request page");
}

#[test]
fn server_that_ignores_initial_events_is_asked_for_pages_after_its_bookmark() {
    streaming()
        .then(ResponseStarted, "read 30 s")
        .then(added("3"), "read 30 s")
        .then(bookmark("5"), "garbled: list, request page")
        .then(ResponseStarted, "read 60 s")
        .then(page("", "10"), "complete, watch from 10")
        .then(error_status(410), "expired: list, request page");
}

#[test]
fn server_that_ignores_initial_events_is_asked_for_pages_despite_changes() {
    for event in [added("3"), modified("3"), deleted("3")] {
        let mut story = streaming().then(ResponseStarted, "read 30 s");
        for _ in 0..29 {
            story = story.after(1).then_any(event);
            assert!(matches!(story.last.action, WatchAction::Read { .. }));
        }
        story.after(2).then(event, "silent: list, request page");
    }
}

#[test]
fn streaming_list_may_take_longer_for_more_objects() {
    let mut story = streaming().then(ResponseStarted, "read 30 s");
    for _ in 0..100 {
        for _ in 0..200 {
            story = story.then_any(added("3"));
        }
        story = story.after(1);
    }
    story.then(end_of_list("10"), "complete, read 100 s");
}

#[test]
fn streaming_list_is_retried_after_overload_or_denial() {
    for status in [429, 500, 503, 401, 403, 404, 406, 301] {
        streaming()
            .then(error_status(status), "refused: wait 1 s")
            .then(DelayElapsed, "list, request stream")
            .then(Unreachable, "unreachable: wait 2 s")
            .then(DelayElapsed, "list, request stream");
    }
}

#[test]
fn watch_starts_from_resource_version_of_paged_list() {
    paging()
        .then(ResponseStarted, "read 60 s")
        .then(page("t1", "10"), "request page after t1")
        .then(ResponseStarted, "read 60 s")
        .contact(None)
        .then(page("", "10"), "complete, watch from 10")
        .contact(Some(0));
}

#[test]
fn page_is_retried_after_transient_failure_and_list_continues() {
    let transient = [
        error_status(500),
        error_status(429),
        error_status(401),
        error_status(403),
        Unreachable,
        BrokenOff,
        Garbled,
        Silent,
        Ended,
    ];
    for failure in transient {
        let reason = failure.failure().unwrap().reason.as_str();
        paging()
            .then(page("t1", "10"), "request page after t1")
            .then(failure, &format!("{reason}: wait 1 s"))
            .then(DelayElapsed, "request page after t1")
            .then(failure, &format!("{reason}: wait 2 s"))
            .then(DelayElapsed, "request page after t1")
            .then(page("t2", "10"), "request page after t2")
            .then(failure, &format!("{reason}: wait 1 s"))
            .contact(None)
            .then(DelayElapsed, "request page after t2")
            .then(page("", "10"), "complete, watch from 10");
    }
}

#[test]
fn failed_first_page_restarts_the_list() {
    for failure in [error_status(500), error_status(403), error_status(404), BrokenOff] {
        let reason = failure.failure().unwrap().reason.as_str();
        paging()
            .then(failure, &format!("{reason}: wait 1 s"))
            .then(DelayElapsed, "list, request page")
            .then(ResponseStarted, "read 60 s")
            .then(page("", "10"), "complete, watch from 10");
    }
    paging().then(page("", ""), "garbled: wait 1 s").then(DelayElapsed, "list, request page");
}

#[test]
fn list_without_resource_version_completes_only_in_one_response_without_a_watch() {
    let timing =
        WatchTiming { streaming: Streaming::Never, after_list: AfterList::End, ..WatchTiming::default() };
    let list = || Story::new(timing.clone()).then(ResponseStarted, "read 60 s");
    let step = list().then_any(page("", "")).last;
    assert_eq!(step.listing, Some(Listing::Completed));
    list().then(page("t1", ""), "request page after t1").then(page("", ""), "garbled: wait 1 s");
}

#[test]
fn second_expired_token_leads_to_unpaged_list() {
    paging()
        .then(page("t1", "10"), "request page after t1")
        .then(error_status(410), "expired: list, request page")
        .then(page("t2", "12"), "request page after t2")
        .then(error_status(410), "expired: list, request all")
        .then(error_status(500), "refused: wait 1 s")
        .then(DelayElapsed, "list, request all")
        .then(ResponseStarted, "read 60 s")
        .then(BrokenOff, "broken_off: wait 2 s")
        .then(DelayElapsed, "list, request all")
        .then(error_status(410), "expired: wait 4 s")
        .then(DelayElapsed, "list, request all")
        .then(page("", "20"), "complete, watch from 20");
}

#[test]
fn rejected_token_restarts_the_list_after_a_delay() {
    paging()
        .then(page("t1", "10"), "request page after t1")
        .then(error_status(400), "refused: wait 1 s")
        .then(DelayElapsed, "list, request page");
}

#[test]
fn list_restarts_after_five_failures_of_one_page() {
    let mut story = paging()
        .then(ResponseStarted, "read 60 s")
        .then(page("b", "10"), "request page after b")
        .then(error_status(500), "refused: wait 1 s")
        .then(DelayElapsed, "request page after b");
    for seconds in [2, 4, 8] {
        story = story
            .then(error_status(500), &format!("refused: wait {seconds} s"))
            .then(DelayElapsed, "request page after b");
    }
    story.then(error_status(500), "refused: wait 16 s").then(DelayElapsed, "list, request page");
}

#[test]
fn inconsistent_list_is_restarted_with_growing_delay() {
    let mut story = paging().then(ResponseStarted, "read 60 s");
    for seconds in [1, 2, 4] {
        story = story
            .then(page("b", "10"), "request page after b")
            .then(ResponseStarted, "read 60 s")
            .then(page("b", "10"), &format!("garbled: wait {seconds} s"))
            .then(DelayElapsed, "list, request page")
            .then(ResponseStarted, "read 60 s");
    }
    story
        .then(page("", ""), "garbled: wait 8 s")
        .then(DelayElapsed, "list, request page")
        .then(ResponseStarted, "read 60 s")
        .then(page("", "10"), "complete, watch from 10");
}
