//! Buffers of request bodies. Large ones are used again: the allocator would return their memory to the kernel each time.

use std::ops::{Deref, DerefMut, RangeInclusive};

use tokio::sync::{Mutex, MutexGuard};

/// Maximum allocation before a body arrives, in bytes.
pub(super) const MAX_PREALLOCATED_BYTES: usize = 1024 * 1024;

/// Capacities of reused buffers, in bytes.
const REUSED_BYTES: RangeInclusive<usize> = 64 * 1024..=MAX_PREALLOCATED_BYTES;

/// The reused buffers. A request holds the lock of its buffer.
static REUSED: [Mutex<Vec<u8>>; 8] = [const { Mutex::const_new(Vec::new()) }; _];

/// The bytes of a body.
pub(crate) enum Buffer {
    Reused(MutexGuard<'static, Vec<u8>>),
    New(Vec<u8>),
}

impl Buffer {
    /// An empty buffer. A reused one, if the capacity is in its range and another request does not hold it.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self::from_reused(&REUSED, capacity)
    }

    fn from_reused(reused: &'static [Mutex<Vec<u8>>], capacity: usize) -> Self {
        let reused = if REUSED_BYTES.contains(&capacity) { reused } else { &[] };
        let free = reused.iter().find_map(|buffer| buffer.try_lock().ok());
        let mut buffer = free.map_or_else(|| Self::New(Vec::new()), Self::Reused);
        buffer.clear();
        buffer.reserve_exact(capacity);
        buffer
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        match self {
            Self::Reused(bytes) => bytes,
            Self::New(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Reused(bytes) => bytes,
            Self::New(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffer_is_used_again_after_its_request() {
        static ONE: [Mutex<Vec<u8>>; 1] = [Mutex::const_new(Vec::new())];
        let buffer = |capacity| Buffer::from_reused(&ONE, capacity);
        let (least, most) = REUSED_BYTES.into_inner();
        for capacity in [least - 1, most + 1] {
            assert!(matches!(buffer(capacity), Buffer::New(_)), "{capacity}");
        }
        let mut first = buffer(least);
        first.push(b'a');
        assert!(matches!(first, Buffer::Reused(_)));
        assert!(matches!(buffer(most), Buffer::New(_)), "the only one is in use");
        drop(first);
        let second = buffer(most);
        assert!(matches!(second, Buffer::Reused(_)) && second.is_empty() && second.capacity() == most);
    }
}
