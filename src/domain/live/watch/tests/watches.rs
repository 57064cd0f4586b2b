//! Watches: what they follow, how they end, and when the set is listed again.

use super::*;

#[test]
fn a_watch_follows_events_and_bookmarks_and_goes_on_behind_the_last() {
    watching()
        .then(added("11"), "read 100 s")
        .then(bookmark("15"), "read 100 s")
        // Without a version, or with one that cannot be read.
        .then(added(""), "read 100 s")
        .then(Ended, "ended: watch from 15");
    watching().then(end_of_list("16"), "read 100 s").then(Ended, "ended: watch from 16");
}

#[test]
fn a_watch_that_is_closed_every_second_goes_on_and_one_that_brings_nothing_new_waits() {
    watching()
        .then(bookmark("11"), "read 100 s")
        .after(1)
        .then(Ended, "ended: watch from 11")
        .then(Answered, "read 100 s")
        .then(bookmark("12"), "read 100 s")
        .after(1)
        .then(Ended, "ended: watch from 12")
        .then(Ended, "ended: wait 1 s")
        .then(Waited, "watch from 12");
    // The same events over and over.
    watching()
        .then(bookmark("10"), "read 100 s")
        .then(Ended, "ended: wait 1 s")
        .then(Waited, "watch from 10")
        .then(bookmark("10"), "read 100 s")
        .then(Ended, "ended: wait 1 s");
}

#[test]
fn a_watch_that_breaks_off_or_is_garbled_goes_on_behind_the_last_event_after_a_pause() {
    for breaks in [BrokenOff, Garbled] {
        let why = breaks.failure().unwrap().why.as_str();
        watching()
            .then(added("11"), "read 100 s")
            .then(breaks, &format!("{why}: wait 1 s"))
            .then(Waited, "watch from 11")
            // Garbage at one place, or a message that is cut at one place, again and again.
            .then(breaks, &format!("{why}: wait 2 s"))
            .then(Waited, "watch from 11")
            .then(breaks, &format!("{why}: wait 4 s"))
            .then(Waited, "begin, ask for a page");
    }
}

#[test]
fn a_watch_that_is_silent_goes_on_and_after_two_in_a_row_the_set_is_listed() {
    watching()
        .after(100)
        .then(Silent, "silent: watch from 10")
        .then(Answered, "read 100 s")
        .after(100)
        .contact(Some(200))
        .then(Silent, "silent: begin, ask for a page")
        .then(page("", "3"), "complete, watch from 3");
    // A frame between them is all that it takes.
    watching()
        .then(Silent, "silent: watch from 10")
        .then(bookmark("10"), "read 100 s")
        .then(Silent, "silent: watch from 10")
        .then(Silent, "silent: watch from 10")
        .then(Silent, "silent: begin, ask for a page");
}

#[test]
fn an_expired_watch_is_listed_at_once_and_when_that_does_not_help_ever_more_slowly() {
    for expired in [refused(410), error(410, "Expired"), error(0, "Gone"), error(500, "Expired")] {
        watching()
            .then(expired, "expired: begin, ask for a page")
            .then(page("t", "20"), "ask for the page behind t")
            .then(page("", "20"), "complete, watch from 20")
            .then(expired, "expired: wait 1 s")
            .then(Waited, "begin, ask for a page")
            .then(page("", "30"), "complete, watch from 30")
            // The set is fresh all the same.
            .contact(Some(0))
            .then(expired, "expired: wait 2 s")
            .then(Waited, "begin, ask for a page")
            .then(page("", "40"), "complete, watch from 40")
            .then(added("41"), "read 100 s")
            .after(1)
            .then(expired, "expired: begin, ask for a page");
    }
}

