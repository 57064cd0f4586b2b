//! Lists and watches the pods of a namespace, or of the whole cluster: the driver of `domain::watch`.
//!
//! `agent` passes a listener that keeps the live set: `agent::daemon` follows a watch, `agent::gather`
//! reads one list. `domain::watch` decides what to request, how long to wait and what a failure means;
//! the driver sends the requests, reads the answers and translates the results.

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout_at};

use super::connect::{Answer, Cluster, bytes};
use super::error::{Error, Request, Right};
use super::event::{Heard, Listener, Noted};
use super::events::{Change, EventReader, Garbled};
use super::list;
use super::messages::{ListMeta, Status};
use super::status::{ACCEPT, ACCEPT_EVENTS};
use crate::domain::live::watch::{self, Act, Input, Listing, Policy, State, Step, Streaming, Watch};
use crate::domain::model::NamespaceName;
use crate::domain::retry::{self, Retryable};

/// An answer that is being read.
enum Open {
    Nothing,
    Page(Request, Answer),
    Stream(Stream),
}

struct Stream {
    request: Request,
    answer: Answer,
    reader: EventReader,
}

/// What came of an act.
enum Outcome {
    Answered,
    Page(ListMeta),
    Event(Noted),
    Ended,
    Waited,
    Failed(Error),
}

/// One list, and the watch that follows it: the machine, its listener, and the answer that is open.
struct Driver<'a, F> {
    cluster: &'a Cluster,
    namespace: Option<&'a NamespaceName>,
    watch: Watch,
    step: Step,
    open: Open,
    listener: Listener<F>,
}

impl Cluster {
    /// Lists the pods of one namespace, or of all, once and in pages, and tells what it hears. Requires
    /// the right to list pods only.
    ///
    /// Only the restarts that need no pause are made here, as after an expired continue token. Everything
    /// else is left to the caller, who owns the deadline.
    ///
    /// # Errors
    ///
    /// [`Error`] as soon as a request would have to be retried after a pause. The pods that were told
    /// until then are no complete list.
    pub async fn list_pods(
        &self,
        namespace: Option<&NamespaceName>,
        tell: impl FnMut(Heard),
    ) -> Result<(), Error> {
        let policy =
            Policy { streaming: Streaming::Never, page_silence: self.patience().frame, ..Policy::default() };
        // The seed has no effect: nothing here backs off or watches.
        let mut driver = Driver::new(self, namespace, Watch::new(policy, 0), tell);
        loop {
            let error = driver.advance().await;
            match (&driver.step.act, error) {
                (Act::Wait(_), Some(error)) => return Err(error),
                (_, error) => driver.tell_step(error),
            }
            if driver.step.listing == Some(Listing::Complete) {
                return Ok(());
            }
        }
    }

    /// Lists the pods of one namespace, or of all, follows them by a watch, and tells what it hears.
    /// It never ends by itself; it may be dropped at any time, which closes its connection.
    ///
    /// `seed` is for all that is random: another one for each watch.
    pub async fn watch_pods(
        &self,
        namespace: Option<&NamespaceName>,
        policy: Policy,
        seed: u64,
        tell: impl FnMut(Heard),
    ) -> Infallible {
        let mut driver = Driver::new(self, namespace, Watch::new(policy, seed), tell);
        loop {
            let error = driver.advance().await;
            driver.tell_step(error);
        }
    }

