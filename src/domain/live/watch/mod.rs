//! A list and the watch that follows it, as a state machine: what happened in, what to do next out.
//!
//! `cluster` drives it: it asks, reads and waits as it is told, and hands the pods that it reads to the
//! live set. The daemon follows it for ever, `--once` up to the first complete list. Nothing here sees a
//! socket or a clock, and no pod passes through. The rules are those of the Kubernetes API ("Kubernetes
//! API Concepts": watch, streaming lists, chunks), and of servers that do not keep to it.

mod timing;
mod types;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use timing::{Policy, Streaming};
pub use types::{Act, Event, Input, Listing, Request, Restart, State, Step};

use types::Failure;

/// So many watches in a row from one resourceVersion that bring no frame, and the next thing is a list:
/// a server that was restored from a backup says nothing, for ever, of a version from its future.
const MOST_MUTE: u32 = 2;

/// So many failures in a row of one page, and its list is given up: a new one may do.
const MOST_OF_A_PAGE: u32 = 5;

/// Behind so many delays in a row all others are the longest.
const MOST_DELAYS: u32 = 16;

/// Where the list or the watch of one namespace, or of the whole cluster, stands.
#[derive(Debug, Clone)]
pub struct Watch {
    policy: Policy,
    random: fastrand::Rng,
    place: Place,
    streaming: Streaming,
    /// Of the last complete list, or of the last event or bookmark after it.
    resource_version: String,
    contact: Option<Instant>,
    relist_at: Option<Instant>,
    /// Failures of lists, since a page was read or a list was complete.
    failures_of_lists: u32,
    /// Failures of watches, since the last frame of one. A list that completes is no progress of the
    /// watch: a server that refuses every watch would be listed as fast as it can answer.
    failures_of_watches: u32,
    /// Watches from `resource_version` that ended without a frame.
    mute: u32,
    /// Watches that were answered with 410, since the last frame of one.
    expired: u32,
    /// When the watch began.
    began: Option<Instant>,
    /// Watches in a row that led on and were over sooner than the first pause takes: one may be, and a
    /// server whose watches all are is not asked as fast as it can answer.
    brief: u32,
    /// Lists that could not be read on, since one was complete.
    given_up: u32,
}

#[derive(Debug, Clone)]
enum Place {
    /// A streaming list, up to its bookmark.
    Streaming,
    /// A list in pages, or in one answer.
    Paged(Paging),
    /// A watch.
    Watching(Brought),
    /// Nothing is open.
    Waiting(Next),
}

/// What a watch brought so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brought {
    Nothing,
    /// Frames that led no further.
    Frames,
    /// Another resourceVersion than it began with.
    Progress,
}

/// What is done after a pause.
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
    /// Number of continue tokens that expired. After the second one the list is requested in one answer,
    /// which cannot expire.
    expirations: u32,
}

/// When it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// At once, unless the server asked for a pause.
    AtOnce,
    /// After a pause that grows with the number of failures in a row.
    Backoff(u32),
}

