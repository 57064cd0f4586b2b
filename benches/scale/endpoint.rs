//! Where reports go: it reads and counts them, and notes when the head of the one arrived that first held
//! a change.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

/// What it knows; shared with `events`.
#[derive(Default)]
pub struct Endpoint {
    kept: Mutex<Kept>,
    is_away: AtomicBool,
}

#[derive(Default)]
struct Kept {
    heads: usize,
    reports: Vec<Report>,
    /// Pods that no report held yet, and when the API server wrote that they run.
    awaited: HashMap<Vec<u8>, Instant>,
    /// From there to the head of the report that held it.
    latencies: Vec<Duration>,
}

/// A report that was read to its end.
#[derive(Clone, Copy)]
pub struct Report {
    /// When its head was there.
    pub head: Instant,
    pub took: Duration,
    pub bytes: usize,
}

impl Endpoint {
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if self.is_away.load(Ordering::Relaxed) {
            return Response::builder().status(503).body(Full::default()).unwrap();
        }
        let head = Instant::now();
        let mut body = request.into_body();
        let is_awaiting = {
            let mut kept = self.kept.lock().unwrap();
            kept.heads += 1;
            !kept.awaited.is_empty()
        };
        let (mut whole, mut bytes) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            // One that breaks off is none.
            let Ok(frame) = frame else { return Response::new(Full::default()) };
            let Ok(data) = frame.into_data() else { continue };
            bytes += data.len();
            if is_awaiting {
                whole.extend_from_slice(&data);
            }
        }
        let mut kept = self.kept.lock().unwrap();
        if is_awaiting {
            kept.look(&whole, head);
        }
        // All that the daemon waits for, what was looked for here included.
        kept.reports.push(Report { head, took: head.elapsed(), bytes });
        Response::builder().status(201).body(Full::from("\"report processed\"")).unwrap()
    }

    /// Takes no reports, or takes them again.
    pub fn be_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// How many reports have begun.
    pub fn heads(&self) -> usize {
        self.kept.lock().unwrap().heads
    }

    pub fn reports(&self) -> Vec<Report> {
        self.kept.lock().unwrap().reports.clone()
    }

    /// A pod began to run.
    pub fn expect(&self, pod: String) {
        self.kept.lock().unwrap().awaited.insert(pod.into_bytes(), Instant::now());
    }

    pub fn is_awaiting(&self) -> bool {
        !self.kept.lock().unwrap().awaited.is_empty()
    }

    pub fn latencies(&self) -> Vec<Duration> {
        let mut latencies = self.kept.lock().unwrap().latencies.clone();
        latencies.sort();
        latencies
    }
}

impl Kept {
    /// Finds the pods that are awaited and that had begun to run before the report's head arrived.
    fn look(&mut self, body: &[u8], head: Instant) {
        const BEFORE: &[u8] = br#"{"podName":""#;
        let mut rest = body;
        while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
            rest = &rest[at..];
            if let Some(name) = rest.strip_prefix(BEFORE) {
                let end = name.iter().position(|byte| *byte == b'"').unwrap();
                if let Some(written) = self.awaited.remove(&name[..end]) {
                    self.latencies.push(head.saturating_duration_since(written));
                }
                rest = &name[end..];
            } else {
                rest = &rest[1..];
            }
        }
    }
}
