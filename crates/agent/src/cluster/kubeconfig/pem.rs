//! Decodes PEM and base64 like Go's `encoding/pem` and `encoding/base64`, which skip what is broken.
//!
//! Called by `kubeconfig` and `tls`. A bundle of a cluster often has a truncated certificate, text between certificates,
//! or base64 with line breaks. `pem`, which kube uses, rejects all of it.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Go ignores the unused bits of the last digit.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub(in crate::cluster) struct Block {
    pub(in crate::cluster) label: String,
    pub(in crate::cluster) has_headers: bool,
    pub(in crate::cluster) content: Vec<u8>,
}

/// Decodes base64, without line breaks.
pub(in crate::cluster) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.replace(['\r', '\n'], "")).ok()
}

/// The valid blocks. Text and broken blocks between them are skipped.
pub(in crate::cluster) fn blocks(pem: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(pem);
    let mut rest = &*text;
    let mut blocks = Vec::new();
    while let Some(begun) = after_line_start(rest, BEGIN) {
        rest = begun;
        if let Some((block, after)) = read(begun) {
            blocks.push(block);
            rest = after;
        }
    }
    blocks
}

/// The text after a mark that is at the start of a line.
fn after_line_start<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let after = |(at, found): (usize, &str)| {
        let is_line_start = text.get(..at)?.chars().next_back().is_none_or(|before| before == '\n');
        is_line_start.then(|| text.get(at + found.len()..)).flatten()
    };
    text.match_indices(mark).find_map(after)
}

/// Reads a block after its `BEGIN`, and the text after it.
fn read(begun: &str) -> Option<(Block, &str)> {
    let (line, mut body) = split_line(begun);
    let label = line.strip_suffix(DASHES)?;
    let mut has_headers = false;
    while let (line, after) = split_line(body)
        && line.contains(':')
    {
        (has_headers, body) = (true, after);
    }
    let after_end = after_line_start(body, END)?;
    let content = body.get(..body.len() - after_end.len() - END.len())?;
    let (end, after) = split_line(after_end);
    if end.strip_prefix(label)? != DASHES {
        return None;
    }
    let content = decode_base64(&content.replace([' ', '\t'], ""))?;
    Some((Block { label: label.to_owned(), has_headers, content }, after))
}

/// The first line without white space at its end, and the other ones.
fn split_line(text: &str) -> (&str, &str) {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    (line.trim_end(), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pem: &str) -> Vec<String> {
        blocks(pem.as_bytes())
            .into_iter()
            .map(|block| format!("{}:{:?}", block.label, block.content))
            .collect()
    }

    #[test]
    fn valid_blocks_are_read_and_everything_else_is_skipped() {
        const GOOD: &str = "-----BEGIN A-----\nAQID\nBA==\n-----END A-----\n";
        let good = ["A:[1, 2, 3, 4]"];
        for pem in [
            GOOD.to_owned(),
            GOOD.trim_end().to_owned(),
            GOOD.replace('\n', "\r\n"),
            GOOD.replace("AQID", " AQ\tID "),
            GOOD.replace("AQID\nBA==", "Proc-Type: 4\n\nAQIDBA=="),
            format!("# comment\n{GOOD}text: more\n"),
            format!("-----BEGIN A-----\nAQ\n{GOOD}"),
            format!("-----BEGIN A-----\n{GOOD}"),
            format!("-----BEGIN A-----\nAQID\n-----END B-----\n{GOOD}"),
            format!("-----BEGIN A-----\n!\n-----END A-----\n{GOOD}"),
            format!("-----BEGIN A\nAQID\n-----END A-----\n{GOOD}"),
            format!("{GOOD}-----BEGIN A-----\nAQID"),
        ] {
            assert_eq!(labels(&pem), good, "{pem}");
        }
        assert_eq!(labels(&GOOD.repeat(2)), [good[0]; 2]);
        for pem in ["", "-----BEGIN A-----", "x-----BEGIN A-----\nAQID\n-----END A-----", "-----END A-----"] {
            assert!(labels(pem).is_empty(), "{pem}");
        }
        assert!(blocks(GOOD.replace("AQID\nBA==", "Proc-Type: 4\n\nAQIDBA==").as_bytes())[0].has_headers);
    }

    #[test]
    fn base64_may_contain_line_breaks_and_unused_bits() {
        for text in ["AQI=", "AQ\r\nI=\n", "\nAQJ="] {
            assert_eq!(decode_base64(text).as_deref(), Some(&[1, 2][..]), "{text:?}");
        }
        for text in ["AQI", "AQ I=", "A", "-_-_"] {
            assert_eq!(decode_base64(text), None, "{text:?}");
        }
    }
}
