//! Escapes and redacts untrusted text for terminals and logs.
//!
//! Every string that a pod, a file, a cluster or a service chose is shown as [`Escaped`], so that it cannot move
//! the cursor or start a new log line.

use std::fmt::{self, Write};

/// Displays text with escapes (`\n`, `\u{1b}`, `\u{202e}`) for characters that are invisible or change how other
/// characters are displayed.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if needs_escape(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Whether a character is invisible or changes how other characters are displayed. Names must not contain one.
#[must_use]
pub fn needs_escape(c: char) -> bool {
    c.is_control() || (!c.is_ascii() && is_formatting(c))
}

/// Truncates a text to `limit` characters, with a trailing `…`.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    }
}

/// A URL in a message; one that may contain a password is not shown.
#[must_use]
pub fn quoted_url(url: &str) -> String {
    if url.contains(['@', '?']) { "(redacted)".to_owned() } else { format!("\"{}\"", Escaped(url)) }
}

/// Replaces a secret in a text by `mark`, also if some of its characters are escaped as in JSON or URLs.
#[must_use]
pub fn redact_secret(text: &str, secret: &str, mark: &str) -> String {
    let text = text.replace(secret, mark);
    if !text.contains(['\\', '%']) {
        return text;
    }
    // A token is ASCII (RFC 6750, section 2.1).
    let spellings_of = |c: char| {
        let (plain, code) = (regex::escape(&c.to_string()), u32::from(c));
        format!(r"(?:{plain}|\\{plain}|(?i:\\u{code:04x}|%{code:02x}))")
    };
    let spellings = regex::Regex::new(&secret.chars().map(spellings_of).collect::<String>());
    // A secret that is too long for a pattern is replaced only in its plain spelling.
    spellings
        .map_or(text.clone(), |spellings| spellings.replace_all(&text, regex::NoExpand(mark)).into_owned())
}

/// Format characters (category Cf), which include bidirectional controls (UAX #9), line and paragraph separators, and
/// `Default_Ignorable_Code_Point` (UAX #44), except the two variation selectors for emojis.
fn is_formatting(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}'
        | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        assert_eq!(
            Escaped("a\x1b[31mb\r\nc\u{202e}d\u{9b}").to_string(),
            "a\\u{1b}[31mb\\r\\nc\\u{202e}d\\u{9b}"
        );
        assert_eq!(
            Escaped("web\u{e0041}\u{ad}\u{3164}\u{fe00} ❤\u{fe0f}").to_string(),
            "web\\u{e0041}\\u{ad}\\u{3164}\\u{fe00} ❤\u{fe0f}"
        );
        assert_eq!(Escaped("обычный 文字 \"q\" \\").to_string(), "обычный 文字 \"q\" \\");
    }

    #[test]
    fn escaped_characters_are_those_of_the_unicode_character_database() {
        let known = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}--[\x{fe0e}\x{fe0f}]]";
        let known = regex::Regex::new(known).unwrap();
        let differs = |c: &char| needs_escape(*c) != known.is_match(c.encode_utf8(&mut [0; 4]));
        assert_eq!(('\0'..=char::MAX).find(differs), None);
    }

    #[test]
    fn secret_is_redacted_in_every_spelling() {
        let secret = r#"S3/tok+en=="x\y"#;
        for spelling in [
            secret,
            r#"S3\/tok+en==\"x\\y"#,
            r"S3\u002ftok\u002Ben\u003d\u003D\u0022x\u005cy",
            "S3%2Ftok%2ben%3D%3d%22x%5Cy",
        ] {
            assert_eq!(
                redact_secret(&format!("a {spelling} b \\"), secret, "[token]"),
                "a [token] b \\",
                "{spelling}"
            );
        }
        assert_eq!(redact_secret("S3/tok \\ %", secret, "[token]"), "S3/tok \\ %");
    }

    #[test]
    fn text_is_truncated_at_a_character() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
