//! What every page has around it.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::escape::text;
use super::format::stamp;
use crate::domain::escape::{Visible, shortened};
use crate::service::app::App;
use crate::service::pages::session::Visitor;

/// Files are kept by browsers for an hour: those of another version have another address.
const OF_THIS: &str = concat!("?v=", env!("CARGO_PKG_VERSION"));

/// The way to a page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way<'a> {
    /// What it stands below, under its organization: how each is called, and where it is; empty: nowhere.
    pub(crate) above: &'a [(&'a str, String)],
    /// What was searched for.
    pub(crate) searched: &'a str,
    /// Whether it is the organization's own page, which is below nothing.
    pub(crate) is_top: bool,
}

/// A whole page, right below its organization: its title, who looks at it, and what is in it.
pub(crate) fn page(app: &App, title: &str, visitor: Option<&Visitor>, content: &Markup) -> Html<String> {
    placed(app, title, visitor, Way::default(), content)
}

/// A whole page that stands somewhere.
pub(crate) fn placed(
    app: &App,
    title: &str,
    visitor: Option<&Visitor>,
    way: Way<'_>,
    content: &Markup,
) -> Html<String> {
    let below = visitor.filter(|_| !way.is_top);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title {
                    (Visible(&shortened(title, 200)).to_string()) " · "
                    @for (name, _) in way.above.iter().rev() { (Visible(name).to_string()) " · " }
                    @if let Some(visitor) = below { (Visible(&visitor.organization).to_string()) " · " }
                    "supercargo"
                }
                link rel="stylesheet" href={ (app.links.page(&["style.css"])) (OF_THIS) };
                script src={ (app.links.page(&["script.js"])) (OF_THIS) } defer {}
            }
            body {
                a.skip href="#content" { "To the content" }
                header {
                    a.mark href=(app.links.page(&[])) { "supercargo" }
                    @if let Some(visitor) = visitor { (tools(app, visitor, way.searched)) }
                }
                @if let Some(visitor) = below {
                    (crumbs(app, &visitor.organization, way.above, title))
                }
                main id="content" { (content) }
                @if let Some(visitor) = visitor {
                    footer {
                        p { "As of " (stamp(app.now())) }
                        // Who prints it writes down where it is from.
                        p.printed { (text(&format!("{}{}", app.links.base(), visitor.looks_at))) }
                    }
                }
            }
        }
    };
    Html(page.into_string())
}

/// The ways to everything of the organization, and out.
fn tools(app: &App, visitor: &Visitor, searched: &str) -> Markup {
    let parts = [("Environments", None), ("Actions", Some("actions"))];
    html! {
        nav aria-label="Organization" {
            @for (name, part) in parts {
                @let segments: Vec<&str> = [visitor.organization.as_str()].into_iter().chain(part).collect();
                @let path = app.links.page(&segments);
                a href=(path) aria-current=[visitor.is_at(&path).then_some("page")] { (name) }
            }
        }
        form.search role="search" aria-label="Everything" action=(app.links.page(&[&visitor.organization, "search"])) {
            label.unseen for="everything" { "Search" }
            input id="everything" name="q" type="search" maxlength="255" required value=(searched)
                placeholder="digest, image, pod, commit, flow, trail";
            button type="submit" { "Search" }
        }
        form method="post" action=(app.links.page(&["sign-out"])) {
            span { (text(&visitor.name)) }
            button type="submit" { "Sign out" }
        }
    }
}

/// The way from the organization down to a page.
fn crumbs(app: &App, organization: &str, above: &[(&str, String)], here: &str) -> Markup {
    html! {
        nav.way aria-label="You are here" {
            ol {
                li { a href=(app.links.page(&[organization])) { (text(organization)) } }
                @for (name, path) in above {
                    li { @if path.is_empty() { (text(name)) } @else { a href=(path) { (text(name)) } } }
                }
                // The heading right below shows it.
                li.unseen { span aria-current="page" { (text(here)) } }
            }
        }
    }
}
