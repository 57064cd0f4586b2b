//! Records when pods and artifacts of an environment started and ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use crate::database::columns::json;
use crate::database::rows::rows;
use crate::database::transaction::{MAX_STATEMENT_ROWS, fetch_for_all, for_all, insert, on};
use crate::environments::contents::PodRow;
use crate::environments::reports::ReceivedReport;
use crate::log::environment::started_pod;
use crate::{Error, Tenant};
use model::log::environment_change::{EndedArtifact, RowsDigest};
use model::{Fingerprint, Timestamp};
use rules::environment_status::ReportedArtifact;
use rules::snapshot::report::{Pod, Workload};

/// An artifact with its namespaces as JSON.
fn with_namespaces<'a>(
    artifact: &'a Fingerprint,
    is: &'a ReportedArtifact,
) -> Result<(&'a Fingerprint, &'a ReportedArtifact, String), Error> {
    Ok((artifact, is, json(&is.namespaces)?))
}

/// The pods that are recorded as running, with the identifiers of their rows.
pub async fn running_pods(tenant: &mut Tenant<'_>, environment: Uuid) -> Result<HashMap<Pod, Uuid>, Error> {
    let rows: Vec<PodRow> = rows!(
        tenant.tx,
        "hex(id), namespace, pod, created_at, hex(workload)",
        "SELECT id, namespace, pod, created_at, workload FROM pod_runs
         WHERE organization = $1 AND environment = $2 AND ended_at IS NULL",
        |query| query.bind(tenant.name).bind(environment)
    );
    Ok(rows.into_iter().map(PodRow::parse).collect())
}

pub async fn end_pods(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    rows: Vec<Uuid>,
    at: Timestamp,
) -> Result<(), Error> {
    const UPDATE: &str = "UPDATE pod_runs SET ended_at = ? WHERE organization = ? AND id IN (?)";
    let ended = RowsDigest::new(rows.iter().map(|id| [id.to_string()]).collect());
    tenant.tx.log().environment(tenant.name, environment, at).pods_ended = ended;
    for_all!(tenant.tx, UPDATE, rows, at, tenant.name);
    Ok(())
}

/// Records the start of pods, and their workloads.
pub async fn start_pods(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    pods: &[&Pod],
    workloads: &BTreeMap<Fingerprint, Workload>,
    received: ReceivedReport<'_>,
) -> Result<(), Error> {
    let hashes: BTreeSet<Fingerprint> = pods.iter().map(|pod| pod.workload).collect();
    let started = workloads.iter().filter(|(hash, _)| hashes.contains(hash));
    let started = started.map(|(hash, workload)| Ok((hash, json(&workload.digests)?, &workload.owners)));
    let started: Vec<_> = started.collect::<Result<_, Error>>()?;
    insert!(
        tenant.tx,
        "INSERT INTO workloads (organization, hash, digests, owners) ",
        " ON CONFLICT DO NOTHING",
        started,
        |values, (hash, digests, owners)| {
            values.push_bind(tenant.name).push_bind(hash.bytes().as_slice());
            values.push_bind(digests.as_str()).push_bind(owners.as_str());
        }
    );
    insert!(
        tenant.tx,
        "INSERT INTO pod_runs (organization, id, environment, namespace, pod, created_at, workload, started_at,
                               reported_by) ",
        "",
        pods,
        |values, pod| {
            values.push_bind(tenant.name).push_bind(crate::new_id()).push_bind(environment);
            values.push_bind(&*pod.namespace);
            values.push_bind(&*pod.name).push_bind(pod.created_at.micros());
            values.push_bind(pod.workload.bytes().as_slice()).push_bind(received.at.micros());
            values.push_bind(received.reported_by);
        }
    );
    let columns = |pod: &&Pod| {
        let (namespace, name, created_at) = (&pod.namespace, &pod.name, pod.created_at.micros());
        started_pod(namespace, name, created_at, pod.workload, received.reported_by)
    };
    let started = RowsDigest::new(pods.iter().map(columns).collect());
    tenant.tx.log().environment(tenant.name, environment, received.at).pods_started = started;
    Ok(())
}

/// Records the end of artifacts, and the last snapshot that contains them.
pub async fn end_artifacts(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    artifacts: &BTreeSet<Fingerprint>,
    last_snapshot: i64,
    at: Timestamp,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE artifact_runs SET ended_at = ?, last_snapshot = ?
        WHERE organization = ? AND environment = ? AND ended_at IS NULL AND fingerprint IN (?)
        RETURNING fingerprint, name, pods, first_snapshot, last_snapshot";
    let ended: Vec<EndedArtifact> = fetch_for_all!(
        tenant.tx,
        UPDATE,
        artifacts.iter().copied(),
        at,
        last_snapshot,
        tenant.name,
        environment
    );
    tenant.tx.log().environment(tenant.name, environment, at).artifacts_ended = ended.into_iter().collect();
    Ok(())
}

/// Records the start of artifacts, with their names, numbers of pods and namespaces.
pub async fn start_artifacts(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    artifacts: &BTreeMap<Fingerprint, &ReportedArtifact>,
    first_snapshot: i64,
    at: Timestamp,
) -> Result<(), Error> {
    let started: Vec<_> =
        artifacts.iter().map(|(artifact, is)| with_namespaces(artifact, is)).collect::<Result<_, Error>>()?;
    insert!(
        tenant.tx,
        "INSERT INTO artifact_runs
             (organization, environment, fingerprint, first_snapshot, name, pods, started_at, namespaces) ",
        "",
        started,
        |values, (artifact, is, namespaces)| {
            values.push_bind(tenant.name).push_bind(environment).push_bind(artifact.bytes().as_slice());
            values.push_bind(first_snapshot).push_bind(is.name.as_str()).push_bind(is.pods);
            values.push_bind(at.micros()).push_bind(namespaces.as_str());
        }
    );
    let change = tenant.tx.log().environment(tenant.name, environment, at);
    change.artifacts_started = artifacts.keys().copied().collect();
    Ok(())
}

/// Updates the names, numbers of pods and namespaces of running artifacts.
pub async fn change_artifacts(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    artifacts: &BTreeMap<Fingerprint, &ReportedArtifact>,
) -> Result<(), Error> {
    let changed: Vec<_> =
        artifacts.iter().map(|(artifact, is)| with_namespaces(artifact, is)).collect::<Result<_, Error>>()?;
    for chunk in changed.chunks(MAX_STATEMENT_ROWS) {
        on!(tenant.tx, |connection| {
            let mut query = sqlx::QueryBuilder::new("WITH changed (fingerprint, name, pods, spaces) AS (");
            query.push_values(chunk, |mut values, (artifact, is, namespaces)| {
                values.push_bind(artifact.bytes().as_slice()).push_bind(is.name.as_str());
                values.push_bind(is.pods).push_bind(namespaces.as_str());
            });
            query.push(
                ") UPDATE artifact_runs
                 SET name = changed.name, pods = changed.pods, namespaces = changed.spaces FROM changed
                 WHERE artifact_runs.fingerprint = changed.fingerprint AND ended_at IS NULL
                   AND organization = ",
            );
            query.push_bind(tenant.name).push(" AND environment = ").push_bind(environment);
            query.build().persistent(false).execute(connection).await?;
        });
    }
    Ok(())
}