#[test]
fn a_watch_that_is_refused_is_asked_for_again_and_one_that_cannot_be_right_is_listed() {
    for status in [401, 403, 429] {
        let mut story = watching().then(bookmark("11"), "read 100 s").then(Ended, "ended: watch from 11");
        for pause in [1, 2, 4, 8, 16] {
            story = story
                .then(refused(status), &format!("refused: wait {pause} s"))
                .then(Waited, "watch from 11");
        }
        for _ in 0..2 {
            story = story.then_any(refused(status));
            let Act::Wait(pause) = story.last.act else { panic!("{:?}", story.last) };
            assert!((30..=60).contains(&pause.as_secs()), "{pause:?}");
            story = story.then(Waited, "watch from 11");
        }
    }
    for status in [404, 500, 504] {
        watching()
            .then(refused(status), "refused: wait 1 s")
            .then(Waited, "watch from 10")
            .then(refused(status), "refused: wait 2 s")
            .then(Waited, "begin, ask for a page");
    }
    watching().then(refused(400), "refused: wait 1 s").then(Waited, "begin, ask for a page");
    watching()
        .then(Unreachable, "unreachable: wait 1 s")
        .then(Waited, "watch from 10")
        .then(Unreachable, "unreachable: wait 2 s")
        .then(Waited, "watch from 10")
        .then(Unreachable, "unreachable: wait 4 s")
        .then(Waited, "watch from 10")
        .then(added("11"), "read 100 s")
        .then(Unreachable, "unreachable: wait 1 s");
}

#[test]
fn a_watch_that_ends_at_once_every_time_does_not_have_the_set_listed_as_fast_as_that_goes() {
    let mut story = watching();
    let start = story.now;
    for _ in 0..20 {
        let input = match &story.last.act {
            Act::Wait(_) => Waited,
            Act::Ask(Request::Watch { .. }) => Answered,
            Act::Ask(_) => page("", "10"),
            Act::Read { .. } => Ended,
        };
        let pause = if let Act::Wait(pause) = story.last.act { pause } else { Duration::ZERO };
        story.now += pause;
        story.last = story.watch.next(input, story.now);
    }
    assert!(story.now - start > Duration::from_secs(20), "{:?}", story.now - start);
}

#[test]
fn retry_after_is_honoured_and_believed_up_to_five_minutes() {
    streaming().then(refused_for(429, 20), "refused: wait 16 s");
    streaming().then(refused_for(503, 100), "refused: wait 100 s");
    streaming().then(refused_for(429, 0), "refused: wait 1 s");
    streaming().then(refused_for(422, 70), "refused: wait 70 s").then(Waited, "begin, ask for a page");
    paging().then(refused_for(429, 3600), "refused: wait 300 s").then(Waited, "begin, ask for a page");
    watching().then(refused_for(429, 90), "refused: wait 90 s").then(Waited, "watch from 10");
    let too_many = Event::Error { code: 429, reason: "", retry_after: Some(Duration::from_secs(80)) };
    watching().then(Input::Event(too_many), "refused: wait 80 s").then(Waited, "watch from 10");
}

#[test]
fn a_list_is_due_after_six_hours_give_or_take_a_quarter_however_healthy_the_watch_is() {
    const EARLIEST: u64 = 16_200;
    const LATEST: u64 = 27_000;
    // By the frame that comes at that time.
    watching().after(EARLIEST - 101).then(bookmark("11"), "read 100 s");
    watching().after(LATEST).then(bookmark("11"), "relist: begin, ask for a stream").contact(Some(0));
    // By the clock: no read lasts longer than until then.
    let mut story = watching().after(EARLIEST);
    let due = loop {
        story.last = story.watch.next(bookmark("12"), story.now);
        match story.last.act {
            Act::Read { within, .. } if within < Duration::from_secs(100) => break within,
            _ => story.now += Duration::from_mins(1),
        }
    };
    story.now += due;
    // A stream is asked for again, though the server had none.
    let listed = story.then(Silent, "relist: begin, ask for a stream");
    listed
        .then(refused(422), "refused: begin, ask for a page")
        .then(page("", "20"), "complete, watch from 20")
        .then(Answered, "read 100 s");
    // By a watch that is over anyhow.
    let story = watching().then(added("11"), "read 100 s").after(LATEST);
    story.then(Ended, "ended: begin, ask for a page");
    watching()
        .then(Unreachable, "unreachable: wait 1 s")
        .after(LATEST)
        .then(Waited, "relist: begin, ask for a stream");
    // With the stream that a server is able to.
    streaming()
        .then(end_of_list("10"), "complete, read 100 s")
        .after(LATEST)
        .then(added("11"), "relist: begin, ask for a stream")
        .then(Answered, "read 30 s");
}

