//! Table tests of the watch state machine: each line is an input and the expected step in short form.
//!
//! The tests use the public interface only.

use super::Input::{BrokenOff, DelayElapsed, Ended, Garbled, ResponseStarted, Silent, Unreachable};
use super::*;

mod lists;
mod watches;

/// A watch, its clock and its last step.
struct Story {
    watch: Watch,
    now: Instant,
    last: Step,
}

/// The short form of a step. A delay is shown without jitter; `list` means that a list starts.
fn describe(step: &Step) -> String {
    let restart = step.restart.map_or_else(String::new, |reason| format!("{}: ", reason.as_str()));
    let listing = match step.listing {
        Some(Listing::Started) => "list, ",
        Some(Listing::Completed) => "complete, ",
        None => "",
    };
    let action = match &step.action {
        WatchAction::Send(WatchRequest::StreamingList { .. }) => "request stream".to_owned(),
        WatchAction::Send(WatchRequest::Page { token: None }) => "request page".to_owned(),
        WatchAction::Send(WatchRequest::Page { token: Some(token) }) => format!("request page after {token}"),
        WatchAction::Send(WatchRequest::Unpaged) => "request all".to_owned(),
        WatchAction::Send(WatchRequest::Watch { from, .. }) => format!("watch from {from}"),
        WatchAction::Read { timeout } => format!("read {} s", timeout.as_secs()),
        WatchAction::Wait(delay) => format!(
            "wait {} s",
            match delay.as_secs() {
                seconds @ 0..60 => 1 << seconds.max(1).ilog2(),
                seconds => seconds,
            }
        ),
    };
    format!("{restart}{listing}{action}")
}

impl Story {
    fn new(timing: WatchTiming) -> Self {
        let mut watch = Watch::new(timing, 7);
        let now = Instant::now();
        let last = watch.start(now);
        Self { watch, now, last }
    }

    /// Applies an input and expects this step. `DelayElapsed` advances the clock by the delay.
    #[track_caller]
    fn then(mut self, input: Input<'_>, expected: &str) -> Self {
        if let (Input::DelayElapsed, WatchAction::Wait(delay)) = (input, &self.last.action) {
            self.now += *delay;
        }
        self.last = self.watch.next(input, self.now);
        assert_eq!(describe(&self.last), expected, "after {input:?}");
        self
    }

    fn after(mut self, seconds: u64) -> Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn then_any(mut self, input: Input<'_>) -> Self {
        self.last = self.watch.next(input, self.now);
        self
    }

    /// Expects this number of seconds since the last contact.
    #[track_caller]
    fn contact(self, ago: Option<u64>) -> Self {
        assert_eq!(self.watch.contact().map(|at| (self.now - at).as_secs()), ago);
        self
    }
}

/// A watch that requested a streaming list.
fn streaming() -> Story {
    let story = Story::new(WatchTiming::default());
    assert_eq!(describe(&story.last), "list, request stream");
    story
}

/// A watch whose server does not support streaming lists.
fn paging() -> Story {
    streaming().then(error_status(422), "refused: list, request page")
}

/// A watch from 10 that is open after a complete paged list.
fn watching() -> Story {
    paging()
        .then(ResponseStarted, "read 60 s")
        .then(page("", "10"), "complete, watch from 10")
        .then(ResponseStarted, "read 100 s")
}

fn error_status(status: u16) -> Input<'static> {
    Input::ErrorStatus { status, retry_after: None }
}

fn retry_after(status: u16, seconds: u64) -> Input<'static> {
    Input::ErrorStatus { status, retry_after: Some(Duration::from_secs(seconds)) }
}

fn page<'a>(token: &'a str, resource_version: &'a str) -> Input<'a> {
    Input::Page { token, resource_version }
}

fn added(resource_version: &str) -> Input<'_> {
    Input::Event(StreamEvent::Added { resource_version })
}

fn modified(resource_version: &str) -> Input<'_> {
    Input::Event(StreamEvent::Modified { resource_version })
}

fn deleted(resource_version: &str) -> Input<'_> {
    Input::Event(StreamEvent::Deleted { resource_version })
}

fn bookmark(resource_version: &str) -> Input<'_> {
    Input::Event(StreamEvent::Bookmark { resource_version, initial_events_end: false })
}

fn end_of_list(resource_version: &str) -> Input<'_> {
    Input::Event(StreamEvent::Bookmark { resource_version, initial_events_end: true })
}

fn error(code: u16, reason: &str) -> Input<'_> {
    Input::Event(StreamEvent::Error { code, reason, retry_after: None })
}
