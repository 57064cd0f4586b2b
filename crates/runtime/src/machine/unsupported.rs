//! Systems other than Linux: nothing is known.

use super::Usage;

/// Unknown.
#[must_use]
pub fn max_open_files() -> Option<u64> {
    None
}

/// Unknown.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    None
}

/// Unknown.
#[must_use]
pub fn usage() -> Option<Usage> {
    None
}
