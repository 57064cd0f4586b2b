//! List and get the snapshots of an environment, and compare two. Extensions of the interface.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::{Serialize, Serializer};

use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::snapshot::report::Pod;
use crate::domain::model::{
    EnvironmentName, EnvironmentSnapshot, Fingerprint, OwnerReference, SnapshotExpression, Timestamp,
};
use crate::service::access::{Admitted, Read, ReadEnvironment};
use crate::service::http::links::Links;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, ErrorResponses, Problem};
use crate::service::http::response::stream;
use crate::service::http::snapshot_interval::{Interval, SnapshotInterval};
use crate::service::intervals::{CurrentPeriod, MAX_GAPS, SnapshotGaps};
use crate::service::selected_snapshot::{Content, SelectedSnapshot, environment};
use crate::service::site::Site;

/// A snapshot in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ListedSnapshot {
    /// Its number
    index: i64,
    /// When it was received
    from: Timestamp,
    /// When it ended: with the next snapshot, or with the last report before a gap; 0 while it is current
    to: Timestamp,
    /// Whether it is compliant: now if it is the latest, or else when it was received
    compliant: bool,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`; null if it was not evaluated
    compliance: Option<&'static str>,
    /// In seconds
    duration: u64,
    /// The name of the token that reported it
    reported_by: String,
    /// The latest periods without reports while it was current: what ran then is unknown
    gaps: Vec<ReportGap>,
    /// Whether retention removed the snapshots before it
    earlier_removed: bool,
}

/// A period without reports.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReportGap {
    from: Timestamp,
    to: Timestamp,
}

/// A snapshot and what ran in it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SnapshotContent<'a> {
    environment: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Its number
    index: i64,
    is_latest: bool,
    /// When it was received
    timestamp: Timestamp,
    next_snapshot_timestamp: Option<Timestamp>,
    /// The time for which pods and verdicts are listed
    as_of: Timestamp,
    /// Why the list may be incomplete or outdated: a gap, silence, or retention
    warning: Option<String>,
    compliant: bool,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`
    compliance: &'static str,
    artifact_compliance_count: BTreeMap<&'static str, usize>,
    html_url: String,
    /// Running artifacts, by fingerprint
    #[schema(value_type = Vec<RunningArtifact>)]
    artifacts: RunningArtifacts<'a>,
}

/// The artifacts of a snapshot. Each one is made when it is written.
#[derive(Debug)]
struct RunningArtifacts<'a> {
    selected: &'a SelectedSnapshot,
    content: &'a Content,
    /// Those that started with the snapshot.
    started: &'a BTreeSet<Fingerprint>,
    links: &'a Links,
    organization: &'a str,
}

/// An artifact in a snapshot.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct RunningArtifact<'a> {
    /// The image
    name: &'a str,
    fingerprint: Fingerprint,
    compliant: bool,
    /// `COMPLIANT`, `NON-COMPLIANT` or `UNKNOWN`
    compliance: &'static str,
    /// Why it is not compliant
    reasons_for_incompliance: &'a [String],
    /// The creation time of each pod
    #[serde(rename = "creationTimestamp")]
    created_at: Vec<i64>,
    /// By name; by namespace/name if several have the name
    pods: BTreeMap<Cow<'a, str>, RunningPod<'a>>,
    annotation: Annotation,
    /// The flow whose origin counts
    flow_name: Option<&'a str>,
    git_commit: Option<&'a str>,
    commit_url: Option<&'a str>,
    html_url: String,
    flows: Vec<FlowOfArtifact<'a>>,
}

/// A pod in a snapshot.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct RunningPod<'a> {
    namespace: &'a str,
    #[serde(rename = "creationTimestamp")]
    created_at: i64,
    owners: &'a [OwnerReference],
}

/// Whether an artifact started with the snapshot.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Annotation {
    /// `started-compliant`, `started-non-compliant` or `unchanged`
    #[serde(rename = "type")]
    kind: &'static str,
    /// Number of pods before; as now if it did not start with the snapshot
    was: usize,
    /// Number of pods
    now: usize,
}

/// A flow that an artifact belongs to.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FlowOfArtifact<'a> {
    flow_name: &'a str,
    /// Its last trail in the flow
    trail_name: Option<&'a str>,
    template_reference_name: Option<&'a str>,
    git_commit: Option<&'a str>,
    commit_url: Option<&'a str>,
}

