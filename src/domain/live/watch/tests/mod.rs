//! What a watch does after what happened, a story a test: each line is an input and the step that it
//! leads to, in few words. The stories of lists and of watches are in files of their own; nothing here
//! looks at how the machine keeps what it knows.

use super::Input::{Answered, BrokenOff, Ended, Garbled, Silent, Unreachable, Waited};
use super::*;

mod lists;
mod watches;

/// A watch, the clock, and what it said last.
struct Story {
    watch: Watch,
    now: Instant,
    last: Step,
}

/// A step in few words. A pause is said by its length without jitter.
fn said(step: &Step) -> String {
    let restart = step.restart.map_or_else(String::new, |why| format!("{}: ", why.as_str()));
    let listing = match step.listing {
        Some(Listing::Begin) => "begin, ",
        Some(Listing::Complete) => "complete, ",
        None => "",
    };
    let act = match &step.act {
        Act::Ask(Request::StreamingList { .. }) => "ask for a stream".to_owned(),
        Act::Ask(Request::Page { token: None }) => "ask for a page".to_owned(),
        Act::Ask(Request::Page { token: Some(token) }) => format!("ask for the page behind {token}"),
        Act::Ask(Request::Whole) => "ask for all".to_owned(),
        Act::Ask(Request::Watch { from, .. }) => format!("watch from {from}"),
        Act::Read { within } => format!("read {} s", within.as_secs()),
        Act::Wait(pause) => format!(
            "wait {} s",
            match pause.as_secs() {
                seconds @ 0..60 => 1 << seconds.max(1).ilog2(),
                seconds => seconds,
            }
        ),
    };
    format!("{restart}{listing}{act}")
}

impl Story {
    fn of(policy: Policy) -> Self {
        let mut watch = Watch::new(policy, 7);
        let now = Instant::now();
        let last = watch.start(now);
        Self { watch, now, last }
    }

    /// What happens next, and what the watch says to it. A pause takes its time.
    #[track_caller]
    fn then(mut self, input: Input<'_>, says: &str) -> Self {
        if let (Input::Waited, Act::Wait(pause)) = (input, &self.last.act) {
            self.now += *pause;
        }
        self.last = self.watch.next(input, self.now);
        assert_eq!(said(&self.last), says, "after {input:?}");
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

    /// How many seconds ago the last contact was.
    #[track_caller]
    fn contact(self, ago: Option<u64>) -> Self {
        assert_eq!(self.watch.contact().map(|at| (self.now - at).as_secs()), ago);
        self
    }
}

/// One that asks for a streaming list.
fn streaming() -> Story {
    let story = Story::of(Policy::default());
    assert_eq!(said(&story.last), "begin, ask for a stream");
    story
}

/// One whose server takes no streaming lists.
fn paging() -> Story {
    streaming().then(refused(422), "refused: begin, ask for a page")
}

/// One whose paged list is complete, and whose watch from 10 was answered.
fn watching() -> Story {
    paging()
        .then(Answered, "read 60 s")
        .then(page("", "10"), "complete, watch from 10")
        .then(Answered, "read 100 s")
}

fn refused(status: u16) -> Input<'static> {
    Input::Refused { status, retry_after: None }
}

fn refused_for(status: u16, seconds: u64) -> Input<'static> {
    Input::Refused { status, retry_after: Some(Duration::from_secs(seconds)) }
}

fn page<'a>(token: &'a str, resource_version: &'a str) -> Input<'a> {
    Input::Page { token, resource_version }
}

fn added(resource_version: &str) -> Input<'_> {
    Input::Event(Event::Added { resource_version })
}

fn bookmark(resource_version: &str) -> Input<'_> {
    Input::Event(Event::Bookmark { resource_version, initial_events_end: false })
}

fn end_of_list(resource_version: &str) -> Input<'_> {
    Input::Event(Event::Bookmark { resource_version, initial_events_end: true })
}

fn error(code: u16, reason: &str) -> Input<'_> {
    Input::Event(Event::Error { code, reason, retry_after: None })
}
