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
    // Markup is ASCII: without zero bytes, that of UTF-16 and UTF-32 is too, even if a character is cut.
    let text = String::from_utf8_lossy(bytes).replace('\0', "");
    let is_blank = |c: char| c.is_whitespace() || matches!(c, '\u{feff}' | char::REPLACEMENT_CHARACTER);
    let mut rest = text.trim_start_matches(is_blank);
    let is_empty = rest.is_empty();
    loop {
        let after = if rest.starts_with("<?") {
            rest.split_once("?>").map(|(_, after)| after)
        } else if rest.starts_with("<!--") {
            rest.split_once("-->").map(|(_, after)| after)
        } else if rest.starts_with("<!") {
            after_declaration(rest)
        } else {
            break;
        };
        let Some(after) = after else { return true };
        rest = after.trim_start_matches(is_blank);
    }
    match rest.strip_prefix('<') {
        Some(root) => may_be_suite(root),
        None if rest.is_empty() => !is_empty,
        // Something was written into the file before the root element.
        None => rest.split('<').skip(1).any(may_be_suite),
    }
}

/// Whether a tag without its `<` starts a suite, or is cut before that is certain.
fn may_be_suite(tag: &str) -> bool {
    let end = tag.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/'));
    let name = tag.get(..end.unwrap_or(tag.len())).unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(_, local)| local);
    match end {
        Some(_) => matches!(name, "testsuite" | "testsuites"),
        None => "testsuites".starts_with(name),
    }
}

/// What follows a document type declaration, with the quotes, comments and declarations inside it; `None` if it is cut.
fn after_declaration(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix('<')?;
    let mut depth = 1;
    while depth > 0 {
        rest = rest.get(rest.find(['<', '>', '"', '\''])?..)?;
        rest = if let Some(comment) = rest.strip_prefix("<!--") {
            comment.split_once("-->")?.1
        } else if let Some(instruction) = rest.strip_prefix("<?") {
            instruction.split_once("?>")?.1
        } else {
            let (mark, after) = rest.split_at(1);
            match mark {
                "<" => depth += 1,
                ">" => depth -= 1,
                quote => {
                    rest = after.split_once(quote)?.1;
                    continue;
                }
            }
            after
        };
    }
    Some(rest)
}
