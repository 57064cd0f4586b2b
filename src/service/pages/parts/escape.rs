//! How what others sent is shown: as text that cannot steer, and as links that lead to the web alone.

use maud::{Markup, html};

use crate::domain::escape::{Visible, is_steering};
use crate::domain::model::UrlText;

/// The most bytes of a page that a text of one line takes, and one of any number.
const LINE: usize = 1_000;
const LINES: usize = 128 * 1024;

/// A text of one line. Characters that nobody would see, or that turn others around, are escapes.
pub(crate) fn text(text: &str) -> Markup {
    let (start, end) = cut(text, LINE);
    html! { bdi { (Visible(start).to_string()) (end) } }
}

/// A name. A line that is too short for it ends after a slash, where there is one.
pub(crate) fn name(name: &str) -> Markup {
    let (start, end) = cut(name, LINE);
    html! {
        bdi {
            @for (number, part) in Visible(start).to_string().split_inclusive('/').enumerate() {
                @if number > 0 { wbr; }
                (part)
            }
            (end)
        }
    }
}

/// A text of any number of lines.
pub(crate) fn lines(text: &str) -> Markup {
    let (start, end) = cut(text, LINES);
    html! {
        @for (number, line) in start.lines().enumerate() {
            @if number > 0 { br; }
            bdi { (Visible(line).to_string()) }
        }
        (end)
    }
}

/// The start of a text that takes at most so many bytes as markup, and `…` where that is not all of it.
fn cut(text: &str, most: usize) -> (&str, &str) {
    let mut bytes = 0;
    for (at, c) in text.char_indices() {
        bytes += match c {
            '"' | '&' | '<' | '>' => "&quot;".len(),
            '\n' => "</bdi><br><bdi>".len(),
            c if is_steering(c) => "\\u{10ffff}".len(),
            c => c.len_utf8(),
        };
        if bytes > most {
            return (text.get(..at).unwrap_or_default(), "…");
        }
    }
    (text, "")
}

/// What leads to an address, where that is one of the web and all of it can be seen; it stands there by itself where
/// not.
pub(crate) fn link(address: &str, label: &Markup) -> Markup {
    let is_whole = |url: &UrlText| url.is_web() && !url.as_str().chars().any(is_steering);
    match UrlText::new(address).ok().filter(is_whole) {
        Some(url) => html! { a href=(url.as_str()) rel="noreferrer" { (label) } },
        None => label.clone(),
    }
}

/// An address without credentials, which leads there where it is one of the web.
pub(crate) fn address(address: &str) -> Markup {
    let shown = UrlText::new(address);
    link(address, &text(shown.as_ref().map_or("", UrlText::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_are_links() {
        for (said, is_link) in [
            ("https://example.com/a?b=c", true),
            ("http://example.com", true),
            ("HTTPS://example.com", true),
            ("https://example.com/\u{202e}a", false),
            ("https://example.com/\u{200b}a", false),
            ("javascript:alert(1)", false),
            ("JaVaScRiPt:alert(1)", false),
            (" javascript:alert(1)", false),
            ("java\nscript:alert(1)", false),
            ("data:text/html,x", false),
            ("//example.com", false),
            ("/ui", false),
            ("", false),
        ] {
            assert_eq!(address(said).into_string().contains("<a "), is_link, "{said}");
        }
    }

    #[test]
    fn a_long_text_is_cut_by_what_it_takes_of_a_page() {
        assert_eq!(text(&"a".repeat(LINE)).into_string(), format!("<bdi>{}</bdi>", "a".repeat(LINE)));
        assert_eq!(text(&"ä".repeat(LINE)).into_string(), format!("<bdi>{}…</bdi>", "ä".repeat(LINE / 2)));
        for c in ["a", "\"", "\n", "\u{202e}", "\u{7}", "文"] {
            let (one, many) =
                (text(&c.repeat(1 << 20)).into_string(), lines(&c.repeat(1 << 20)).into_string());
            assert!(one.contains('…') && one.len() < LINE + 32, "{c:?}: {}", one.len());
            assert!(many.contains('…') && many.len() < LINES + 32, "{c:?}: {}", many.len());
        }
    }

    #[test]
    fn markup_is_text_and_what_turns_text_around_is_seen() {
        let shown = lines("<b>\"&\nC\u{202e}D").into_string();
        assert_eq!(shown, "<bdi>&lt;b&gt;&quot;&amp;</bdi><br><bdi>C\\u{202e}D</bdi>");
        assert!(!address("https://u:s3cret@example.com").into_string().contains("s3cret"));
        let quoted = address("https://example.com/\"onclick=\"x").into_string();
        assert!(!quoted.contains("\"onclick"), "{quoted}");
    }
}