    async fn open(&self, namespace: Option<&NamespaceName>, ask: &watch::Request) -> Result<Open, Error> {
        let path = list::path(namespace);
        let namespace = namespace.cloned();
        let events = |query: String| (Right::WatchPods(namespace.clone()), query, ACCEPT_EVENTS);
        let page = |query: String| (Right::ListPods(namespace.clone()), query, ACCEPT);
        let (right, query, accept) = match ask {
            watch::Request::StreamingList { timeout_seconds } => events(format!(
                "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}"
            )),
            watch::Request::Watch { from, timeout_seconds } => {
                let from: String = url::form_urlencoded::byte_serialize(from.as_bytes()).collect();
                events(format!(
                    "?watch=1&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}&resourceVersion={from}"
                ))
            }
            // Without a resourceVersion a list is consistent (Kubernetes documentation, "Kubernetes API
            // Concepts", Resource versions).
            watch::Request::Page { token } => page(list::page_query(token.as_deref())),
            watch::Request::Whole => page(String::new()),
        };
        let request = self.request(&path, right);
        let mut answer = self.get(request.clone(), &format!("{path}{query}"), accept).await?;
        match (ask, EventReader::of(answer.encoding)) {
            (watch::Request::Page { .. } | watch::Request::Whole, _) => Ok(Open::Page(request, answer)),
            (_, Some(reader)) => Ok(Open::Stream(Stream { request, answer, reader })),
            (_, None) => Err(list::foreign(self, &request, &mut answer.body, self.patience().frame).await),
        }
    }
}

impl<'a, F: FnMut(Heard)> Driver<'a, F> {
    fn new(cluster: &'a Cluster, namespace: Option<&'a NamespaceName>, mut watch: Watch, tell: F) -> Self {
        let step = watch.start(Instant::now());
        let listener = Listener::new(tell, Instant::now());
        let mut driver = Self { cluster, namespace, watch, step, open: Open::Nothing, listener };
        driver.tell_step(None);
        driver
    }

    /// Carries out the act of the current step, and takes the next step: the error, if there was one.
    async fn advance(&mut self) -> Option<Error> {
        let Self { cluster, watch, listener, open, .. } = self;
        // Reads of a list are not paused.
        let _suspension = (watch.state() == State::Listing).then(|| cluster.read_pause().suspend());
        let read = match &self.step.act {
            Act::Ask(request) => {
                listener.settle(watch.contact(), Instant::now());
                // Close the old answer before the next request.
                drop(std::mem::replace(open, Open::Nothing));
                cluster.open(self.namespace, request).await.map(|answer| {
                    *open = answer;
                    Outcome::Answered
                })
            }
            Act::Read { within } => match open {
                Open::Nothing => Ok(Outcome::Ended),
                Open::Page(request, answer) => {
                    let each = |pod| listener.hear(Heard::Pod(pod));
                    list::read(cluster, request, answer, *within, each).await.map(Outcome::Page)
                }
                Open::Stream(stream) => stream.read(*within, watch.contact(), listener).await,
            },
            Act::Wait(pause) => {
                listener.settle(watch.contact(), Instant::now());
                drop(std::mem::replace(open, Open::Nothing));
                sleep(*pause).await;
                Ok(Outcome::Waited)
            }
        };
        let outcome = read.unwrap_or_else(|error| Outcome::Failed(cluster.cleaned(error)));
        self.step = watch.next(outcome.input(), Instant::now());
        outcome.into_error(open, |text| cluster.without_secrets(text))
    }

    /// Tells the listener about the current step, and the error that led to it.
    fn tell_step(&mut self, error: Option<Error>) {
        let Self { watch, step, listener, .. } = self;
        listener.hear_restart(step, error);
        listener.hear_state(watch.state());
        listener.hear_listing(step.listing, watch.contact());
        listener.breathe(watch.contact(), Instant::now());
    }
}

