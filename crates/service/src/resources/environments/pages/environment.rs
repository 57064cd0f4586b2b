//! The page of an environment: its policy, and the artifacts that run or ran there, with verdicts and reasons.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use sqlx::types::Uuid;

use crate::engine::inputs::Inputs;
use crate::http::blocking::compute;
use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::escape::text;
use crate::layout::parts::filter::Filter;
use crate::layout::parts::format::{badge, compliance_badge, count, precise, running_totals, timestamp, utc};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::{empty, first_rows_note, table};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::rules::{self, RuleResults};
use crate::layout::parts::urls::{self, EnvironmentLinks};
use crate::layout::session::OrganizationPage;
use crate::resources::environments::pages::running::{self, RunningPage, RunningRow, Verdicts};
use crate::resources::environments::pages::table::{Recorded, Table, artifact_count};
use crate::site::{PageSite, Site};
use ::rules::absence::ExpectedArtifacts;
use ::rules::compliance::{Compliance, ComplianceCounts};
use ::rules::environment_status::{
    Evaluation, ReportedArtifacts, RunningArtifact, Verdict, running_artifacts,
};
use ::rules::history_coverage::HistoryCoverage;
use ::rules::policy::Policy;
use model::{EnvironmentName, Fingerprint, Timestamp};
use store::Tenant;
use store::environments::contents::PodGroup;
use store::environments::{EnvironmentOverview, RunningTotals};

/// The requested point in time.
#[derive(Debug, Clone, Copy)]
struct Past {
    at: Timestamp,
    snapshot: Option<i64>,
    coverage: HistoryCoverage,
}

impl Past {
    async fn read(
        tenant: &mut Tenant<'_>,
        environment: Uuid,
        at: Timestamp,
        status: CurrentStatus,
    ) -> Result<Self, store::Error> {
        let history = store::environments::contents::history(tenant, environment, at).await?;
        let coverage = HistoryCoverage::new(at, status.now, &history, status.validity.silent_after);
        Ok(Self { at, snapshot: history.snapshot.filter(|_| coverage.has_data()), coverage })
    }
}

/// Maximum number of non-compliant artifacts for which the rules are evaluated. Others fulfill all rules or are allowed.
const MAX_EVALUATED: usize = 100;

/// The requested page of the artifacts.
struct Selected {
    page: RunningPage,
    /// The verdicts of the artifacts on the page.
    stored: HashMap<Fingerprint, Verdict>,
    /// The non-compliant artifacts, at most one more than [`MAX_EVALUATED`].
    failing: ReportedArtifacts,
    /// Whether there are no artifacts, whatever the filter.
    is_empty: bool,
    /// The totals, and the number of all rows by verdict, if the page shows the past.
    past: Option<(RunningTotals, ComplianceCounts)>,
}

/// The running artifacts of an environment, or those at `?at=`.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: name, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let filter = Filter::parse(&uri)?;
    let now = site.now();
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let environment = store::environments::overview(tenant, &name).await?.ok_or(Refusal::NotFound)?;
    let status = CurrentStatus::from_environment(&environment, &site, now);
    let past = match filter.at {
        Some(at) => Some(Past::read(tenant, environment.id, at, status).await?),
        None => None,
    };
    let groups = match past {
        Some(past) if !past.coverage.has_data() => Vec::new(),
        _ => store::environments::contents::pod_groups(tenant, environment.id, filter.at, &filter.q).await?,
    };
    let stored = store::environments::contents::verdicts(tenant, environment.id, filter.at).await?;
    let mut policies = site.policies.of(tenant, [name.as_str()]).await?;
    let policies = policies.remove(&name).unwrap_or_default();
    let totals = store::environments::running_totals(tenant, [environment.id]).await?;
    let totals = totals.into_values().next().unwrap_or_default();
    // Grouping all artifacts is slow: release the connection, and use a blocking thread.
    drop(transaction);
    let is_confirmed =
        past.map_or_else(|| status.is_confirmed(), |past| past.coverage == HistoryCoverage::Known);
    let wanted = filter.clone();
    let select = move || Selected::new(groups, stored, is_confirmed, &wanted);
    let selected = compute(select).await?;
    let page = &selected.page;
    let links = EnvironmentLinks { site: &site, organization: &organization, environment: &name };
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    // The rows of a search are not all artifacts.
    let rules = if past.is_none() && filter.q.is_empty() && !policies.is_empty() {
        let failing = selected.failing.iter().take(MAX_EVALUATED);
        let failing = failing.map(|(artifact, reported)| (*artifact, reported.clone())).collect();
        let rules = rules::evaluate(&site, tenant, &name, &failing).await?;
        Some(rule_results(links, &rules, &selected.failing, status))
    } else {
        None
    };
    let today = match past {
        Some(_) => Some(evaluate_today(&site, tenant, &environment, page).await?),
        None => None,
    };
    let recorded = recorded(tenant, page).await?;
    drop(transaction);
    let verdicts = Verdicts { stored: &selected.stored, is_confirmed };
    let today = today.as_ref().map(|stored| Verdicts { stored, is_confirmed: status.is_confirmed() });
    let caption = match past {
        Some(past) => format!("Artifacts in {name} at {}", utc(past.at)),
        None => format!("Running artifacts in {name}"),
    };
    let path = links.page();
    let artifacts_path = site.links.page(&[&organization, "artifacts"]);
    let recorded = &recorded;
    let table =
        Table { caption: &caption, artifacts_path: &artifacts_path, page, recorded, verdicts, today, now };
    let content = html! {
        h1 { (text(&name)) }
        @match past.zip(selected.past) {
            Some((past, (totals, counts))) => (past_facts(links, past, environment.snapshot, totals, counts)),
            None => {
                (current_facts(links, &environment, totals, status, &policies))
                p.links {
                    a href=(links.timeline(1)) { "Timeline" }
                    a href=(links.url(&["agents"])) { "Agents" }
                    @if user.is_admin() { a href=(links.url(&["access-review"])) { "Who may approve or allow artifacts" } }
                }
            }
        }
        (filter.form(&path))
        (filter.counts(&path, page.counts))
        @if page.rows.is_empty() {
            @if !selected.is_empty { p { "No artifact matches the filter." } }
            @else if past.is_some() { p { "No artifacts." } }
            @else { (empty("No artifacts.", &format!("supercargo agent --once --environment {name}"))) }
        } @else {
            p { (artifact_count(page)) }
            (table.markup())
            (page.pagination.links(|page| format!("{path}{}", Filter { page, ..filter.clone() }.query())))
        }
        @if let Some(rules) = rules { (rules) }
    };
    let alternate = alternate(&site, &organization, &name, environment.snapshot, past);
    let is_live = past.is_none();
    let alternate = Some(&alternate).filter(|_| links.is_in_expressions());
    let navigation = Navigation { alternate, is_live, ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, &name, Some(&user), navigation, &content))
}

