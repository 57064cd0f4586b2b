//! A protobuf `PodList` as its bytes arrive: one pod in memory at a time.
//!
//! `list` feeds it the frames of an answer. The form is that of the Kubernetes documentation
//! ("Kubernetes API Concepts", Protobuf encoding): the magic `k8s\0`, then a `runtime.Unknown`
//! whose `raw` is the list. prost decodes whole messages only, so the two outer layers are walked
//! here, and each item is left to it.

use prost::Message;

use super::messages::{ListMeta, Pod, TypeMeta, Unknown};
use super::unreadable::Unreadable;

/// What every Kubernetes protobuf message begins with.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// The largest single part that is held, in bytes. An object is stored in etcd, which takes 1.5 MiB
/// unless it is configured otherwise.
pub(super) const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes that are no protobuf list of pods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbled {
    #[error("it does not begin as Kubernetes protobuf does")]
    Magic,
    #[error("it holds a {0:?}; a \"PodList\" was expected")]
    Kind(String),
    #[error("a part of it is {0} bytes long; at most {MOST_BYTES} were expected")]
    TooLarge(u64),
    #[error("it breaks the rules of protobuf")]
    Malformed,
    #[error("it ends in the middle of the list")]
    Truncated,
}

/// Reads one `PodList`.
#[derive(Debug, Default)]
pub(super) struct PodListReader {
    buffer: Vec<u8>,
    place: Place,
    metadata: ListMeta,
}

#[derive(Debug, Clone, Copy, Default)]
enum Place {
    #[default]
    Magic,
    /// Among the fields of the `Unknown`.
    Envelope { list_was_read: bool },
    /// Among the fields of the `PodList`, of which so many bytes are left.
    List { left: u64 },
}

/// The head of a field: its number, and how long head and value are.
struct Field {
    /// Zero for a value that is no message, whatever its number: none of those is looked at.
    number: u64,
    head: usize,
    value: u64,
}

impl PodListReader {
    /// Takes in the next bytes, and hands out each pod that is complete with them. A pod that cannot
    /// be decoded is handed out as its error.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Result<Pod, Unreadable>),
    ) -> Result<(), Garbled> {
        self.buffer.extend_from_slice(bytes);
        // Taken out, so that a part can be read while the place moves on.
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

    /// The list's metadata, once all bytes were fed.
    pub(super) fn finish(self) -> Result<ListMeta, Garbled> {
        match self.place {
            Place::Envelope { list_was_read: true } if self.buffer.is_empty() => Ok(self.metadata),
            _ => Err(Garbled::Truncated),
        }
    }

    /// Reads one part off the front: what is left behind it, or nothing where more bytes are needed.
    fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Result<Pod, Unreadable>),
    ) -> Result<Option<&'a [u8]>, Garbled> {
        match self.place {
            Place::Magic => {
                if let Some(rest) = bytes.strip_prefix(MAGIC) {
                    self.place = Place::Envelope { list_was_read: false };
                    Ok(Some(rest))
                } else if MAGIC.starts_with(bytes) {
                    Ok(None)
                } else {
                    Err(Garbled::Magic)
                }
            }
            Place::Envelope { .. } => {
                let Some(field) = Field::at(bytes)? else { return Ok(None) };
                if field.number == 2 {
                    self.place = Place::List { left: field.value };
                    return Ok(bytes.get(field.head..));
                }
                let Some((value, rest)) = field.split(bytes)? else { return Ok(None) };
                if field.number == 1 {
                    let kind = TypeMeta::decode(value).map_err(|_| Garbled::Malformed)?.kind;
                    if kind != "PodList" {
                        return Err(Garbled::Kind(kind));
                    }
                }
                Ok(Some(rest))
            }
            Place::List { left: 0 } => {
                self.place = Place::Envelope { list_was_read: true };
                Ok(Some(bytes))
            }
            Place::List { left } => {
                let Some(field) = Field::at(bytes)? else { return Ok(None) };
                let whole = field.value.checked_add(field.head as u64).ok_or(Garbled::Malformed)?;
                let left = left.checked_sub(whole).ok_or(Garbled::Malformed)?;
                let Some((value, rest)) = field.split(bytes)? else { return Ok(None) };
                self.place = Place::List { left };
                match field.number {
                    1 => self.metadata = ListMeta::decode(value).map_err(|_| Garbled::Malformed)?,
                    2 => each(pod(value)),
                    _ => {}
                }
                Ok(Some(rest))
            }
        }
    }
}

