//! A fake API server that is never the bottleneck.
//!
//! Lists and streaming lists are assembled from encoded pods while they are sent, in protobuf or JSON. Watches receive
//! the frames of `events`.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response};
use tokio::sync::mpsc;

use super::pods::{Replicas, Size, State};
use crate::fake::kube::PROTOBUF;
use crate::fake::pods::{Message, namespace};

/// resourceVersion of all lists.
const VERSION: u64 = 100_000_000;

/// Approximate size of a part of a body, in bytes.
const PART: usize = 64 * 1024;

/// Number of namespaces with the label `team`, with and without pods.
pub const LABELLED: usize = 5_000;

/// `ReplicaSet`s per namespace.
pub const IN_NAMESPACE: usize = 40;

/// A cluster and its open watches.
pub struct Cluster {
    pub replicas: Vec<Replicas>,
    /// Number of the first pod of each `ReplicaSet`.
    firsts: Vec<usize>,
    pub pods: usize,
    /// By namespace; empty for the whole cluster.
    watches: Mutex<HashMap<String, mpsc::UnboundedSender<Bytes>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Protobuf,
    Json,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    List,
    Events,
}

/// A response that is generated while it is sent.
pub struct ResponseBody {
    cluster: Arc<Cluster>,
    encoding: Encoding,
    form: Form,
    next: usize,
    end: usize,
    /// Bytes before and after the pods.
    head: Vec<u8>,
    tail: Vec<u8>,
    is_over: bool,
    events: Option<mpsc::UnboundedReceiver<Bytes>>,
}

impl Cluster {
    /// Pods in `ReplicaSet`s of 1 to 50 pods, with `in_namespace` of them per namespace.
    pub fn new(pods: usize, size: Size, in_namespace: usize) -> Self {
        let (mut replicas, mut firsts, mut first) = (Vec::new(), Vec::new(), 0);
        while first < pods {
            let n = replicas.len();
            let size_of_set = (1 + n.wrapping_mul(2_654_435_761) / 64 % 50).min(pods - first);
            replicas.push(Replicas::new(n, size_of_set, size, in_namespace));
            firsts.push(first);
            first += size_of_set;
        }
        Self { replicas, firsts, pods, watches: Mutex::default() }
    }

    pub fn find(&self, pod: usize) -> (&Replicas, usize) {
        let n = self.firsts.partition_point(|first| *first <= pod) - 1;
        (&self.replicas[n], pod - self.firsts[n])
    }

    /// Sends a frame to the open watch of a namespace; returns false without one.
    pub fn send(&self, namespace: &str, frame: Vec<u8>) -> bool {
        let watches = self.watches.lock().unwrap();
        let watch = watches.get(namespace).or_else(|| watches.get(""));
        watch.is_some_and(|watch| watch.send(frame.into()).is_ok())
    }

    /// Numbers of the pods of a namespace, or of all.
    fn within(&self, namespace: &str) -> std::ops::Range<usize> {
        if namespace.is_empty() {
            return 0..self.pods;
        }
        let first = |n: usize| self.firsts.get(n).copied().unwrap_or(self.pods);
        let start = self.replicas.partition_point(|replicas| replicas.namespace.as_str() < namespace);
        let end = self.replicas.partition_point(|replicas| replicas.namespace.as_str() <= namespace);
        first(start)..first(end)
    }

    /// Mean size of a pod in protobuf and in JSON.
    pub fn mean_sizes(&self) -> (usize, usize) {
        let of = |size: fn(&Replicas) -> usize| {
            self.replicas.iter().map(|r| r.pods * size(r)).sum::<usize>() / self.pods
        };
        (of(|r| r.protobuf(State::Ready).bytes.len()), of(|r| r.json().bytes.len()))
    }