/// The snapshot, or the environment if there is none.
fn alternate(site: &Site, organization: &str, name: &str, last: i64, past: Option<Past>) -> Alternate {
    let snapshot = |expression: &str, suffix: &str| {
        let path = ["snapshots", organization, name, expression];
        Alternate::new(site, &path, &[], &["get", "snapshot", &format!("{name}{suffix}")])
    };
    match past {
        Some(past) if past.coverage.has_data() => {
            let expression = format!("@{}", past.at.iso_8601());
            snapshot(&expression, &expression)
        }
        None if last > 0 => snapshot("-1", ""),
        _ => Alternate::new(site, &["environments", organization, name], &[], &["get", "environment", name]),
    }
}

/// What pipelines recorded of the artifacts on a page.
async fn recorded(tenant: &mut Tenant<'_>, page: &RunningPage) -> Result<Recorded, store::Error> {
    let artifacts = page.rows.iter().map(|row| row.artifact).collect();
    let known = store::artifacts::flows::known(tenant, &artifacts).await?;
    let tests = store::attestations::lists::tests(tenant, &artifacts).await?;
    Ok(Recorded { known, tests })
}

/// Evaluates the artifacts of a page of the past by the current policies and evidence.
async fn evaluate_today(
    site: &Site,
    tenant: &mut Tenant<'_>,
    environment: &EnvironmentOverview,
    page: &RunningPage,
) -> Result<HashMap<Fingerprint, Verdict>, store::Error> {
    let name: EnvironmentName =
        environment.name.parse().map_err(|_| store::Error::Unreadable("an environment's name"))?;
    let artifacts = reported(&page.rows);
    let wanted = artifacts.keys().copied().collect();
    let inputs = Inputs::read(site, tenant, [name.as_str()], &wanted).await?;
    let none = ExpectedArtifacts::default();
    let requirements = inputs.requirements(&name);
    let Evaluation { status, .. } =
        Evaluation::new(requirements, artifacts, &BTreeMap::new(), &inputs.evidence, none, site.now());
    let verdict = |(artifact, running): (Fingerprint, RunningArtifact)| (artifact, running.verdict);
    Ok(status.artifacts.into_iter().map(verdict).collect())
}

/// The artifacts of rows, with their namespaces.
fn reported<'a>(rows: impl IntoIterator<Item = &'a RunningRow>) -> ReportedArtifacts {
    let in_namespaces = |row: &'a RunningRow| {
        row.workloads.iter().map(|workload| (row.image(), row.artifact, workload.namespace.as_str()))
    };
    running_artifacts(rows.into_iter().flat_map(in_namespaces))
}

