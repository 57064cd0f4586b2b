//! The comparison of two snapshots of an environment.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sqlx::types::Uuid;

use crate::engine::selected_snapshot::Content;
use crate::http::blocking::compute;
use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::{count, timestamp, utc};
use crate::layout::parts::layout::{self, Alternate, Navigation};
use crate::layout::parts::pagination;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::snapshot::{comparison_form, facts, status_badge};
use crate::layout::parts::urls::{EnvironmentLinks, digest_link};
use crate::layout::session::OrganizationPage;
use crate::resources::environments::pages::running::Verdicts;
use crate::resources::environments::pages::snapshot_diff::{
    self, DiffPage, DiffRow, DiffSide, Difference, rows, total,
};
use crate::resources::environments::pages::table::verdict;
use crate::site::PageSite;
use model::Timestamp;
use store::Tenant;
use store::environments::timeline::{AvailableSnapshots, Snapshot};

#[derive(Debug, Clone, Copy)]
struct ComparisonQuery {
    from: Option<i64>,
    to: Option<i64>,
    /// Shows rows with this difference only.
    only: Option<Difference>,
    page: usize,
}

/// A snapshot and its content.
struct Side {
    snapshot: Snapshot,
    /// The time for which the content is read.
    at: Timestamp,
    /// Whether that time is not in a gap.
    is_confirmed: bool,
    content: Content,
}

/// The comparison; only the form if the URL has no snapshots.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: name, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query = ComparisonQuery::parse(&uri)?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let environment = store::environments::overview(tenant, &name).await?.ok_or(Refusal::NotFound)?;
    let available = store::environments::timeline::available_snapshots(tenant, environment.id).await?;
    let last = environment.snapshot;
    let links = EnvironmentLinks { site: &site, organization: &organization, environment: &name };
    let status = CurrentStatus::from_environment(&environment, &site, site.now());
    let (mut http_status, mut result, mut sides) = (StatusCode::OK, html! {}, None);
    if let Some((from, to)) = query.from.zip(query.to) {
        let problem = [from, to].into_iter().find_map(|number| unavailable(number, &available, last));
        if let Some(problem) = problem {
            http_status = StatusCode::NOT_FOUND;
            result = html! { p.problem role="alert" { (problem) } };
        } else {
            let from = Side::read(tenant, environment.id, from, &available).await?;
            let to = Side::read(tenant, environment.id, to, &available).await?;
            sides = Some((from, to));
        }
    }
    // Comparing all artifacts is slow: release the connection, and use a blocking thread.
    drop(transaction);
    if let Some((from, to)) = sides {
        let (site, organization, name) = (site.clone(), organization.clone(), name.clone());
        let compare = move || {
            let links = EnvironmentLinks { site: &site, organization: &organization, environment: &name };
            Comparison { links, query, from: &from, to: &to, status }.markup()
        };
        result = compute(compare).await?;
    }
    let first = available.first.unwrap_or(last);
    let (from, to) = (query.from.unwrap_or((last - 1).max(first)), query.to.unwrap_or(last));
    let content = html! {
        h1 { (text(&name)) ": " @if let Some((from, to)) = query.from.zip(query.to) {
            "snapshots " (from) " and " (to)
        } @else { "compare snapshots" } }
        (comparison_form(links, &(first..=last), from, to))
        (result)
    };
    let [from, to] = [from, to].map(|number| format!("{name}#{number}"));
    let query = [("snappish1", from.as_str()), ("snappish2", &to)];
    let alternate = Alternate::new(&site, &["env-diff", &organization], &query, &["diff", &from, &to]);
    let navigation = Navigation {
        parents: &[(&name, links.page()), ("Timeline", links.timeline(1))],
        alternate: http_status
            .is_success()
            .then_some(&alternate)
            .filter(|_| last > 0 && links.is_in_expressions()),
        ..Navigation::default()
    };
    Ok((http_status, layout::page_with_navigation(&site, "Comparison", Some(&user), navigation, &content))
        .into_response())
}

