//! Lists and watches pods, or the metadata of namespaces: the driver of `live::watch`.
//!
//! The caller passes a callback that updates the live set: `daemon` follows a watch, `gather`
//! reads one list. `live::watch` decides what to request, how long to wait and what a failure
//! means; the driver sends the requests, reads the responses and translates the results.

use std::convert::Infallible;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout_at};

use super::connect::{Cluster, Response, bytes};
use super::error::{ClusterRequest, Error, Permission};
use super::event::{EventMeta, Listener, WatchEvent};
use super::events::{DecodeError, EventReader, ObjectChange};
use super::list;
use super::messages::{ListMeta, Namespace, Pod, Status};
use super::object::Object;
use crate::live::labels::NamespaceView;
use crate::live::watch::{
    self, AfterList, Input, Listing, State, Step, Streaming, Watch, WatchAction, WatchTiming,
};
use model::NamespaceName;
use model::retry::{self, Retryable};

const NOTHING_TO_WATCH_FROM: &str =
    "the list has no resourceVersion to watch from; only --once accepts such a list";

enum Open {
    Nothing,
    Page(ClusterRequest, Response),
    Stream(Stream),
}

struct Stream {
    request: ClusterRequest,
    response: Response,
    reader: EventReader,
}

enum Outcome {
    ResponseStarted,
    Page(ListMeta),
    Event(EventMeta),
    Ended,
    Waited,
    Failed(Error),
}

/// Path of the listed and watched objects, and the permissions to list and to watch them.
struct WatchedPath {
    path: String,
    list: Permission,
    watch: Permission,
}

/// Drives one state machine: a list and the watch that follows it.
struct Driver<'a, F, T: Object> {
    cluster: &'a Cluster,
    target: WatchedPath,
    watch: Watch,
    step: Step,
    open: Open,
    listener: Listener<F, T::View>,
}

impl WatchedPath {
    /// The pods of a namespace, or of the cluster.
    fn pods(namespace: Option<&NamespaceName>) -> Self {
        let path = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
        Self {
            path: format!("/api/v1{path}/pods"),
            list: Permission::Pods("list", namespace.cloned()),
            watch: Permission::Pods("watch", namespace.cloned()),
        }
    }

    fn namespaces() -> Self {
        Self {
            path: "/api/v1/namespaces".to_owned(),
            list: Permission::Namespaces("list"),
            watch: Permission::Namespaces("watch"),
        }
    }
}

impl Cluster {
    /// Lists the pods of a namespace, or of the cluster, once and in pages. Requires only permission to list
    /// pods.
    ///
    /// Restarts without a delay, such as after an expired continue token, happen here. The caller owns the
    /// deadline and retries after a delay.
    ///
    /// # Errors
    ///
    /// [`Error`] if a request has to be retried after a delay. The list is incomplete then.
    pub async fn list_pods(
        &self,
        namespace: Option<&NamespaceName>,
        callback: impl FnMut(WatchEvent),
    ) -> Result<(), Error> {
        self.list::<Pod>(WatchedPath::pods(namespace), callback).await
    }

    /// Lists the labels of all namespaces, once and in pages.
    ///
    /// # Errors
    ///
    /// Those of [`list_pods`](Self::list_pods).
    pub async fn list_namespaces(
        &self,
        callback: impl FnMut(WatchEvent<NamespaceView>),
    ) -> Result<(), Error> {
        self.list::<Namespace>(WatchedPath::namespaces(), callback).await
    }

    async fn list<T: Object>(
        &self,
        target: WatchedPath,
        callback: impl FnMut(WatchEvent<T::View>),
    ) -> Result<(), Error> {
        let timing = WatchTiming {
            streaming: Streaming::Never,
            after_list: AfterList::End,
            page_timeout: self.timeouts().frame,
            ..WatchTiming::default()
        };
        // The seed has no effect: nothing here backs off or watches.
        let mut driver = Driver::<_, T>::new(self, target, Watch::new(timing, 0), callback);
        loop {
            let error = driver.advance(AfterList::End).await;
            match (&driver.step.action, error) {
                (WatchAction::Wait(_), Some(error)) => return Err(error),
                (_, error) => driver.send_step(error),
            }
            if driver.step.listing == Some(Listing::Completed) {
                return Ok(());
            }
        }
    }

    /// Lists and watches the pods of a namespace, or of the cluster, forever. Dropping the future closes its
    /// connection.
    ///
    /// `seed` of the jitter must differ between watches.
    pub async fn watch_pods(
        &self,
        namespace: Option<&NamespaceName>,
        timing: WatchTiming,
        seed: u64,
        callback: impl FnMut(WatchEvent),
    ) -> Infallible {
        self.watch::<Pod>(WatchedPath::pods(namespace), timing, seed, callback).await
    }

    /// Lists and watches the labels of all namespaces, forever.
    pub async fn watch_namespaces(
        &self,
        timing: WatchTiming,
        seed: u64,
        callback: impl FnMut(WatchEvent<NamespaceView>),
    ) -> Infallible {
        self.watch::<Namespace>(WatchedPath::namespaces(), timing, seed, callback).await
    }

