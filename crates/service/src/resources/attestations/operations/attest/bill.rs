//! Reads an attached bill of materials.

use std::io::{self, Read};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use tokio::sync::Semaphore;

use crate::http::blocking::compute;
use crate::http::form::File;
use crate::http::problem::Problem;
use model::Fingerprint;
use model::escape::shortened;
use model::pluralize;
use runtime::error_causes::describe;
use sbom::Document;
use store::Tenant;

/// What was read, such as `CycloneDX 1.6, 123 packages`.
const BILL: HeaderName = HeaderName::from_static("x-supercargo-bill-of-materials");

/// Why an attached bill of materials was stored as a file only.
const WARNING: HeaderName = HeaderName::from_static("x-supercargo-warning");

/// Maximum length of a warning, in characters.
const MAX_WARNING_CHARS: usize = 500;

/// What the file of an attestation is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bill {
    /// Another file, or none.
    Other,
    Read(Document),
    /// A bill of materials that cannot be read, and why.
    Unreadable(String),
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Document(#[from] sbom::Error),
    #[error("the {0} has no packages")]
    Empty(String),
    #[error("the unpacked file has more than {0} bytes")]
    TooLarge(u64),
    #[error("failed to unpack the file")]
    Packed(#[source] io::Error),
}

/// One file is read at a time, since each needs memory for its packages.
static READER: Semaphore = Semaphore::const_new(1);

/// Reads a file on a blocking thread, and returns it with what it is. A compressed one has at most `max` bytes unpacked.
pub(super) async fn read(file: Option<File>, max: u64) -> Result<(Option<File>, Bill), Problem> {
    let Some(File { name, content }) = file else { return Ok((None, Bill::Other)) };
    let _reader = READER.acquire().await;
    compute(move || {
        let bill = Bill::parse(&content, max);
        (Some(File { name, content }), bill)
    })
    .await
}

fn parse(file: &[u8], max: u64) -> Result<Option<Document>, Unreadable> {
    let unpacked = if file.starts_with(&[0x1f, 0x8b]) {
        unpack(MultiGzDecoder::new(file), max)?
    } else if without_skippable(file).starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        unpack_frames(file, max)?
    } else {
        return document(file);
    };
    document(&unpacked)
}

/// Unpacks Zstandard, which may have several frames, and others to be skipped (RFC 8878, section 3.1).
fn unpack_frames(file: &[u8], max: u64) -> Result<Vec<u8>, Unreadable> {
    let (mut file, mut unpacked) = (without_skippable(file), Vec::new());
    while !file.is_empty() {
        let frame = StreamingDecoder::new(&mut file).map_err(io::Error::other).map_err(Unreadable::Packed)?;
        unpacked.append(&mut unpack(frame, max)?);
        if unpacked.len() as u64 > max {
            return Err(Unreadable::TooLarge(max));
        }
        file = without_skippable(file);
    }
    Ok(unpacked)
}

/// The file behind frames to be skipped, with which `pzstd` begins each of its own.
fn without_skippable(mut file: &[u8]) -> &[u8] {
    while let Some(rest) = after_skippable(file) {
        file = rest;
    }
    file
}

/// What follows a frame to be skipped, if there is one.
fn after_skippable(file: &[u8]) -> Option<&[u8]> {
    let (magic, rest) = file.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let is_skippable = (0x184d_2a50..=0x184d_2a5f).contains(&u32::from_le_bytes(*magic));
    is_skippable
        .then(|| usize::try_from(u32::from_le_bytes(*length)).ok().and_then(|length| rest.get(length..)))?
}

fn unpack(packed: impl Read, max: u64) -> Result<Vec<u8>, Unreadable> {
    let mut unpacked = Vec::new();
    packed.take(max + 1).read_to_end(&mut unpacked).map_err(Unreadable::Packed)?;
    if unpacked.len() as u64 > max { Err(Unreadable::TooLarge(max)) } else { Ok(unpacked) }
}

fn document(content: &[u8]) -> Result<Option<Document>, Unreadable> {
    match Document::read(content)? {
        // An empty bill would hide that nothing is known of the packages.
        Some(document) if document.packages.is_empty() => Err(Unreadable::Empty(document.format)),
        document => Ok(document),
    }
}

