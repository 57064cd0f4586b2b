//! Compare two snapshots, of one environment or of two: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::engine::selected_snapshot::{Content, SelectedSnapshot};
use crate::http::blocking::compute;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{EnvironmentSnapshot, Fingerprint, Timestamp};
use rules::snapshot::report::Pod;

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

/// Compare two snapshots, of one environment or of two.
#[utoipa::path(
    get,
    path = "/env-diff/{org}",
    tag = "environments",
    params(
        ("snappish1" = inline(EnvironmentSnapshot), Query, description = "The first snapshot: prod, prod#7, prod~1 or prod@2w"),
        ("snappish2" = inline(EnvironmentSnapshot), Query, description = "The second snapshot"),
    ),
    responses(
        (status = 200, description = "The differences", body = SnapshotDiff),
        (status = 404, description = "No such environment or snapshot, or it was removed", body = ErrorBody),
    ),
)]
pub(crate) async fn diff_snapshots(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["snappish1", "snappish2"])?;
    let snapshot = |parameter| -> Result<EnvironmentSnapshot, Problem> {
        parameters.parsed(parameter)?.ok_or_else(|| Problem::field(parameter, "missing"))
    };
    let (one, other) = (snapshot("snappish1")?, snapshot("snappish2")?);
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let one = SelectedSnapshot::read(&site, tenant, &one).await?;
    let other = SelectedSnapshot::read(&site, tenant, &other).await?;
    drop(transaction);
    compute(move || axum::Json(SnapshotDiff::new(&one, &other)).into_response()).await
}

impl<'a> SnapshotDiff<'a> {
    fn new(one: &'a SelectedSnapshot, other: &'a SelectedSnapshot) -> Self {
        let mut diff = Self {
            snappish1: DiffSide::of(one),
            snappish2: DiffSide::of(other),
            changed: DiffSide::default(),
            unchanged: DiffSide::default(),
        };
        let (one, other) = (&one.content, &other.content);
        for (artifact, (name, pods)) in &one.artifacts {
            if !other.artifacts.contains_key(artifact) {
                diff.snappish1.artifacts.push(DiffArtifact::new(one, *artifact, name, pods, None));
            }
        }
        for (artifact, (name, pods)) in &other.artifacts {
            let before = one.artifacts.get(artifact).map(|(_, pods)| pods.len());
            let part = match before {
                None => &mut diff.snappish2,
                Some(before) if before == pods.len() => &mut diff.unchanged,
                Some(_) => &mut diff.changed,
            };
            part.artifacts.push(DiffArtifact::new(other, *artifact, name, pods, before));
        }
        diff
    }
}

impl DiffSide<'_> {
    fn of(selected: &SelectedSnapshot) -> Self {
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
            most_recent_timestamp: pods
                .iter()
                .map(|pod| pod.created_at.whole_seconds())
                .max()
                .unwrap_or_default(),
            instance_count: before.is_none().then_some(pods.len()),
            s1_instance_count: before,
            s2_instance_count: before.map(|_| pods.len()),
            pods: pods.iter().map(|pod| &*pod.name).collect(),
        }
    }
}
