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
            if is_steering(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Whether a character would not be seen, or would change how others are seen.
#[must_use]
pub fn is_steering(c: char) -> bool {
    c.is_control() || is_formatting(c)
}

/// At most `limit` characters of `text`, with `…` where some were left off.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    }
}

/// A text with a mark in the place of a secret, should it hold one: as it is, or with some of its
/// characters escaped as JSON strings or URLs write them.
#[must_use]
pub fn without_secret(text: &str, secret: &str, mark: &str) -> String {
    let text = text.replace(secret, mark);
    if !text.contains(['\\', '%']) {
        return text;
    }
    // A token is of ASCII alone (RFC 6750, section 2.1).
    let spelt = |c: char| {
        let (plain, code) = (regex::escape(&c.to_string()), u32::from(c));
        format!(r"(?:{plain}|\\{plain}|(?i:\\u{code:04x}|%{code:02x}))")
    };
    let spellings = regex::Regex::new(&secret.chars().map(spelt).collect::<String>());
    // A secret too long for that is looked for as it is.
    spellings
        .map_or(text.clone(), |spellings| spellings.replace_all(&text, regex::NoExpand(mark)).into_owned())
}

/// Characters that are invisible or reorder their neighbours (Unicode UAX #9, bidirectional controls; line and
/// paragraph separators; UAX #44, `Default_Ignorable_Code_Point`), but for the two that choose how an emoji looks.
fn is_formatting(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
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
        assert_eq!(
            Visible("web\u{e0041}\u{ad}\u{3164}\u{fe00} ❤\u{fe0f}").to_string(),
            "web\\u{e0041}\\u{ad}\\u{3164}\\u{fe00} ❤\u{fe0f}"
        );
        assert_eq!(Visible("обычный 文字 \"q\" \\").to_string(), "обычный 文字 \"q\" \\");
    }

    #[test]
    fn a_secret_is_found_in_every_spelling() {
        let secret = r#"S3/tok+en=="x\y"#;
        for spelling in [
            secret,
            r#"S3\/tok+en==\"x\\y"#,
            r"S3\u002ftok\u002Ben\u003d\u003D\u0022x\u005cy",
            "S3%2Ftok%2ben%3D%3d%22x%5Cy",
        ] {
            assert_eq!(
                without_secret(&format!("a {spelling} b \\"), secret, "[token]"),
                "a [token] b \\",
                "{spelling}"
            );
        }
        assert_eq!(without_secret("S3/tok \\ %", secret, "[token]"), "S3/tok \\ %");
    }

    #[test]
    fn shortening_never_cuts_a_letter() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