    async fn watch<T: Object>(
        &self,
        target: WatchedPath,
        timing: WatchTiming,
        seed: u64,
        callback: impl FnMut(WatchEvent<T::View>),
    ) -> Infallible {
        let mut driver = Driver::<_, T>::new(self, target, Watch::new(timing, seed), callback);
        loop {
            let error = driver.advance(AfterList::Watch).await;
            driver.send_step(error);
        }
    }

    async fn open<T: Object>(&self, target: &WatchedPath, ask: &watch::WatchRequest) -> Result<Open, Error> {
        let WatchedPath { path, list, watch } = target;
        let events = |query: String| (watch.clone(), query, T::ACCEPT_EVENTS);
        let page = |query: String| (list.clone(), query, T::ACCEPT);
        let (permission, query, accept) = match ask {
            watch::WatchRequest::StreamingList { timeout_seconds } => events(format!(
                "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}"
            )),
            watch::WatchRequest::Watch { from, timeout_seconds } => {
                let from: String = url::form_urlencoded::byte_serialize(from.as_bytes()).collect();
                events(format!(
                    "?watch=1&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}&resourceVersion={from}"
                ))
            }
            // Without a resourceVersion a list is consistent (Kubernetes documentation, "Kubernetes API
            // Concepts", Resource versions).
            watch::WatchRequest::Page { token } => page(list::page_query(token.as_deref())),
            watch::WatchRequest::Unpaged => page(String::new()),
        };
        let request = self.request(path, permission);
        let mut response = self.get(request.clone(), &format!("{path}{query}"), accept).await?;
        match (ask, EventReader::from_encoding(response.encoding)) {
            (watch::WatchRequest::Page { .. } | watch::WatchRequest::Unpaged, _) => {
                Ok(Open::Page(request, response))
            }
            (_, Some(reader)) => Ok(Open::Stream(Stream { request, response, reader })),
            (_, None) => {
                Err(list::unknown_encoding(self, &request, &mut response.body, self.timeouts().frame).await)
            }
        }
    }
}

impl<'a, T: Object, F: FnMut(WatchEvent<T::View>)> Driver<'a, F, T> {
    fn new(cluster: &'a Cluster, target: WatchedPath, mut watch: Watch, callback: F) -> Self {
        let step = watch.start(Instant::now());
        let listener = Listener::new(callback, Instant::now());
        let mut driver = Self { cluster, target, watch, step, open: Open::Nothing, listener };
        driver.send_step(None);
        driver
    }

    /// Carries out the action of the current step and sets the next step. Returns the error, if any.
    async fn advance(&mut self, after_list: AfterList) -> Option<Error> {
        let Self { cluster, target, watch, listener, open, .. } = self;
        // Reads of a list are not paused.
        let _suspension = (watch.state() == State::Listing).then(|| cluster.read_pause().suspend());
        let read = match &self.step.action {
            WatchAction::Send(request) => {
                listener.flush(watch.contact(), Instant::now());
                // Closes the previous response before the next request.
                drop(std::mem::replace(open, Open::Nothing));
                cluster.open::<T>(target, request).await.map(|response| {
                    *open = response;
                    Outcome::ResponseStarted
                })
            }
            WatchAction::Read { timeout } => match open {
                Open::Nothing => Ok(Outcome::Ended),
                Open::Page(request, response) => {
                    let each = |object| listener.send(WatchEvent::Applied(object));
                    list::read::<T>(cluster, request, response, *timeout, each).await.map(Outcome::Page)
                }
                Open::Stream(stream) => stream.read::<T>(*timeout, watch.contact(), listener).await,
            },
            WatchAction::Wait(pause) => {
                listener.flush(watch.contact(), Instant::now());
                drop(std::mem::replace(open, Open::Nothing));
                sleep(*pause).await;
                Ok(Outcome::Waited)
            }
        };
        let outcome = read.unwrap_or_else(|error| Outcome::Failed(cluster.redacted(error)));
        self.step = watch.next(outcome.input(), Instant::now());
        outcome.into_error(open, after_list, |text| cluster.without_secrets(text))
    }

    /// Sends the current step, and the error that led to it, to the listener.
    fn send_step(&mut self, error: Option<Error>) {
        let Self { watch, step, listener, .. } = self;
        listener.send_restart(step, error);
        listener.send_state(watch.state());
        listener.send_listing(step.listing, watch.contact());
        listener.flush_if_due(watch.contact(), Instant::now());
    }
}

