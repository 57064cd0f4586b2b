//! The tests that went wrong, out of the file that came with an attestation.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use tokio::sync::Semaphore;

use crate::domain::attestation::junit::{self, Wrong};

/// As many tests as are told.
pub(crate) const MOST: usize = 50;

/// As much of a file as is read, in bytes, once it is unpacked.
const LARGEST: u64 = 32 * 1024 * 1024;

/// What is known of the tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Those that went wrong, up to [`MOST`].
    Tests(Vec<Wrong>),
    /// The file is of another kind.
    Another,
    /// It breaks off, or cannot be unpacked.
    Broken,
    /// It has more than is read.
    Large,
}

/// Looks into a file. One after the other, and beside the threads that answer: each may take as much memory as it is
/// long.
pub(crate) async fn examine(file: Vec<u8>) -> Evidence {
    static TURN: Semaphore = Semaphore::const_new(1);
    let turn = TURN.acquire().await;
    let examined = tokio::task::spawn_blocking(move || read(&file, LARGEST)).await;
    drop(turn);
    examined.unwrap_or_else(|error| {
        tracing::error!("a file that came with an attestation cannot be looked into: {error}");
        Evidence::Broken
    })
}

/// One file of JUnit XML, or a `.tar.gz` of several, as `attest junit` sends them.
fn read(file: &[u8], largest: u64) -> Evidence {
    if !file.starts_with(&[0x1f, 0x8b]) {
        return junit::wrong(file, MOST).map_or(Evidence::Another, Evidence::Tests);
    }
    match unpacked(file, largest) {
        Ok(Some(tests)) => Evidence::Tests(tests),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Evidence::Large,
        Ok(None) => Evidence::Another,
        Err(_) => Evidence::Broken,
    }
}

/// The tests of all files in an archive; `None` where none of them is JUnit XML.
fn unpacked(file: &[u8], largest: u64) -> io::Result<Option<Vec<Wrong>>> {
    let mut archive = tar::Archive::new(Bounded { inner: GzDecoder::new(file), left: largest });
    let (mut tests, mut is_junit) = (Vec::new(), false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        if let Ok(found) = junit::wrong(&bytes, MOST - tests.len()) {
            is_junit = true;
            tests.extend(found);
        }
    }
    Ok(is_junit.then_some(tests))
}

/// Fails once more was read than is allowed.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX));
        self.left = left.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const FAILING: &str = r#"<testsuite name="cart"><testcase name="a"/><testcase name="b"><failure message="no"/></testcase></testsuite>"#;

    fn packed(files: &[&str]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (number, file) in files.iter().enumerate() {
            let mut header = tar::Header::new_gnu();
            header.set_size(file.len() as u64);
            archive.append_data(&mut header, format!("{number}.xml"), file.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn names(evidence: Evidence) -> Vec<String> {
        let Evidence::Tests(tests) = evidence else { panic!("{evidence:?}") };
        tests.into_iter().map(|test| test.name).collect()
    }

    #[test]
    fn tests_are_told_of_one_file_and_of_an_archive() {
        assert_eq!(names(read(FAILING.as_bytes(), LARGEST)), ["b"]);
        // A file of another kind may lie beside.
        assert_eq!(names(read(&packed(&[FAILING, "notes", FAILING]), LARGEST)), ["b", "b"]);
        assert_eq!(names(read(&packed(&[FAILING; 60]), LARGEST)).len(), MOST);
    }

    #[test]
    fn what_is_no_junit_is_said() {
        for file in [b"PK\x03\x04".as_slice(), b"", &packed(&["notes"]), &packed(&[])] {
            assert_eq!(read(file, LARGEST), Evidence::Another, "{file:?}");
        }
        let cut = packed(&[FAILING]);
        for file in [cut.get(..cut.len() / 2).unwrap(), b"\x1f\x8b"] {
            assert_eq!(read(file, LARGEST), Evidence::Broken, "{file:?}");
        }
    }

    #[test]
    fn an_archive_that_unpacks_to_more_than_is_read_is_left_alone() {
        let zeros = "0".repeat(100_000);
        let bomb = packed(&[&zeros]);
        assert!(bomb.len() < 1_000);
        assert_eq!(read(&bomb, 50_000), Evidence::Large);
        assert_eq!(read(&bomb, 200_000), Evidence::Another);
    }
}
