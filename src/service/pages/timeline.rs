//! The timeline of an environment: its snapshots, newest first, with their changes and the gaps between them.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use sqlx::types::Uuid;

use super::parts::environment_status::CurrentStatus;
use super::parts::escape::text;
use super::parts::format::{count, duration, timestamp};
use super::parts::layout::{self, Alternate, HtmlPage, Navigation};
use super::parts::pagination::{requested_page, snapshot_page};
use super::parts::refusal::Refusal;
use super::parts::snapshot::{comparison_form, facts, status_badge};
use super::parts::urls::{EnvironmentLinks, artifact_link};
use super::pure::changes::{
    ArtifactList, MAX_LISTED, MAX_SCALINGS, Scaling, SnapshotChanges, TimelineRows, snapshot_changes,
};
use super::session::OrganizationPage;
use crate::service::http::parameters::Parameters;
use crate::service::intervals::{self, ReportGap, SnapshotGaps, view_time};
use crate::service::site::PageSite;
use crate::store;
use crate::store::Transaction;
use crate::store::search::Artifact;
use crate::store::timeline::{AvailableSnapshots, Snapshot};

/// A page of the timeline.
pub(super) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: name, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let requested = requested_page(&Parameters::read(&uri, &["page"])?)?;
    let mut transaction = site.store.read().await?;
    let environment =
        transaction.environment_overview(&organization, &name).await?.ok_or(Refusal::NotFound)?;
    let available = transaction.available_snapshots(&organization, environment.id).await?;
    let last = environment.snapshot;
    let (pagination, numbers) = snapshot_page(available.first.unwrap_or(last), last, requested);
    let rows = read_rows(&mut transaction, (&organization, environment.id), numbers).await?;
    drop(transaction);
    let status = CurrentStatus::from_environment(&environment, &site, site.now());
    let timeline = Timeline {
        links: EnvironmentLinks { site: &site, organization: &organization, environment: &name },
        available,
        last,
        status,
    };
    let changes = snapshot_changes(rows, &available);
    let content = html! {
        h1 { (text(&name)) ": timeline" }
        @if let Some(first) = available.first {
            (comparison_form(timeline.links, (first, last), ((last - 1).max(first), last)))
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
                @for change in &changes {
                    @if let Some(gap) = change.gaps.at_end { li.gap { (gap_at_end(gap)) } }
                    li { (timeline.snapshot(change)) }
                }
            }
            @if pagination.page == pagination.pages { (timeline.end_note(changes.last())) }
            (pagination.links(|page| timeline.links.timeline(page)))
        } @else {
            p { "No snapshots: this environment was never reported." }
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

async fn read_rows(
    transaction: &mut Transaction,
    (organization, environment): (&str, Uuid),
    numbers: (i64, i64),
) -> Result<TimelineRows, store::Error> {
    let snapshots = intervals::snapshots(transaction, organization, environment, numbers).await?;
    let received = |snapshot: Option<&(Snapshot, SnapshotGaps)>| snapshot.map(|one| one.0.received_at);
    let changes = match received(snapshots.last()).zip(received(snapshots.first())) {
        Some(times) => transaction.changes(organization, environment, numbers, times, MAX_LISTED).await?,
        None => Vec::new(),
    };
    let scalings = transaction.scalings(organization, environment, numbers, MAX_SCALINGS).await?;
    Ok(TimelineRows { snapshots, changes, scalings })
}

/// Values that all entries of the timeline share.
#[derive(Clone, Copy)]
struct Timeline<'a> {
    links: EnvironmentLinks<'a>,
    available: AvailableSnapshots,
    last: i64,
    status: CurrentStatus,
}

