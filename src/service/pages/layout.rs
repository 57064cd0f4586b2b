//! What every page has around it.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::outside::text;
use super::visitor::Visitor;
use crate::domain::visible::Visible;
use crate::service::app::App;

/// A whole page: its title, who looks at it, and what is in it.
pub(super) fn page(app: &App, title: &str, visitor: Option<&Visitor>, content: &Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (Visible(title).to_string()) " · supercargo" }
                link rel="stylesheet" href=(app.links.page(&["style.css"]));
            }
            body {
                a.skip href="#content" { "To the content" }
                header {
                    a.mark href=(app.links.page(&[])) { "supercargo" }
                    @if let Some(visitor) = visitor {
                        nav aria-label="Organization" {
                            a href=(app.links.page(&[&visitor.organization])) { (text(&visitor.organization)) }
                        }
                        form.search role="search" action=(app.links.page(&[&visitor.organization, "search"])) {
                            label for="q" { "Search" }
                            input id="q" name="q" type="search" maxlength="255" required
                                placeholder="digest, image, pod, commit, flow, trail";
                            button type="submit" { "Find" }
                        }
                        form method="post" action=(app.links.page(&["sign-out"])) {
                            span { (text(&visitor.name)) }
                            button type="submit" { "Sign out" }
                        }
                    }
                }
                main id="content" { (content) }
            }
        }
    };
    Html(page.into_string())
}
