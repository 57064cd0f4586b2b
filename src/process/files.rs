//! Small files, read whole.

use std::fs::File;
use std::io::{self, Read};
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
