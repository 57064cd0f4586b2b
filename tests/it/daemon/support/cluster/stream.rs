//! An open watch: a task that sends events until it ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout_at};

use crate::daemon::support::cluster::Shared;
use crate::daemon::support::cluster::faults::Fault;
use crate::daemon::support::cluster::request::{ApiRequest, Operation};
use crate::daemon::support::cluster::responder::GARBAGE;
use crate::daemon::support::cluster::state::{State, Stored};
use crate::daemon::support::cluster::wire::{self, Bookmark, Status};
use crate::fake::Reply;
use crate::fake::server::Piece;

/// A queued frame and its pod.
type QueuedFrame = (Bytes, Option<Arc<Stored>>);

struct Stream {
    shared: Arc<Shared>,
    namespace: Option<String>,
    is_about_labels: bool,
    fault: Option<Fault>,
    bookmarks: Option<Interval>,
    /// Events up to this resourceVersion were sent.
    cursor: u64,
    /// Only newer events are sent. Differs from the cursor if the watch starts at a future resourceVersion.
    since: u64,
    queue: VecDeque<QueuedFrame>,
    frames: usize,
    bytes: usize,
    to: mpsc::Sender<Piece>,
    changed: watch::Receiver<()>,
    end: watch::Receiver<()>,
}

/// The stream has ended.
struct Ended;