impl Timeline<'_> {
    fn snapshot(&self, changes: &SnapshotChanges) -> Markup {
        let SnapshotChanges { snapshot, started, exited, scaled, truncated_to, gaps } = changes;
        let number = snapshot.number;
        let before =
            Some(number - 1).filter(|before| self.available.first.is_some_and(|first| first <= *before));
        let at = self.links.at(view_time(snapshot, &self.available));
        // The comparison shows the rest of a long list.
        let rest = before.map_or(at.clone(), |before| self.links.comparison(before, number));
        html! {
            article.snapshot id={ "snapshot-" (number) } aria-labelledby={ "number-" (number) } {
                h2 { span id={ "number-" (number) } { "Snapshot " (number) } " " (status_badge(snapshot)) }
                (facts(snapshot, gaps, self.status))
                div.changes {
                    (self.artifacts("Started", Some(started), &rest))
                    @if number > 1 { (self.artifacts("Exited", exited.as_ref(), &rest)) }
                    (self.scaled(scaled, *truncated_to, &at))
                }
                (gaps_within(gaps))
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

    /// A list of artifacts; `None` if the retention has removed it.
    fn artifacts(&self, title: &str, list: Option<&ArtifactList>, rest: &str) -> Markup {
        let EnvironmentLinks { site, organization, .. } = self.links;
        html! {
            @match list {
                Some(ArtifactList { total: 0, .. }) => {}
                Some(ArtifactList { artifacts, total }) => div {
                    h3 { (title) " " (total) }
                    ul.plain {
                        @for artifact in artifacts { li { (artifact_link(site, organization, artifact)) } }
                        (rest_link(*total, artifacts.len(), rest))
                    }
                }
                None => div { h3 { (title) } p { "Removed by retention." } }
            }
        }
    }

    fn scaled(&self, scaled: &[Scaling], truncated_to: Option<i64>, rest: &str) -> Markup {
        let total = i64::try_from(scaled.len()).unwrap_or(i64::MAX);
        let listed = usize::try_from(MAX_LISTED).unwrap_or_default();
        html! {
            @if total > 0 {
                div {
                    h3 { "Scaled " (total) }
                    ul.plain {
                        @for Scaling { artifact: fingerprint, name, before, after, steps } in scaled.iter().take(listed) {
                            li {
                                (artifact_link(self.links.site, self.links.organization,
                                    &Artifact { fingerprint: *fingerprint, name: name.clone() }))
                                ": "
                                @if before == after { (count(*after, "pod", "pods")) ", unchanged after " (steps) " steps" }
                                @else {
                                    (before) " → " (count(*after, "pod", "pods"))
                                    @if *steps > 1 { ", in " (steps) " steps" }
                                }
                            }
                        }
                        (rest_link(total, total.min(MAX_LISTED).try_into().unwrap_or_default(), rest))
                    }
                    @if let Some(times) = truncated_to {
                        p.reason { "Only the latest " (count(times, "change", "changes")) " are included." }
                    }
                }
            }
        }
    }

    /// The reason why the timeline ends.
    fn end_note(&self, first: Option<&SnapshotChanges>) -> Markup {
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
                        "The first report was received at " (timestamp(first.snapshot.received_at)) "."
                        @if let Some(horizon) = self.available.horizon_at.filter(|at| *at > first.snapshot.received_at) {
                            " Gaps before " (timestamp(horizon)) " were removed by retention."
                        }
                    }
                    (None, None) => {}
                }
            }
        }
    }
}

/// A gap between two snapshots.
fn gap_at_end(ReportGap { from, to }: ReportGap) -> Markup {
    html! {
        p.warning {
            "Gap: no reports from " (timestamp(from)) " to " (timestamp(to)) ", " (duration(to.distance(from)))
            ". The running artifacts are unknown."
        }
    }
}

/// Gaps after which the same artifacts were reported.
fn gaps_within(gaps: &SnapshotGaps) -> Markup {
    html! {
        @if !gaps.within.is_empty() {
            ul.plain.warning {
                @for &ReportGap { from, to } in &gaps.within {
                    li {
                        "Gap: no reports from " (timestamp(from)) " to " (timestamp(to)) ", " (duration(to.distance(from)))
                        ". The same artifacts were reported before and after."
                    }
                }
                @let rest = gaps.total - i64::try_from(gaps.within.len()).unwrap_or_default();
                @if rest > 0 { li { "and " (count(rest, "earlier gap", "earlier gaps")) } }
            }
        }
    }
}

/// A link to the rest of a truncated list.
fn rest_link(total: i64, listed: usize, url: &str) -> Markup {
    let rest = total - i64::try_from(listed).unwrap_or(i64::MAX);
    html! { @if rest > 0 { li { a href=(url) { "and " (rest) " more" } } } }
}
