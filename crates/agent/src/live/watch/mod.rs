//! State machine for one list and the watch that follows it: takes the result of the last action, returns the
//! next one.
//!
//! `cluster` drives it: it sends requests, reads, waits, and passes the pods to the live set. The daemon runs
//! it forever, `--once` until the first complete list. Uses no socket or clock, and never sees a pod.
//! Implements "Kubernetes API Concepts" (watch, streaming lists, chunks) and tolerates servers that deviate.

mod timing;
mod types;

#[cfg(test)]
mod state_model;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use timing::{AfterList, Streaming, WatchTiming};
pub use types::{Input, Listing, RestartReason, State, Step, StreamEvent, WatchAction, WatchRequest};

use types::WatchFailure;

/// Relist after this many consecutive watches without a frame. An API server that was restored from a
/// backup accepts a resourceVersion from its future and never sends an event for it.
const MAX_SILENT_WATCHES: u32 = 2;

/// Consecutive failures of one page after which the list is restarted.
const MAX_PAGE_ATTEMPTS: u32 = 5;

/// The backoff has reached its maximum by then.
const MAX_BACKOFF_STEPS: u32 = 16;

/// State of the list or the watch of one namespace, or of the whole cluster.
#[derive(Debug, Clone)]
pub struct Watch {
    timing: WatchTiming,
    random: fastrand::Rng,
    phase: Phase,
    streaming: Streaming,
    /// resourceVersion of the last complete list, or of the last event or bookmark since then.
    resource_version: String,
    contact: Option<Instant>,
    relist_at: Option<Instant>,
    /// Failed list requests since the last page or complete list.
    list_failures: u32,
    /// Failed watches since the last frame of a watch. A complete list does not reset it: otherwise a
    /// server that rejects every watch would receive lists without a delay.
    failures: u32,
    /// Watches from `resource_version` that ended without a frame.
    silent_watches: u32,
    /// Watches that failed with 410 since the last frame of a watch.
    expired_watches: u32,
    /// When the current watch was requested.
    started_at: Option<Instant>,
    /// Consecutive watches that made progress but ended within the first backoff delay. Bounds the request
    /// rate against a server that closes every watch early.
    short_watches: u32,
    /// Lists abandoned as inconsistent since the last complete one.
    abandoned_lists: u32,
}

#[derive(Debug, Clone)]
enum Phase {
    /// A streaming list, up to its bookmark, which must arrive in time: a server that ignores `sendInitialEvents` sends events
    /// without ever ending the list.
    Streaming {
        deadline: Instant,
    },
    Paged(Paging),
    Watching(Received),
    /// A delay; no response is open.
    Waiting(Next),
}

/// Data received so far on a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    Nothing,
    /// Frames with the resourceVersion that the watch started from.
    Frames,
    /// A new resourceVersion.
    Progress,
}

#[derive(Debug, Clone)]
enum Next {
    List,
    Paged(Paging),
    Watch,
}

/// The page of a list that is requested or read (Kubernetes documentation, "Kubernetes API Concepts",
/// Retrieving large results sets in chunks).
#[derive(Debug, Clone, Default)]
struct Paging {
    /// The continue token; `None` for the first page.
    token: Option<String>,
    /// Number of continue tokens that expired. After the second one the list is requested unpaged, which
    /// cannot expire.
    expirations: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delay {
    /// No delay, unless the server sent Retry-After.
    Zero,
    /// The backoff delay for this number of consecutive failures.
    Backoff(u32),
}

impl Paging {
    fn request(&self) -> WatchRequest {
        match self {
            Self { token: None, expirations: 2.. } => WatchRequest::Unpaged,
            Self { token, .. } => WatchRequest::Page { token: token.clone() },
        }
    }
}

impl Default for Phase {
    fn default() -> Self {
        Self::Waiting(Next::List)
    }
}

impl Watch {
    /// A watch that has not started. `seed` determines all random durations.
    #[must_use]
    pub fn new(timing: WatchTiming, seed: u64) -> Self {
        Self {
            streaming: timing.streaming,
            timing,
            random: fastrand::Rng::with_seed(seed),
            phase: Phase::default(),
            resource_version: String::new(),
            contact: None,
            relist_at: None,
            list_failures: 0,
            failures: 0,
            silent_watches: 0,
            expired_watches: 0,
            started_at: None,
            short_watches: 0,
            abandoned_lists: 0,
        }
    }

