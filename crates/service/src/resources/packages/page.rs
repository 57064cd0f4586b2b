//! The page on which packages are searched.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use crate::http::parameters::Parameters;
use crate::layout::parts::escape::{image_name, text};
use crate::layout::parts::format::{badge, timestamp, timestamp_with_age};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::table;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{EnvironmentLinks, digest_link};
use crate::layout::session::OrganizationPage;
use crate::resources::packages::find::{FoundPackage, FoundPackages, PARAMETERS, PackageQuery};
use crate::site::{PageSite, Site};
use model::pluralize;

/// The fields of the form: parameter, label, example, and option of the command.
const FIELDS: [[&str; 4]; 4] = [
    ["name", "Package", "log4j-core", "--package"],
    ["version", "Version", "<2.17.1", "--version"],
    ["purl_type", "Type", "maven", "--purl-type"],
    ["at", "At", "now, 2w or 2026-10-03T14:00Z", "--at"],
];

pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let parameters = Parameters::read(&uri, &PARAMETERS)?;
    let value = |name: &str| parameters.field(name).unwrap_or_default();
    let url = site.links.page(&[&organization, "packages"]);
    let is_search = !value("name").is_empty();
    let result = if is_search {
        let query = PackageQuery::parse(&parameters, site.now())?;
        let found = FoundPackages::read(&site, &organization, &query).await?;
        let next = found.next.as_ref().map(|next| {
            let fields = FIELDS.map(|[name, ..]| (name, value(name)));
            let query =
                fields.into_iter().filter(|(_, value)| !value.is_empty()).chain([("after", next.as_str())]);
            format!(
                "{url}?{}",
                url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish()
            )
        });
        results(&site, &organization, &found, next)
    } else {
        html! { p { "Enter the name of a package. Pipelines attest the packages of images: supercargo attest sbom." } }
    };
    let content = html! {
        h1 { "Packages" }
        form.filter action=(url) {
            @for [name, label, example, _] in FIELDS {
                div {
                    label for=(name) { (label) }
                    input id=(name) name=(name) type="text" value=(value(name)) placeholder=(example) required[name == "name"];
                }
            }
            button type="submit" { "Search" }
        }
        (result)
    };
    let given: Vec<_> = FIELDS.iter().filter(|[name, ..]| !value(name).is_empty()).collect();
    let query: Vec<_> = given.iter().map(|[name, ..]| (*name, value(name))).collect();
    let mut arguments = vec!["search"];
    for [name, .., option] in given {
        arguments.extend([*option, value(name)]);
    }
    let alternate = Alternate::new(&site, &["packages", &organization], &query, &arguments);
    let alternate = Some(&alternate).filter(|_| is_search);
    let navigation = Navigation { alternate, ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Packages", Some(&user), navigation, &content))
}

fn results(site: &Site, organization: &str, found: &FoundPackages, next: Option<String>) -> Markup {
    let row = |row: &FoundPackage| {
        let links = EnvironmentLinks { site, organization, environment: &row.environment };
        html! {
            tr {
                th scope="row" {
                    (links.link())
                    @if row.is_silent { " " (badge("open", "silent")) }
                }
                td { @for workload in &row.workloads { div { (text(workload)) } } }
                td { (image_name(&row.image)) " " (digest_link(site, organization, &row.fingerprint)) }
                td {
                    @if !row.package.namespace.is_empty() { (text(&row.package.namespace)) " " }
                    (text(&row.package.name))
                }
                td {
                    (text(&row.package.version))
                    @if row.is_unclear { " " (badge("open", "not comparable")) }
                }
                td { (timestamp_with_age(row.started_at, site.now())) }
                td { @if let Some(commit) = &row.git_commit { code { (text(&commit.chars().take(7).collect::<String>())) } } }
            }
        }
    };
    let rows = html! { @for found in &found.data { (row(found)) } };
    let columns = ["Environment", "Workloads", "Image", "Package", "Version", "Since", "Commit"];
    html! {
        p {
            @if found.matches == 1 { "1 match" } @else { (found.matches) " matches" } " at " (timestamp(found.at)) ". "
            (found.images_without_bill) " of " (pluralize(found.running_images, "running image"))
            " have no bill of materials."
        }
        @if found.environments_without_history > 0 {
            p.warning role="status" {
                "The retention removed what " (pluralize(found.environments_without_history, "environment")) " ran then."
            }
        }
        @if !found.data.is_empty() { (table("Packages", &columns, &rows)) }
        @if let Some(next) = next { nav.pages aria-label="Pages" { a href=(next) rel="next" { "Next" } } }
    }
}
