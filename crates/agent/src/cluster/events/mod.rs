//! Decodes the events of a watch as their bytes arrive, with one event in memory at a time.
//!
//! Called by `watch` for each chunk. Format: Kubernetes documentation ("Kubernetes API Concepts", Efficient
//! detection of changes): lines of JSON, or protobuf events after their length (four bytes, big-endian).
//! The object of a protobuf event has its own envelope.

#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{self, Kind, Part};
use super::messages::{Bookmark, Status, TypeMeta, Unknown, WatchFrame};
use super::object::Object;
use super::protobuf::{self, MAGIC};
use super::status::Encoding;
use super::unreadable::Unreadable;
use crate::live::pod::PodView;

/// Maximum size of an event, in bytes. etcd accepts objects of 1.5 MiB by default.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Annotation of the bookmark at the end of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DecodedEvent<V = PodView> {
    Object { change: ObjectChange, object: Result<V, Unreadable>, resource_version: String },
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectChange {
    Added,
    Modified,
    Deleted,
}

/// The bytes are not events of a watch for the requested objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("expected at most {MAX_BYTES} bytes per event, got {0} or more")]
    TooLarge(usize),
    #[error("malformed protobuf in an event")]
    Malformed,
    #[error("invalid JSON in an event: {0}")]
    Json(String),
    #[error("unknown event type {0:?}")]
    Type(String),
    #[error("expected a {0:?} in an event, got a {1:?}")]
    Kind(&'static str, String),
    #[error("truncated event")]
    Truncated,
}

#[derive(Debug)]
pub(super) struct EventReader {
    framing: Framing,
    buffer: BytesMut,
}

#[derive(Debug)]
enum Framing {
    Lengths,
    /// The first `searched` bytes contain no line break.
    Lines {
        searched: usize,
    },
}

impl EventReader {
    pub(super) fn from_encoding(encoding: Encoding) -> Option<Self> {
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

    pub(super) fn next<T: Object>(&mut self) -> Result<Option<DecodedEvent<T::View>>, DecodeError> {
        if self.buffer.is_empty() {
            // Releases the memory of a burst or a large event, because most watches are idle.
            self.buffer = BytesMut::new();
            return Ok(None);
        }
        match &mut self.framing {
            Framing::Lengths => {
                let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
                let length = u32::from_be_bytes(*head) as usize;
                if length > MAX_BYTES {
                    return Err(DecodeError::TooLarge(length));
                }
                if self.buffer.len() - 4 < length {
                    return Ok(None);
                }
                self.buffer.advance(4);
                let frame = self.buffer.split_to(length).freeze();
                DecodedEvent::from_protobuf::<T>(frame).map(Some)
            }
            Framing::Lines { searched } => loop {
                let unsearched = self.buffer.iter().skip(*searched);
                let Some(length) = unsearched.copied().position(|byte| byte == b'\n').map(|n| *searched + n)
                else {
                    *searched = self.buffer.len();
                    return if *searched > MAX_BYTES {
                        Err(DecodeError::TooLarge(*searched))
                    } else {
                        Ok(None)
                    };
                };
                *searched = 0;
                let line = self.buffer.split_to(length);
                self.buffer.advance(1);
                if !line.trim_ascii().is_empty() {
                    return DecodedEvent::from_json::<T>(&line).map(Some);
                }
            },
        }
    }

    /// Checks the end of the stream.
    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        if self.buffer.trim_ascii().is_empty() { Ok(()) } else { Err(DecodeError::Truncated) }
    }
}

impl<V> DecodedEvent<V> {
    fn from_protobuf<T: Object<View = V>>(frame: Bytes) -> Result<Self, DecodeError> {
        let malformed = |_| DecodeError::Malformed;
        let event = WatchFrame::decode(frame).map_err(malformed)?;
        let mut raw = event.object.unwrap_or_default().raw;
        if !raw.starts_with(MAGIC) {
            return Err(DecodeError::Malformed);
        }
        raw.advance(MAGIC.len());
        let Unknown { type_meta, raw } = Unknown::decode(raw).map_err(malformed)?;
        let TypeMeta { kind } = type_meta.unwrap_or_default();
        match FrameType::parse(&event.r#type)? {
            FrameType::Change(change) if kind == T::KIND => {
                Ok(Self::object(change, protobuf::object::<T>(&raw)))
            }
            FrameType::Change(_) => Err(DecodeError::Kind(T::KIND, kind)),
            FrameType::Bookmark => Bookmark::decode(raw).map(Self::bookmark).map_err(malformed),
            FrameType::Error => Status::decode(raw).map(Self::Error).map_err(malformed),
        }
    }

    fn from_json<T: Object<View = V>>(line: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Line {
            r#type: String,
            object: Box<RawValue>,
        }
        let event: Line = serde_json::from_slice(line).map_err(|e| DecodeError::Json(e.to_string()))?;
        match FrameType::parse(&event.r#type)? {
            FrameType::Change(change) => match event.object.decode::<Kind>().map_err(DecodeError::Json)?.kind
            {
                Some(kind) if kind == T::KIND => {
                    Ok(Self::object::<T>(change, document::decode(T::KIND, &event.object)))
                }
                kind => Err(DecodeError::Kind(T::KIND, kind.unwrap_or_default())),
            },
            FrameType::Bookmark => event.object.decode().map(Self::bookmark).map_err(DecodeError::Json),
            FrameType::Error => event.object.decode().map(Self::Error).map_err(DecodeError::Json),
        }
    }

    fn object<T: Object<View = V>>(change: ObjectChange, object: Result<T, Unreadable>) -> Self {
        let mut resource_version = String::new();
        let object = object.map(|mut object| {
            resource_version = object.take_resource_version();
            object.into()
        });
        Self::Object { change, object, resource_version }
    }

    fn bookmark(bookmark: Bookmark) -> Self {
        let metadata = bookmark.metadata.unwrap_or_default();
        let initial_events_end =
            metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
        Self::Bookmark { resource_version: metadata.resource_version, initial_events_end }
    }
}

enum FrameType {
    Change(ObjectChange),
    Bookmark,
    Error,
}

impl FrameType {
    fn parse(name: &str) -> Result<Self, DecodeError> {
        Ok(match name {
            "ADDED" => Self::Change(ObjectChange::Added),
            "MODIFIED" => Self::Change(ObjectChange::Modified),
            "DELETED" => Self::Change(ObjectChange::Deleted),
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return Err(DecodeError::Type(name.to_owned())),
        })
    }
}