    pub fn start(&mut self, now: Instant) -> Step {
        self.send(Next::List, now)
    }

    /// Time at which the live set was last known to match the server: the last event or bookmark of a watch,
    /// or the last complete list. A 200, an end of stream, an error or a part of a list do not count:
    /// deletions are known only once the list is complete.
    #[must_use]
    pub fn contact(&self) -> Option<Instant> {
        self.contact
    }

    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Streaming { .. } | Phase::Paged(..) => State::Listing,
            Phase::Watching(_) => State::Watching,
            Phase::Waiting(_) => State::Waiting,
        }
    }

    /// The step that follows the result of the last action.
    pub fn next(&mut self, input: Input<'_>, now: Instant) -> Step {
        match (std::mem::take(&mut self.phase), input) {
            (Phase::Waiting(next), Input::DelayElapsed) => self.send(next, now),
            // No response is open, so the input is stale.
            (Phase::Waiting(next), _) => self.wait(next, self.timing.backoff.initial),
            (Phase::Streaming { .. }, Input::ResponseStarted) => self.read(self.streaming_phase(now), now),
            (phase, Input::ResponseStarted) => self.read(phase, now),
            (Phase::Streaming { deadline }, input) => self.on_streaming_list(deadline, input, now),
            (Phase::Paged(paging), input) => self.on_page(paging, input, now),
            (Phase::Watching(received), input) => self.on_watch(received, input, now),
        }
    }

    /// A streaming list that starts now.
    fn streaming_phase(&self, now: Instant) -> Phase {
        Phase::Streaming { deadline: now + self.timing.stream_timeout }
    }

    fn on_streaming_list(&mut self, mut deadline: Instant, input: Input<'_>, now: Instant) -> Step {
        let is_event = matches!(input, Input::Event(_));
        let failure = match input {
            // The first bookmark of a streaming list ends it. This server does not support streaming lists.
            Input::Event(StreamEvent::Bookmark { initial_events_end: false, .. }) => {
                self.streaming = Streaming::Never;
                WatchFailure::new(RestartReason::Garbled)
            }
            // A watch cannot continue without a resourceVersion.
            Input::Event(StreamEvent::Bookmark { initial_events_end: true, resource_version: "" }) => {
                WatchFailure::new(RestartReason::Garbled)
            }
            Input::Event(StreamEvent::Bookmark { initial_events_end: true, resource_version }) => {
                self.complete(resource_version, now);
                self.started_at = Some(now);
                let step = self.read(Phase::Watching(Received::Nothing), now);
                return Step { listing: Some(Listing::Completed), ..step };
            }
            input => match input.failure() {
                Some(failure) => failure,
                None if deadline <= now => WatchFailure::new(RestartReason::Silent),
                None => {
                    if matches!(input, Input::Event(StreamEvent::Added { .. })) {
                        deadline += self.timing.stream_extension;
                    }
                    return self.read(Phase::Streaming { deadline }, now);
                }
            },
        };
        // The status of an ERROR event does not show whether the server supports streaming lists.
        match failure.status.filter(|_| !is_event) {
            Some(400 | 422) => self.streaming = Streaming::Never,
            Some(_) => return self.retry_list(failure, Next::List, now),
            None if failure.reason == RestartReason::Unreachable => {
                return self.retry_list(failure, Next::List, now);
            }
            None => {}
        }
        self.retry(failure, Delay::Zero, Next::Paged(Paging::default()), now)
    }

    fn on_page(&mut self, paging: Paging, input: Input<'_>, now: Instant) -> Step {
        let failure = match input {
            // Nothing to watch from, and no sign that the pages are of one state.
            Input::Page { token: "", resource_version: "" }
                if self.timing.after_list == AfterList::Watch || paging.token.is_some() =>
            {
                return self.abandon_list(now);
            }
            // The same token again would loop forever.
            Input::Page { token, .. } if paging.token.as_deref() == Some(token) => {
                return self.abandon_list(now);
            }
            Input::Page { token: "", resource_version } => {
                self.complete(resource_version, now);
                return Step { listing: Some(Listing::Completed), ..self.send(Next::Watch, now) };
            }
            Input::Page { token, .. } => {
                self.list_failures = 0;
                return self.send(Next::Paged(Paging { token: Some(token.to_owned()), ..paging }), now);
            }
            // A list that ends before it is complete was cut off.
            input => input.failure().unwrap_or(WatchFailure::new(RestartReason::BrokenOff)),
        };
        let has_token = paging.token.is_some();
        if !has_token || !failure.is_rejection() {
            let is_exhausted = has_token && self.list_failures + 1 >= MAX_PAGE_ATTEMPTS;
            let next = if is_exhausted { Next::List } else { Next::Paged(paging) };
            return self.retry_list(failure, next, now);
        }
        // The server rejected the continue token. The token that a 410 offers instead is ignored: a list
        // that continues with it is not consistent.
        let next = Next::Paged(Paging { token: None, expirations: paging.expirations + 1 });
        match failure.reason {
            RestartReason::Expired => self.retry(failure, Delay::Zero, next, now),
            _ => self.retry_list(failure, next, now),
        }
    }

    fn on_watch(&mut self, received: Received, input: Input<'_>, now: Instant) -> Step {
        let failure = match (input.failure(), input) {
            (Some(failure), _) => failure,
            (None, Input::Event(event)) => return self.on_frame(event.resource_version(), received, now),
            (None, _) => return self.read(Phase::Watching(received), now),
        };
        if failure.reason == RestartReason::Silent && self.is_relist_due(now) {
            // `read` shortened the timeout to the due time of the relist.
            return self.relist(now);
        }
        if received == Received::Nothing && failure.may_be_caused_by_version() {
            self.silent_watches += 1;
        }
        let must_list =
            failure.is_rejection() || self.silent_watches >= MAX_SILENT_WATCHES || self.is_relist_due(now);
        let next = if must_list { Next::List } else { Next::Watch };
        let is_progress = match failure.reason {
            RestartReason::Expired => self.expired_watches == 0,
            RestartReason::Ended => received == Received::Progress,
            _ => false,
        };
        let is_short = self.started_at.is_some_and(|at| now < at + self.timing.backoff.initial);
        self.short_watches = if is_progress && is_short { self.short_watches + 1 } else { 0 };
        let delay = match failure.reason {
            _ if is_progress && self.short_watches <= 1 => Delay::Zero,
            RestartReason::Expired if is_progress => Delay::Backoff(self.short_watches - 1),
            // No event is lost, so the delay does not grow.
            RestartReason::Ended if is_progress => Delay::Backoff(1),
            // The timeout was a delay already.
            RestartReason::Silent => Delay::Zero,
            _ => {
                self.failures += 1;
                Delay::Backoff(self.failures)
            }
        };
        self.expired_watches += u32::from(failure.reason == RestartReason::Expired);
        self.retry(failure, delay, next, now)
    }

    /// Handles an event or a bookmark of a watch.
    fn on_frame(&mut self, resource_version: &str, mut received: Received, now: Instant) -> Step {
        self.contact = Some(now);
        self.failures = 0;
        self.silent_watches = 0;
        self.expired_watches = 0;
        if !resource_version.is_empty() && resource_version != self.resource_version {
            resource_version.clone_into(&mut self.resource_version);
            received = Received::Progress;
        } else if received == Received::Nothing {
            received = Received::Frames;
        }
        if self.is_relist_due(now) { self.relist(now) } else { self.read(Phase::Watching(received), now) }
    }

    /// Records a complete list. A watch continues from its resourceVersion.
    fn complete(&mut self, resource_version: &str, now: Instant) {
        resource_version.clone_into(&mut self.resource_version);
        self.contact = Some(now);
        self.list_failures = 0;
        self.abandoned_lists = 0;
        self.silent_watches = 0;
        // Randomized: agents that start together must not relist together.
        self.relist_at = now.checked_add(self.timing.relist.mul_f64(0.75 + self.random.f64() / 2.0));
    }

    fn is_relist_due(&self, now: Instant) -> bool {
        self.relist_at.is_some_and(|at| at <= now)
    }

    fn is_stale(&self, now: Instant) -> bool {
        let age = self.contact.map(|contact| now.saturating_duration_since(contact));
        age.is_some_and(|age| age >= self.timing.stale_after)
    }

    fn relist(&mut self, now: Instant) -> Step {
        // Prefer streaming again: a proxy may have rejected it, or the server was upgraded.
        self.streaming = self.timing.streaming;
        Step { restart: Some(RestartReason::Relist), ..self.send(Next::List, now) }
    }

    /// Restarts a list whose responses succeeded but are inconsistent.
    fn abandon_list(&mut self, now: Instant) -> Step {
        self.abandoned_lists += 1;
        let failure = WatchFailure::new(RestartReason::Garbled);
        self.retry(failure, Delay::Backoff(self.abandoned_lists), Next::List, now)
    }

    fn retry_list(&mut self, failure: WatchFailure, next: Next, now: Instant) -> Step {
        self.list_failures += 1;
        self.retry(failure, Delay::Backoff(self.list_failures), next, now)
    }

    fn retry(&mut self, failure: WatchFailure, delay: Delay, next: Next, now: Instant) -> Step {
        let backoff = self.timing.backoff;
        let delay = match delay {
            Delay::Zero => Duration::ZERO,
            Delay::Backoff(failures) => {
                let index = failures.saturating_sub(1).min(MAX_BACKOFF_STEPS) as usize;
                backoff.delays(self.random.u64(..)).nth(index).unwrap_or(backoff.max)
            }
        };
        let delay = backoff.with_retry_after(delay, failure.retry_after);
        let step = if delay.is_zero() { self.send(next, now) } else { self.wait(next, delay) };
        Step { restart: Some(failure.reason), ..step }
    }

    fn wait(&mut self, next: Next, delay: Duration) -> Step {
        self.phase = Phase::Waiting(next);
        Step { listing: None, restart: None, action: WatchAction::Wait(delay) }
    }

    fn read(&mut self, phase: Phase, now: Instant) -> Step {
        let timing = &self.timing;
        let timeout = match phase {
            Phase::Streaming { deadline } => deadline.saturating_duration_since(now),
            Phase::Paged(..) => timing.page_timeout,
            Phase::Watching(_) | Phase::Waiting(_) => {
                let due = self.relist_at.map(|at| at.saturating_duration_since(now));
                timing.watch_timeout.min(due.unwrap_or(Duration::MAX))
            }
        };
        self.phase = phase;
        Step { listing: None, restart: None, action: WatchAction::Read { timeout } }
    }

    fn send(&mut self, next: Next, now: Instant) -> Step {
        let (phase, listing, request) = match next {
            Next::Watch if self.is_relist_due(now) => return self.relist(now),
            Next::Watch if self.is_stale(now) => return self.send(Next::List, now),
            Next::Watch => {
                self.started_at = Some(now);
                let from = self.resource_version.clone();
                let request = WatchRequest::Watch { from, timeout_seconds: self.timeout_seconds() };
                (Phase::Watching(Received::Nothing), None, request)
            }
            Next::List if self.streaming == Streaming::Preferred => {
                let request = WatchRequest::StreamingList { timeout_seconds: self.timeout_seconds() };
                (self.streaming_phase(now), Some(Listing::Started), request)
            }
            Next::List => return self.send(Next::Paged(Paging::default()), now),
            Next::Paged(paging) => {
                // A token continues the same snapshot. A list without one is a new snapshot, which
                // invalidates the pages read before.
                let listing = if paging.token.is_some() { None } else { Some(Listing::Started) };
                let request = paging.request();
                (Phase::Paged(paging), listing, request)
            }
        };
        self.phase = phase;
        Step { listing, restart: None, action: WatchAction::Send(request) }
    }

    fn timeout_seconds(&mut self) -> u32 {
        self.random.u32(self.timing.timeout_seconds.clone())
    }
}
