//! The frame of every page: head, header with navigation and search, breadcrumbs and footer.

use std::borrow::Cow;

use axum::http::HeaderName;
use axum::http::header::LINK;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use crate::http::context::SignedIn;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::timestamp;
use crate::site::Site;
use model::escape::{Escaped, shortened};

/// Browsers cache files for an hour; the version in the URL avoids stale files after an upgrade.
const VERSION_QUERY: &str = concat!("?v=", env!("CARGO_PKG_VERSION"));

/// The position of a page below its organization.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Navigation<'a> {
    /// Names and URLs of the parent pages; the URL is empty if there is no page.
    pub(crate) parents: &'a [(&'a str, String)],
    pub(crate) query: &'a str,
    /// Whether this is the page of the organization itself, which has no breadcrumbs.
    pub(crate) is_organization_page: bool,
    /// The same data for machines.
    pub(crate) alternate: Option<&'a Alternate>,
    /// Whether a script updates the page while it is open.
    pub(crate) is_live: bool,
}

/// The operation and the command that give the data of a page.
#[derive(Debug)]
pub(crate) struct Alternate {
    url: String,
    command: String,
}

impl Alternate {
    /// The operation with this path and query, and the command with these arguments.
    pub(crate) fn new(site: &Site, path: &[&str], query: &[(&str, &str)], arguments: &[&str]) -> Self {
        let words: Vec<_> = ["supercargo"].iter().chain(arguments).map(|word| quoted(word)).collect();
        Self { url: site.links.data(path, query), command: words.join(" ") }
    }
}

/// An argument as shells read it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@#~/".contains(c);
    if word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

/// A rendered page, with a link to its data.
pub(crate) type HtmlPage = (Option<[(HeaderName, String); 1]>, Html<String>);

/// A page directly below its organization.
pub(crate) fn page(site: &Site, title: &str, user: Option<&SignedIn>, content: &Markup) -> HtmlPage {
    page_with_navigation(site, title, user, Navigation::default(), content)
}

/// A page with parent pages or a search text.
pub(crate) fn page_with_navigation(
    site: &Site,
    title: &str,
    user: Option<&SignedIn>,
    navigation: Navigation<'_>,
    content: &Markup,
) -> HtmlPage {
    let in_organization = user.filter(|_| !navigation.is_organization_page);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title {
                    (Escaped(&shortened(title, 200)).to_string()) " · "
                    @for (name, _) in navigation.parents.iter().rev() { (Escaped(name).to_string()) " · " }
                    @if let Some(user) = in_organization { (Escaped(&user.organization).to_string()) " · " }
                    "supercargo"
                }
                link rel="stylesheet" href={ (site.links.page(&["style.css"])) (VERSION_QUERY) };
                script src={ (site.links.page(&["script.js"])) (VERSION_QUERY) } defer {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header {
                    a.logo href=(site.links.page(&[])) { "supercargo" }
                    @if let Some(user) = user { (header_tools(site, user, navigation.query)) }
                }
                @if let Some(user) = in_organization {
                    (breadcrumbs(site, &user.organization, navigation.parents, title))
                }
                main id="content" data-live[navigation.is_live] { (content) }
                @if let Some(user) = user {
                    footer {
                        p { "As of " (timestamp(user.replayed_until.unwrap_or_else(|| site.now()))) }
                        @if let Some(Alternate { url, command }) = navigation.alternate {
                            p { a href=(url) { "JSON" } ", or " code { (text(command)) } }
                        }
                        // The source of a printed page.
                        p.print-only { (text(&format!("{}{}", site.links.base(), user.target))) }
                    }
                }
            }
        }
    };
    let link = |Alternate { url, .. }: &Alternate| {
        [(LINK, format!("<{url}>; rel=\"alternate\"; type=\"application/json\""))]
    };
    (navigation.alternate.map(link), Html(page.into_string()))
}

/// Navigation, search and sign-out in the header.
fn header_tools(site: &Site, user: &SignedIn, query: &str) -> Markup {
    let parts = [
        ("Environments", None),
        ("Policies", Some("policies")),
        ("Actions", Some("actions")),
        ("Audit log", Some("audit")),
    ];
    html! {
        nav aria-label="Organization" {
            @for (name, part) in parts.into_iter().filter(|(_, part)| user.is_admin() || *part != Some("audit")) {
                @let segments: Vec<&str> = [user.organization.as_str()].into_iter().chain(part).collect();
                @let path = site.links.page(&segments);
                a href=(path) aria-current=[user.is_at(&path).then_some("page")] { (name) }
            }
        }
        form.search role="search" aria-label="Organization data" action=(site.links.page(&[&user.organization, "search"])) {
            label.visually-hidden for="search" { "Search" }
            input id="search" name="q" type="search" maxlength="255" required value=(query)
                placeholder="environment, image, pod, digest, commit, flow, trail";
            button type="submit" { "Search" }
        }
        form method="post" action=(site.links.page(&["sign-out"])) {
            span { (text(&user.display_name)) }
            button type="submit" { "Sign out" }
        }
    }
}

/// The breadcrumbs from the organization to the page.
fn breadcrumbs(site: &Site, organization: &str, parents: &[(&str, String)], title: &str) -> Markup {
    html! {
        nav.breadcrumbs aria-label="Breadcrumbs" {
            ol {
                li { a href=(site.links.page(&[organization])) { (text(organization)) } }
                @for (name, path) in parents {
                    li { @if path.is_empty() { (text(name)) } @else { a href=(path) { (text(name)) } } }
                }
                // Hidden, since the heading shows it.
                li.visually-hidden { span aria-current="page" { (text(title)) } }
            }
        }
    }
}
