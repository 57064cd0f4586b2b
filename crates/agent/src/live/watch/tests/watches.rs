//! Watches: events, failures and relists.

use super::*;

#[test]
fn watch_resumes_from_last_event_or_bookmark() {
    watching()
        .then(added("11"), "read 100 s")
        .then(bookmark("15"), "read 100 s")
        // No readable resourceVersion.
        .then(added(""), "read 100 s")
        .then(Ended, "ended: watch from 15");
    watching().then(end_of_list("16"), "read 100 s").then(Ended, "ended: watch from 16");
}

#[test]
fn closed_watch_resumes_at_once_only_after_progress() {
    watching()
        .then(bookmark("11"), "read 100 s")
        .after(1)
        .then(Ended, "ended: watch from 11")
        .then(ResponseStarted, "read 100 s")
        .then(bookmark("12"), "read 100 s")
        .after(1)
        .then(Ended, "ended: watch from 12")
        .then(Ended, "ended: wait 1 s")
        .then(DelayElapsed, "watch from 12");
    // The same event repeatedly.
    watching()
        .then(bookmark("10"), "read 100 s")
        .then(Ended, "ended: wait 1 s")
        .then(DelayElapsed, "watch from 10")
        .then(bookmark("10"), "read 100 s")
        .then(Ended, "ended: wait 1 s");
}

#[test]
fn broken_watch_resumes_from_last_event_after_a_delay() {
    for failure in [BrokenOff, Garbled] {
        let reason = failure.failure().unwrap().reason.as_str();
        watching()
            .then(added("11"), "read 100 s")
            .then(failure, &format!("{reason}: wait 1 s"))
            .then(DelayElapsed, "watch from 11")
            // A corrupt or truncated message that the server repeats.
            .then(failure, &format!("{reason}: wait 2 s"))
            .then(DelayElapsed, "watch from 11")
            .then(failure, &format!("{reason}: wait 4 s"))
            .then(DelayElapsed, "list, request page");
    }
}

#[test]
fn second_consecutive_silent_watch_leads_to_relist() {
    watching()
        .after(100)
        .then(Silent, "silent: watch from 10")
        .then(ResponseStarted, "read 100 s")
        .after(100)
        .contact(Some(200))
        .then(Silent, "silent: list, request page")
        .then(page("", "3"), "complete, watch from 3");
    // A frame resets the count.
    watching()
        .then(Silent, "silent: watch from 10")
        .then(bookmark("10"), "read 100 s")
        .then(Silent, "silent: watch from 10")
        .then(Silent, "silent: watch from 10")
        .then(Silent, "silent: list, request page");
}

#[test]
fn expired_watch_relists_at_once_then_with_backoff() {
    for expired in [error_status(410), error(410, "Expired"), error(0, "Gone"), error(500, "Expired")] {
        watching()
            .then(expired, "expired: list, request page")
            .then(page("t", "20"), "request page after t")
            .then(page("", "20"), "complete, watch from 20")
            .then(expired, "expired: wait 1 s")
            .then(DelayElapsed, "list, request page")
            .then(page("", "30"), "complete, watch from 30")
            // The complete list counts as contact.
            .contact(Some(0))
            .then(expired, "expired: wait 2 s")
            .then(DelayElapsed, "list, request page")
            .then(page("", "40"), "complete, watch from 40")
            .then(added("41"), "read 100 s")
            .after(1)
            .then(expired, "expired: list, request page");
    }
}

