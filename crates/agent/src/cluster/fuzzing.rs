//! Entry point of `supercargo_fuzz`: decodes a watch without a cluster.

#![expect(clippy::expect_used, reason = "a panic is a finding")]

use std::time::Instant;

use super::event::{Listener, WatchEvent};
use super::events::{DecodeError, DecodedEvent, EventReader};
use super::messages::Pod;
use super::status::Encoding;

/// Decodes the response of a watch in both encodings. The events must not depend on the chunk size.
pub fn watch(bytes: &[u8], mut callback: impl FnMut(WatchEvent)) {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let whole = read(encoding, bytes, bytes.len().max(1));
        let size = bytes.iter().fold(bytes.len(), |sum, byte| sum + usize::from(*byte)) % 31 + 1;
        assert_eq!(read(encoding, bytes, size), whole, "{encoding:?} in pieces of {size}");
        let mut listener = Listener::new(&mut callback, Instant::now());
        for event in whole.0 {
            listener.send_event(event);
        }
    }
}

fn read(encoding: Encoding, bytes: &[u8], size: usize) -> (Vec<DecodedEvent>, Result<(), DecodeError>) {
    let mut reader = EventReader::from_encoding(encoding).expect("a known encoding");
    let mut events = Vec::new();
    for piece in bytes.chunks(size) {
        reader.feed(piece);
        loop {
            match reader.next::<Pod>() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    (events, reader.finish())
}
