//! An open watch: a task that sends what happens until somebody ends it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout_at};

use super::Shared;
use super::answer::GARBAGE;
use super::ask::{Ask, What};
use super::faults::Fault;
use super::state::{State, Stored};
use super::wire::{self, Bookmark, Status};
use crate::fake::Reply;
use crate::fake::server::Piece;

/// A frame to be sent, and the pod that it tells of.
type Next = (Bytes, Option<Arc<Stored>>);

struct Stream {
    shared: Arc<Shared>,
    namespace: Option<String>,
    fault: Option<Fault>,
    bookmarks: Option<Interval>,
    /// Everything up to this resourceVersion was sent.
    cursor: u64,
    /// Only what is newer is sent; it differs from the cursor of a watch from the future.
    since: u64,
    queue: VecDeque<Next>,
    frames: usize,
    bytes: usize,
    to: mpsc::Sender<Piece>,
    changed: watch::Receiver<()>,
    end: watch::Receiver<()>,
}

/// The stream is over.
struct Over;

/// As long as it lives, there is one more open watch.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open_watches.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The answer to a watch or a streaming list: 200, and what comes.
pub fn start(shared: Arc<Shared>, ask: &Ask, fault: Option<Fault>) -> Reply {
    let (bookmarks, timeout) = match ask.what {
        What::StreamingList { bookmarks, timeout } | What::Watch { bookmarks, timeout, .. } => {
            (bookmarks, timeout)
        }
        _ => (false, None),
    };
    let now = Instant::now();
    let (every, factor) = {
        let settings = shared.settings();
        (settings.bookmarks_every, settings.hastened)
    };
    let deadline = match &fault {
        Some(Fault::CloseAfter(duration)) => Some(now + *duration),
        Some(Fault::Silent | Fault::StallAfter(_)) => None,
        _ => timeout.zip(factor).map(|(seconds, factor)| now + Duration::from_secs(seconds) / factor),
    };
    let (to, pieces) = mpsc::channel(64);
    let mut stream = Stream {
        namespace: ask.namespace.clone(),
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
    stream.begin(ask, bookmarks);
    stream.shared.open_watches.fetch_add(1, Ordering::SeqCst);
    tokio::spawn(async move {
        let _open = Open(Arc::clone(&stream.shared));
        let (shared, to) = (Arc::clone(&stream.shared), stream.to.clone());
        let Some(deadline) = deadline else {
            let Over = stream.run().await;
            return;
        };
        let is_open = timeout_at(deadline, stream.run()).await.is_err();
        // The end of a half-open connection is not heard of either.
        if is_open && shared.settings().is_muted {
            to.closed().await;
        }
    });
    Reply::Stream(200, vec![("content-type", wire::WATCH.into())], pieces)
}

impl Stream {
    /// What it begins with.
    fn begin(&mut self, ask: &Ask, bookmarks: bool) {
        let shared = Arc::clone(&self.shared);
        let state = shared.state();
        let is_expired = match ask.what {
            What::Watch { after, .. } => after < state.compacted || self.fault == Some(Fault::Expired),
            _ => false,
        };
        if let What::Watch { after, .. } = ask.what {
            (self.cursor, self.since) = (after, after);
            if is_expired {
                let status = Status::too_old(after, state.compacted.max(after + 1));
                self.queue.push_back((status.event(), None));
                self.fault = Some(Fault::CloseAfterFrames(1));
            }
            return;
        }
        let namespace = self.namespace.as_deref();
        for stored in State::select(&state.pods, namespace, String::new()) {
            self.queue.push_back((wire::event("ADDED", &stored.bytes), Some(Arc::clone(stored))));
        }
        if bookmarks {
            self.queue.push_back((wire::bookmark(state.revision, Bookmark::InitialEventsEnd), None));
        }
        (self.cursor, self.since) = (state.revision, state.revision);
    }

    async fn run(mut self) -> Over {
        match self.turns().await {
            Ok(never) => never,
            Err(over) => over,
        }
    }

    async fn turns(&mut self) -> Result<Over, Over> {
        if self.fault == Some(Fault::Silent) {
            self.to.closed().await;
            return Ok(Over);
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
                _ = self.end.changed() => return Ok(Over),
                () = self.to.closed() => return Ok(Over),
            }
        }
    }

    /// Queues what happened since; whether there is something to send now.
    fn collect(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let is_muted = shared.settings().is_muted;
        let state = shared.state();
        if self.fault == Some(Fault::BookmarksOnly) {
            return false;
        }
        let behind = state.log.partition_point(|event| event.revision <= self.cursor);
        for event in &state.log[behind..] {
            self.cursor = event.revision;
            let is_wanted = self.namespace.as_ref().is_none_or(|name| event.stored.pod.namespace == *name);
            if is_wanted && event.revision > self.since {
                let stored = Some(Arc::clone(&event.stored));
                self.queue.push_back((wire::event(event.kind, &event.stored.bytes), stored));
            }
        }
        !is_muted && !self.queue.is_empty()
    }

    /// Others write all the time, so the resourceVersion goes on; one from the future hears nothing.
    fn bookmark(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        state.others_write();
        if self.fault == Some(Fault::BookmarksOnly) {
            self.queue.push_back((wire::bookmark(self.cursor, Bookmark::Progress), None));
            return;
        }
        drop(state);
        self.collect();
        let state = shared.state();
        if state.revision > self.since && state.revision >= self.cursor {
            self.cursor = state.revision;
            self.queue.push_back((wire::bookmark(self.cursor, Bookmark::Progress), None));
        }
    }

    async fn send(&mut self, frame: Bytes, stored: Option<Arc<Stored>>) -> Result<(), Over> {
        match self.fault {
            Some(Fault::CloseAfterFrames(frames)) if self.frames >= frames => return Err(Over),
            Some(Fault::HalfAFrameAfter(frames)) if self.frames >= frames => {
                self.push(frame.slice(..frame.len() / 2)).await?;
                return Err(Over);
            }
            _ => {}
        }
        self.push(frame).await?;
        self.frames += 1;
        if let Some(stored) = stored {
            stored.tell();
        }
        match self.fault {
            Some(Fault::CloseAfterFrames(frames)) if self.frames >= frames => Err(Over),
            _ => Ok(()),
        }
    }

    /// Puts bytes on the wire, as far as its fault lets it.
    async fn push(&mut self, bytes: Bytes) -> Result<(), Over> {
        let most = match self.fault {
            Some(Fault::CutAfter(most) | Fault::StallAfter(most) | Fault::EndAfter(most)) => most,
            _ => usize::MAX,
        };
        let fitting = bytes.slice(..bytes.len().min(most - self.bytes));
        self.bytes += fitting.len();
        let is_whole = fitting.len() == bytes.len();
        if !fitting.is_empty() {
            self.to.send(Piece::Bytes(fitting)).await.map_err(|_| Over)?;
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
        Err(Over)
    }
}
