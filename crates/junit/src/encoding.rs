//! Decodes a file by its byte-order mark, by how `<` is encoded, or by its XML declaration
//! (Extensible Markup Language 1.0, appendix F).
//!
//! Bytes that are invalid in the encoding become U+FFFD: producers copy names and output of tests as they are.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::error::Problem;

/// The XML declaration is searched in this many bytes.
const MAX_DECLARATION_BYTES: usize = 1024;

pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Problem> {
    if bytes.is_empty() {
        return Err(Problem::Empty);
    }
    let (encoding, mark) = match Encoding::for_bom(bytes) {
        Some(found) => found,
        None => (encoding_without_mark(bytes)?, 0),
    };
    let bytes = bytes.get(mark..).unwrap_or_default();
    if encoding == UTF_8 {
        return Ok(String::from_utf8_lossy(bytes));
    }
    if [UTF_16LE, UTF_16BE].contains(&encoding) && bytes.len() % 2 == 1 {
        return Err(Problem::Encoding(encoding.name()));
    }
    Ok(encoding.decode_without_bom_handling(bytes).0)
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

/// Whether the root element is a suite, or the file ends before that is certain. For a file that cannot be read, or only
/// its start.
#[must_use]
pub fn may_have_suites(bytes: &[u8]) -> bool {
    let text = decode(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes));
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let end = match rest.get(..2) {
            Some("<?") => "?>",
            Some("<!") if rest.starts_with("<!--") => "-->",
            // An internal subset contains other declarations.
            Some("<!") if rest.split('>').next().is_some_and(|start| start.contains('[')) => "]>",
            Some("<!") => ">",
            _ => break,
        };
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
    let Some(root) = rest.strip_prefix('<') else { return false };
    let end = root.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/'));
    let name = root.get(..end.unwrap_or(root.len())).unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(_, local)| local);
    match end {
        Some(_) => matches!(name, "testsuite" | "testsuites"),
        None => "testsuites".starts_with(name),
    }
}
