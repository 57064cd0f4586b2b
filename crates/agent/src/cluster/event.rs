//! Events of lists and watches, and the [`Listener`] that passes them to the caller in order.
//!
//! `watch` feeds the listener; it drops repeated states and contacts.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::error::Error;
use super::events::{DecodedEvent, ObjectChange};
use super::messages::Status;
use super::unreadable::{PodName, Unreadable};
use crate::live::pod::PodView;
use crate::live::watch::{Listing, RestartReason, State, Step, WatchAction};
use model::words;

/// An event of a list or watch of pods, or of namespaces.
#[derive(Debug)]
pub enum WatchEvent<V = PodView> {
    /// A list starts or restarts. Objects that it does not contain when it is complete do not exist any more.
    ListStarted,
    /// The current state of an object from a list or watch.
    Applied(Result<V, Unreadable>),
    /// The last state of a deleted object.
    Deleted(V),
    /// The name of a deleted object whose last state is unreadable; without the name of a pod if it is a namespace.
    DeletedByName(PodName),
    Complete,
    /// Time at which the received state last matched the API server.
    Contact(Instant),
    /// An event of this type was received.
    Event(EventType),
    Restart(RestartReason),
    Failed {
        error: Error,
        retry_in: Duration,
    },
    State(State),
    /// All data received so far was passed on.
    CaughtUp,
}

words! {
    /// Event types (Kubernetes documentation, "Kubernetes API Concepts"), used as labels of a metric.
    EventType {
        Added "added",
        Modified "modified",
        Deleted "deleted",
        Bookmark "bookmark",
        Error "error",
    }
}

/// The part of an event that the state machine needs.
pub(super) enum EventMeta {
    Object(ObjectChange, String),
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Status),
}

/// Maximum time between two [`WatchEvent::CaughtUp`] under continuous load.
const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Listener<F, V> {
    callback: F,
    view: PhantomData<fn(V)>,
    contact: Option<Instant>,
    state: Option<State>,
    is_flushed: bool,
    flushed_at: Instant,
}

impl<V, F: FnMut(WatchEvent<V>)> Listener<F, V> {
    pub(super) fn new(callback: F, now: Instant) -> Self {
        Self { callback, view: PhantomData, contact: None, state: None, is_flushed: true, flushed_at: now }
    }

    pub(super) fn send(&mut self, event: WatchEvent<V>) {
        self.is_flushed = false;
        (self.callback)(event);
    }

    pub(super) fn send_state(&mut self, state: State) {
        if self.state.replace(state) != Some(state) {
            self.send(WatchEvent::State(state));
        }
    }

    fn send_contact(&mut self, contact: Option<Instant>) {
        if let Some(at) = contact.filter(|_| contact != self.contact) {
            self.contact = contact;
            self.send(WatchEvent::Contact(at));
        }
    }

    pub(super) fn send_listing(&mut self, listing: Option<Listing>, contact: Option<Instant>) {
        match listing {
            Some(Listing::Started) => self.send(WatchEvent::ListStarted),
            Some(Listing::Completed) => {
                self.send(WatchEvent::Complete);
                self.send_contact(contact);
            }
            None => {}
        }
    }

    /// Flushes periodically under continuous load, in which there is no pause to flush.
    pub(super) fn flush_if_due(&mut self, contact: Option<Instant>, now: Instant) {
        if now.saturating_duration_since(self.flushed_at) >= MAX_FLUSH_INTERVAL {
            self.flush(contact, now);
        }
    }

    /// Sends the contact and [`WatchEvent::CaughtUp`] after new events.
    pub(super) fn flush(&mut self, contact: Option<Instant>, now: Instant) {
        self.flushed_at = now;
        self.send_contact(contact);
        if !self.is_flushed {
            (self.callback)(WatchEvent::CaughtUp);
        }
        self.is_flushed = true;
    }

    pub(super) fn send_event(&mut self, event: DecodedEvent<V>) -> EventMeta {
        self.send(WatchEvent::Event(EventType::from_event(&event)));
        match event {
            DecodedEvent::Bookmark { resource_version, initial_events_end } => {
                EventMeta::Bookmark { resource_version, initial_events_end }
            }
            DecodedEvent::Error(status) => EventMeta::Error(status),
            DecodedEvent::Object { change, object, resource_version } => {
                match (change, object) {
                    (ObjectChange::Deleted, Ok(object)) => self.send(WatchEvent::Deleted(object)),
                    (ObjectChange::Deleted, Err(Unreadable { pod: Some(name), .. })) => {
                        self.send(WatchEvent::DeletedByName(name));
                    }
                    (ObjectChange::Deleted, Err(Unreadable { namespace: Some(namespace), .. })) => {
                        self.send(WatchEvent::DeletedByName(PodName { namespace, name: String::new() }));
                    }
                    (_, object) => self.send(WatchEvent::Applied(object)),
                }
                EventMeta::Object(change, resource_version)
            }
        }
    }

    pub(super) fn send_restart(&mut self, step: &Step, error: Option<Error>) {
        let Some(reason) = step.restart else { return };
        self.send(WatchEvent::Restart(reason));
        let retry_in = match step.action {
            WatchAction::Wait(pause) => pause,
            _ => Duration::ZERO,
        };
        match (reason, error) {
            // A relist that is due is not a failure, nor is a watch that ends and restarts without a delay.
            (RestartReason::Relist, _) | (_, None) => {}
            (RestartReason::Ended, _) if retry_in.is_zero() => {}
            (_, Some(error)) => self.send(WatchEvent::Failed { error, retry_in }),
        }
    }
}

impl EventType {
    fn from_event<V>(event: &DecodedEvent<V>) -> Self {
        match event {
            DecodedEvent::Object { change: ObjectChange::Added, .. } => Self::Added,
            DecodedEvent::Object { change: ObjectChange::Modified, .. } => Self::Modified,
            DecodedEvent::Object { change: ObjectChange::Deleted, .. } => Self::Deleted,
            DecodedEvent::Bookmark { .. } => Self::Bookmark,
            DecodedEvent::Error(_) => Self::Error,
        }
    }
}
