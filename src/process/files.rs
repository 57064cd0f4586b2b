//! Small files, read whole.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The content of a file of at most so many bytes.
///
/// # Errors
///
/// Those of reading, and [`io::ErrorKind::FileTooLarge`]: a file that is cut short could still pass
/// for one that says less.
pub fn read_up_to(most: u64, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// The same of a file that is read for each request: no pipe, which holds nothing the second time, and holds up whoever
/// opens it until somebody writes to it.
///
/// # Errors
///
/// The same, and [`io::ErrorKind::InvalidInput`] where it is a pipe.
pub fn read_anew(most: u64, path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        let why = "it is a pipe; a file was expected, which is read for each request";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    read_up_to(most, path)
}
