//! What a page is made of, as a browser's parser reads it (HTML Standard, "Tokenization").

use std::convert::Infallible;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use supercargo::domain::escape::is_steering;

/// The elements that pages are made of.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "link",
    "body",
    "header",
    "nav",
    "main",
    "footer",
    "a",
    "form",
    "label",
    "input",
    "select",
    "option",
    "button",
    "span",
    "div",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "br",
    "wbr",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "section",
    "article",
    "figure",
    "figcaption",
    "svg",
    "g",
    "rect",
    "line",
    "path",
    "text",
    "details",
    "summary",
    "table",
    "caption",
    "colgroup",
    "col",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "code",
    "pre",
    "bdi",
    "time",
    "strong",
    "em",
    "small",
    "script",
];

/// Those that have no end.
const VOID: &[&str] = &["meta", "link", "input", "br", "wbr", "col"];

/// The attributes that pages set, besides `aria-…` and `data-…`. None of them runs anything, or says how something looks.
const ATTRIBUTES: &[&str] = &[
    "action",
    "autocomplete",
    "autofocus",
    "charset",
    "class",
    "colspan",
    "content",
    "d",
    "datetime",
    "defer",
    "disabled",
    "for",
    "height",
    "hidden",
    "href",
    "id",
    "lang",
    "max",
    "maxlength",
    "method",
    "min",
    "name",
    "open",
    "placeholder",
    "preserveaspectratio",
    "rel",
    "required",
    "role",
    "rowspan",
    "scope",
    "selected",
    "src",
    "step",
    "tabindex",
    "title",
    "type",
    "value",
    "viewbox",
    "width",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
];

/// What is read on a page: all of its text, and the values of its fields.
pub struct Seen {
    pub text: String,
    pub fields: Vec<String>,
}

/// Reads a page.
///
/// # Panics
///
/// Where it holds anything but what pages are made of, leads to anything but pages and the web, or has a character
/// in it that nobody sees.
#[track_caller]
pub fn seen(path: &str, page: &str) -> Seen {
    let mut seen = Seen { text: String::new(), fields: Vec::new() };
    let mut open: Vec<String> = Vec::new();
    let mut emitter = DefaultEmitter::default();
    // In a title and in a script, most of what looks like markup is none.
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let token: Result<Token, Infallible> = token;
        match token {
            Ok(Token::StartTag(tag)) => {
                let name = text(&tag.name);
                checked(path, &name, &tag, &mut seen.fields);
                if !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Ok(Token::EndTag(tag)) => {
                assert_eq!(open.pop(), Some(text(&tag.name)), "{path}: it ends what is not open: {page}");
            }
            Ok(Token::String(more)) => {
                let more = text(&more);
                let hidden = more.chars().find(|c| is_steering(*c) && *c != '\n');
                assert_eq!(hidden, None, "{path}: {more:?}");
                assert!(open.last().is_none_or(|name| name != "script"), "{path}: code in the page: {more}");
                seen.text.push_str(&more);
            }
            Ok(Token::Doctype(_)) => {}
            other => panic!("{path}: {other:?} in {page}"),
        }
    }
    assert_eq!(open, [] as [String; 0], "{path}: it is left open");
    seen
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn checked(path: &str, name: &str, tag: &StartTag<()>, fields: &mut Vec<String>) {
    assert!(ELEMENTS.contains(&name), "{path}: <{name}>: {tag:?}");
    let attribute = |name: &str| tag.attributes.get(name.as_bytes()).map(|value| text(value));
    for (key, value) in &tag.attributes {
        let (key, value) = (text(key), text(value));
        let is_known =
            ATTRIBUTES.contains(&key.as_str()) || key.starts_with("aria-") || key.starts_with("data-");
        assert!(is_known, "{path}: <{name} {key}=\"{value}\">");
        // A field holds what its visitor wrote, and gives it back.
        assert!(key == "value" || !value.chars().any(is_steering), "{path}: {key}={value:?}");
    }
    if name == "input" {
        fields.extend(attribute("value"));
    }
    let autofocus = attribute("autofocus").is_some();
    assert!(!autofocus || attribute("id").as_deref() == Some("token"), "{path}: {tag:?}");
    let is_ours = |address: &str| address.starts_with("/ui");
    for address in [attribute("src"), attribute("action")].into_iter().flatten() {
        assert!(is_ours(&address), "{path}: <{name}> of {address}");
    }
    assert!(name != "script" || attribute("src").is_some(), "{path}: code in the page");
    let Some(href) = attribute("href") else { return };
    let is_web = href.starts_with("https://") || href.starts_with("http://");
    assert!(is_web || is_ours(&href) || href.starts_with('#'), "{path}: {href}");
    // "noreferrer" is "noopener" too (HTML Standard, "Link type noreferrer").
    let rel = attribute("rel").unwrap_or_default();
    assert!(!is_web || rel.split(' ').any(|word| word == "noreferrer"), "{path}: {href}");
}

mod tests {
    use super::seen;

    /// Each of these is found out.
    #[test]
    fn what_is_no_part_of_a_page_is_found_out() {
        for page in [
            "<script>alert(1)</script>",
            "<img src=x>",
            "<p onclick=\"x\">a</p>",
            "<p style=\"x\">a</p>",
            "<a href=\"javascript:alert(1)\">a</a>",
            "<a href=\"//example.com\">a</a>",
            "<a href=\"https://example.com\">a</a>",
            "<form action=\"https://example.com\"></form>",
            "<input autofocus>",
            "<title>a</title></title>",
            "<title>a</p>",
            "<p>a</div>",
            "<p>a\u{202e}b</p>",
            "<p title=\"a\u{200b}\">b</p>",
            "<!-- a -->",
            "<p class=a class=b>c</p>",
        ] {
            let found = std::panic::catch_unwind(|| seen("a page", page));
            assert!(found.is_err(), "{page}");
        }
        let page =
            "<p class=\"a\">&lt;script&gt; <a href=\"/ui/x\">b</a></p><input value=\"&quot;\u{202e}\">";
        let seen = seen("a page", page);
        assert_eq!(
            (seen.text.as_str(), seen.fields.as_slice()),
            ("<script> b", &["\"\u{202e}".to_owned()][..])
        );
    }
}