#[test]
fn agents_that_start_together_neither_list_nor_end_together() {
    let due = |seed| {
        let mut watch = Watch::new(Policy::default(), seed);
        let now = Instant::now();
        watch.start(now);
        watch.next(end_of_list("10"), now);
        let relist = watch.relist_at.unwrap() - now;
        watch.next(bookmark("11"), now);
        let Act::Ask(Request::Watch { timeout_seconds, .. }) = watch.next(Ended, now).act else { panic!() };
        (relist, timeout_seconds)
    };
    let all: Vec<_> = (0..50).map(due).collect();
    let hour = Duration::from_hours(1);
    assert!(
        all.iter()
            .all(|(relist, end)| (hour * 9 / 2..hour * 15 / 2).contains(relist) && (240..=300).contains(end))
    );
    assert!(
        all.iter().any(|(relist, _)| *relist < hour * 5) && all.iter().any(|(relist, _)| *relist > hour * 7)
    );
    assert_eq!(due(3), due(3));
}

#[test]
fn nothing_but_a_frame_of_a_watch_or_a_complete_list_is_contact() {
    for input in [
        Answered,
        Ended,
        Silent,
        BrokenOff,
        Garbled,
        Unreachable,
        refused(403),
        error(500, ""),
        error(410, ""),
    ] {
        watching().after(50).then_any(input).contact(Some(50));
    }
    watching()
        .after(50)
        .then(error(410, ""), "expired: begin, ask for a page")
        .then(Answered, "read 60 s")
        .then(page("t", "20"), "ask for the page behind t")
        .contact(Some(50));
    // A streaming relist that never comes to its bookmark vouches for nothing.
    streaming()
        .then(end_of_list("10"), "complete, read 100 s")
        .then(error(410, ""), "expired: begin, ask for a stream")
        .after(50)
        .then(added("12"), "read 30 s")
        .contact(Some(50));
}

#[test]
fn it_says_what_it_is_about() {
    assert_eq!(streaming().watch.state(), State::Listing);
    assert_eq!(paging().watch.state(), State::Listing);
    assert_eq!(watching().watch.state(), State::Watching);
    assert_eq!(watching().then(Unreachable, "unreachable: wait 1 s").watch.state(), State::Waiting);
    let labels: std::collections::BTreeSet<_> = Restart::ALL.iter().map(|why| why.as_str()).collect();
    assert_eq!(labels.len(), Restart::ALL.len());
}

#[test]
fn a_watch_that_is_over_at_once_again_and_again_is_not_asked_for_as_fast_as_that_goes() {
    // Each leads on.
    let mut story = watching().then(bookmark("11"), "read 100 s").then(Ended, "ended: watch from 11");
    for version in ["12", "13", "14"] {
        let again = format!("watch from {version}");
        story = story
            .then(Answered, "read 100 s")
            .then(bookmark(version), "read 100 s")
            .then(Ended, "ended: wait 1 s")
            .then(Waited, &again);
    }
    // One that lasts makes good for them.
    story
        .then(Answered, "read 100 s")
        .after(5)
        .then(bookmark("15"), "read 100 s")
        .then(Ended, "ended: watch from 15")
        .then(Answered, "read 100 s")
        .then(bookmark("16"), "read 100 s")
        .then(Ended, "ended: watch from 16");
}

#[test]
fn a_watch_that_expires_behind_its_first_word_does_not_have_the_set_listed_as_fast_as_that_goes() {
    let mut story = watching()
        .then(bookmark("11"), "read 100 s")
        .then(error(410, "Expired"), "expired: begin, ask for a page");
    for seconds in [1, 2, 4] {
        story = story
            .then(Answered, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(Answered, "read 100 s")
            .then(bookmark("11"), "read 100 s")
            .then(error(410, "Expired"), &format!("expired: wait {seconds} s"))
            .then(Waited, "begin, ask for a page");
    }
}

#[test]
fn after_four_minutes_without_contact_the_set_is_listed_instead_of_watched() {
    watching()
        .after(239)
        .then(BrokenOff, "broken_off: wait 1 s")
        .then(Waited, "begin, ask for a page")
        .then(Unreachable, "unreachable: wait 1 s")
        .then(Waited, "begin, ask for a page")
        .then(Answered, "read 60 s")
        .then(page("", "20"), "complete, watch from 20")
        .contact(Some(0));
}

#[test]
fn a_watch_that_expired_during_an_outage_is_listed_at_once() {
    let mut story = watching();
    for seconds in [1, 2, 4] {
        story = story.then(Unreachable, &format!("unreachable: wait {seconds} s")).then_any(Waited);
    }
    story.then(refused(410), "expired: begin, ask for a page");
}
