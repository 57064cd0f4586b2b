//! Text from outside, made fit for a terminal or a log.
//!
//! Whatever shows a string that a pod, a file, a cluster or a service chose wraps it in
//! [`Visible`], so that it can neither move the cursor nor begin a log line of its own.

use std::fmt::{self, Write};

/// Shows its text with every character that would not be seen, or would change how others are
/// seen, as an escape: `\n`, `\u{1b}`, `\u{202e}`.
#[derive(Debug, Clone, Copy)]
pub struct Visible<'a>(pub &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() || is_formatting(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// At most `limit` characters of `text`, with `…` where some were left off.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    }
}

/// A text with a mark in the place of a secret, should it hold one: as it is, or as a JSON string writes it.
#[must_use]
pub fn without_secret(text: &str, secret: &str, mark: &str) -> String {
    let in_json = secret.replace('\\', "\\\\").replace('"', "\\\"");
    let text = text.replace(secret, mark);
    if in_json == secret { text } else { text.replace(&in_json, mark) }
}

/// Characters that are invisible or reorder their neighbours (Unicode UAX #9, bidirectional
/// controls; zero-width characters; line and paragraph separators).
fn is_formatting(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown_instead() {
        assert_eq!(
            Visible("a\x1b[31mb\r\nc\u{202e}d\u{9b}").to_string(),
            "a\\u{1b}[31mb\\r\\nc\\u{202e}d\\u{9b}"
        );
        assert_eq!(Visible("обычный 文字 \"q\" \\").to_string(), "обычный 文字 \"q\" \\");
    }

    #[test]
    fn shortening_never_cuts_a_letter() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