impl Paging {
    fn request(&self) -> Request {
        match self {
            Self { token: None, expirations: 2.. } => Request::Whole,
            Self { token, .. } => Request::Page { token: token.clone() },
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::Waiting(Next::List)
    }
}

impl Watch {
    /// One that has not begun. The seed is for all that is random.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            streaming: policy.streaming,
            policy,
            random: fastrand::Rng::with_seed(seed),
            place: Place::default(),
            resource_version: String::new(),
            contact: None,
            relist_at: None,
            failures_of_lists: 0,
            failures_of_watches: 0,
            mute: 0,
            expired: 0,
            began: None,
            brief: 0,
            given_up: 0,
        }
    }

    /// The first thing to do.
    pub fn start(&mut self, now: Instant) -> Step {
        self.go(Next::List, now)
    }

    /// When the set was last known to be what the server holds: at the last event or bookmark of a watch,
    /// or the last complete list. Never a mere 200, an end of stream, an error, or a part of a list:
    /// what is gone comes to light only when the list is complete.
    #[must_use]
    pub fn contact(&self) -> Option<Instant> {
        self.contact
    }

    /// What it is about.
    #[must_use]
    pub fn state(&self) -> State {
        match self.place {
            Place::Streaming | Place::Paged(..) => State::Listing,
            Place::Watching(_) => State::Watching,
            Place::Waiting(_) => State::Waiting,
        }
    }

    /// What to do after the last thing that was done came to this.
    pub fn next(&mut self, input: Input<'_>, now: Instant) -> Step {
        match (std::mem::take(&mut self.place), input) {
            (Place::Waiting(next), Input::Waited) => self.go(next, now),
            // Nothing is open that could bring anything.
            (Place::Waiting(next), _) => self.wait(next, self.policy.backoff.first),
            (place, Input::Answered) => self.read(place, now),
            (Place::Streaming, input) => self.streaming(input, now),
            (Place::Paged(paging), input) => self.paged(paging, input, now),
            (Place::Watching(brought), input) => self.watching(brought, input, now),
        }
    }

    fn streaming(&mut self, input: Input<'_>, now: Instant) -> Step {
        let is_of_the_stream = matches!(input, Input::Event(_));
        let failure = match input {
            // Without a version no watch could go on from it.
            Input::Event(Event::Bookmark { initial_events_end: true, resource_version: "" }) => {
                Failure::of(Restart::Garbled)
            }
            Input::Event(Event::Bookmark { initial_events_end: true, resource_version }) => {
                self.complete(resource_version, now);
                self.began = Some(now);
                let step = self.read(Place::Watching(Brought::Nothing), now);
                return Step { listing: Some(Listing::Complete), ..step };
            }
            input => match input.failure() {
                Some(failure) => failure,
                None => return self.read(Place::Streaming, now),
            },
        };
        match failure.status.filter(|_| !is_of_the_stream) {
            Some(400 | 422) => self.streaming = Streaming::Never,
            Some(_) => return self.list_failed(failure, Next::List, now),
            None if failure.why == Restart::Unreachable => {
                return self.list_failed(failure, Next::List, now);
            }
            None => {}
        }
        self.retry(failure, Pace::AtOnce, Next::Paged(Paging::default()), now)
    }

    fn paged(&mut self, paging: Paging, input: Input<'_>, now: Instant) -> Step {
        let failure = match input {
            Input::Page { token: "", resource_version: "" } => return self.give_up(Restart::Garbled, now),
            // It would lead here for ever.
            Input::Page { token, .. } if paging.token.as_deref() == Some(token) => {
                return self.give_up(Restart::Garbled, now);
            }
            Input::Page { token: "", resource_version } => {
                self.complete(resource_version, now);
                return Step { listing: Some(Listing::Complete), ..self.go(Next::Watch, now) };
            }
            Input::Page { token, .. } => {
                self.failures_of_lists = 0;
                return self.go(Next::Paged(Paging { token: Some(token.to_owned()), ..paging }), now);
            }
            // A list has its end in itself, so one that ends before it broke off.
            input => input.failure().unwrap_or(Failure::of(Restart::BrokenOff)),
        };
        let has_token = paging.token.is_some();
        if !has_token || !failure.is_refusal() {
            let is_lost = has_token && self.failures_of_lists + 1 >= MOST_OF_A_PAGE;
            let next = if is_lost { Next::List } else { Next::Paged(paging) };
            return self.list_failed(failure, next, now);
        }
        // The server rejected the continue token. A 410 offers another one, which is never used: a list
        // that goes on with it is not consistent.
        let next = Next::Paged(Paging { token: None, expirations: paging.expirations + 1 });
        match failure.why {
            Restart::Expired => self.retry(failure, Pace::AtOnce, next, now),
            _ => self.list_failed(failure, next, now),
        }
    }

    fn watching(&mut self, brought: Brought, input: Input<'_>, now: Instant) -> Step {
        let failure = match (input.failure(), input) {
            (Some(failure), _) => failure,
            (None, Input::Event(event)) => return self.frame(event.resource_version(), brought, now),
            (None, _) => return self.read(Place::Watching(brought), now),
        };
        if failure.why == Restart::Silent && self.is_relist_due(now) {
            // It was not waited for any longer.
            return self.relist(now);
        }
        if brought == Brought::Nothing && failure.may_be_of_the_version() {
            self.mute += 1;
        }
        let is_listed = failure.is_refusal() || self.mute >= MOST_MUTE || self.is_relist_due(now);
        let next = if is_listed { Next::List } else { Next::Watch };
        let leads_on = match failure.why {
            Restart::Expired => self.expired == 0,
            Restart::Ended => brought == Brought::Progress,
            _ => false,
        };
        let is_brief = self.began.is_some_and(|began| now < began + self.policy.backoff.first);
        self.brief = if leads_on && is_brief { self.brief + 1 } else { 0 };
        let pace = match failure.why {
            _ if leads_on && self.brief <= 1 => Pace::AtOnce,
            Restart::Expired if leads_on => Pace::Backoff(self.brief - 1),
            // Nothing is lost, so it is no slower than this however often.
            Restart::Ended if leads_on => Pace::Backoff(1),
            // Silence is a pause, too.
            Restart::Silent => Pace::AtOnce,
            _ => {
                self.failures_of_watches += 1;
                Pace::Backoff(self.failures_of_watches)
            }
        };
        self.expired += u32::from(failure.why == Restart::Expired);
        self.retry(failure, pace, next, now)
    }

    /// An event or a bookmark of a watch.
    fn frame(&mut self, resource_version: &str, mut brought: Brought, now: Instant) -> Step {
        self.contact = Some(now);
        self.failures_of_watches = 0;
        self.mute = 0;
        self.expired = 0;
        if !resource_version.is_empty() && resource_version != self.resource_version {
            resource_version.clone_into(&mut self.resource_version);
            brought = Brought::Progress;
        } else if brought == Brought::Nothing {
            brought = Brought::Frames;
        }
        if self.is_relist_due(now) { self.relist(now) } else { self.read(Place::Watching(brought), now) }
    }

    /// A list is complete, and a watch goes on from this resourceVersion.
    fn complete(&mut self, resource_version: &str, now: Instant) {
        resource_version.clone_into(&mut self.resource_version);
        self.contact = Some(now);
        self.failures_of_lists = 0;
        self.given_up = 0;
        self.mute = 0;
        // Agents that started together do not list together.
        self.relist_at = now.checked_add(self.policy.relist.mul_f64(0.75 + self.random.f64() / 2.0));
    }

    fn is_relist_due(&self, now: Instant) -> bool {
        self.relist_at.is_some_and(|at| at <= now)
    }

    fn is_lost(&self, now: Instant) -> bool {
        self.contact.is_some_and(|contact| now.saturating_duration_since(contact) >= self.policy.lost)
    }

    fn relist(&mut self, now: Instant) -> Step {
        // One refusal may have been a proxy's, and servers are replaced.
        self.streaming = self.policy.streaming;
        Step { restart: Some(Restart::Relist), ..self.go(Next::List, now) }
    }

    /// A list that cannot be read on, though all of it was answered.
    fn give_up(&mut self, why: Restart, now: Instant) -> Step {
        self.given_up += 1;
        self.retry(Failure::of(why), Pace::Backoff(self.given_up), Next::List, now)
    }

    fn list_failed(&mut self, failure: Failure, next: Next, now: Instant) -> Step {
        self.failures_of_lists += 1;
        self.retry(failure, Pace::Backoff(self.failures_of_lists), next, now)
    }

    /// What follows a failure: the next thing, or a pause before it.
    fn retry(&mut self, failure: Failure, pace: Pace, next: Next, now: Instant) -> Step {
        let backoff = self.policy.backoff;
        let pause = match pace {
            Pace::AtOnce => Duration::ZERO,
            Pace::Backoff(failures) => {
                // They are as long as they can be by then.
                let before = failures.saturating_sub(1).min(MOST_DELAYS) as usize;
                backoff.delays(self.random.u64(..)).nth(before).unwrap_or(backoff.most)
            }
        };
        let pause = backoff.at_least(pause, failure.retry_after);
        let step = if pause.is_zero() { self.go(next, now) } else { self.wait(next, pause) };
        Step { restart: Some(failure.why), ..step }
    }

    fn wait(&mut self, next: Next, pause: Duration) -> Step {
        self.place = Place::Waiting(next);
        Step { listing: None, restart: None, act: Act::Wait(pause) }
    }

    fn read(&mut self, place: Place, now: Instant) -> Step {
        let policy = &self.policy;
        let within = match place {
            Place::Streaming => policy.stream_silence,
            Place::Paged(..) => policy.page_silence,
            Place::Watching(_) | Place::Waiting(_) => {
                let due = self.relist_at.map(|at| at.saturating_duration_since(now));
                policy.watch_silence.min(due.unwrap_or(Duration::MAX))
            }
        };
        self.place = place;
        Step { listing: None, restart: None, act: Act::Read { within } }
    }

    fn go(&mut self, next: Next, now: Instant) -> Step {
        let (place, listing, request) = match next {
            Next::Watch if self.is_relist_due(now) => return self.relist(now),
            Next::Watch if self.is_lost(now) => return self.go(Next::List, now),
            Next::Watch => {
                self.began = Some(now);
                let from = self.resource_version.clone();
                let request = Request::Watch { from, timeout_seconds: self.timeout_seconds() };
                (Place::Watching(Brought::Nothing), None, request)
            }
            Next::List if self.streaming == Streaming::Tried => {
                let request = Request::StreamingList { timeout_seconds: self.timeout_seconds() };
                (Place::Streaming, Some(Listing::Begin), request)
            }
            Next::List => return self.go(Next::Paged(Paging::default()), now),
            Next::Paged(paging) => {
                // Behind a token the list goes on as it was. Any other is a new snapshot, and what was read
                // of the one before proves nothing.
                let listing = if paging.token.is_some() { None } else { Some(Listing::Begin) };
                let request = paging.request();
                (Place::Paged(paging), listing, request)
            }
        };
        self.place = place;
        Step { listing, restart: None, act: Act::Ask(request) }
    }

    fn timeout_seconds(&mut self) -> u32 {
        self.random.u32(self.policy.timeout_seconds.clone())
    }
}