    /// A streaming list of namespaces.
    fn labels(&self) -> Vec<u8> {
        let mut names: Vec<_> = self.replicas.iter().map(|replicas| replicas.namespace.clone()).collect();
        names.dedup();
        names.extend((names.len()..LABELLED).map(|n| format!("team-without-pods-{n:04}")));
        let frames = names.iter().flat_map(|name| {
            let object = namespace(name, &["team=a"], VERSION).in_envelope("PartialObjectMetadata");
            let event = Message::default().text(1, "ADDED").message(2, &Message::default().bytes(1, &object));
            [&u32::try_from(event.encoded().len()).unwrap().to_be_bytes(), event.encoded()].concat()
        });
        frames.chain(end_of_initial_events()).collect()
    }

    /// Length of a streaming list in bytes.
    pub fn streaming_list(&self) -> usize {
        let mut frame = Vec::new();
        let mut length = |pod| {
            let (replicas, k) = self.find(pod);
            frame.clear();
            event("ADDED", replicas, k, 10_000_000, State::Ready, &mut frame);
            frame.len()
        };
        (0..self.pods).map(&mut length).sum::<usize>() + end_of_initial_events().len()
    }

    pub fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Response<ResponseBody> {
        let query = request.uri().query().unwrap_or_default();
        let parameters: HashMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let accept = request.headers().get("accept").map_or("", |value| value.to_str().unwrap());
        let encoding = if accept.contains(PROTOBUF) { Encoding::Protobuf } else { Encoding::Json };
        let is_watch = parameters.get("watch").is_some_and(|value| value == "1" || value == "true");
        let is_whole = !is_watch || parameters.get("sendInitialEvents").is_some_and(|value| value == "true");
        let is_about_labels = request.uri().path() == "/api/v1/namespaces";
        let namespace = request.uri().path().strip_prefix("/api/v1/namespaces/").unwrap_or_default();
        // No pod has the namespace `/`.
        let namespace = if is_about_labels { "/" } else { namespace.split('/').next().unwrap_or_default() };
        let within = self.within(namespace);
        let next = parameters.get("continue").map_or(within.start, |token| token.parse().unwrap());
        let limit = parameters.get("limit").map_or(self.pods, |limit| limit.parse().unwrap());
        let mut body = ResponseBody {
            cluster: Arc::clone(self),
            encoding,
            form: if is_watch { Form::Events } else { Form::List },
            next,
            end: if is_whole { within.end.min(next + limit) } else { next },
            head: Vec::new(),
            tail: Vec::new(),
            is_over: false,
            events: None,
        };
        if is_watch {
            let (sender, events) = mpsc::unbounded_channel();
            self.watches.lock().unwrap().insert(namespace.to_owned(), sender);
            body.events = Some(events);
        }
        match (body.form, encoding) {
            (Form::List, _) => body.frame_list(within.end),
            (Form::Events, _) if is_whole && is_about_labels => body.tail = self.labels(),
            // Only the daemon requests streaming lists.
            (Form::Events, _) => body.tail = if is_whole { end_of_initial_events() } else { Vec::new() },
        }
        let content_type = match (encoding, body.form) {
            (Encoding::Protobuf, Form::List) => PROTOBUF,
            (Encoding::Protobuf, Form::Events) => "application/vnd.kubernetes.protobuf;stream=watch",
            (Encoding::Json, _) => "application/json",
        };
        Response::builder().header("content-type", content_type).body(body).unwrap()
    }
}

