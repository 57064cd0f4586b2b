//! Helpers of the fuzz targets.

use std::cell::RefCell;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::domain::escape::needs_escape;

/// Calls `read` with the path of a file that contains the bytes.
pub(super) fn with_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
    }
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| NamedTempFile::new().expect("temporary file"));
        std::fs::write(file.path(), bytes).expect("write temporary file");
        read(file.path())
    })
}

/// Messages are not empty and contain no line break or terminal control character.
pub(super) fn assert_printable(text: &str) {
    assert!(!text.is_empty() && !text.contains(needs_escape), "{text:?} must be escaped");
}