/// The reason why a snapshot cannot be shown.
fn unavailable(number: i64, available: &AvailableSnapshots, last: i64) -> Option<String> {
    let first = available.first.unwrap_or_default();
    if last == 0 {
        Some("No snapshots: this environment was never reported.".to_owned())
    } else if number > last {
        Some(format!("Snapshot {number} does not exist; the latest is {last}."))
    } else if number < first {
        let horizon =
            available.horizon_at.map(|horizon| format!(", like all data that ended before {}", utc(horizon)));
        Some(format!(
            "Snapshot {number} was removed by retention{}; the first available is {first}.",
            horizon.unwrap_or_default()
        ))
    } else {
        None
    }
}

impl ComparisonQuery {
    fn parse(uri: &Uri) -> Result<Self, Problem> {
        let parameters = Parameters::read(uri, &["from", "to", "only", "page"])?;
        let only = parameters.field("only").map(|text| {
            let all = Difference::ALL.into_iter();
            let expected = Difference::ALL.map(parameter).join(", ");
            let problem = || Problem::field("only", &format!("expected one of {expected}"));
            all.into_iter().find(|difference| parameter(*difference) == text).ok_or_else(problem)
        });
        let (from, to) = (parameters.number("from")?, parameters.number("to")?);
        Ok(Self { from, to, only: only.transpose()?, page: pagination::requested_page(&parameters)? })
    }
}

/// The value of a difference in URLs.
fn parameter(difference: Difference) -> &'static str {
    match difference {
        Difference::OnlyFrom => "from",
        Difference::OnlyTo => "to",
        Difference::Pods => "pods",
        Difference::Verdict => "verdict",
        Difference::Same => "same",
    }
}

impl Side {
    async fn read(
        tenant: &mut Tenant<'_>,
        environment: Uuid,
        number: i64,
        available: &AvailableSnapshots,
    ) -> Result<Self, Refusal> {
        // Retention may remove a snapshot before an earlier one.
        let snapshot =
            store::environments::timeline::snapshots(tenant, environment, number, number).await?.pop();
        let snapshot = snapshot.ok_or(Refusal::NotFound)?;
        let at = available.view_time(&snapshot);
        let content = Content::read(tenant, environment, at).await?;
        // The retention horizon, unlike a receipt, may be in a gap.
        let is_confirmed = at == snapshot.received_at
            || store::environments::contents::history(tenant, environment, at).await?.gap.is_none();
        Ok(Self { snapshot, at, is_confirmed, content })
    }

    fn verdicts(&self) -> Verdicts<'_> {
        Verdicts { stored: &self.content.verdicts, is_confirmed: self.is_confirmed }
    }

    fn diff_side(&self) -> DiffSide<'_> {
        DiffSide { artifacts: &self.content.artifacts, verdicts: self.verdicts() }
    }
}

#[derive(Clone, Copy)]
struct Comparison<'a> {
    links: EnvironmentLinks<'a>,
    query: ComparisonQuery,
    from: &'a Side,
    to: &'a Side,
    status: CurrentStatus,
}

