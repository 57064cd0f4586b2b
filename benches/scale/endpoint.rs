//! An endpoint for reports. Counts them, and measures the latency from a change to the head of its first report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

/// State of the endpoint, shared with `events`.
#[derive(Default)]
pub struct Endpoint {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    heads: usize,
    reports: Vec<Report>,
    /// Pods that no report contained yet, with the time of their event.
    awaited: HashMap<Vec<u8>, Instant>,
    /// Time from the event to the head of the report.
    latencies: Vec<Duration>,
}

/// A completely received report.
#[derive(Clone, Copy)]
pub struct Report {
    /// Arrival of the head.
    pub head: Instant,
    pub took: Duration,
    pub bytes: usize,
}

impl Endpoint {
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let head = Instant::now();
        let mut body = request.into_body();
        let is_awaiting = {
            let mut state = self.state.lock().unwrap();
            state.heads += 1;
            !state.awaited.is_empty()
        };
        let (mut whole, mut bytes) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            // Ignore incomplete reports.
            let Ok(frame) = frame else { return Response::new(Full::default()) };
            let Ok(data) = frame.into_data() else { continue };
            bytes += data.len();
            if is_awaiting {
                whole.extend_from_slice(&data);
            }
        }
        let mut state = self.state.lock().unwrap();
        if is_awaiting {
            state.find_awaited(&whole, head);
        }
        // The duration includes the search, for which the daemon waits too.
        state.reports.push(Report { head, took: head.elapsed(), bytes });
        Response::builder().status(201).body(Full::from("\"report processed\"")).unwrap()
    }

    /// Number of started reports.
    pub fn heads(&self) -> usize {
        self.state.lock().unwrap().heads
    }

    pub fn reports(&self) -> Vec<Report> {
        self.state.lock().unwrap().reports.clone()
    }

    /// Starts the measurement for a new pod.
    pub fn expect(&self, pod: String) {
        self.state.lock().unwrap().awaited.insert(pod.into_bytes(), Instant::now());
    }

    pub fn is_awaiting(&self) -> bool {
        !self.state.lock().unwrap().awaited.is_empty()
    }

    pub fn latencies(&self) -> Vec<Duration> {
        let mut latencies = self.state.lock().unwrap().latencies.clone();
        latencies.sort();
        latencies
    }
}

impl State {
    /// Finds the pods that are awaited and that had begun to run before the report's head arrived.
    fn find_awaited(&mut self, body: &[u8], head: Instant) {
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
