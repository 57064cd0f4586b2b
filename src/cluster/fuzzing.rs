//! The door of `crate::fuzzing`: what a watch is read by, without a cluster.

#![expect(clippy::expect_used, reason = "what is not as it has to be is a finding")]

use std::time::Instant;

use super::event::{Heard, Listener};
use super::events::{Event, EventReader, Garbled};
use super::status::Encoding;

/// Reads the answer of a watch in both encodings; what is heard of it does not depend on how it is cut.
pub(crate) fn watch(bytes: &[u8], mut hear: impl FnMut(Heard)) {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let whole = read(encoding, bytes, bytes.len().max(1));
        let size = bytes.iter().fold(bytes.len(), |sum, byte| sum + usize::from(*byte)) % 31 + 1;
        assert_eq!(read(encoding, bytes, size), whole, "{encoding:?} in pieces of {size}");
        let mut listener = Listener::new(&mut hear, Instant::now());
        for event in whole.0 {
            listener.hear_event(event);
        }
    }
}

fn read(encoding: Encoding, bytes: &[u8], size: usize) -> (Vec<Event>, Result<(), Garbled>) {
    let mut reader = EventReader::of(encoding).expect("an encoding that is known");
    let mut events = Vec::new();
    for piece in bytes.chunks(size) {
        reader.feed(piece);
        loop {
            match reader.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(garbled) => return (events, Err(garbled)),
            }
        }
    }
    (events, reader.finish())
}
