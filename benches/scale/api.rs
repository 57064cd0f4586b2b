//! A fake API server that is never the bottleneck.
//!
//! It answers the agent's streaming list, in protobuf, and then sends the frames of `events`. kube's typed list gets pages
//! in JSON. Both are assembled from encoded pods while they are sent.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response};
use tokio::sync::mpsc;

use super::pods::Replicas;
use crate::fake::pods::Message;

/// resourceVersion of all lists.
const VERSION: u64 = 100_000_000;

/// Approximate size of a part of a body, in bytes.
const PART: usize = 64 * 1024;

/// A cluster and its open watch.
pub struct Cluster {
    pub replicas: Vec<Replicas>,
    /// Number of the first pod of each `ReplicaSet`.
    firsts: Vec<usize>,
    pub pods: usize,
    watch: Mutex<Option<mpsc::UnboundedSender<Bytes>>>,
}

/// A response that is generated while it is sent.
pub struct ResponseBody {
    cluster: Arc<Cluster>,
    next: usize,
    end: usize,
    /// Bytes before and after the pods.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Of a watch.
    events: Option<mpsc::UnboundedReceiver<Bytes>>,
}

impl Cluster {
    /// Pods in `ReplicaSet`s of 1 to 50 pods.
    pub fn new(pods: usize) -> Self {
        let (mut replicas, mut firsts, mut first) = (Vec::new(), Vec::new(), 0);
        while first < pods {
            let n = replicas.len();
            let size = (1 + n.wrapping_mul(2_654_435_761) / 64 % 50).min(pods - first);
            replicas.push(Replicas::new(n, size));
            firsts.push(first);
            first += size;
        }
        Self { replicas, firsts, pods, watch: Mutex::default() }
    }

    /// The `ReplicaSet` of a pod, and its number there.
    pub fn find(&self, pod: usize) -> (&Replicas, usize) {
        let n = self.firsts.partition_point(|first| *first <= pod) - 1;
        (&self.replicas[n], pod - self.firsts[n])
    }

    /// Sends a frame to the open watch; returns false without one.
    pub fn send(&self, frame: Vec<u8>) -> bool {
        self.watch.lock().unwrap().as_ref().is_some_and(|watch| watch.send(frame.into()).is_ok())
    }

    /// Mean size of a pod in protobuf and in JSON.
    pub fn mean_sizes(&self) -> (usize, usize) {
        let of = |size: fn(&Replicas) -> usize| {
            self.replicas.iter().map(|replicas| replicas.pods * size(replicas)).sum::<usize>() / self.pods
        };
        (of(|replicas| replicas.protobuf().bytes.len()), of(|replicas| replicas.json().bytes.len()))
    }

    pub fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Response<ResponseBody> {
        let query = request.uri().query().unwrap_or_default();
        let parameters: HashMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let mut body = ResponseBody {
            cluster: Arc::clone(self),
            next: 0,
            end: self.pods,
            head: Vec::new(),
            tail: Vec::new(),
            events: None,
        };
        let content_type = if parameters.contains_key("watch") {
            assert!(
                parameters.contains_key("sendInitialEvents"),
                "the watch of the list must stay open: {query}"
            );
            let (sender, events) = mpsc::unbounded_channel();
            *self.watch.lock().unwrap() = Some(sender);
            body.events = Some(events);
            body.tail = end_of_initial_events();
            "application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            body.next = parameters.get("continue").map_or(0, |token| token.parse().unwrap());
            body.end = self.pods.min(body.next + parameters["limit"].parse::<usize>().unwrap());
            let token = if body.end < self.pods { body.end.to_string() } else { String::new() };
            body.head = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{VERSION}","continue":"{token}"}},"items":["#
            )
            .into_bytes();
            body.tail = b"]}\n".to_vec();
            "application/json"
        };
        Response::builder().header("content-type", content_type).body(body).unwrap()
    }
}

impl ResponseBody {
    /// Appends the next pod.
    fn write(&mut self, to: &mut Vec<u8>) {
        let (replicas, n) = self.cluster.find(self.next);
        let version = 10_000_000 + self.next;
        if self.events.is_some() {
            to.append(&mut event("ADDED", replicas, n, version));
        } else {
            if !to.ends_with(b"[") {
                to.push(b',');
            }
            replicas.write(n, version, replicas.json(), to);
        }
        self.next += 1;
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let mut part = std::mem::take(&mut self.head);
        while self.next < self.end && part.len() < PART {
            self.write(&mut part);
        }
        if self.next == self.end {
            part.append(&mut self.tail);
        }
        if !part.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(part.into()))));
        }
        match &mut self.events {
            Some(events) => events.poll_recv(context).map(|event| event.map(|frame| Ok(Frame::data(frame)))),
            None => Poll::Ready(None),
        }
    }
}

/// A watch frame with a pod.
pub fn event(kind: &str, replicas: &Replicas, n: usize, version: usize) -> Vec<u8> {
    let mut pod = Vec::new();
    replicas.write(n, version, replicas.protobuf(), &mut pod);
    frame(kind, &Message::from(pod))
}

fn end_of_initial_events() -> Vec<u8> {
    let annotation = Message::default().text(1, "k8s.io/initial-events-end").text(2, "true");
    let metadata = Message::default().text(6, &VERSION.to_string()).message(12, &annotation);
    frame("BOOKMARK", &Message::default().message(1, &metadata))
}

fn frame(kind: &str, pod: &Message) -> Vec<u8> {
    let object = Message::default().bytes(1, &pod.in_envelope("Pod"));
    let event = Message::default().text(1, kind).message(2, &object);
    let length = u32::try_from(event.encoded().len()).unwrap();
    [&length.to_be_bytes(), event.encoded()].concat()
}
