//! Decodes a protobuf list as its bytes arrive, with one object in memory at a time.
//!
//! Called by `list` for each frame of a response. Format: Kubernetes documentation ("Kubernetes API
//! Concepts", Protobuf encoding): the magic `k8s\0`, then a `runtime.Unknown` whose `raw` is the list.
//! prost decodes whole messages only, so the two outer layers are decoded here.

use prost::Message;

use super::messages::{ListMeta, TypeMeta, Unknown};
use super::object::Object;
use super::unreadable::Unreadable;

/// Start of every Kubernetes protobuf message.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// Maximum size of one object, in bytes. etcd accepts 1.5 MiB by default.
pub(super) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The bytes are not a protobuf list of the requested objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("expected Kubernetes protobuf, got other data")]
    Magic,
    #[error("expected a {0:?}, got a {1:?}")]
    Kind(&'static str, String),
    #[error("expected at most {MAX_BYTES} bytes per object, got {0}")]
    TooLarge(u64),
    #[error("malformed protobuf")]
    Malformed,
    #[error("truncated list")]
    Truncated,
}

#[derive(Debug, Default)]
pub(super) struct ListReader {
    buffer: Vec<u8>,
    position: Position,
    metadata: ListMeta,
}

#[derive(Debug, Clone, Copy, Default)]
enum Position {
    #[default]
    Magic,
    /// Between fields of the `Unknown`.
    Envelope { list_was_read: bool },
    /// Between fields of the list, with `left` bytes to its end.
    List { left: u64 },
}

/// The head of a field, with the sizes of head and value in bytes.
struct Field {
    /// Zero for values other than messages, which are skipped.
    number: u64,
    head: usize,
    value: u64,
}

impl ListReader {
    /// Adds the next bytes, and passes each completed object to the callback.
    pub(super) fn feed<T: Object>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Result<T, Unreadable>),
    ) -> Result<(), DecodeError> {
        self.buffer.extend_from_slice(bytes);
        // Taken out, because `step` borrows it and `self`.
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        while let Some(after) = self.step(rest, &mut each)? {
            rest = after;
        }
        let consumed = buffer.len() - rest.len();
        self.buffer = buffer;
        self.buffer.drain(..consumed);
        Ok(())
    }

    /// Returns the metadata of the list after the last bytes.
    pub(super) fn finish(self) -> Result<ListMeta, DecodeError> {
        match self.position {
            Position::Envelope { list_was_read: true } if self.buffer.is_empty() => Ok(self.metadata),
            _ => Err(DecodeError::Truncated),
        }
    }

    /// Decodes one part and returns the bytes after it; `None` if more bytes are needed.
    fn step<'a, T: Object>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Result<T, Unreadable>),
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.position {
            Position::Magic => {
                if let Some(rest) = bytes.strip_prefix(MAGIC) {
                    self.position = Position::Envelope { list_was_read: false };
                    Ok(Some(rest))
                } else if MAGIC.starts_with(bytes) {
                    Ok(None)
                } else {
                    Err(DecodeError::Magic)
                }
            }
            Position::Envelope { .. } => {
                let Some(field) = Field::at(bytes)? else { return Ok(None) };
                if field.number == 2 {
                    self.position = Position::List { left: field.value };
                    return Ok(bytes.get(field.head..));
                }
                let Some((value, rest)) = field.split(bytes)? else { return Ok(None) };
                if field.number == 1 {
                    let kind = TypeMeta::decode(value).map_err(|_| DecodeError::Malformed)?.kind;
                    if kind != T::LIST {
                        return Err(DecodeError::Kind(T::LIST, kind));
                    }
                }
                Ok(Some(rest))
            }
            Position::List { left: 0 } => {
                self.position = Position::Envelope { list_was_read: true };
                Ok(Some(bytes))
            }
            Position::List { left } => {
                let Some(field) = Field::at(bytes)? else { return Ok(None) };
                let whole = field.value.checked_add(field.head as u64).ok_or(DecodeError::Malformed)?;
                let left = left.checked_sub(whole).ok_or(DecodeError::Malformed)?;
                let Some((value, rest)) = field.split(bytes)? else { return Ok(None) };
                self.position = Position::List { left };
                match field.number {
                    1 => self.metadata = ListMeta::decode(value).map_err(|_| DecodeError::Malformed)?,
                    2 => each(object(value)),
                    _ => {}
                }
                Ok(Some(rest))
            }
        }
    }
}

impl Field {
    /// Decodes the head of a field; `None` if it is incomplete.
    fn at(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some((key, after_key)) = varint(bytes)? else { return Ok(None) };
        let (value, rest) = match key & 7 {
            0 => match varint(after_key)? {
                Some((_, rest)) => ((after_key.len() - rest.len()) as u64, after_key),
                None => return Ok(None),
            },
            1 => (8, after_key),
            2 => match varint(after_key)? {
                Some(found) => found,
                None => return Ok(None),
            },
            5 => (4, after_key),
            _ => return Err(DecodeError::Malformed),
        };
        let number = if key & 7 == 2 { key >> 3 } else { 0 };
        Ok(Some(Self { number, head: bytes.len() - rest.len(), value }))
    }