#[test]
fn rejected_watch_is_retried_or_relisted_by_status() {
    for status in [401, 403, 429] {
        let mut story = watching().then(bookmark("11"), "read 100 s").then(Ended, "ended: watch from 11");
        for delay in [1, 2, 4, 8, 16] {
            story = story
                .then(error_status(status), &format!("refused: wait {delay} s"))
                .then(DelayElapsed, "watch from 11");
        }
        for _ in 0..2 {
            story = story.then_any(error_status(status));
            let WatchAction::Wait(delay) = story.last.action else { panic!("{:?}", story.last) };
            assert!((30..=60).contains(&delay.as_secs()), "{delay:?}");
            story = story.then(DelayElapsed, "watch from 11");
        }
    }
    for status in [404, 500, 504] {
        watching()
            .then(error_status(status), "refused: wait 1 s")
            .then(DelayElapsed, "watch from 10")
            .then(error_status(status), "refused: wait 2 s")
            .then(DelayElapsed, "list, request page");
    }
    watching().then(error_status(400), "refused: wait 1 s").then(DelayElapsed, "list, request page");
    watching()
        .then(Unreachable, "unreachable: wait 1 s")
        .then(DelayElapsed, "watch from 10")
        .then(Unreachable, "unreachable: wait 2 s")
        .then(DelayElapsed, "watch from 10")
        .then(Unreachable, "unreachable: wait 4 s")
        .then(DelayElapsed, "watch from 10")
        .then(added("11"), "read 100 s")
        .then(Unreachable, "unreachable: wait 1 s");
}

#[test]
fn relists_back_off_when_every_watch_ends_at_once() {
    let mut story = watching();
    let start = story.now;
    for _ in 0..20 {
        let input = match &story.last.action {
            WatchAction::Wait(_) => DelayElapsed,
            WatchAction::Send(WatchRequest::Watch { .. }) => ResponseStarted,
            WatchAction::Send(_) => page("", "10"),
            WatchAction::Read { .. } => Ended,
        };
        let delay = if let WatchAction::Wait(delay) = story.last.action { delay } else { Duration::ZERO };
        story.now += delay;
        story.last = story.watch.next(input, story.now);
    }
    assert!(story.now - start > Duration::from_secs(20), "{:?}", story.now - start);
}

#[test]
fn retry_after_is_honored_up_to_five_minutes() {
    streaming().then(retry_after(429, 20), "refused: wait 16 s");
    streaming().then(retry_after(503, 100), "refused: wait 100 s");
    streaming().then(retry_after(429, 0), "refused: wait 1 s");
    streaming().then(retry_after(422, 70), "refused: wait 70 s").then(DelayElapsed, "list, request page");
    paging().then(retry_after(429, 3600), "refused: wait 300 s").then(DelayElapsed, "list, request page");
    watching().then(retry_after(429, 90), "refused: wait 90 s").then(DelayElapsed, "watch from 10");
    let too_many = StreamEvent::Error { code: 429, reason: "", retry_after: Some(Duration::from_secs(80)) };
    watching().then(Input::Event(too_many), "refused: wait 80 s").then(DelayElapsed, "watch from 10");
}

#[test]
fn healthy_watch_is_relisted_after_six_hours_with_jitter() {
    const EARLIEST: u64 = 16_200;
    const LATEST: u64 = 27_000;
    // Triggered by a frame.
    watching().after(EARLIEST - 101).then(bookmark("11"), "read 100 s");
    watching().after(LATEST).then(bookmark("11"), "relist: list, request stream").contact(Some(0));
    // Triggered by the clock: the read timeout ends at the due time.
    let mut story = watching().after(EARLIEST);
    let due = loop {
        story.last = story.watch.next(bookmark("12"), story.now);
        match story.last.action {
            WatchAction::Read { timeout } if timeout < Duration::from_secs(100) => break timeout,
            _ => story.now += Duration::from_mins(1),
        }
    };
    story.now += due;
    // Streaming is attempted again, although the server rejected it before.
    let listed = story.then(Silent, "relist: list, request stream");
    listed
        .then(error_status(422), "refused: list, request page")
        .then(page("", "20"), "complete, watch from 20")
        .then(ResponseStarted, "read 100 s");
    // Triggered by the end of a watch.
    let story = watching().then(added("11"), "read 100 s").after(LATEST);
    story.then(Ended, "ended: list, request page");
    watching()
        .then(Unreachable, "unreachable: wait 1 s")
        .after(LATEST)
        .then(DelayElapsed, "relist: list, request stream");
    // With streaming lists.
    streaming()
        .then(end_of_list("10"), "complete, read 100 s")
        .after(LATEST)
        .then(added("11"), "relist: list, request stream")
        .then(ResponseStarted, "read 30 s");
}

