//! Reads small files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads a file of at most `max_bytes`.
///
/// # Errors
///
/// Errors of reading, and [`io::ErrorKind::FileTooLarge`]: a truncated file could be valid by accident.
pub fn read_up_to(max_bytes: u64, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("the file is longer than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a file that is reread later. Rejects pipes: they can be read only once, and block without a writer.
///
/// # Errors
///
/// Errors of [`read_up_to`], and [`io::ErrorKind::InvalidInput`] for a pipe.
pub fn read_regular(max_bytes: u64, path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        let message = "expected a file that can be reread, got a pipe";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    read_up_to(max_bytes, path)
}
