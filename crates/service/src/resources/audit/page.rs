//! The audit log, for users with a token of role admin.

use axum::extract::State;
use axum::http::Uri;
use maud::html;

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::timestamp;
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::table;
use crate::layout::parts::pagination::{Pagination, ROWS_PER_PAGE, requested_page};
use crate::layout::parts::refusal::Refusal;
use crate::layout::session::OrganizationPage;
use crate::site::PageSite;
use model::Page;
use store::attestations::TimeRange;

/// The page; 404 for other roles.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    if !user.is_admin() {
        return Err(Refusal::NotFound);
    }
    let parameters = Parameters::read(&uri, &["page"])?;
    let requested = requested_page(&parameters)?;
    let page = Page::new(i64::try_from(requested).ok(), i64::try_from(ROWS_PER_PAGE).ok())
        .map_err(|error| Problem::field(error.parameter, &error))?;
    let mut transaction = site.store.read().await?;
    let (entries, total) =
        store::audit::list(&mut transaction.of(&organization), TimeRange::ALL, page).await?;
    drop(transaction);
    let pagination = Pagination::new(usize::try_from(total).unwrap_or(usize::MAX), ROWS_PER_PAGE, requested);
    let rows = html! {
        @for entry in &entries {
            tr {
                td { (timestamp(entry.at)) }
                th scope="row" { (text(&entry.actor)) }
                td { (text(&entry.change)) }
            }
        }
    };
    let path = site.links.page(&[&organization, "audit"]);
    let content = html! {
        h1 { "Audit log" }
        p { "Changes by the bootstrap file and by tokens of role admin, sign-ins, and refused attestations"
            (pagination.label()) "." }
        @if entries.is_empty() { p { "No entries." } }
        @else { (table("Audit log", &["Time", "By", "Change"], &rows)) }
        (pagination.links(|page| format!("{path}?page={page}")))
    };
    let alternate = Alternate::new(&site, &["audit", &organization], &[], &["list", "audit"]);
    let navigation = Navigation { alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Audit log", Some(&user), navigation, &content))
}