impl Selected {
    /// Groups, filters and counts all artifacts of the environment.
    fn new(
        groups: Vec<PodGroup>,
        mut stored: HashMap<Fingerprint, Verdict>,
        is_confirmed: bool,
        filter: &Filter,
    ) -> Self {
        let totals = filter.at.map(|_| totals(&groups));
        let rows = running::rows(groups);
        let verdicts = Verdicts { stored: &stored, is_confirmed };
        let page = running::page(&rows, verdicts, filter);
        let counts = || rows.iter().map(|row| verdicts.compliance(&row.artifact)).collect();
        let past = totals.map(|totals| (totals, counts()));
        let is_failing = |row: &&RunningRow| {
            stored.get(&row.artifact).is_some_and(|verdict| verdict.compliance == Compliance::NonCompliant)
        };
        let mut failing = reported(rows.iter().filter(is_failing));
        while failing.len() > MAX_EVALUATED + 1 {
            failing.pop_last();
        }
        let on_page: BTreeSet<_> = page.rows.iter().map(|row| row.artifact).collect();
        stored.retain(|artifact, _| on_page.contains(artifact));
        Self { page, stored, failing, is_empty: rows.is_empty(), past }
    }
}

fn totals(groups: &[PodGroup]) -> RunningTotals {
    let artifacts: BTreeSet<_> = groups.iter().flat_map(|group| group.digests.values()).collect();
    let artifacts = i64::try_from(artifacts.len()).unwrap_or(i64::MAX);
    RunningTotals { artifacts, pods: groups.iter().map(|group| group.pods).sum() }
}

fn current_facts(
    links: EnvironmentLinks<'_>,
    environment: &EnvironmentOverview,
    totals: RunningTotals,
    status: CurrentStatus,
    policies: &[Arc<Policy>],
) -> Markup {
    html! {
        dl.head {
            @if let Some(archived_at) = environment.archived_at {
                dt { "Archived" }
                dd { (timestamp(archived_at)) }
            }
            dt { "Status" }
            dd { (status.environment_badge(environment)) }
            dt { "Last report" }
            dd { (status.last_report()) }
            dt { "Snapshot" }
            dd {
                @if environment.snapshot > 0 { (links.snapshot_link(environment.snapshot, environment.snapshot)) }
                @else { "none yet" }
            }
            dt { @if status.is_silent() { "Last reported" } @else { "Running" } }
            dd { (running_totals(totals)) }
            @if environment.excluded_pods > 0 {
                dt { "Excluded by annotation" }
                dd { (count(environment.excluded_pods, "pod", "pods")) }
            }
            dt { "Policy" }
            dd {
                @for (number, policy) in policies.iter().enumerate() {
                    @if number > 0 { ", " }
                    a href=(links.site.links.page(&[links.organization, "policies", &policy.name.name])) {
                        (text(&policy.name.to_string()))
                    }
                }
                @if policies.is_empty() { "none" }
            }
        }
    }
}

/// Each rule with the number of artifacts that do not fulfill it, of the first [`MAX_EVALUATED`] that do not comply.
fn rule_results(
    links: EnvironmentLinks<'_>,
    rules: &[RuleResults],
    failing: &ReportedArtifacts,
    status: CurrentStatus,
) -> Markup {
    let result = |rule: &RuleResults| {
        let mut failures =
            failing.keys().zip(&rule.artifacts).filter(|(_, (outcome, _))| !outcome.is_fulfilled());
        match (failures.next(), failures.count()) {
            (None, _) if !status.is_confirmed() => badge("open", "not confirmed"),
            (None, _) => badge("good", "fulfilled"),
            (Some((first, _)), others) => {
                let non_compliant =
                    Filter { compliance: Some(Compliance::NonCompliant), ..Filter::default() };
                let page = match others {
                    0 => urls::artifact(links.site, links.organization, first),
                    _ => format!("{}{}#artifacts", links.page(), non_compliant.query()),
                };
                html! {
                    (badge("bad", "not fulfilled"))
                    " " a href=(page) { (count(others + 1, "artifact", "artifacts")) }
                }
            }
        }
    };
    let rows = html! {
        @for rule in rules {
            tr { (rule.heading(links.site, links.organization)) td { (result(rule)) } }
        }
    };
    let cut_at = (failing.len() > MAX_EVALUATED).then_some(MAX_EVALUATED);
    html! {
        @if !rules.is_empty() {
            section {
                h2 { "Rules" }
                (table("Rules", &["Policy", "Rule", "Result"], &rows))
                (first_rows_note(cut_at, "non-compliant artifacts"))
            }
        }
    }
}

/// The status at a point in time, with a warning if the history does not fully cover it.
fn past_facts(
    links: EnvironmentLinks<'_>,
    past: Past,
    last: i64,
    totals: RunningTotals,
    counts: ComplianceCounts,
) -> Markup {
    html! {
        section.moment aria-labelledby="then" {
            h2 { span id="then" { "As of " (precise(past.at)) } " · " a href=(links.page()) { "back to now" } }
            @if let Some(warning) = past.coverage.warning() {
                p.warning role="status" { (warning) }
            }
            @if past.coverage.has_data() {
                dl.head {
                    dt { "Status then" }
                    dd {
                        @if totals.artifacts > 0 { (compliance_badge(counts.environment(true))) }
                        @else { "no artifacts" }
                    }
                    dt { "Snapshot" }
                    dd { @if let Some(number) = past.snapshot { (links.snapshot_link(number, last)) } @else { "removed by retention" } }
                    dt { "Ran" }
                    dd { (running_totals(totals)) }
                }
            }
        }
    }
}
