//! Get a snapshot, with what ran in it: an extension of the interface.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};

use crate::engine::selected_snapshot::{Content, SelectedSnapshot};
use crate::http::blocking::compute;
use crate::http::links::Links;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, ReadEnvironment};
use crate::site::Site;
use model::owner::Owner;
use model::reason::Reason;
use model::{EnvironmentSnapshot, Fingerprint, OwnerReference, SnapshotExpression, Timestamp};
use rules::compliance::{Compliance, ComplianceCounts};
use rules::snapshot::report::Pod;

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
    artifact_compliance_count: BTreeMap<&'static str, i64>,
    html_url: String,
    /// Running artifacts, by fingerprint
    #[schema(value_type = Vec<RunningArtifact>)]
    artifacts: RunningArtifacts<'a>,
}

/// The artifacts of a snapshot. Each one is made when it is written.
#[derive(Debug)]
struct RunningArtifacts<'a> {
    selected: &'a SelectedSnapshot,
    /// The artifacts that started with the snapshot.
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
    reasons_for_incompliance: Vec<String>,
    /// The same as data
    reasons: Vec<Reason>,
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
    /// The top-level owner; null without owners
    owner: Option<Owner>,
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

/// Get a snapshot: what ran, with verdicts. Reporters of the environment may read it too.
#[utoipa::path(
    get,
    path = "/snapshots/{org}/{env_name}/{snapshot}",
    tag = "environments",
    params(("snapshot" = inline(SnapshotExpression), Path, description = "7 or #7; -1 for the latest; ~1 for the one before the latest; @2026-10-03T14:00Z, @{2.weeks.ago} or @2w")),
    responses(
        (status = 200, description = "The snapshot", body = SnapshotContent),
        (status = 404, description = "No such environment or snapshot, or it was removed", body = ErrorBody),
    ),
)]
pub(crate) async fn get_snapshot(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<ReadEnvironment, (String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let (name, expression) = rest;
    let (environment, expression) =
        (Problem::parse("env_name", &name)?, Problem::parse("snapshot", &expression)?);
    let of = EnvironmentSnapshot { environment, expression };
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let selected = SelectedSnapshot::read(&site, tenant, &of).await?;
    let snapshot = std::slice::from_ref(&selected.snapshot);
    let changes =
        store::environments::timeline::changes(tenant, selected.environment.id, snapshot, usize::MAX).await?;
    drop(transaction);
    compute(move || {
        let started =
            changes.into_iter().filter(|change| !change.exited).map(|change| change.artifact).collect();
        let artifacts = RunningArtifacts {
            selected: &selected,
            started: &started,
            links: &site.links,
            organization: &organization,
        };
        axum::Json(SnapshotContent::new(artifacts)).into_response()
    })
    .await
}

impl<'a> SnapshotContent<'a> {
    fn new(artifacts: RunningArtifacts<'a>) -> Self {
        let RunningArtifacts { selected, links, organization, .. } = artifacts;
        let compliance = selected.environment_compliance();
        let each = selected.content.artifacts.keys().map(|artifact| selected.compliance(artifact));
        let ComplianceCounts { compliant, unknown, non_compliant } = each.collect();
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
            artifact_compliance_count: [("true", compliant), ("false", non_compliant), ("null", unknown)]
                .into(),
            html_url: links.environment_page(organization, environment),
            artifacts,
        }
    }
}

impl Serialize for RunningArtifacts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let artifacts = self.selected.content.artifacts.iter();
        serializer.collect_seq(artifacts.map(|(artifact, (name, pods))| self.artifact(*artifact, name, pods)))
    }
}

impl<'a> RunningArtifacts<'a> {
    fn artifact(&self, artifact: Fingerprint, name: &'a str, pods: &'a [Pod]) -> RunningArtifact<'a> {
        let content = &self.selected.content;
        let compliance = self.selected.compliance(&artifact);
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
        let verdict = content.verdicts.get(&artifact);
        let reasons = verdict.map_or(&[][..], |verdict| &verdict.reasons);
        let reasons: Vec<_> = reasons.iter().map(Reason::with_text).collect();
        let known = content.known.get(&artifact);
        let (git_commit, commit_url) = known.map(|known| known.commit(None)).unwrap_or_default();
        let flows = known.iter().flat_map(|known| known.flows.iter().map(move |flow| (known, flow)));
        RunningArtifact {
            name,
            fingerprint: artifact,
            compliant: compliance == Compliance::Compliant,
            compliance: compliance.as_str(),
            reasons_for_incompliance: reasons.iter().map(|reason| reason.text.clone()).collect(),
            reasons,
            created_at: pods.iter().map(|pod| pod.created_at.whole_seconds()).collect(),
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
        let pod = RunningPod {
            namespace: &pod.namespace,
            created_at: pod.created_at.whole_seconds(),
            owners,
            owner: Owner::new(owners),
        };
        running.insert(name, pod);
    }
    running
}