    /// Splits the bytes after the value; `None` if the value is incomplete.
    #[expect(clippy::type_complexity, reason = "the only caller destructures the pair")]
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<Option<(&'a [u8], &'a [u8])>, DecodeError> {
        if self.value > MAX_BYTES {
            return Err(DecodeError::TooLarge(self.value));
        }
        let length = usize::try_from(self.value).map_err(|_| DecodeError::TooLarge(self.value))?;
        Ok(bytes.get(self.head..).and_then(|from_value| from_value.split_at_checked(length)))
    }
}

/// Decodes a varint and returns the bytes after it; `None` if it is incomplete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, &[u8])>, DecodeError> {
    let mut value = 0;
    for (n, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if *byte < 0x80 {
            return Ok(bytes.get(n + 1..).map(|rest| (value, rest)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(DecodeError::Malformed) }
}

pub(super) fn object<T: Object>(bytes: &[u8]) -> Result<T, Unreadable> {
    T::decode(bytes).map_err(|problem| Unreadable::from_protobuf(bytes, T::KIND, &problem))
}

/// The kind of the object in a complete envelope.
pub(super) fn kind(bytes: &[u8]) -> Option<String> {
    Some(Unknown::decode(bytes.strip_prefix(MAGIC)?).ok()?.type_meta?.kind)
}

/// Decodes the message in a complete envelope.
pub(super) fn unwrap<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    let unknown = Unknown::decode(bytes.strip_prefix(MAGIC)?).ok()?;
    M::decode(unknown.raw).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::document;
    use crate::cluster::messages::Pod;
    use crate::live::pod::PodView;

    const LIST: &[u8] = include_bytes!("../../../../tests/fixtures/kube-api/pod-list.pb");
    const PAGE: &[u8] = include_bytes!("../../../../tests/fixtures/kube-api/pod-list-page-1.pb");

    fn read<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<PodView>, String), DecodeError> {
        let mut reader = ListReader::default();
        let mut pods = Vec::new();
        for frame in frames {
            reader.feed(frame, |pod: Result<Pod, _>| pods.push(pod.unwrap().into()))?;
        }
        Ok((pods, reader.finish()?.continue_token))
    }

    #[test]
    fn list_is_independent_of_the_frame_size() {
        let (pods, token) = read([PAGE]).unwrap();
        assert_eq!(pods.len(), 10);
        assert!(!token.is_empty());
        for size in [1, 2, 3, 7, 100, 4096] {
            assert_eq!(read(PAGE.chunks(size)).unwrap(), (pods.clone(), token.clone()), "{size}");
        }
        let (all, token) = read([LIST]).unwrap();
        assert_eq!((all.len(), token.as_str()), (26, ""));
        assert_eq!(all[..10], pods);
    }

    #[test]
    fn recorded_protobuf_and_json_give_the_same_views() {
        let json = include_bytes!("../../../../tests/fixtures/kube-api/pod-list.json");
        let mut views: Vec<PodView> = Vec::new();
        let mut json = serde_json::Deserializer::from_slice(json);
        let mut take = |_, pod: Result<Pod, Unreadable>| views.push(pod.unwrap().into());
        document::read::<serde_json::Value, _>(&mut json, &mut take).unwrap();
        assert_eq!(read([LIST]).unwrap().0, views);
    }

    #[test]
    fn list_truncated_at_any_byte_is_rejected() {
        // After `raw`, the envelope has two empty fields.
        let essential = PAGE.len() - 4;
        for end in 0..essential {
            assert_eq!(read([&PAGE[..end]]), Err(DecodeError::Truncated), "{end}");
        }
    }

    #[test]
    fn response_that_is_not_a_pod_list_is_rejected_with_a_reason() {
        let status: &[u8] = include_bytes!("../../../../tests/fixtures/kube-api/statuses/403.pb");
        assert_eq!(read([status]), Err(DecodeError::Kind("PodList", "Status".into())));
        assert_eq!(read([b"<html>".as_slice()]), Err(DecodeError::Magic));
        let huge = [b"k8s\0\x12\xff\xff\xff\xff\x7f".as_slice(), b"\x12\xff\xff\xff\x7f"];
        assert!(matches!(read(huge), Err(DecodeError::TooLarge(_))));
        let overflow = b"k8s\0\x12\x20\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".as_slice();
        assert_eq!(read([overflow]), Err(DecodeError::Malformed));
        let no_message = b"k8s\0\x10\x05".as_slice();
        assert_eq!(read([no_message]), Err(DecodeError::Truncated));
        let groups = b"k8s\0\x12\x05\x13".as_slice();
        assert_eq!(read([groups]), Err(DecodeError::Malformed));
    }

    proptest! {
        #[test]
        fn corrupted_bytes_never_panic(
            at in proptest::collection::vec((0..LIST.len(), any::<u8>()), 0..8),
            frame in 1..5000_usize,
        ) {
            let mut bytes = LIST.to_vec();
            for (at, byte) in at {
                bytes[at] = byte;
            }
            let mut reader = ListReader::default();
            let _ = bytes.chunks(frame).try_for_each(|frame| reader.feed(frame, |_: Result<Pod, _>| ()));
            let _ = reader.finish();
        }
    }
}