#[test]
fn relists_and_watch_timeouts_are_spread_over_agents() {
    let due = |seed| {
        let mut watch = Watch::new(WatchTiming::default(), seed);
        let now = Instant::now();
        watch.start(now);
        watch.next(end_of_list("10"), now);
        let relist = watch.relist_at.unwrap() - now;
        watch.next(bookmark("11"), now);
        let WatchAction::Send(WatchRequest::Watch { timeout_seconds, .. }) = watch.next(Ended, now).action
        else {
            panic!()
        };
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
fn only_watch_frames_and_complete_lists_count_as_contact() {
    for input in [
        ResponseStarted,
        Ended,
        Silent,
        BrokenOff,
        Garbled,
        Unreachable,
        error_status(403),
        error(500, ""),
        error(410, ""),
    ] {
        watching().after(50).then_any(input).contact(Some(50));
    }
    watching()
        .after(50)
        .then(error(410, ""), "expired: list, request page")
        .then(ResponseStarted, "read 60 s")
        .then(page("t", "20"), "request page after t")
        .contact(Some(50));
    // A streaming list without its bookmark is incomplete.
    streaming()
        .then(end_of_list("10"), "complete, read 100 s")
        .then(error(410, ""), "expired: list, request stream")
        .after(20)
        .then(added("12"), "read 10 s")
        .contact(Some(20));
}

#[test]
fn state_and_restart_labels_are_distinct() {
    assert_eq!(streaming().watch.state(), State::Listing);
    assert_eq!(paging().watch.state(), State::Listing);
    assert_eq!(watching().watch.state(), State::Watching);
    assert_eq!(watching().then(Unreachable, "unreachable: wait 1 s").watch.state(), State::Waiting);
    let labels: std::collections::BTreeSet<_> =
        RestartReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(labels.len(), RestartReason::ALL.len());
}

#[test]
fn short_watches_with_progress_are_delayed_by_one_second() {
    // Each watch makes progress.
    let mut story = watching().then(bookmark("11"), "read 100 s").then(Ended, "ended: watch from 11");
    for version in ["12", "13", "14"] {
        let again = format!("watch from {version}");
        story = story
            .then(ResponseStarted, "read 100 s")
            .then(bookmark(version), "read 100 s")
            .then(Ended, "ended: wait 1 s")
            .then(DelayElapsed, &again);
    }
    // A longer watch resets the count.
    story
        .then(ResponseStarted, "read 100 s")
        .after(5)
        .then(bookmark("15"), "read 100 s")
        .then(Ended, "ended: watch from 15")
        .then(ResponseStarted, "read 100 s")
        .then(bookmark("16"), "read 100 s")
        .then(Ended, "ended: watch from 16");
}

#[test]
fn relists_back_off_when_watch_expires_after_first_event() {
    let mut story = watching()
        .then(bookmark("11"), "read 100 s")
        .then(error(410, "Expired"), "expired: list, request page");
    for seconds in [1, 2, 4] {
        story = story
            .then(ResponseStarted, "read 60 s")
            .then(page("", "10"), "complete, watch from 10")
            .then(ResponseStarted, "read 100 s")
            .then(bookmark("11"), "read 100 s")
            .then(error(410, "Expired"), &format!("expired: wait {seconds} s"))
            .then(DelayElapsed, "list, request page");
    }
}

#[test]
fn relist_replaces_watch_after_four_minutes_without_contact() {
    watching()
        .after(239)
        .then(BrokenOff, "broken_off: wait 1 s")
        .then(DelayElapsed, "list, request page")
        .then(Unreachable, "unreachable: wait 1 s")
        .then(DelayElapsed, "list, request page")
        .then(ResponseStarted, "read 60 s")
        .then(page("", "20"), "complete, watch from 20")
        .contact(Some(0));
}

#[test]
fn watch_expired_during_outage_is_relisted_at_once() {
    let mut story = watching();
    for seconds in [1, 2, 4] {
        story = story.then(Unreachable, &format!("unreachable: wait {seconds} s")).then_any(DelayElapsed);
    }
    story.then(error_status(410), "expired: list, request page");
}