impl Bill {
    fn parse(file: &[u8], max: u64) -> Self {
        match parse(file, max) {
            Ok(Some(document)) => Self::Read(document),
            Ok(None) => Self::Other,
            Err(error) => Self::Unreadable(describe(&error)),
        }
    }

    /// Stores its packages. `file` is the hash of the file.
    pub(super) async fn record(
        &self,
        tenant: &mut Tenant<'_>,
        file: Fingerprint,
    ) -> Result<(), store::Error> {
        match self {
            Self::Read(document) => store::packages::insert(tenant, file, document).await,
            Self::Other | Self::Unreadable(_) => Ok(()),
        }
    }

    /// Describes it for the client, whose answer in the interface has no place for it.
    pub(super) fn headers(&self) -> HeaderMap {
        let (name, text) = match self {
            Self::Other => return HeaderMap::new(),
            Self::Read(Document { format, packages }) => {
                (BILL, format!("{format}, {}", pluralize(packages.len() as u64, "package")))
            }
            Self::Unreadable(why) => (WARNING, format!("not read as a bill of materials: {why}")),
        };
        let text = text.replace(|c: char| !c.is_ascii() || c.is_ascii_control(), "?");
        let value = HeaderValue::try_from(shortened(&text, MAX_WARNING_CHARS).replace('…', "..."));
        value.into_iter().map(|value| (name.clone(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const BILL_OF_ONE: &str = r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components":
        [{"type": "library", "name": "log4j-core", "version": "2.14.1", "purl": "pkg:maven/org.apache/log4j-core@2.14.1"}]}"#;

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// A frame with one raw block (RFC 8878).
    fn zstd(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap();
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        frame.extend(length.to_le_bytes());
        frame.extend(((length << 3) | 1).to_le_bytes().get(..3).unwrap());
        frame.extend(content);
        frame
    }

    fn header(file: &[u8], max: u64) -> String {
        let bill = Bill::parse(file, max);
        let headers = bill.headers();
        let lines = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn bill_of_materials_is_read_plain_and_compressed() {
        let plain = BILL_OF_ONE.as_bytes();
        let (start, end) = plain.split_at(50);
        let skipped = b"\x50\x2a\x4d\x18\x04\0\0\0skip".as_slice();
        let frames = [zstd(start), skipped.to_vec(), zstd(end)].concat();
        let from_pzstd = [skipped, &zstd(plain)].concat();
        let members = [packed(start), packed(end)].concat();
        for file in [plain, &packed(plain), &members, &zstd(plain), &frames, &from_pzstd] {
            assert_eq!(header(file, 1_000), "x-supercargo-bill-of-materials: CycloneDX 1.6, 1 package");
        }
        for file in [&b"notes"[..], b"", b"{}", skipped, &packed(b"notes"), &zstd(b"<testsuite/>")] {
            assert_eq!(header(file, 1_000), "");
        }
    }

    #[test]
    fn warning_names_the_problem_of_a_bill_that_is_not_read() {
        let bomb = packed(&vec![b' '; 100_000]);
        assert!(bomb.len() < 1_000);
        let cut = packed(BILL_OF_ONE.as_bytes());
        let empty = r#"{"bomFormat": "CycloneDX", "specVersion": "1.6"}"#;
        for (file, problem) in [
            (bomb.as_slice(), "the unpacked file has more than 50000 bytes"),
            (cut.get(..cut.len() / 2).unwrap(), "failed to unpack the file: "),
            (b"\x28\xb5\x2f\xfd", "failed to unpack the file: "),
            (empty.as_bytes(), "the CycloneDX 1.6 has no packages"),
            (
                r#"{"bomFormat": "CycloneDX", "specVersion": "9.é"}"#.as_bytes(),
                "CycloneDX 9.? is not supported: ",
            ),
            (&BILL_OF_ONE.as_bytes()[..100], "invalid CycloneDX or SPDX document: "),
        ] {
            let warning = header(file, 50_000);
            let start = format!("x-supercargo-warning: not read as a bill of materials: {problem}");
            assert!(warning.starts_with(&start), "{warning}");
        }
    }
}