impl Comparison<'_> {
    fn numbers(&self) -> (i64, i64) {
        (self.from.snapshot.number, self.to.snapshot.number)
    }

    fn markup(&self) -> Markup {
        let (from, to) = self.numbers();
        let rows = rows(self.from.diff_side(), self.to.diff_side());
        let page = snapshot_diff::page(&rows, self.query.only, self.query.page);
        html! {
            p { a href=(self.links.comparison(to, from)) { "Swap snapshots" } }
            div.sides { (self.side(self.from)) (self.side(self.to)) }
            @if from == to { p { "Both are the same snapshot." } }
            ul.counts aria-label="Differences" {
                @for difference in Difference::ALL {
                    @let total = total(&rows, difference);
                    li {
                        @if total > 0 {
                            @let is_selected = (self.query.only == Some(difference)).then_some("true");
                            a href=(self.url(Some(difference), 1)) aria-current=[is_selected] {
                                (total) " " (self.label(difference))
                            }
                        } @else { "0 " (self.label(difference)) }
                    }
                }
                @if self.query.only.is_some() { li { a href=(self.url(None, 1)) { "All" } } }
            }
            @if page.rows.is_empty() { p { "No artifacts." } } @else { (self.table(&page)) }
            (page.pagination.links(|page| self.url(self.query.only, page)))
        }
    }

    fn url(&self, only: Option<Difference>, page: usize) -> String {
        let (from, to) = self.numbers();
        let mut url = self.links.comparison(from, to);
        if let Some(only) = only {
            url = format!("{url}&only={}", parameter(only));
        }
        if page > 1 { format!("{url}&page={page}") } else { url }
    }

    fn label(&self, difference: Difference) -> String {
        let (from, to) = self.numbers();
        match difference {
            Difference::OnlyFrom => format!("only in {from}"),
            Difference::OnlyTo => format!("only in {to}"),
            Difference::Pods => "with different numbers of pods".to_owned(),
            Difference::Verdict => "with different verdicts".to_owned(),
            Difference::Same => "unchanged".to_owned(),
        }
    }

    fn side(&self, side: &Side) -> Markup {
        let Side { snapshot, at, content, .. } = side;
        let artifacts = count(content.artifacts.len(), "artifact", "artifacts");
        html! {
            article.snapshot {
                h2 { "Snapshot " (snapshot.number) " " (status_badge(snapshot)) }
                (facts(snapshot, self.status))
                p {
                    (artifacts) " in " (count(content.pods, "pod", "pods"))
                    " at " (timestamp(*at))
                }
                p { a href=(self.links.at(*at)) { "Running artifacts" } }
            }
        }
    }

    fn table(&self, page: &DiffPage<'_>) -> Markup {
        let (from, to) = self.numbers();
        let caption = format!("Snapshots {from} and {to}");
        html! {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table.runs {
                    caption { (caption) (page.pagination.label()) }
                    thead {
                        tr {
                            th scope="col" { "Image" }
                            th scope="col" { "Pods in " (from) }
                            th scope="col" { "Pods in " (to) }
                            th scope="col" { "Verdict at receipt of " (from) }
                            th scope="col" { "Verdict at receipt of " (to) }
                        }
                    }
                    @for group in page.rows.chunk_by(|one, next| one.difference == next.difference) {
                        tbody {
                            @if let Some(first) = group.first() {
                                tr { th.group scope="rowgroup" colspan="5" { (self.heading(first.difference)) } }
                            }
                            @for row in group { (self.row(row)) }
                        }
                    }
                }
            }
        }
    }

    fn heading(&self, difference: Difference) -> String {
        let label = self.label(difference);
        match difference {
            Difference::OnlyFrom | Difference::OnlyTo => label.replacen("only", "Only", 1),
            Difference::Pods | Difference::Verdict => format!("In both, {label}"),
            Difference::Same => "Unchanged".to_owned(),
        }
    }

    fn row(&self, row: &DiffRow<'_>) -> Markup {
        let (numbers, (from, to)) = (self.numbers(), row.pods);
        let side = |side: &Side, pods: Option<usize>| {
            let missing = "not evaluated";
            let verdict = pods.map(|_| verdict(&side.verdicts(), &row.artifact, missing));
            html! { td data-name={ "Verdict at receipt of " (side.snapshot.number) } { @if let Some(verdict) = verdict { (verdict) } @else { "–" } } }
        };
        let pods = |number: i64, pods: Option<usize>| {
            html! { td data-name={ "Pods in " (number) } { @if let Some(pods) = pods { (pods) } @else { "–" } } }
        };
        html! {
            tr {
                td.image {
                    (text(row.name)) " "
                    (digest_link(self.links.site, self.links.organization, &row.artifact))
                    @if let Some(former) = row.former_name { span.reason { "formerly " (text(former)) } }
                }
                (pods(numbers.0, from)) (pods(numbers.1, to))
                (side(self.from, from)) (side(self.to, to))
            }
        }
    }
}