impl ResponseBody {
    /// Sets the bytes around the pods of a list. `last` is the end of the whole list.
    fn frame_list(&mut self, last: usize) {
        let remaining = last - self.end;
        let token = if remaining > 0 { self.end.to_string() } else { String::new() };
        match self.encoding {
            Encoding::Json => {
                self.head = format!(
                    r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{VERSION}","continue":"{token}"}},"items":["#
                )
                .into_bytes();
                self.tail = b"]}\n".to_vec();
            }
            Encoding::Protobuf => {
                let mut metadata =
                    Message::default().text(1, "").text(2, &VERSION.to_string()).text(3, &token);
                if remaining > 0 {
                    metadata = metadata.number(4, remaining as u64);
                }
                let metadata = Message::default().message(1, &metadata);
                let pods: usize = (self.next..self.end)
                    .map(|pod| self.cluster.find(pod).0.protobuf(State::Ready).bytes.len())
                    .map(|length| 1 + varint(length).len() + length)
                    .sum();
                let type_meta = Message::default().text(1, "v1").text(2, "PodList");
                let opening = Message::default().message(1, &type_meta);
                self.head = [
                    b"k8s\0",
                    opening.encoded(),
                    &[0x12],
                    &varint(metadata.encoded().len() + pods),
                    metadata.encoded(),
                ]
                .concat();
                self.tail = Message::default().text(3, "").text(4, "").encoded().to_vec();
            }
        }
    }

    fn write(&mut self, to: &mut Vec<u8>) {
        let cluster = Arc::clone(&self.cluster);
        let (replicas, k) = cluster.find(self.next);
        let version = 10_000_000 + self.next as u64;
        match (self.form, self.encoding) {
            (Form::List, Encoding::Protobuf) => {
                let encoded = replicas.protobuf(State::Ready);
                to.push(0x12);
                to.extend_from_slice(&varint(encoded.bytes.len()));
                replicas.write(k, version, encoded, to);
            }
            (Form::List, Encoding::Json) => {
                if !to.ends_with(b"[") {
                    to.push(b',');
                }
                replicas.write(k, version, replicas.json(), to);
            }
            (Form::Events, _) => event("ADDED", replicas, k, version, State::Ready, to),
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
        if !self.is_over {
            let mut part = std::mem::take(&mut self.head);
            part.reserve(PART + PART / 2);
            while self.next < self.end && part.len() < PART {
                self.write(&mut part);
            }
            if self.next == self.end {
                part.append(&mut self.tail);
                self.is_over = true;
            }
            if !part.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(part.into()))));
            }
        }
        match &mut self.events {
            Some(events) => events.poll_recv(context).map(|event| event.map(|frame| Ok(Frame::data(frame)))),
            None => Poll::Ready(None),
        }
    }
}

/// Appends a watch frame with a pod.
pub fn event(kind: &str, replicas: &Replicas, k: usize, version: u64, state: State, to: &mut Vec<u8>) {
    let encoded = replicas.protobuf(state);
    let type_meta = Message::default().text(1, "v1").text(2, "Pod");
    let opening = Message::default().message(1, &type_meta);
    let pod = encoded.bytes.len();
    let envelope = 4 + opening.encoded().len() + 1 + varint(pod).len() + pod + 4;
    let object = 1 + varint(envelope).len() + envelope;
    let kind = Message::default().text(1, kind);
    let length = kind.encoded().len() + 1 + varint(object).len() + object;
    to.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    to.extend_from_slice(kind.encoded());
    to.push(0x12);
    to.extend_from_slice(&varint(object));
    to.push(0x0a);
    to.extend_from_slice(&varint(envelope));
    to.extend_from_slice(b"k8s\0");
    to.extend_from_slice(opening.encoded());
    to.push(0x12);
    to.extend_from_slice(&varint(pod));
    replicas.write(k, version, encoded, to);
    to.extend_from_slice(Message::default().text(3, "").text(4, "").encoded());
}

fn end_of_initial_events() -> Vec<u8> {
    let annotation = Message::default().text(1, "k8s.io/initial-events-end").text(2, "true");
    let metadata = Message::default().text(6, &VERSION.to_string()).message(12, &annotation);
    let envelope = Message::default().message(1, &metadata).in_envelope("Pod");
    let event = Message::default().text(1, "BOOKMARK").message(2, &Message::default().bytes(1, &envelope));
    let length = u32::try_from(event.encoded().len()).unwrap();
    [&length.to_be_bytes(), event.encoded()].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
