//! The change of an environment at a time, from its rows.

use sqlx::types::Uuid;

use crate::database::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalars};
use crate::{Error, Tenant};
use model::Fingerprint;
use model::log::environment_change::{EnvironmentChange, NewSnapshot, RowsDigest};

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    #[sqlx(flatten)]
    snapshot: NewSnapshot,
    previous_confirmed_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct StartedPodRow {
    namespace: String,
    pod: String,
    created_at: i64,
    reported_by: String,
    digests: Option<String>,
    owners: Option<String>,
}

impl StartedPodRow {
    /// The columns of [`started_pod`]; the hash of the workload is that of its stored content.
    fn columns(self) -> [String; 5] {
        let (digests, owners) = (self.digests.unwrap_or_default(), self.owners.unwrap_or_default());
        let workload =
            Fingerprint::from_content(format!(r#"{{"digests":{digests},"owners":{owners}}}"#).as_bytes());
        started_pod(&self.namespace, &self.pod, self.created_at, workload, &self.reported_by)
    }
}

/// The columns of a pod that started, for the digest of a report's pods.
pub(crate) fn started_pod(
    namespace: &str,
    pod: &str,
    created_at: i64,
    workload: Fingerprint,
    reported_by: &str,
) -> [String; 5] {
    [
        namespace.to_owned(),
        pod.to_owned(),
        created_at.to_string(),
        workload.to_string(),
        reported_by.to_owned(),
    ]
}

/// The change of an environment at a time.
pub(crate) async fn environment_change(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: i64,
) -> Result<EnvironmentChange, Error> {
    const SNAPSHOT: &str = "
        SELECT s.snapshot AS number, s.reported_by, s.report_hash, s.compliance,
               p.confirmed_at AS previous_confirmed_at
        FROM snapshots s LEFT JOIN snapshots p
          ON p.organization = s.organization AND p.environment = s.environment AND p.snapshot = s.snapshot - 1
            AND p.superseded_at = s.received_at
        WHERE s.organization = $1 AND s.environment = $2 AND s.received_at = $3";
    const GAP: &str = "SELECT from_at FROM gaps WHERE organization = $1 AND environment = $2 AND to_at = $3";
    const ARTIFACTS_STARTED: &str = "
        SELECT fingerprint FROM artifact_runs
        WHERE organization = $1 AND environment = $2 AND first_snapshot = $3 AND started_at = $4";
    const ARTIFACTS_ENDED: &str = "
        SELECT fingerprint, name, pods, first_snapshot, last_snapshot FROM artifact_runs
        WHERE organization = $1 AND environment = $2 AND ended_at = $3";
    const PODS_STARTED: &str = "
        SELECT p.namespace, p.pod, p.created_at, p.reported_by, w.digests, w.owners
        FROM pod_runs p LEFT JOIN workloads w ON w.organization = p.organization AND w.hash = p.workload
        WHERE p.organization = $1 AND p.environment = $2 AND p.started_at + 0 = $3";
    const PODS_ENDED: &str =
        "SELECT id FROM pod_runs WHERE organization = $1 AND environment = $2 AND ended_at = $3";
    const VERDICTS_STARTED: &str = "
        SELECT fingerprint, compliance, is_allowed, reasons FROM verdicts
        WHERE organization = $1 AND environment = $2 AND from_at + 0 = $3";
    const VERDICTS_ENDED: &str =
        "SELECT fingerprint FROM verdicts WHERE organization = $1 AND environment = $2 AND until_at = $3";
    let snapshot: Option<SnapshotRow> = fetch_optional!(tenant.tx, SNAPSHOT, tenant.name, environment, at);
    let started: Vec<StartedPodRow> = fetch_all!(tenant.tx, PODS_STARTED, tenant.name, environment, at);
    let ended: Vec<Uuid> = fetch_scalars!(tenant.tx, PODS_ENDED, tenant.name, environment, at);
    let artifacts_ended: Vec<_> = fetch_all!(tenant.tx, ARTIFACTS_ENDED, tenant.name, environment, at);
    let verdicts_started: Vec<_> = fetch_all!(tenant.tx, VERDICTS_STARTED, tenant.name, environment, at);
    let verdicts_ended: Vec<_> = fetch_scalars!(tenant.tx, VERDICTS_ENDED, tenant.name, environment, at);
    let mut change = EnvironmentChange {
        gap_from: fetch_optional_scalar!(tenant.tx, GAP, tenant.name, environment, at),
        artifacts_ended: artifacts_ended.into_iter().collect(),
        pods_started: RowsDigest::new(started.into_iter().map(StartedPodRow::columns).collect()),
        pods_ended: RowsDigest::new(ended.into_iter().map(|id| [id.to_string()]).collect()),
        verdicts_started: verdicts_started.into_iter().collect(),
        verdicts_ended: verdicts_ended.into_iter().collect(),
        ..EnvironmentChange::default()
    };
    if let Some(SnapshotRow { snapshot, previous_confirmed_at }) = snapshot {
        let number = snapshot.number;
        let started: Vec<_> =
            fetch_scalars!(tenant.tx, ARTIFACTS_STARTED, tenant.name, environment, number, at);
        change.artifacts_started = started.into_iter().collect();
        change.previous_confirmed_at = previous_confirmed_at;
        change.snapshot = Some(snapshot);
    }
    Ok(change)
}
