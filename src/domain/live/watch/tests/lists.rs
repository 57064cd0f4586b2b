//! Lists: as a stream, in pages, in one, and what goes wrong with each.

use super::*;

#[test]
fn a_streaming_list_is_complete_at_its_bookmark_and_goes_on_as_a_watch() {
    streaming()
        .then(Answered, "read 30 s")
        .then(added("3"), "read 30 s")
        .then(bookmark("5"), "read 30 s")
        .then(added("4"), "read 30 s")
        .contact(None)
        .then(end_of_list("10"), "complete, read 100 s")
        .after(5)
        .contact(Some(5))
        .then(Input::Event(Event::Modified { resource_version: "11" }), "read 100 s")
        .then(Input::Event(Event::Deleted { resource_version: "12" }), "read 100 s")
        .contact(Some(0))
        .then(Ended, "ended: watch from 12");
}

#[test]
fn a_server_without_streaming_lists_is_asked_for_one_once() {
    for status in [422, 400] {
        streaming()
            .then(refused(status), "refused: begin, ask for a page")
            .then(Answered, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(refused(410), "expired: begin, ask for a page");
    }
    let story = Story::of(Policy { streaming: Streaming::Never, ..Policy::default() });
    assert_eq!(said(&story.last), "begin, ask for a page");
}

#[test]
fn a_streaming_list_that_stops_before_its_bookmark_is_read_in_pages_and_the_next_one_is_tried_again() {
    for stops in [Silent, Ended, BrokenOff, Garbled, error(500, "InternalError"), error(410, "Expired")] {
        let story = streaming().then(Answered, "read 30 s").then(added("3"), "read 30 s");
        let why = stops.failure().unwrap().why.as_str();
        story
            .then(stops, &format!("{why}: begin, ask for a page"))
            .then(Answered, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(Answered, "read 100 s")
            .then(error(410, "Expired"), "expired: begin, ask for a stream");
    }
    // An ERROR event says nothing of what the server is able to.
    streaming()
        .then(Answered, "read 30 s")
        .then(error(422, "Invalid"), "refused: begin, ask for a page")
        .then(Answered, "read 60 s")
        .then(page("", "10"), "complete, watch from 10")
        .then(refused(410), "expired: begin, ask for a stream");
    streaming().then(Silent, "silent: begin, ask for a page");
    streaming().then(Answered, "read 30 s").then(end_of_list(""), "garbled: begin, ask for a page");
}

#[test]
fn a_streaming_list_that_the_server_has_no_time_or_no_leave_for_is_asked_for_again() {
    for status in [429, 500, 503, 401, 403, 404, 406, 301] {
        streaming()
            .then(refused(status), "refused: wait 1 s")
            .then(Waited, "begin, ask for a stream")
            .then(Unreachable, "unreachable: wait 2 s")
            .then(Waited, "begin, ask for a stream");
    }
}

#[test]
fn pages_are_followed_and_the_watch_begins_where_the_list_stood() {
    paging()
        .then(Answered, "read 60 s")
        .then(page("t1", "10"), "ask for the page behind t1")
        .then(Answered, "read 60 s")
        .contact(None)
        .then(page("", "10"), "complete, watch from 10")
        .contact(Some(0));
}

#[test]
fn a_page_that_fails_in_a_passing_way_is_asked_for_again_and_the_list_goes_on_where_it_was() {
    let passing = [
        refused(500),
        refused(429),
        refused(401),
        refused(403),
        Unreachable,
        BrokenOff,
        Garbled,
        Silent,
        Ended,
    ];
    for fails in passing {
        let why = fails.failure().unwrap().why.as_str();
        paging()
            .then(page("t1", "10"), "ask for the page behind t1")
            .then(fails, &format!("{why}: wait 1 s"))
            .then(Waited, "ask for the page behind t1")
            .then(fails, &format!("{why}: wait 2 s"))
            .then(Waited, "ask for the page behind t1")
            .then(page("t2", "10"), "ask for the page behind t2")
            .then(fails, &format!("{why}: wait 1 s"))
            .contact(None)
            .then(Waited, "ask for the page behind t2")
            .then(page("", "10"), "complete, watch from 10");
    }
}

#[test]
fn a_first_page_that_fails_begins_again_since_the_next_one_is_another_snapshot() {
    for fails in [refused(500), refused(403), refused(404), BrokenOff] {
        let why = fails.failure().unwrap().why.as_str();
        paging()
            .then(fails, &format!("{why}: wait 1 s"))
            .then(Waited, "begin, ask for a page")
            .then(Answered, "read 60 s")
            .then(page("", "10"), "complete, watch from 10");
    }
    paging().then(page("", ""), "garbled: wait 1 s").then(Waited, "begin, ask for a page");
}

#[test]
fn an_expired_token_begins_the_list_again_and_when_it_expires_again_without_pages() {
    paging()
        .then(page("t1", "10"), "ask for the page behind t1")
        .then(refused(410), "expired: begin, ask for a page")
        .then(page("t2", "12"), "ask for the page behind t2")
        .then(refused(410), "expired: begin, ask for all")
        .then(refused(500), "refused: wait 1 s")
        .then(Waited, "begin, ask for all")
        .then(Answered, "read 60 s")
        .then(BrokenOff, "broken_off: wait 2 s")
        .then(Waited, "begin, ask for all")
        .then(refused(410), "expired: wait 4 s")
        .then(Waited, "begin, ask for all")
        .then(page("", "20"), "complete, watch from 20");
}

#[test]
fn a_token_that_the_server_does_not_take_is_given_up_after_a_pause() {
    paging()
        .then(page("t1", "10"), "ask for the page behind t1")
        .then(refused(400), "refused: wait 1 s")
        .then(Waited, "begin, ask for a page");
}

#[test]
fn a_page_that_fails_again_and_again_gives_its_list_up() {
    let mut story = paging()
        .then(Answered, "read 60 s")
        .then(page("b", "10"), "ask for the page behind b")
        .then(refused(500), "refused: wait 1 s")
        .then(Waited, "ask for the page behind b");
    for seconds in [2, 4, 8] {
        story = story
            .then(refused(500), &format!("refused: wait {seconds} s"))
            .then(Waited, "ask for the page behind b");
    }
    story.then(refused(500), "refused: wait 16 s").then(Waited, "begin, ask for a page");
}

#[test]
fn a_token_that_leads_to_itself_and_a_list_without_a_version_are_given_up_ever_more_slowly() {
    let mut story = paging().then(Answered, "read 60 s");
    for seconds in [1, 2, 4] {
        story = story
            .then(page("b", "10"), "ask for the page behind b")
            .then(Answered, "read 60 s")
            .then(page("b", "10"), &format!("garbled: wait {seconds} s"))
            .then(Waited, "begin, ask for a page")
            .then(Answered, "read 60 s");
    }
    story
        .then(page("", ""), "garbled: wait 8 s")
        .then(Waited, "begin, ask for a page")
        .then(Answered, "read 60 s")
        .then(page("", "10"), "complete, watch from 10");
}