impl Stream {
    /// Reads the next event, and flushes the listener before waiting for data.
    async fn read<T: Object>(
        &mut self,
        within: Duration,
        contact: Option<Instant>,
        listener: &mut Listener<impl FnMut(WatchEvent<T::View>), T::View>,
    ) -> Result<Outcome, Error> {
        let deadline = tokio::time::Instant::now() + within;
        let request = &self.request;
        let body = &mut self.response.body;
        loop {
            match self.reader.next::<T>() {
                Ok(Some(event)) => return Ok(Outcome::Event(listener.send_event(event))),
                Ok(None) => {}
                Err(error) => {
                    let (request, problem) = (request.clone(), error.to_string());
                    return Err(Error::UnexpectedResponse { request, problem });
                }
            }
            // hyper passes on one chunk at a time, and the next one after its task has run. A body that is
            // pending once may therefore have more data.
            let available = tokio::select! {
                biased;
                frame = bytes(request, body) => Some(frame?),
                () = yield_now() => None,
            };
            let frame = if let Some(frame) = available {
                frame
            } else {
                listener.flush(contact, Instant::now());
                let timed_out = |_| Error::TimedOut { request: request.clone(), after: within };
                timeout_at(deadline, bytes(request, body)).await.map_err(timed_out)??
            };
            let Some(frame) = frame else {
                let incomplete =
                    |e: DecodeError| Error::BrokenOff { request: request.clone(), source: e.into() };
                return self.reader.finish().map(|()| Outcome::Ended).map_err(incomplete);
            };
            self.reader.feed(&frame);
        }
    }
}

impl Outcome {
    fn input(&self) -> Input<'_> {
        match self {
            Self::ResponseStarted => Input::ResponseStarted,
            Self::Page(metadata) => {
                Input::Page { token: &metadata.continue_token, resource_version: &metadata.resource_version }
            }
            Self::Event(EventMeta::Object(change, resource_version)) => Input::Event(match change {
                ObjectChange::Added => watch::StreamEvent::Added { resource_version },
                ObjectChange::Modified => watch::StreamEvent::Modified { resource_version },
                ObjectChange::Deleted => watch::StreamEvent::Deleted { resource_version },
            }),
            Self::Event(EventMeta::Bookmark { resource_version, initial_events_end }) => {
                let initial_events_end = *initial_events_end;
                Input::Event(watch::StreamEvent::Bookmark { resource_version, initial_events_end })
            }
            Self::Event(EventMeta::Error(status)) => Input::Event(watch::StreamEvent::Error {
                code: u16::try_from(status.code).unwrap_or_default(),
                reason: &status.reason,
                retry_after: retry_after(status),
            }),
            Self::Ended => Input::Ended,
            Self::Waited => Input::DelayElapsed,
            Self::Failed(error) => match error {
                Error::Unreachable { .. } | Error::Credentials { .. } => Input::Unreachable,
                Error::TimedOut { .. } => Input::Silent,
                Error::BrokenOff { .. } => Input::BrokenOff,
                Error::EmptyWatch { .. } => Input::Ended,
                Error::UnexpectedResponse { .. } => Input::Garbled,
                Error::Answered { status, .. } => {
                    let retry_after = error.retry_after();
                    let retry_after = retry_after.and_then(|v| retry::retry_after(v, SystemTime::now()));
                    Input::ErrorStatus { status: status.as_u16(), retry_after }
                }
            },
        }
    }

    /// The error, if the outcome is a failure.
    fn into_error(
        self,
        open: &Open,
        after_list: AfterList,
        redact: impl Fn(&str) -> String,
    ) -> Option<Error> {
        match (self, open) {
            (Self::Failed(error), _) => Some(error),
            // The list cannot be continued: no resourceVersion for a watch, or a repeated continue token.
            (Self::Page(metadata), Open::Page(request, _)) => Some(Error::UnexpectedResponse {
                request: request.clone(),
                problem: match (metadata.resource_version.as_str(), after_list) {
                    ("", AfterList::Watch) => NOTHING_TO_WATCH_FROM.to_owned(),
                    ("", AfterList::End) => {
                        "the pages have no resourceVersion, so they may differ in time".to_owned()
                    }
                    _ => "its continue token leads to itself".to_owned(),
                },
            }),
            (Self::Event(EventMeta::Bookmark { initial_events_end, .. }), Open::Stream(stream)) => {
                Some(Error::UnexpectedResponse {
                    request: stream.request.clone(),
                    problem: if initial_events_end {
                        NOTHING_TO_WATCH_FROM.to_owned()
                    } else {
                        "the server ignored sendInitialEvents".to_owned()
                    },
                })
            }
            (Self::Ended, Open::Stream(stream)) => {
                Some(Error::EmptyWatch { request: stream.request.clone() })
            }
            (Self::Event(EventMeta::Error(status)), Open::Stream(stream)) => Some(Error::Answered {
                request: stream.request.clone(),
                status: u16::try_from(status.code)
                    .ok()
                    .and_then(|code| StatusCode::from_u16(code).ok())
                    .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                retry_after: retry_after(&status).map(|after| after.as_secs().to_string()),
                message: redact(&status.message),
            }),
            _ => None,
        }
    }
}

fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = u64::try_from(status.details?.retry_after_seconds).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