impl Stream {
    /// The next event. Where none is there yet, the listener hears that all was told.
    async fn read(
        &mut self,
        within: Duration,
        contact: Option<Instant>,
        listener: &mut Listener<impl FnMut(Heard)>,
    ) -> Result<Outcome, Error> {
        let deadline = tokio::time::Instant::now() + within;
        let request = &self.request;
        let body = &mut self.answer.body;
        loop {
            match self.reader.next() {
                Ok(Some(event)) => return Ok(Outcome::Event(listener.hear_event(event))),
                Ok(None) => {}
                Err(garbled) => {
                    return Err(Error::Garbled { request: request.clone(), problem: garbled.to_string() });
                }
            }
            // The connection hands on one chunk at a time, which is one event, and another only when its
            // task has had its turn: so one look at an empty hand does not say that nothing has come.
            let there = tokio::select! {
                biased;
                frame = bytes(request, body) => Some(frame?),
                () = yield_now() => None,
            };
            let frame = if let Some(frame) = there {
                frame
            } else {
                listener.settle(contact, Instant::now());
                let silent = |_| Error::Silent { request: request.clone(), after: within };
                timeout_at(deadline, bytes(request, body)).await.map_err(silent)??
            };
            let Some(frame) = frame else {
                let broken_off = |e: Garbled| Error::BrokenOff { request: request.clone(), source: e.into() };
                return self.reader.finish().map(|()| Outcome::Ended).map_err(broken_off);
            };
            self.reader.feed(&frame);
        }
    }
}

impl Outcome {
    /// The same in the machine's words.
    fn input(&self) -> Input<'_> {
        match self {
            Self::Answered => Input::Answered,
            Self::Page(metadata) => {
                Input::Page { token: &metadata.continue_token, resource_version: &metadata.resource_version }
            }
            Self::Event(Noted::Pod(change, resource_version)) => Input::Event(match change {
                Change::Added => watch::Event::Added { resource_version },
                Change::Modified => watch::Event::Modified { resource_version },
                Change::Deleted => watch::Event::Deleted { resource_version },
            }),
            Self::Event(Noted::Bookmark { resource_version, initial_events_end }) => {
                let initial_events_end = *initial_events_end;
                Input::Event(watch::Event::Bookmark { resource_version, initial_events_end })
            }
            Self::Event(Noted::Error(status)) => Input::Event(watch::Event::Error {
                code: u16::try_from(status.code).unwrap_or_default(),
                reason: &status.reason,
                retry_after: retry_after_of(status),
            }),
            Self::Ended => Input::Ended,
            Self::Waited => Input::Waited,
            Self::Failed(error) => match error {
                Error::Unreachable { .. } | Error::Credentials { .. } => Input::Unreachable,
                Error::Silent { .. } => Input::Silent,
                Error::BrokenOff { .. } => Input::BrokenOff,
                Error::Ended { .. } => Input::Ended,
                Error::Garbled { .. } => Input::Garbled,
                Error::Answered { status, .. } => {
                    let asked = error.retry_after();
                    let retry_after = asked.and_then(|v| retry::retry_after(v, SystemTime::now()));
                    Input::Refused { status: status.as_u16(), retry_after }
                }
            },
        }
    }

    /// The same in words for a person, where it is what something failed by.
    fn into_error(self, open: &Open, clean: impl Fn(&str) -> String) -> Option<Error> {
        match (self, open) {
            (Self::Failed(error), _) => Some(error),
            // A list that leads nowhere: its watch could not begin, or its next page is the one before.
            (Self::Page(metadata), Open::Page(request, _)) => Some(Error::Garbled {
                request: request.clone(),
                problem: match metadata.resource_version.as_str() {
                    "" => "the list has no resourceVersion".to_owned(),
                    _ => "its continue token leads to itself".to_owned(),
                },
            }),
            (Self::Event(Noted::Bookmark { .. }), Open::Stream(stream)) => Some(Error::Garbled {
                request: stream.request.clone(),
                problem: "the list has no resourceVersion".to_owned(),
            }),
            (Self::Ended, Open::Stream(stream)) => Some(Error::Ended { request: stream.request.clone() }),
            (Self::Event(Noted::Error(status)), Open::Stream(stream)) => Some(Error::Answered {
                request: stream.request.clone(),
                status: u16::try_from(status.code)
                    .ok()
                    .and_then(|code| StatusCode::from_u16(code).ok())
                    .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                retry_after: retry_after_of(&status).map(|asked| asked.as_secs().to_string()),
                message: clean(&status.message),
            }),
            _ => None,
        }
    }
}

fn retry_after_of(status: &Status) -> Option<Duration> {
    let seconds = u64::try_from(status.details?.retry_after_seconds).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