impl Field {
    /// Reads the head of the field that begins here, where it is complete.
    fn at(bytes: &[u8]) -> Result<Option<Self>, Garbled> {
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
            _ => return Err(Garbled::Malformed),
        };
        let number = if key & 7 == 2 { key >> 3 } else { 0 };
        Ok(Some(Self { number, head: bytes.len() - rest.len(), value }))
    }

    /// Its value and what follows, where the value is complete.
    #[expect(clippy::type_complexity, reason = "a pair that is taken apart where it is made")]
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<Option<(&'a [u8], &'a [u8])>, Garbled> {
        if self.value > MOST_BYTES {
            return Err(Garbled::TooLarge(self.value));
        }
        let length = usize::try_from(self.value).map_err(|_| Garbled::TooLarge(self.value))?;
        Ok(bytes.get(self.head..).and_then(|from_value| from_value.split_at_checked(length)))
    }
}

/// Reads a varint and what follows it, where it is complete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, &[u8])>, Garbled> {
    let mut value = 0;
    for (n, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if *byte < 0x80 {
            return Ok(bytes.get(n + 1..).map(|rest| (value, rest)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(Garbled::Malformed) }
}

/// One pod, which may be odd and must not spoil the others.
pub(super) fn pod(bytes: &[u8]) -> Result<Pod, Unreadable> {
    Pod::decode(bytes).map_err(|problem| Unreadable::of_protobuf(bytes, &problem))
}

/// What kind of object is in an envelope that is held whole.
pub(super) fn kind(bytes: &[u8]) -> Option<String> {
    Some(Unknown::decode(bytes.strip_prefix(MAGIC)?).ok()?.type_meta?.kind)
}

/// The message in an envelope that is held whole, where it is one.
pub(super) fn unwrap<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    let unknown = Unknown::decode(bytes.strip_prefix(MAGIC)?).ok()?;
    M::decode(unknown.raw).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::document;
    use crate::domain::live::pod::PodView;

    const LIST: &[u8] = include_bytes!("../../tests/fixtures/kube-api/pod-list.pb");
    const PAGE: &[u8] = include_bytes!("../../tests/fixtures/kube-api/pod-list-page-1.pb");

    fn read<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<PodView>, String), Garbled> {
        let mut reader = PodListReader::default();
        let mut pods = Vec::new();
        for frame in frames {
            reader.feed(frame, |pod| pods.push(pod.unwrap().into()))?;
        }
        Ok((pods, reader.finish()?.continue_token))
    }

    #[test]
    fn however_the_bytes_are_cut_into_frames_the_list_is_the_same() {
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
    fn the_same_pods_recorded_in_json_give_the_same_views() {
        let json = include_bytes!("../../tests/fixtures/kube-api/pod-list.json");
        let mut views: Vec<PodView> = Vec::new();
        let mut json = serde_json::Deserializer::from_slice(json);
        let mut take = |_, pod: Result<Pod, Unreadable>| views.push(pod.unwrap().into());
        document::read::<serde_json::Value, _>(&mut json, &mut take).unwrap();
        assert_eq!(read([LIST]).unwrap().0, views);
    }

    #[test]
    fn a_list_that_ends_anywhere_before_its_end_is_no_list() {
        // Behind `raw` the envelope has two more, empty fields, which say nothing.
        let essential = PAGE.len() - 4;
        for end in 0..essential {
            assert_eq!(read([&PAGE[..end]]), Err(Garbled::Truncated), "{end}");
        }
    }

    #[test]
    fn what_is_no_list_of_pods_is_refused_for_what_it_is() {
        let status: &[u8] = include_bytes!("../../tests/fixtures/kube-api/status-403.pb");
        assert_eq!(read([status]), Err(Garbled::Kind("Status".into())));
        assert_eq!(read([b"<html>".as_slice()]), Err(Garbled::Magic));
        let huge = [b"k8s\0\x12\xff\xff\xff\xff\x7f".as_slice(), b"\x12\xff\xff\xff\x7f"];
        assert!(matches!(read(huge), Err(Garbled::TooLarge(_))));
        let overflow = b"k8s\0\x12\x20\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".as_slice();
        assert_eq!(read([overflow]), Err(Garbled::Malformed));
        let no_message = b"k8s\0\x10\x05".as_slice();
        assert_eq!(read([no_message]), Err(Garbled::Truncated));
        let groups = b"k8s\0\x12\x05\x13".as_slice();
        assert_eq!(read([groups]), Err(Garbled::Malformed));
    }

    proptest! {
        #[test]
        fn bytes_that_were_changed_on_the_way_never_panic(
            at in proptest::collection::vec((0..LIST.len(), any::<u8>()), 0..8),
            frame in 1..5000_usize,
        ) {
            let mut bytes = LIST.to_vec();
            for (at, byte) in at {
                bytes[at] = byte;
            }
            let mut reader = PodListReader::default();
            let _ = bytes.chunks(frame).try_for_each(|frame| reader.feed(frame, |_| ()));
            let _ = reader.finish();
        }
    }
}
