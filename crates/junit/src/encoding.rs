//! Decodes a file by its byte-order mark, by how `<` is encoded, or by its XML declaration
//! (Extensible Markup Language 1.0, appendix F).

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::error::{JunitError, Problem, at};

/// The XML declaration is searched in this many bytes.
const MAX_DECLARATION_BYTES: usize = 1024;

pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, JunitError> {
    if bytes.is_empty() {
        return Err(Problem::Empty.into());
    }
    let (encoding, mark) = match Encoding::for_bom(bytes) {
        Some(found) => found,
        None => (encoding_without_mark(bytes)?, 0),
    };
    let bytes = bytes.get(mark..).unwrap_or_default();
    if encoding == UTF_8 {
        return match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => {
                let (valid, _) = bytes.split_at(error.valid_up_to());
                Err(at(&String::from_utf8_lossy(valid), valid.len(), Problem::Encoding("UTF-8")))
            }
        };
    }
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(bytes);
    decoded.ok_or_else(|| Problem::Encoding(encoding.name()).into())
}

fn encoding_without_mark(bytes: &[u8]) -> Result<&'static Encoding, Problem> {
    match bytes {
        [b'<', 0, ..] => return Ok(UTF_16LE),
        [0, b'<', ..] => return Ok(UTF_16BE),
        _ => {}
    }
    let start = bytes.get(..MAX_DECLARATION_BYTES).unwrap_or(bytes);
    let start = String::from_utf8_lossy(start);
    let declaration = start.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let encoding = declaration.and_then(|(declaration, _)| declaration.split_once("encoding"));
    let Some((_, value)) = encoding else { return Ok(UTF_8) };
    let label = value.trim_start_matches([' ', '\t', '\r', '\n', '=']);
    let quote = label.chars().next().filter(|c| matches!(c, '"' | '\''));
    let label = quote.and_then(|quote| label.split(quote).nth(1)).unwrap_or_default();
    match Encoding::for_label(label.as_bytes()) {
        // The declaration was readable as ASCII, so the file is not UTF-16.
        Some(encoding) if [UTF_16LE, UTF_16BE].contains(&encoding) => Ok(UTF_8),
        Some(encoding) => Ok(encoding),
        None => Err(Problem::UnknownEncoding(label.to_owned())),
    }
}
