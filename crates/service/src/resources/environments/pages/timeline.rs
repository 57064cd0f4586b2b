//! The timeline of an environment: its snapshots, newest first, with their changes and the gaps between them.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use sqlx::types::Uuid;

use crate::http::parameters::Parameters;
use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::{count, duration, timestamp};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::empty;
use crate::layout::parts::pagination::{requested_page, snapshot_page};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::snapshot::{comparison_form, facts, status_badge};
use crate::layout::parts::urls::{EnvironmentLinks, artifact_link, commit_link};
use crate::layout::session::OrganizationPage;
use crate::resources::environments::pages::changes::{
    ArtifactList, MAX_LISTED, MAX_SCALINGS, Scaling, SnapshotChanges, by_snapshot,
};
use crate::site::PageSite;
use model::Fingerprint;
use model::reason::Reason;
use rules::compliance::Compliance;
use store::Tenant;
use store::artifacts::flows::KnownArtifact;
use store::environments::failing::FailingArtifact;
use store::environments::timeline::{AvailableSnapshots, ReportGap, Snapshot};
use store::search::Artifact;

pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: name, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let requested = requested_page(&Parameters::read(&uri, &["page"])?)?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let environment = store::environments::overview(tenant, &name).await?.ok_or(Refusal::NotFound)?;
    let available = store::environments::timeline::available_snapshots(tenant, environment.id).await?;
    let last = environment.snapshot;
    let (pagination, (oldest, newest)) = snapshot_page(available.first.unwrap_or(last), last, requested);
    let snapshots = store::environments::timeline::snapshots(tenant, environment.id, oldest, newest).await?;
    let changes =
        store::environments::timeline::changes(tenant, environment.id, &snapshots, MAX_LISTED).await?;
    let scalings =
        store::environments::timeline::scalings(tenant, environment.id, oldest, newest, MAX_SCALINGS).await?;
    let started = changes.iter().filter(|change| !change.exited).map(|change| change.artifact).collect();
    let known = store::artifacts::flows::known(tenant, &started).await?;
    let failing = failing(tenant, environment.id, &snapshots).await?;
    drop(transaction);
    let status = CurrentStatus::from_environment(&environment, &site, site.now());
    let timeline = Timeline {
        links: EnvironmentLinks { site: &site, organization: &organization, environment: &name },
        available,
        last,
        status,
        known: &known,
        failing: &failing,
    };
    let mut changes = by_snapshot(changes, &scalings);
    let content = html! {
        h1 { (text(&name)) ": timeline" }
        @if let Some(first) = available.first {
            (comparison_form(timeline.links, &(first..=last), (last - 1).max(first), last))
            p {
                (count(last - first + 1, "snapshot", "snapshots"))
                (pagination.label())
            }
            ol.timeline {
                @if let Some(since) = environment.last_report_at.filter(|_| pagination.page == 1 && status.is_silent()) {
                    li.gap {
                        p.warning {
                            "No reports since " (timestamp(since)) ", longer than " (duration(status.validity.silent_after))
                            ". The running artifacts are unknown."
                        }
                    }
                }
                @for snapshot in &snapshots {
                    @if let Some(gap) = snapshot.gap_at_end() {
                        li.gap { p.warning { (gap_text(gap)) " The running artifacts are unknown." } }
                    }
                    li { (timeline.snapshot(snapshot, &changes.remove(&snapshot.number).unwrap_or_default())) }
                }
            }
            @if pagination.page == pagination.pages { (timeline.end_note(snapshots.last())) }
            (pagination.links(|page| timeline.links.timeline(page)))
        } @else {
            (empty("No snapshots: this environment was never reported.", &format!("supercargo agent --once --environment {name}")))
        }
    };
    let path = ["snapshots", &organization, &name];
    let alternate = Alternate::new(&site, &path, &[], &["list", "snapshots", &name]);
    let navigation = Navigation {
        parents: &[(&name, timeline.links.page())],
        alternate: Some(&alternate),
        is_live: true,
        ..Navigation::default()
    };
    Ok(layout::page_with_navigation(&site, "Timeline", Some(&user), navigation, &content))
}

/// For each snapshot that did not comply, an artifact that did not.
async fn failing(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    snapshots: &[Snapshot],
) -> Result<HashMap<i64, FailingArtifact>, store::Error> {
    let mut failing = HashMap::new();
    for snapshot in snapshots.iter().filter(|one| one.compliance == Some(Compliance::NonCompliant)) {
        let found = store::environments::failing::at_receipt(tenant, environment, snapshot);
        failing.extend(found.await?.map(|found| (snapshot.number, found)));
    }
    Ok(failing)
}

/// Values that all entries of the timeline share.
#[derive(Clone, Copy)]
struct Timeline<'a> {
    links: EnvironmentLinks<'a>,
    available: AvailableSnapshots,
    last: i64,
    status: CurrentStatus,
    /// What flows know of the artifacts that started.
    known: &'a HashMap<Fingerprint, KnownArtifact>,
    /// For snapshots that did not comply, by number, an artifact that did not.
    failing: &'a HashMap<i64, FailingArtifact>,
}

