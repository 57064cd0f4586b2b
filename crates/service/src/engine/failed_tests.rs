//! Reads the failed tests from the attachment of an attestation.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use tokio::sync::Semaphore;

use crate::http::blocking::compute;
use junit::{self, FailedTest, ResultFiles};

/// Maximum number of failed tests on a page.
pub(crate) const MAX_TESTS: usize = 50;

/// Maximum size of an attachment after decompression, in bytes.
const MAX_UNPACKED_BYTES: u64 = 32 * 1024 * 1024;

/// The failed tests, or the reason why they cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FailedTests {
    /// At most [`MAX_TESTS`].
    Found(Vec<FailedTest>),
    NoFile,
    /// The retention removed the file.
    Removed,
    /// The file is not JUnit XML.
    OtherFormat,
    /// The file is truncated or cannot be decompressed.
    Corrupt,
    /// The file exceeds [`MAX_UNPACKED_BYTES`].
    TooLarge,
}

/// One attachment is read at a time, since each needs memory for its decompressed size.
static READER: Semaphore = Semaphore::const_new(1);

/// Reads an attachment on a blocking thread.
pub(crate) async fn read_failed_tests(file: Vec<u8>) -> FailedTests {
    let _reader = READER.acquire().await;
    compute(move || read(&file, MAX_UNPACKED_BYTES)).await.unwrap_or(FailedTests::Corrupt)
}

/// Reads one JUnit XML file, or a `.tar.gz` of several, as sent by `attest junit`.
fn read(file: &[u8], max_bytes: u64) -> FailedTests {
    if !file.starts_with(&[0x1f, 0x8b]) {
        return junit::failed_tests(file, MAX_TESTS).map_or(FailedTests::OtherFormat, FailedTests::Found);
    }
    match read_archive(file, max_bytes) {
        Ok(Some(tests)) => FailedTests::Found(tests),
        Ok(None) => FailedTests::OtherFormat,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => FailedTests::TooLarge,
        Err(_) => FailedTests::Corrupt,
    }
}

/// The failed tests of all files in an archive; `None` if no file is JUnit XML. Reads it twice: what counts is decided
/// from all files.
fn read_archive(file: &[u8], max_bytes: u64) -> io::Result<Option<Vec<FailedTest>>> {
    let (mut files, mut is_junit) = (ResultFiles::default(), false);
    each_file(file, max_bytes, |path, bytes| is_junit |= files.add(path, bytes).is_ok())?;
    if !is_junit {
        return Ok(None);
    }
    let mut again = files.failed_tests(MAX_TESTS);
    each_file(file, max_bytes, |path, bytes| again.add(path, bytes))?;
    Ok(Some(again.found()))
}

fn each_file(file: &[u8], max_bytes: u64, mut read: impl FnMut(&Path, &[u8])) -> io::Result<()> {
    let unpacked = GzDecoder::new(file).take(max_bytes + 1);
    let mut archive = tar::Archive::new(unpacked);
    let read = archive.entries().and_then(|entries| {
        for entry in entries {
            let mut entry = entry?;
            if entry.header().entry_type().is_file() {
                let path = entry.path()?.into_owned();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                read(&path, &bytes);
            }
        }
        Ok(())
    });
    match archive.into_inner().limit() {
        0 => Err(io::ErrorKind::FileTooLarge.into()),
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::FutureExt;

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

    fn names(evidence: FailedTests) -> Vec<String> {
        let FailedTests::Found(tests) = evidence else { panic!("{evidence:?}") };
        tests.into_iter().map(|test| test.name).collect()
    }

    /// One thread computes, in the order of arrival.
    #[test]
    fn attachments_are_read_one_at_a_time() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.max_blocking_threads(1).build().unwrap().block_on(async {
            let reader = READER.acquire().await;
            let mut next = pin!(read_failed_tests(FAILING.into()));
            assert_eq!(next.as_mut().now_or_never(), None);
            compute(|| ()).await.unwrap();
            assert_eq!(next.as_mut().now_or_never(), None, "it waits for the first");
            drop(reader);
            assert_eq!(names(next.await), ["b"]);
        });
    }

    #[test]
    fn failed_tests_are_read_from_a_file_and_from_an_archive() {
        assert_eq!(names(read(FAILING.as_bytes(), MAX_UNPACKED_BYTES)), ["b"]);
        // Files of another format are skipped, and copies count once.
        let other = FAILING.replace("cart", "stock");
        assert_eq!(
            names(read(&packed(&[FAILING, "notes", &other, FAILING]), MAX_UNPACKED_BYTES)),
            ["b", "b"]
        );
        let suites: Vec<_> = (0..60).map(|n| FAILING.replace("cart", &n.to_string())).collect();
        let files: Vec<_> = suites.iter().map(String::as_str).collect();
        assert_eq!(names(read(&packed(&files), MAX_UNPACKED_BYTES)).len(), MAX_TESTS);
    }

    #[test]
    fn other_formats_and_corrupt_files_are_distinguished() {
        for file in [b"PK\x03\x04".as_slice(), b"", &packed(&["notes"]), &packed(&[])] {
            assert_eq!(read(file, MAX_UNPACKED_BYTES), FailedTests::OtherFormat, "{file:?}");
        }
        let cut = packed(&[FAILING]);
        for file in [cut.get(..cut.len() / 2).unwrap(), b"\x1f\x8b"] {
            assert_eq!(read(file, MAX_UNPACKED_BYTES), FailedTests::Corrupt, "{file:?}");
        }
    }

    #[test]
    fn archive_above_the_size_limit_is_not_read() {
        let zeros = "0".repeat(100_000);
        let bomb = packed(&[&zeros]);
        assert!(bomb.len() < 1_000);
        assert_eq!(read(&bomb, 50_000), FailedTests::TooLarge);
        assert_eq!(read(&bomb, 200_000), FailedTests::OtherFormat);
    }
}
