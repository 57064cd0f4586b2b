//! The change of an environment at a time, from its rows.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::domain::evidence::log::environment_change::{
    EndedArtifact, EnvironmentChange, NewSnapshot, RowsDigest, StartedVerdict,
};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::transaction::{fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalars};
use crate::store::{Error, Transaction};

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    snapshot: i64,
    reported_by: String,
    report_hash: Fingerprint,
    compliance: Option<String>,
    previous_confirmed_at: Option<i64>,
}

/// An artifact that ended.
#[derive(sqlx::FromRow)]
pub(in crate::store) struct EndedArtifactRow {
    fingerprint: Fingerprint,
    name: String,
    pods: i64,
    first_snapshot: i64,
    last_snapshot: Option<i64>,
}

impl EndedArtifactRow {
    pub(in crate::store) fn entry(self) -> (Fingerprint, EndedArtifact) {
        let Self { name, pods, first_snapshot, last_snapshot, .. } = self;
        (self.fingerprint, EndedArtifact { name, pods, first_snapshot, last_snapshot })
    }
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
pub(in crate::store) fn started_pod(
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

#[derive(sqlx::FromRow)]
struct VerdictRow {
    fingerprint: Fingerprint,
    compliance: String,
    is_allowed: bool,
    reasons: String,
}

impl VerdictRow {
    fn entry(self) -> (Fingerprint, StartedVerdict) {
        let Self { compliance, is_allowed, reasons, .. } = self;
        (self.fingerprint, StartedVerdict { compliance, is_allowed, reasons })
    }
}

impl Transaction {
    /// The change of an environment at a time.
    pub(super) async fn environment_change(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<EnvironmentChange, Error> {
        const SNAPSHOT: &str = "
            SELECT s.snapshot, s.reported_by, s.report_hash, s.compliance, p.confirmed_at AS previous_confirmed_at
            FROM snapshots s LEFT JOIN snapshots p
              ON p.organization = s.organization AND p.environment = s.environment AND p.snapshot = s.snapshot - 1
                AND p.superseded_at = s.received_at
            WHERE s.organization = $1 AND s.environment = $2 AND s.received_at = $3";
        const GAP: &str =
            "SELECT from_at FROM gaps WHERE organization = $1 AND environment = $2 AND to_at = $3";
        let snapshot: Option<SnapshotRow> = fetch_optional!(self, SNAPSHOT, organization, environment, at);
        let gap_from: Option<i64> = fetch_optional_scalar!(self, GAP, organization, environment, at);
        let mut change = EnvironmentChange {
            gap_from: gap_from.map(Timestamp::from_micros),
            artifacts_ended: self.artifacts_ended(organization, environment, at).await?,
            pods_started: self.pods_started(organization, environment, at).await?,
            pods_ended: self.pods_ended(organization, environment, at).await?,
            verdicts_started: self.verdicts_started(organization, environment, at).await?,
            verdicts_ended: self.verdicts_ended(organization, environment, at).await?,
            ..EnvironmentChange::default()
        };
        if let Some(row) = snapshot {
            change.artifacts_started =
                self.artifacts_started(organization, environment, row.snapshot, at).await?;
            change.previous_confirmed_at = row.previous_confirmed_at.map(Timestamp::from_micros);
            change.snapshot = Some(NewSnapshot {
                number: row.snapshot,
                reported_by: row.reported_by,
                report_hash: row.report_hash,
                compliance: row.compliance,
            });
        }
        Ok(change)
    }

    async fn artifacts_started(
        &mut self,
        organization: &str,
        environment: Uuid,
        snapshot: i64,
        at: i64,
    ) -> Result<BTreeSet<Fingerprint>, Error> {
        const SELECT: &str = "
            SELECT fingerprint FROM artifact_runs
            WHERE organization = $1 AND environment = $2 AND first_snapshot = $3 AND started_at = $4";
        let artifacts: Vec<Fingerprint> =
            fetch_scalars!(self, SELECT, organization, environment, snapshot, at);
        Ok(artifacts.into_iter().collect())
    }

    async fn artifacts_ended(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<BTreeMap<Fingerprint, EndedArtifact>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, name, pods, first_snapshot, last_snapshot FROM artifact_runs
            WHERE organization = $1 AND environment = $2 AND ended_at = $3";
        let rows: Vec<EndedArtifactRow> = fetch_all!(self, SELECT, organization, environment, at);
        Ok(rows.into_iter().map(EndedArtifactRow::entry).collect())
    }

    async fn pods_started(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<RowsDigest, Error> {
        const SELECT: &str = "
            SELECT p.namespace, p.pod, p.created_at, p.reported_by, w.digests, w.owners
            FROM pod_runs p LEFT JOIN workloads w ON w.organization = p.organization AND w.hash = p.workload
            WHERE p.organization = $1 AND p.environment = $2 AND p.started_at + 0 = $3";
        let rows: Vec<StartedPodRow> = fetch_all!(self, SELECT, organization, environment, at);
        Ok(RowsDigest::new(rows.into_iter().map(StartedPodRow::columns).collect()))
    }

    async fn pods_ended(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<RowsDigest, Error> {
        const SELECT: &str =
            "SELECT id FROM pod_runs WHERE organization = $1 AND environment = $2 AND ended_at = $3";
        let rows: Vec<(Uuid,)> = fetch_all!(self, SELECT, organization, environment, at);
        Ok(RowsDigest::new(rows.into_iter().map(|(id,)| [id.to_string()]).collect()))
    }

    async fn verdicts_started(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<BTreeMap<Fingerprint, StartedVerdict>, Error> {
        const SELECT: &str = "
            SELECT fingerprint, compliance, is_allowed, reasons FROM verdicts
            WHERE organization = $1 AND environment = $2 AND from_at + 0 = $3";
        let rows: Vec<VerdictRow> = fetch_all!(self, SELECT, organization, environment, at);
        Ok(rows.into_iter().map(VerdictRow::entry).collect())
    }

    async fn verdicts_ended(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: i64,
    ) -> Result<BTreeSet<Fingerprint>, Error> {
        const SELECT: &str =
            "SELECT fingerprint FROM verdicts WHERE organization = $1 AND environment = $2 AND until_at = $3";
        let artifacts: Vec<Fingerprint> = fetch_scalars!(self, SELECT, organization, environment, at);
        Ok(artifacts.into_iter().collect())
    }
}
