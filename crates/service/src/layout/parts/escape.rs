//! Renders untrusted text: invisible and direction-changing characters are escaped, long text is truncated.
//!
//! A URL becomes a link only if its scheme is http or https and all its characters are visible.

use maud::{Markup, html};

use model::UrlText;
use model::escape::{Escaped, needs_escape};

/// Maximum size of a single-line text as markup, in bytes.
const MAX_LINE_BYTES: usize = 1_000;

/// Maximum size of a multi-line text as markup, in bytes.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// A single-line text.
pub(crate) fn text(text: &str) -> Markup {
    let (start, end) = truncate(text, MAX_LINE_BYTES);
    html! { bdi { (Escaped(start).to_string()) (end) } }
}

/// The name of an image; a line may break after each slash.
pub(crate) fn image_name(name: &str) -> Markup {
    let (start, end) = truncate(name, MAX_LINE_BYTES);
    html! {
        bdi {
            @for (number, part) in Escaped(start).to_string().split_inclusive('/').enumerate() {
                @if number > 0 { wbr; }
                (part)
            }
            (end)
        }
    }
}

/// A multi-line text.
pub(crate) fn lines(text: &str) -> Markup {
    let (start, end) = truncate(text, MAX_TEXT_BYTES);
    html! {
        @for (number, line) in start.lines().enumerate() {
            @if number > 0 { br; }
            bdi { (Escaped(line).to_string()) }
        }
        (end)
    }
}

/// The start of a text that takes at most `max` bytes as markup, and `…` if the text is longer.
fn truncate(text: &str, max: usize) -> (&str, &str) {
    let mut bytes = 0;
    for (at, c) in text.char_indices() {
        bytes += match c {
            '"' | '&' | '<' | '>' => "&quot;".len(),
            '\n' => "</bdi><br><bdi>".len(),
            c if needs_escape(c) => "\\u{10ffff}".len(),
            c => c.len_utf8(),
        };
        if bytes > max {
            return (text.get(..at).unwrap_or_default(), "…");
        }
    }
    (text, "")
}

/// A link to a URL; only the label if the URL is not safe to open.
pub(crate) fn link(url: &str, label: &Markup) -> Markup {
    let is_safe = |url: &UrlText| url.is_web() && !url.as_str().chars().any(needs_escape);
    match UrlText::new(url).ok().filter(is_safe) {
        Some(url) => html! { a href=(url.as_str()) rel="noreferrer" { (label) } },
        None => label.clone(),
    }
}

/// A URL without its credentials, as a link if it is safe to open.
pub(crate) fn url_link(url: &str) -> Markup {
    let shown = UrlText::new(url);
    link(url, &text(shown.as_ref().map_or("", UrlText::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_http_urls_are_links() {
        for (url, is_link) in [
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
            assert_eq!(url_link(url).into_string().contains("<a "), is_link, "{url}");
        }
    }

    #[test]
    fn long_text_is_truncated_by_its_size_as_markup() {
        assert_eq!(
            text(&"a".repeat(MAX_LINE_BYTES)).into_string(),
            format!("<bdi>{}</bdi>", "a".repeat(MAX_LINE_BYTES))
        );
        assert_eq!(
            text(&"ä".repeat(MAX_LINE_BYTES)).into_string(),
            format!("<bdi>{}…</bdi>", "ä".repeat(MAX_LINE_BYTES / 2))
        );
        for c in ["a", "\"", "\n", "\u{202e}", "\u{7}", "文"] {
            let (one, many) =
                (text(&c.repeat(1 << 20)).into_string(), lines(&c.repeat(1 << 20)).into_string());
            assert!(one.contains('…') && one.len() < MAX_LINE_BYTES + 32, "{c:?}: {}", one.len());
            assert!(many.contains('…') && many.len() < MAX_TEXT_BYTES + 32, "{c:?}: {}", many.len());
        }
    }

    #[test]
    fn markup_and_direction_overrides_are_escaped() {
        let shown = lines("<b>\"&\nC\u{202e}D").into_string();
        assert_eq!(shown, "<bdi>&lt;b&gt;&quot;&amp;</bdi><br><bdi>C\\u{202e}D</bdi>");
        assert!(!url_link("https://u:s3cret@example.com").into_string().contains("s3cret"));
        let quoted = url_link("https://example.com/\"onclick=\"x").into_string();
        assert!(!quoted.contains("\"onclick"), "{quoted}");
    }
}