/// Counts an open watch until it is dropped.
struct OpenWatch(Arc<Shared>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open_watches.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Responds to a watch or streaming list with status 200 and a stream.
pub fn start(shared: Arc<Shared>, request: &ApiRequest, fault: Option<Fault>) -> Reply {
    let (bookmarks, timeout) = match request.operation {
        Operation::StreamingList { bookmarks, timeout } | Operation::Watch { bookmarks, timeout, .. } => {
            (bookmarks, timeout)
        }
        _ => (false, None),
    };
    let now = Instant::now();
    let (every, factor) = {
        let settings = shared.settings();
        (settings.bookmarks_every, settings.time_scale)
    };
    let deadline = match &fault {
        Some(Fault::CloseAfter(duration)) => Some(now + *duration),
        Some(Fault::Silent | Fault::StallAfter(_)) => None,
        _ => timeout.zip(factor).map(|(seconds, factor)| now + Duration::from_secs(seconds) / factor),
    };
    let (to, pieces) = mpsc::channel(64);
    let mut stream = Stream {
        namespace: request.namespace.clone(),
        is_about_labels: request.is_about_labels(),
        bookmarks: bookmarks.then(|| {
            let mut interval = interval_at(now + every, every);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        }),
        cursor: 0,
        since: 0,
        queue: VecDeque::new(),
        frames: 0,
        bytes: 0,
        to,
        changed: shared.changed.subscribe(),
        end: shared.ended_watches.subscribe(),
        fault,
        shared,
    };
    stream.enqueue_initial(request, bookmarks);
    stream.shared.open_watches.fetch_add(1, Ordering::SeqCst);
    tokio::spawn(async move {
        let _open = OpenWatch(Arc::clone(&stream.shared));
        let (shared, to) = (Arc::clone(&stream.shared), stream.to.clone());
        let Some(deadline) = deadline else {
            let Ended = stream.run().await;
            return;
        };
        let is_open = timeout_at(deadline, stream.run()).await.is_err();
        // On a half-open connection, the end does not arrive either.
        if is_open && shared.settings().is_muted {
            to.closed().await;
        }
    });
    Reply::Stream(200, vec![("content-type", wire::WATCH.into())], pieces)
}

impl Stream {
    /// Queues the initial list, or an expiry error.
    fn enqueue_initial(&mut self, request: &ApiRequest, bookmarks: bool) {
        let shared = Arc::clone(&self.shared);
        let state = shared.state();
        let is_expired = match request.operation {
            Operation::Watch { after, .. } => after < state.compacted || self.fault == Some(Fault::Expired),
            _ => false,
        };
        if let Operation::Watch { after, .. } = request.operation {
            (self.cursor, self.since) = (after, after);
            if is_expired {
                let status = Status::too_old(after, state.compacted.max(after + 1));
                self.queue.push_back((status.event(), None));
                self.fault = Some(Fault::CloseAfterFrames(1));
            }
            return;
        }
        if self.is_about_labels {
            for (name, labels) in &state.namespaces {
                let event = wire::namespace_event("ADDED", name, labels, state.revision);
                self.queue.push_back((event, None));
            }
        } else {
            let namespace = self.namespace.as_deref();
            for stored in State::select(&state.pods, namespace, String::new()) {
                self.queue.push_back((wire::event("ADDED", &stored.bytes), Some(Arc::clone(stored))));
            }
        }
        if bookmarks && self.fault != Some(Fault::IgnoredInitialEvents) {
            self.enqueue_bookmark(state.revision, Bookmark::InitialEventsEnd);
        }
        (self.cursor, self.since) = (state.revision, state.revision);
    }

    fn enqueue_bookmark(&mut self, revision: u64, kind: Bookmark) {
        let bookmark = if self.is_about_labels { wire::metadata_bookmark } else { wire::bookmark };
        self.queue.push_back((bookmark(revision, kind), None));
    }

    async fn run(mut self) -> Ended {
        match self.send_all().await {
            Ok(never) => never,
            Err(ended) => ended,
        }
    }

    async fn send_all(&mut self) -> Result<Ended, Ended> {
        if self.fault == Some(Fault::Silent) {
            self.to.closed().await;
            return Ok(Ended);
        }
        if self.fault == Some(Fault::Garbage) {
            let length = u32::try_from(GARBAGE.len()).unwrap().to_be_bytes();
            self.push([&length[..], &GARBAGE].concat().into()).await?;
        }
        loop {
            self.changed.mark_unchanged();
            while !self.shared.settings().is_muted
                && let Some((frame, stored)) = self.queue.pop_front()
            {
                self.send(frame, stored).await?;
            }
            if self.collect() {
                continue;
            }
            let tick = async {
                match &mut self.bookmarks {
                    Some(interval) => interval.tick().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.changed.changed() => {}
                _ = tick => self.bookmark(),
                _ = self.end.changed() => return Ok(Ended),
                () = self.to.closed() => return Ok(Ended),
            }
        }
    }

    /// Queues new events. Returns whether there are frames to send.
    fn collect(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let is_muted = shared.settings().is_muted;
        let state = shared.state();
        if self.fault == Some(Fault::BookmarksOnly) {
            return false;
        }
        if self.is_about_labels {
            let start = state.namespace_events.partition_point(|(revision, _)| *revision <= self.cursor);
            for (revision, event) in &state.namespace_events[start..] {
                self.cursor = *revision;
                if *revision > self.since {
                    self.queue.push_back((event.clone(), None));
                }
            }
            return !is_muted && !self.queue.is_empty();
        }
        let start = state.events.partition_point(|event| event.revision <= self.cursor);
        for event in &state.events[start..] {
            self.cursor = event.revision;
            let is_selected = self.namespace.as_ref().is_none_or(|name| event.stored.pod.namespace == *name);
            if is_selected && event.revision > self.since {
                let stored = Some(Arc::clone(&event.stored));
                self.queue.push_back((wire::event(event.kind, &event.stored.bytes), stored));
            }
        }
        !is_muted && !self.queue.is_empty()
    }

    /// Queues a bookmark. Other writes advance the resourceVersion. A watch from a future resourceVersion gets no bookmark.
    fn bookmark(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        state.advance_revision();
        if self.fault == Some(Fault::BookmarksOnly) {
            self.enqueue_bookmark(self.cursor, Bookmark::Progress);
            return;
        }
        drop(state);
        self.collect();
        let state = shared.state();
        if state.revision > self.since && state.revision >= self.cursor {
            self.cursor = state.revision;
            self.enqueue_bookmark(self.cursor, Bookmark::Progress);
        }
    }

    async fn send(&mut self, frame: Bytes, stored: Option<Arc<Stored>>) -> Result<(), Ended> {
        match self.fault {
            Some(Fault::CloseAfterFrames(frames)) if self.frames >= frames => return Err(Ended),
            Some(Fault::HalfAFrameAfter(frames)) if self.frames >= frames => {
                self.push(frame.slice(..frame.len() / 2)).await?;
                return Err(Ended);
            }
            _ => {}
        }
        self.push(frame).await?;
        self.frames += 1;
        if let Some(stored) = stored {
            stored.mark_sent();
        }
        match self.fault {
            Some(Fault::CloseAfterFrames(frames)) if self.frames >= frames => Err(Ended),
            _ => Ok(()),
        }
    }

    /// Sends bytes, up to the limit of the fault.
    async fn push(&mut self, bytes: Bytes) -> Result<(), Ended> {
        let max = match self.fault {
            Some(Fault::CutAfter(max) | Fault::StallAfter(max) | Fault::EndAfter(max)) => max,
            _ => usize::MAX,
        };
        let fitting = bytes.slice(..bytes.len().min(max - self.bytes));
        self.bytes += fitting.len();
        let is_whole = fitting.len() == bytes.len();
        if !fitting.is_empty() {
            self.to.send(Piece::Bytes(fitting)).await.map_err(|_| Ended)?;
        }
        if is_whole {
            return Ok(());
        }
        match self.fault {
            Some(Fault::CutAfter(_)) => {
                let _ = self.to.send(Piece::Cut).await;
            }
            Some(Fault::StallAfter(_)) => self.to.closed().await,
            _ => {}
        }
        Err(Ended)
    }
}
