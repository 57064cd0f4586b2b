//! Where the system is not asked.

use super::Usage;

/// How many files may be open: nobody knows.
#[must_use]
pub fn open_files() -> Option<u64> {
    None
}

/// How much memory may be taken: nobody knows.
#[must_use]
pub fn memory() -> Option<u64> {
    None
}

/// What this process takes now: nobody knows.
#[must_use]
pub fn usage() -> Option<Usage> {
    None
}