impl Timeline<'_> {
    fn snapshot(&self, snapshot: &Snapshot, changes: &SnapshotChanges) -> Markup {
        let SnapshotChanges { started, exited, scaled, truncated_to } = changes;
        let number = snapshot.number;
        let before =
            Some(number - 1).filter(|before| self.available.first.is_some_and(|first| first <= *before));
        let at = self.links.at(self.available.view_time(snapshot));
        // The comparison shows the rest of a long list.
        let rest = before.map_or(at.clone(), |before| self.links.comparison(before, number));
        html! {
            article.snapshot id={ "snapshot-" (number) } aria-labelledby={ "number-" (number) } {
                h2 { span id={ "number-" (number) } { "Snapshot " (number) } " " (status_badge(snapshot)) }
                @if let Some(failing) = self.failing.get(&number) { (self.reason(failing)) }
                (facts(snapshot, self.status))
                div.changes {
                    (self.artifacts("Started", started, &rest))
                    @if number > 1 {
                        @if self.available.has_exits(snapshot) { (self.artifacts("Exited", exited, &rest)) }
                        @else { div { h3 { "Exited" } p { "Removed by retention." } } }
                    }
                    (self.scaled(scaled, *truncated_to, &at))
                }
                (gaps_within(snapshot))
                p.links {
                    a href=(at) { "Running artifacts" }
                    @if let Some(before) = before {
                        " " a href=(self.links.comparison(before, number)) { "Compare with " (before) }
                    }
                    @if number < self.last {
                        " " a href=(self.links.comparison(number, self.last)) { "Compare with " (self.last) " (latest)" }
                    }
                }
            }
        }
    }

    fn reason(&self, FailingArtifact { artifact, reasons, .. }: &FailingArtifact) -> Markup {
        let found = reasons.first().map(Reason::finding).unwrap_or_default();
        html! { p.why { (artifact_link(self.links.site, self.links.organization, artifact)) ": " (text(&found)) } }
    }

    fn artifacts(&self, title: &str, list: &ArtifactList, rest: &str) -> Markup {
        let EnvironmentLinks { site, organization, .. } = self.links;
        let commit = |artifact: &Artifact| match self.known.get(&artifact.fingerprint)?.commit(None) {
            (Some(commit), url) => Some(commit_link(commit, url)),
            (None, _) => None,
        };
        let item = |artifact: &Artifact| {
            html! {
                (artifact_link(site, organization, artifact))
                @if let Some(commit) = commit(artifact) { ", commit " (commit) }
            }
        };
        let artifacts = list.artifacts.iter().map(item);
        html! { @if list.total > 0 { div { (truncated_list(title, list.total, artifacts, rest)) } } }
    }

    fn scaled(&self, scaled: &[Scaling], truncated_to: Option<usize>, rest: &str) -> Markup {
        let total = i64::try_from(scaled.len()).unwrap_or(i64::MAX);
        let item = |scaling: &Scaling| {
            let Scaling { artifact, before, after, steps } = scaling;
            html! {
                (artifact_link(self.links.site, self.links.organization, artifact)) ": "
                @if before == after { (count(*after, "pod", "pods")) ", unchanged after " (steps) " steps" }
                @else {
                    (before) " → " (count(*after, "pod", "pods"))
                    @if *steps > 1 { ", in " (steps) " steps" }
                }
            }
        };
        html! {
            @if total > 0 {
                div {
                    (truncated_list("Scaled", total, scaled.iter().take(MAX_LISTED).map(item), rest))
                    @if let Some(times) = truncated_to {
                        p.reason { "Only the latest " (count(times, "change", "changes")) " are included." }
                    }
                }
            }
        }
    }

    /// The reason why the timeline ends.
    fn end_note(&self, first: Option<&Snapshot>) -> Markup {
        let removed_before =
            self.available.horizon_at.filter(|_| self.available.first.is_some_and(|first| first > 1));
        html! {
            p.warning role="note" {
                @match (removed_before, first) {
                    (Some(horizon), _) => {
                        "The timeline ends here. Snapshots that ended before " (timestamp(horizon))
                        " were removed by retention."
                    }
                    (None, Some(first)) => {
                        "The first report was received at " (timestamp(first.received_at)) "."
                        @if let Some(horizon) = self.available.horizon_at.filter(|at| *at > first.received_at) {
                            " Gaps before " (timestamp(horizon)) " were removed by retention."
                        }
                    }
                    (None, None) => {}
                }
            }
        }
    }
}

fn gap_text(ReportGap { from, to }: ReportGap) -> Markup {
    html! {
        "Gap: no reports from " (timestamp(from)) " to " (timestamp(to)) ", " (duration(to.distance(from))) "."
    }
}

/// Gaps after which the same artifacts were reported.
fn gaps_within(snapshot: &Snapshot) -> Markup {
    let listed: Vec<_> = snapshot.gaps.iter().filter(|gap| !snapshot.is_at_end(gap)).collect();
    html! {
        @if !listed.is_empty() {
            ul.plain.warning {
                @for gap in &listed {
                    li { (gap_text(**gap)) " The same artifacts were reported before and after." }
                }
                @let rest = snapshot.gaps_within - i64::try_from(listed.len()).unwrap_or_default();
                @if rest > 0 { li { "and " (count(rest, "earlier gap", "earlier gaps")) } }
            }
        }
    }
}

/// A list under its title, with a link to the rest.
fn truncated_list(
    title: &str,
    total: i64,
    items: impl ExactSizeIterator<Item = Markup>,
    url: &str,
) -> Markup {
    let rest = total - i64::try_from(items.len()).unwrap_or(i64::MAX);
    html! {
        h3 { (title) " " (total) }
        ul.plain {
            @for item in items { li { (item) } }
            @if rest > 0 { li { a href=(url) { "and " (rest) " more" } } }
        }
    }
}
