//! The events of a watch as their bytes arrive, in protobuf frames or in lines of JSON: one event in
//! memory at a time.
//!
//! `watch` feeds it what it reads. The form is that of the Kubernetes documentation ("Kubernetes API
//! Concepts", Efficient detection of changes): in protobuf each event is behind its length, four
//! bytes, big-endian, and its object is again in an envelope of its own.

#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{self, Kind, Part};
use super::messages::{Bookmark, Pod, Status, TypeMeta, Unknown, WatchEvent};
use super::protobuf::{self, MAGIC};
use super::status::Encoding;
use super::unreadable::Unreadable;
use crate::domain::live::pod::PodView;

/// The largest event that is held, in bytes. An object is stored in etcd, which takes 1.5 MiB unless it
/// is configured otherwise.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// At the end of the list that a streaming list begins with.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    Pod { change: Change, pod: Result<PodView, Unreadable>, resource_version: String },
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Status),
}

/// What happened to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Modified,
    Deleted,
}

/// Bytes that are no events of a watch for pods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbled {
    #[error("an event is {0} bytes long or longer; at most {MOST_BYTES} were expected")]
    TooLarge(usize),
    #[error("an event breaks the rules of protobuf")]
    Malformed,
    #[error("an event is no JSON that an event could be: {0}")]
    Json(String),
    #[error("an event is of the type {0:?}")]
    Type(String),
    #[error("an event holds a {0:?}; a \"Pod\" was expected")]
    Kind(String),
    #[error("it ends in the middle of an event")]
    Truncated,
}

/// Cuts a stream into events.
#[derive(Debug)]
pub(super) struct EventReader {
    framing: Framing,
    buffer: BytesMut,
}

#[derive(Debug)]
enum Framing {
    Lengths,
    /// There is no line break among so many bytes.
    Lines {
        searched: usize,
    },
}

impl EventReader {
    /// One for this encoding, where it is known.
    pub(super) fn of(encoding: Encoding) -> Option<Self> {
        let framing = match encoding {
            Encoding::Protobuf => Framing::Lengths,
            Encoding::Json => Framing::Lines { searched: 0 },
            Encoding::Other => return None,
        };
        Some(Self { framing, buffer: BytesMut::new() })
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event, where all its bytes are there.
    pub(super) fn next(&mut self) -> Result<Option<Event>, Garbled> {
        if self.buffer.is_empty() {
            // A watch is silent for most of its life: what a burst or a large event took is given back.
            self.buffer = BytesMut::new();
            return Ok(None);
        }
        match &mut self.framing {
            Framing::Lengths => {
                let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
                let length = u32::from_be_bytes(*head) as usize;
                if length > MOST_BYTES {
                    return Err(Garbled::TooLarge(length));
                }
                if self.buffer.len() - 4 < length {
                    return Ok(None);
                }
                self.buffer.advance(4);
                let frame = self.buffer.split_to(length).freeze();
                Event::from_protobuf(frame).map(Some)
            }
            Framing::Lines { searched } => loop {
                let unsearched = self.buffer.iter().skip(*searched);
                let Some(length) = unsearched.copied().position(|byte| byte == b'\n').map(|n| *searched + n)
                else {
                    *searched = self.buffer.len();
                    return if *searched > MOST_BYTES { Err(Garbled::TooLarge(*searched)) } else { Ok(None) };
                };
                *searched = 0;
                let line = self.buffer.split_to(length);
                self.buffer.advance(1);
                if !line.trim_ascii().is_empty() {
                    return Event::from_json(&line).map(Some);
                }
            },
        }
    }

    /// Judges the end of the stream.
    pub(super) fn finish(&self) -> Result<(), Garbled> {
        if self.buffer.trim_ascii().is_empty() { Ok(()) } else { Err(Garbled::Truncated) }
    }
}

impl Event {
    fn from_protobuf(frame: Bytes) -> Result<Self, Garbled> {
        let malformed = |_| Garbled::Malformed;
        let event = WatchEvent::decode(frame).map_err(malformed)?;
        let mut raw = event.object.unwrap_or_default().raw;
        if !raw.starts_with(MAGIC) {
            return Err(Garbled::Malformed);
        }
        raw.advance(MAGIC.len());
        let Unknown { type_meta, raw } = Unknown::decode(raw).map_err(malformed)?;
        let TypeMeta { kind } = type_meta.unwrap_or_default();
        match Type::of(&event.r#type)? {
            Type::Change(change) if kind == "Pod" => Ok(Self::pod(change, protobuf::pod(&raw))),
            Type::Change(_) => Err(Garbled::Kind(kind)),
            Type::Bookmark => Bookmark::decode(raw).map(Self::bookmark).map_err(malformed),
            Type::Error => Status::decode(raw).map(Self::Error).map_err(malformed),
        }
    }

    fn from_json(line: &[u8]) -> Result<Self, Garbled> {
        #[derive(Deserialize)]
        struct Line {
            r#type: String,
            object: Box<RawValue>,
        }
        let event: Line = serde_json::from_slice(line).map_err(|e| Garbled::Json(e.to_string()))?;
        match Type::of(&event.r#type)? {
            Type::Change(change) => match event.object.decode::<Kind>().map_err(Garbled::Json)?.kind {
                Some(kind) if kind == "Pod" => Ok(Self::pod(change, document::decode(&event.object))),
                kind => Err(Garbled::Kind(kind.unwrap_or_default())),
            },
            Type::Bookmark => event.object.decode().map(Self::bookmark).map_err(Garbled::Json),
            Type::Error => event.object.decode().map(Self::Error).map_err(Garbled::Json),
        }
    }

    fn pod(change: Change, pod: Result<Pod, Unreadable>) -> Self {
        let mut resource_version = String::new();
        let pod = pod.map(|mut pod| {
            resource_version = pod.take_resource_version();
            pod.into()
        });
        Self::Pod { change, pod, resource_version }
    }

    fn bookmark(bookmark: Bookmark) -> Self {
        let metadata = bookmark.metadata.unwrap_or_default();
        let initial_events_end =
            metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
        Self::Bookmark { resource_version: metadata.resource_version, initial_events_end }
    }
}

enum Type {
    Change(Change),
    Bookmark,
    Error,
}

impl Type {
    fn of(name: &str) -> Result<Self, Garbled> {
        Ok(match name {
            "ADDED" => Self::Change(Change::Added),
            "MODIFIED" => Self::Change(Change::Modified),
            "DELETED" => Self::Change(Change::Deleted),
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return Err(Garbled::Type(name.to_owned())),
        })
    }
}
