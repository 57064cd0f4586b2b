//! Parses pages as a browser does (HTML Standard, "Tokenization") and rejects unexpected markup.

use std::convert::Infallible;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use model::escape::needs_escape;

/// Elements that pages may contain.
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
    "datalist",
    "textarea",
    "script",
];

/// Elements without an end tag.
const VOID: &[&str] = &["meta", "link", "input", "br", "wbr", "col"];

/// Attributes that pages may set, besides `aria-…` and `data-…`: no script and no style.
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
    "list",
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
    "rows",
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

/// Text of a page and the values of its input fields.
pub struct PageContent {
    pub text: String,
    pub fields: Vec<String>,
}

/// # Panics
///
/// On an unexpected element or attribute, a link other than to a page or an http(s) URL, and an invisible character.
#[track_caller]
pub fn parse_page(path: &str, page: &str) -> PageContent {
    let mut content = PageContent { text: String::new(), fields: Vec::new() };
    let mut open: Vec<String> = Vec::new();
    let mut emitter = DefaultEmitter::default();
    // The content of a title or script is not markup.
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let token: Result<Token, Infallible> = token;
        match token {
            Ok(Token::StartTag(tag)) => {
                let name = text(&tag.name);
                check_tag(path, &name, &tag, &mut content.fields);
                if !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Ok(Token::EndTag(tag)) => {
                assert_eq!(open.pop(), Some(text(&tag.name)), "{path}: unexpected end tag: {page}");
            }
            Ok(Token::String(more)) => {
                let more = text(&more);
                let hidden = more.chars().find(|c| needs_escape(*c) && *c != '\n');
                assert_eq!(hidden, None, "{path}: {more:?}");
                assert!(open.last().is_none_or(|name| name != "script"), "{path}: code in the page: {more}");
                content.text.push_str(&more);
            }
            Ok(Token::Doctype(_)) => {}
            other => panic!("{path}: {other:?} in {page}"),
        }
    }
    assert_eq!(open, [] as [String; 0], "{path}: missing end tag");
    content
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn check_tag(path: &str, name: &str, tag: &StartTag<()>, fields: &mut Vec<String>) {
    assert!(ELEMENTS.contains(&name), "{path}: <{name}>: {tag:?}");
    let attribute = |name: &str| tag.attributes.get(name.as_bytes()).map(|value| text(value));
    for (key, value) in &tag.attributes {
        let (key, value) = (text(key), text(value));
        let is_known =
            ATTRIBUTES.contains(&key.as_str()) || key.starts_with("aria-") || key.starts_with("data-");
        assert!(is_known, "{path}: <{name} {key}=\"{value}\">");
        // A field returns the input of the user unescaped.
        assert!(key == "value" || !value.chars().any(needs_escape), "{path}: {key}={value:?}");
    }
    if name == "input" {
        fields.extend(attribute("value"));
    }
    let autofocus = attribute("autofocus").is_some();
    assert!(!autofocus || attribute("id").as_deref() == Some("token"), "{path}: {tag:?}");
    let is_page = |url: &str| url.starts_with("/ui");
    for url in [attribute("src"), attribute("action")].into_iter().flatten() {
        assert!(is_page(&url), "{path}: <{name}> of {url}");
    }
    assert!(name != "script" || attribute("src").is_some(), "{path}: code in the page");
    let Some(href) = attribute("href") else { return };
    let is_external = href.starts_with("https://") || href.starts_with("http://");
    assert!(
        is_external || is_page(&href) || href.starts_with("/api/v2/") || href.starts_with('#'),
        "{path}: {href}"
    );
    // "noreferrer" implies "noopener" (HTML Standard, "Link type noreferrer").
    let rel = attribute("rel").unwrap_or_default();
    assert!(!is_external || rel.split(' ').any(|word| word == "noreferrer"), "{path}: {href}");
}

mod tests {
    use super::parse_page;

    #[test]
    fn unexpected_markup_is_detected() {
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
            let result = std::panic::catch_unwind(|| parse_page("a page", page));
            assert!(result.is_err(), "{page}");
        }
        let page =
            "<p class=\"a\">&lt;script&gt; <a href=\"/ui/x\">b</a></p><input value=\"&quot;\u{202e}\">";
        let content = parse_page("a page", page);
        assert_eq!(
            (content.text.as_str(), content.fields.as_slice()),
            ("<script> b", &["\"\u{202e}".to_owned()][..])
        );
    }
}