/// The differences of two snapshots.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SnapshotDiff<'a> {
    /// Artifacts only in the first
    snappish1: DiffSide<'a>,
    /// Artifacts only in the second
    snappish2: DiffSide<'a>,
    /// Artifacts in both, with different numbers of pods
    changed: DiffSide<'a>,
    #[serde(rename = "not-changed")]
    unchanged: DiffSide<'a>,
}

/// A part of the differences.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct DiffSide<'a> {
    /// The snapshot, such as `prod#7`
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<String>,
    /// The time for which pods are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Timestamp>,
    /// Why the list may be incomplete or outdated
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    artifacts: Vec<DiffArtifact<'a>>,
}

/// An artifact of either snapshot. The times are those of its newest pod.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DiffArtifact<'a> {
    fingerprint: Fingerprint,
    name: &'a str,
    flow: Option<&'a str>,
    commit_url: Option<&'a str>,
    most_recent_timestamp: i64,
    /// Number of pods, if it is in one snapshot
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_count: Option<usize>,
    /// Number of pods in the first snapshot, if it is in both
    #[serde(skip_serializing_if = "Option::is_none")]
    s1_instance_count: Option<usize>,
    /// Number of pods in the second snapshot, if it is in both
    #[serde(skip_serializing_if = "Option::is_none")]
    s2_instance_count: Option<usize>,
    /// Names of the pods
    pods: Vec<&'a str>,
}

