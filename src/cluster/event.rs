//! What a watch tells, and to whom: each thing once, in the order in which it happens.
//!
//! `watch` tells a [`Listener`] what it reads and what its machine says; that hands on what is news.

use std::time::{Duration, Instant};

use super::error::Error;
use super::events::{Change, Event};
use super::messages::Status;
use super::unreadable::{PodName, Unreadable};
use crate::domain::live::pod::PodView;
use crate::domain::live::watch::{Act, Listing, Restart, State, Step};

/// What a watch tells, in the order in which it happens.
#[derive(Debug)]
pub enum Heard {
    /// A list begins; what it does not bring until it is complete, is gone.
    Begin,
    /// A pod that exists, as it is now. One that cannot be read is in the list, where its name is known.
    Pod(Result<PodView, Unreadable>),
    /// A pod that there is no longer, as it was last.
    Gone(PodView),
    /// A pod that there is no longer, of which nothing else can be read.
    GoneByName(PodName),
    /// The list is complete.
    Complete,
    /// When the set was last known to be what the API server holds.
    Contact(Instant),
    /// An event came, of this type.
    Event(EventType),
    /// What was asked, or open, is not gone on with.
    Restart(Restart),
    /// Why, where something failed, and how long is waited before the next try.
    Failed {
        /// What failed.
        error: Error,
        /// The pause.
        again_in: Duration,
    },
    /// What it is about from now on.
    State(State),
    /// All that has come so far was told.
    Settled,
}

/// The types of events (Kubernetes documentation, "Kubernetes API Concepts"): the labels of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are Kubernetes' own words")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// What is left of an event when it was told.
pub(super) enum Noted {
    Pod(Change, String),
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Status),
}

/// How long a watch tells without a pause.
const LONGEST: Duration = Duration::from_secs(1);

/// The listener, and what it was told.
pub(super) struct Listener<F> {
    tell: F,
    contact: Option<Instant>,
    state: Option<State>,
    is_settled: bool,
    settled_at: Instant,
}

impl<F: FnMut(Heard)> Listener<F> {
    pub(super) fn new(tell: F, now: Instant) -> Self {
        Self { tell, contact: None, state: None, is_settled: true, settled_at: now }
    }

    pub(super) fn hear(&mut self, heard: Heard) {
        self.is_settled = false;
        (self.tell)(heard);
    }

    pub(super) fn hear_state(&mut self, state: State) {
        if self.state.replace(state) != Some(state) {
            self.hear(Heard::State(state));
        }
    }

    fn hear_contact(&mut self, contact: Option<Instant>) {
        if let Some(at) = contact.filter(|_| contact != self.contact) {
            self.contact = contact;
            self.hear(Heard::Contact(at));
        }
    }

    pub(super) fn hear_listing(&mut self, listing: Option<Listing>, contact: Option<Instant>) {
        match listing {
            Some(Listing::Begin) => self.hear(Heard::Begin),
            Some(Listing::Complete) => {
                self.hear(Heard::Complete);
                self.hear_contact(contact);
            }
            None => {}
        }
    }

    /// Where it goes on without a gap: what has come so far was told, if the last time that it had is long
    /// ago. Whoever waits for that would else wait as long as there is something to read.
    pub(super) fn breathe(&mut self, contact: Option<Instant>, now: Instant) {
        if now.saturating_duration_since(self.settled_at) >= LONGEST {
            self.settle(contact, now);
        }
    }

    /// All was told.
    pub(super) fn settle(&mut self, contact: Option<Instant>, now: Instant) {
        self.settled_at = now;
        self.hear_contact(contact);
        if !self.is_settled {
            (self.tell)(Heard::Settled);
        }
        self.is_settled = true;
    }

    pub(super) fn hear_event(&mut self, event: Event) -> Noted {
        self.hear(Heard::Event(EventType::of(&event)));
        match event {
            Event::Bookmark { resource_version, initial_events_end } => {
                Noted::Bookmark { resource_version, initial_events_end }
            }
            Event::Error(status) => Noted::Error(status),
            Event::Pod { change, pod, resource_version } => {
                match (change, pod) {
                    (Change::Deleted, Ok(pod)) => self.hear(Heard::Gone(pod)),
                    (Change::Deleted, Err(Unreadable { pod: Some(name), .. })) => {
                        self.hear(Heard::GoneByName(name));
                    }
                    (_, pod) => self.hear(Heard::Pod(pod)),
                }
                Noted::Pod(change, resource_version)
            }
        }
    }

    pub(super) fn hear_restart(&mut self, step: &Step, error: Option<Error>) {
        let Some(why) = step.restart else { return };
        self.hear(Heard::Restart(why));
        let again_in = match step.act {
            Act::Wait(pause) => pause,
            _ => Duration::ZERO,
        };
        match (why, error) {
            // That nothing came until it was time is no failure, nor is an end that is not waited after.
            (Restart::Relist, _) | (_, None) => {}
            (Restart::Ended, _) if again_in.is_zero() => {}
            (_, Some(error)) => self.hear(Heard::Failed { error, again_in }),
        }
    }
}

impl EventType {
    /// Its label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Bookmark => "bookmark",
            Self::Error => "error",
        }
    }

    fn of(event: &Event) -> Self {
        match event {
            Event::Pod { change: Change::Added, .. } => Self::Added,
            Event::Pod { change: Change::Modified, .. } => Self::Modified,
            Event::Pod { change: Change::Deleted, .. } => Self::Deleted,
            Event::Bookmark { .. } => Self::Bookmark,
            Event::Error(_) => Self::Error,
        }
    }
}