/// List the snapshots of an environment, newest first. Not in the interface.
#[utoipa::path(
    get,
    path = "/snapshots/{org}/{env_name}",
    tag = "environments",
    params(
        ("org" = String, Path, description = "Organization"),
        ("env_name" = inline(EnvironmentName), Path, description = "Environment"),
        ("interval" = inline(Option<Interval>), Query, description = "A..B, each a number, ~N (before the latest) or NOW; or one of them"),
        ("reverse" = Option<bool>, Query, description = "Oldest first"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Vec<ListedSnapshot>),
        (status = 404, description = "No such environment, or the snapshots were removed", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn list_snapshots(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedSnapshot>>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    let parameters = Parameters::read(&uri, &["interval", "reverse", "page", "per_page"])?;
    let (page, interval) = (parameters.page()?, SnapshotInterval::parse(&parameters)?);
    let mut transaction = site.store.read().await?;
    let environment = environment(&mut transaction, &organization, &name).await?;
    let available = transaction.available_snapshots(environment.id).await?;
    let (first, last) = interval.numbers(&name, environment.snapshot, &available)?;
    let (from, to) = if interval.is_reversed {
        let from = first.saturating_add(page.offset());
        (from, last.min(from.saturating_add(page.size() - 1)))
    } else {
        let to = last.saturating_sub(page.offset());
        (first.max(to.saturating_sub(page.size() - 1)), to)
    };
    let mut snapshots = transaction.snapshots(environment.id, (from, to)).await?;
    let gaps = transaction.gaps(environment.id, (from, to), MAX_GAPS).await?;
    drop(transaction);
    if interval.is_reversed {
        snapshots.reverse();
    }
    let (now, validity) = (site.now(), environment.validity(site.silent_after));
    let listed = snapshots.into_iter().map(|snapshot| {
        let gaps = SnapshotGaps::new(&snapshot, &gaps);
        let period = CurrentPeriod::new(&snapshot, &gaps, &validity, now);
        let compliance = if snapshot.number == environment.snapshot {
            Some(environment.compliance.confirmed(validity.is_valid(now)))
        } else {
            snapshot.compliance
        };
        ListedSnapshot {
            index: snapshot.number,
            from: snapshot.received_at,
            to: period.end.unwrap_or(Timestamp::EPOCH),
            compliant: compliance == Some(Compliance::Compliant),
            compliance: compliance.map(Compliance::as_str),
            duration: period.duration.as_secs(),
            reported_by: snapshot.reported_by,
            gaps: gaps
                .at_end
                .into_iter()
                .chain(gaps.within)
                .map(|(from, to)| ReportGap { from, to })
                .collect(),
            earlier_removed: snapshot.number > 1 && available.first == Some(snapshot.number),
        }
    });
    Ok(axum::Json(listed.collect()))
}

/// Get a snapshot: what ran, with verdicts. Reporters of the environment may read it too. Not in the interface.
#[utoipa::path(
    get,
    path = "/snapshots/{org}/{env_name}/{snapshot}",
    tag = "environments",
    params(
        ("org" = String, Path, description = "Organization"),
        ("env_name" = inline(EnvironmentName), Path, description = "Environment"),
        ("snapshot" = inline(SnapshotExpression), Path, description = "7 or #7; -1 for the latest; ~1 for the one before the latest; @2026-10-03T14:00Z, @{2.weeks.ago} or @2w"),
    ),
    responses(
        (status = 200, description = "The snapshot", body = SnapshotContent),
        (status = 404, description = "No such environment or snapshot, or it was removed", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn get_snapshot(
    State(site): State<Site>,
    Admitted { organization, rest: (name, expression), cpu, .. }: Admitted<ReadEnvironment, (String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    let expression: SnapshotExpression = Problem::parse("snapshot", &expression)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let selected = SelectedSnapshot::find(&site, &mut transaction, &organization, &name, &expression).await?;
    let content = selected.content(&mut transaction, &organization).await?;
    let number = (selected.snapshot.number, selected.snapshot.number);
    let received = (selected.snapshot.received_at, selected.snapshot.received_at);
    let changes = transaction.changes(selected.environment.id, number, received, i64::MAX).await?;
    drop(transaction);
    Ok(stream(&cpu, content.min_bytes(), move |to| {
        let started =
            changes.into_iter().filter(|change| !change.exited).map(|change| change.artifact).collect();
        let artifacts = RunningArtifacts {
            selected: &selected,
            content: &content,
            started: &started,
            links: &site.links,
            organization: &organization,
        };
        serde_json::to_writer(to, &SnapshotContent::new(artifacts))
    }))
}

/// Compare two snapshots, of one environment or of two. Not in the interface.
#[utoipa::path(
    get,
    path = "/env-diff/{org}",
    tag = "environments",
    params(
        ("org" = String, Path, description = "Organization"),
        ("snappish1" = inline(EnvironmentSnapshot), Query, description = "The first snapshot: prod, prod#7, prod~1 or prod@2w"),
        ("snappish2" = inline(EnvironmentSnapshot), Query, description = "The second snapshot"),
    ),
    responses(
        (status = 200, description = "The differences", body = SnapshotDiff),
        (status = 404, description = "No such environment or snapshot, or it was removed", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn diff_snapshots(
    State(site): State<Site>,
    Admitted { organization, cpu, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["snappish1", "snappish2"])?;
    let mut sides = Vec::new();
    let mut transaction = site.store.read().await?;
    for parameter in ["snappish1", "snappish2"] {
        let of: EnvironmentSnapshot =
            parameters.parsed(parameter)?.ok_or_else(|| Problem::field(parameter, "missing"))?;
        let selected =
            SelectedSnapshot::find(&site, &mut transaction, &organization, &of.environment, &of.expression)
                .await?;
        let content = selected.content(&mut transaction, &organization).await?;
        sides.push((selected, content));
    }
    drop(transaction);
    let min_bytes = sides.iter().map(|(_, content): &Side| content.min_bytes()).sum::<u64>() / 4;
    Ok(stream(&cpu, min_bytes, move |to| match sides.as_slice() {
        [one, other] => serde_json::to_writer(to, &SnapshotDiff::new(one, other)),
        _ => Ok(()),
    }))
}

fn seconds(at: Timestamp) -> i64 {
    at.micros() / 1_000_000
}

impl<'a> SnapshotContent<'a> {
    fn new(artifacts: RunningArtifacts<'a>) -> Self {
        let RunningArtifacts { selected, content, links, organization, .. } = artifacts;
        let compliance = selected.environment_compliance(content);
        let mut counts = BTreeMap::from([("true", 0), ("false", 0), ("null", 0)]);
        for artifact in content.artifacts.keys() {
            let count = match selected.compliance(content, artifact) {
                Compliance::Compliant => "true",
                Compliance::NonCompliant => "false",
                Compliance::Unknown => "null",
            };
            *counts.entry(count).or_default() += 1;
        }
        let (environment, snapshot) = (&selected.environment.name, &selected.snapshot);
        Self {
            environment,
            kind: "K8S",
            index: snapshot.number,
            is_latest: selected.is_latest,
            timestamp: snapshot.received_at,
            next_snapshot_timestamp: snapshot.superseded_at,
            as_of: selected.at,
            warning: selected.coverage.warning(),
            compliant: compliance == Compliance::Compliant,
            compliance: compliance.as_str(),
            artifact_compliance_count: counts,
            html_url: links.environment_page(organization, environment),
            artifacts,
        }
    }
}

impl Serialize for RunningArtifacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let artifacts = self.content.artifacts.iter();
        serializer.collect_seq(artifacts.map(|(artifact, (name, pods))| self.artifact(*artifact, name, pods)))
    }
}

impl<'a> RunningArtifacts<'a> {
    fn artifact(&self, artifact: Fingerprint, name: &'a str, pods: &'a [Pod]) -> RunningArtifact<'a> {
        let content = self.content;
        let compliance = self.selected.compliance(content, &artifact);
        let has_started = self.started.contains(&artifact);
        let annotation = Annotation {
            kind: match compliance {
                _ if !has_started => "unchanged",
                Compliance::Compliant => "started-compliant",
                _ => "started-non-compliant",
            },
            was: if has_started { 0 } else { pods.len() },
            now: pods.len(),
        };
        let known = content.known.get(&artifact);
        let (git_commit, commit_url) = known.map(|known| known.commit(None)).unwrap_or_default();
        let flows = known.iter().flat_map(|known| known.flows.iter().map(move |flow| (known, flow)));
        RunningArtifact {
            name,
            fingerprint: artifact,
            compliant: compliance == Compliance::Compliant,
            compliance: compliance.as_str(),
            reasons_for_incompliance: content.verdicts.get(&artifact).map_or(&[], |verdict| &verdict.reasons),
            created_at: pods.iter().map(|pod| seconds(pod.created_at)).collect(),
            pods: running_pods(content, pods),
            annotation,
            flow_name: known.and_then(|known| known.flow()),
            git_commit,
            commit_url,
            html_url: self.links.artifact_page(self.organization, artifact),
            flows: flows
                .map(|(known, flow)| {
                    let (git_commit, commit_url) = known.commit(Some(flow));
                    FlowOfArtifact {
                        flow_name: &flow.flow,
                        trail_name: flow.trail.as_deref(),
                        template_reference_name: flow.template_name(),
                        git_commit,
                        commit_url,
                    }
                })
                .collect(),
        }
    }
}

fn running_pods<'a>(content: &'a Content, pods: &'a [Pod]) -> BTreeMap<Cow<'a, str>, RunningPod<'a>> {
    let mut running = BTreeMap::new();
    for pod in pods {
        let name = if running.contains_key(&*pod.name) {
            Cow::from(format!("{}/{}", pod.namespace, pod.name))
        } else {
            Cow::from(&*pod.name)
        };
        let owners = content.workloads.get(&pod.workload).map_or(&[][..], |workload| &workload.owners);
        let pod = RunningPod { namespace: &pod.namespace, created_at: seconds(pod.created_at), owners };
        running.insert(name, pod);
    }
    running
}

/// A snapshot and its content.
type Side = (SelectedSnapshot, Content);

impl<'a> SnapshotDiff<'a> {
    fn new(one: &'a Side, other: &'a Side) -> Self {
        let mut diff = Self {
            snappish1: DiffSide::of(one),
            snappish2: DiffSide::of(other),
            changed: DiffSide::default(),
            unchanged: DiffSide::default(),
        };
        for (artifact, (name, pods)) in &one.1.artifacts {
            if !other.1.artifacts.contains_key(artifact) {
                diff.snappish1.artifacts.push(DiffArtifact::new(&one.1, *artifact, name, pods, None));
            }
        }
        for (artifact, (name, pods)) in &other.1.artifacts {
            let before = one.1.artifacts.get(artifact).map(|(_, pods)| pods.len());
            let part = match before {
                None => &mut diff.snappish2,
                Some(before) if before == pods.len() => &mut diff.unchanged,
                Some(_) => &mut diff.changed,
            };
            part.artifacts.push(DiffArtifact::new(&other.1, *artifact, name, pods, before));
        }
        diff
    }
}

impl DiffSide<'_> {
    fn of((selected, _): &Side) -> Self {
        Self {
            snapshot_id: Some(format!("{}#{}", selected.environment.name, selected.snapshot.number)),
            as_of: Some(selected.at),
            warning: selected.coverage.warning(),
            artifacts: Vec::new(),
        }
    }
}

impl<'a> DiffArtifact<'a> {
    /// `before` is the number of pods in the first snapshot, if the artifact is in both.
    fn new(
        content: &'a Content,
        fingerprint: Fingerprint,
        name: &'a str,
        pods: &'a [Pod],
        before: Option<usize>,
    ) -> Self {
        let known = content.known.get(&fingerprint);
        Self {
            fingerprint,
            name,
            flow: known.and_then(|known| known.flow()),
            commit_url: known.and_then(|known| known.commit(None).1),
            most_recent_timestamp: pods.iter().map(|pod| seconds(pod.created_at)).max().unwrap_or_default(),
            instance_count: before.is_none().then_some(pods.len()),
            s1_instance_count: before,
            s2_instance_count: before.map(|_| pods.len()),
            pods: pods.iter().map(|pod| &*pod.name).collect(),
        }
    }
}
