//! Records verdicts with their periods of validity, and locks them.
//!
//! A transaction that changes verdicts, or the input of an evaluation, must lock the organization's verdicts first.

use std::collections::BTreeMap;

use serde::Deserialize;
use sqlx::types::Uuid;

use super::columns::{json, verdict};
use super::rows::{Bytes, rows};
use super::transaction::{MAX_STATEMENT_ROWS, fetch_for_all, insert, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::environment_status::{EnvironmentStatus, RunningArtifact, Verdict};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::from_row::all_from_rows;

/// An environment that is due for re-evaluation.
#[derive(Debug, Clone)]
pub struct DueEnvironment {
    /// Its organization.
    pub organization: String,
    /// Its name.
    pub name: String,
}

/// The status of an environment before and after an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct StatusChange<'a> {
    /// Its identifier.
    pub environment: Uuid,
    /// Its status before.
    pub before: &'a EnvironmentStatus,
    /// Its status after.
    pub after: &'a EnvironmentStatus,
    /// When the first allow-list entry that its compliance depends on expires.
    pub until: Option<Timestamp>,
}

impl<'a> StatusChange<'a> {
    /// The artifacts whose verdict ends.
    fn ended(&self) -> impl Iterator<Item = (Uuid, Vec<u8>)> + use<'a> {
        let Self { environment, before, after, .. } = *self;
        only_in(before, after).map(move |(artifact, _)| (environment, artifact.bytes().to_vec()))
    }

    /// The artifacts with a new verdict.
    fn started(&self) -> impl Iterator<Item = (Uuid, &'a Fingerprint, &'a RunningArtifact)> + use<'a> {
        let Self { environment, before, after, .. } = *self;
        only_in(after, before).map(move |(artifact, running)| (environment, artifact, running))
    }
}

/// The artifacts with a known verdict in one status that differs from the verdict in the other.
fn only_in<'a>(
    one: &'a EnvironmentStatus,
    other: &'a EnvironmentStatus,
) -> impl Iterator<Item = (&'a Fingerprint, &'a RunningArtifact)> {
    one.artifacts.iter().filter(|(artifact, running)| {
        running.verdict != Verdict::UNKNOWN
            && other.artifacts.get(*artifact).map(|other| &other.verdict) != Some(&running.verdict)
    })
}

/// The columns in the order of `running_artifacts`. JSON from SQLite has 0 and 1 instead of booleans.
#[derive(sqlx::FromRow, Deserialize)]
struct RunningArtifactRow {
    fingerprint: Bytes,
    name: String,
    pods: Option<i64>,
    compliance: Option<String>,
    is_allowed: i64,
    reasons: Option<String>,
}

impl RunningArtifactRow {
    fn parse(self) -> Result<(Fingerprint, RunningArtifact), Error> {
        let verdict = verdict(self.compliance.as_deref(), self.is_allowed != 0, self.reasons.as_deref())?;
        Ok((self.fingerprint.0, RunningArtifact { name: self.name, pods: self.pods, verdict }))
    }
}

/// Locks an organization's verdicts on PostgreSQL. SQLite has a single writer.
macro_rules! lock {
    ($function:literal) => {
        concat!("SELECT ", $function, "(hashtextextended('verdicts/' || $1, 0))")
    };
}

impl Transaction {
    /// Locks the organization's verdicts exclusively until the transaction ends: for attestations and the bootstrap
    /// file.
    pub async fn lock_verdicts(&mut self, organization: &str) -> Result<(), Error> {
        if let Self::Postgres(transaction) = self {
            let lock = sqlx::query(lock!("pg_advisory_xact_lock"));
            lock.bind(organization).execute(&mut **transaction).await?;
        }
        Ok(())
    }

    /// Locks the organization's verdicts until the transaction ends, shared with other reports: for a report.
    pub async fn lock_verdicts_shared(&mut self, organization: &str) -> Result<(), Error> {
        if let Self::Postgres(transaction) = self {
            let lock = sqlx::query(lock!("pg_advisory_xact_lock_shared"));
            lock.bind(organization).execute(&mut **transaction).await?;
        }
        Ok(())
    }

    /// The running artifacts of an environment, with their verdicts.
    pub async fn running_artifacts(
        &mut self,
        environment: Uuid,
    ) -> Result<BTreeMap<Fingerprint, RunningArtifact>, Error> {
        let rows: Vec<RunningArtifactRow> = rows!(
            self,
            "hex(fingerprint), name, pods, compliance, is_allowed, reasons",
            "SELECT r.fingerprint, r.name, r.pods, v.compliance,
                    CAST(CASE WHEN v.is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed, v.reasons
             FROM artifact_runs r LEFT JOIN verdicts v
               ON v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.environment = $1 AND r.ended_at IS NULL",
            |query| query.bind(environment)
        );
        rows.into_iter().map(RunningArtifactRow::parse).collect()
    }

    /// Records the result of an evaluation: ends and starts the verdicts that differ, and updates the compliance of
    /// the environments.
    pub async fn record_status_changes(
        &mut self,
        changes: &[StatusChange<'_>],
        at: Timestamp,
    ) -> Result<(), Error> {
        let ended: Vec<(Uuid, Vec<u8>)> = changes.iter().flat_map(StatusChange::ended).collect();
        let started: Vec<_> = changes.iter().flat_map(StatusChange::started).collect();
        self.end_verdicts_of_stopped_artifacts(changes, at).await?;
        for chunk in ended.chunks(MAX_STATEMENT_ROWS) {
            on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("WITH ended (environment, fingerprint) AS (");
                query.push_values(chunk, |mut values, (environment, artifact)| {
                    values.push_bind(*environment).push_bind(artifact.as_slice());
                });
                query.push(") UPDATE verdicts SET until_at = ").push_bind(at.micros());
                query.push(
                    " FROM ended WHERE verdicts.environment = ended.environment
                     AND verdicts.fingerprint = ended.fingerprint AND until_at IS NULL",
                );
                query.build().persistent(false).execute(connection).await?;
            });
        }
        insert!(
            self,
            "INSERT INTO verdicts (environment, fingerprint, from_at, compliance, is_allowed, reasons) ",
            "",
            started,
            |values, (environment, artifact, running)| {
                let Verdict { compliance, is_allowed, reasons } = &running.verdict;
                values.push_bind(*environment).push_bind(artifact.bytes().as_slice()).push_bind(at.micros());
                values.push_bind(compliance.as_str()).push_bind(*is_allowed).push_bind(json(reasons));
            }
        );
        on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("WITH evaluated (id, compliance, until) AS (");
            query.push_values(changes, |mut values, change| {
                values.push_bind(change.environment).push_bind(change.after.compliance.as_str());
                values.push_bind(change.until.map(Timestamp::micros));
            });
            query.push(") UPDATE environments SET evaluated_at = ").push_bind(at.micros());
            query.push(
                ", compliance = evaluated.compliance, compliant_until = evaluated.until FROM evaluated
                 WHERE environments.id = evaluated.id",
            );
            query.build().execute(connection).await?;
        });
        Ok(())
    }

    /// Ends the verdicts of artifacts that no longer run. A replica of the previous version does not end them.
    async fn end_verdicts_of_stopped_artifacts(
        &mut self,
        changes: &[StatusChange<'_>],
        at: Timestamp,
    ) -> Result<(), Error> {
        on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("UPDATE verdicts SET until_at = ");
            query.push_bind(at.micros()).push(" WHERE until_at IS NULL AND environment IN (");
            let mut environments = query.separated(", ");
            for change in changes {
                environments.push_bind(change.environment);
            }
            query.push(
                ") AND NOT EXISTS (SELECT 1 FROM artifact_runs r WHERE r.environment = verdicts.environment
                     AND r.fingerprint = verdicts.fingerprint AND r.ended_at IS NULL)",
            );
            query.build().execute(connection).await?;
        });
        Ok(())
    }

    /// Records the environment's compliance when its current snapshot was received.
    pub async fn record_snapshot_compliance(
        &mut self,
        environment: Uuid,
        snapshot: i64,
        compliance: Compliance,
    ) -> Result<(), Error> {
        const UPDATE: &str = "UPDATE snapshots SET compliance = $1 WHERE environment = $2 AND snapshot = $3";
        on!(self, |connection| {
            let update = sqlx::query(UPDATE).bind(compliance.as_str()).bind(environment).bind(snapshot);
            update.execute(connection).await?;
        });
        Ok(())
    }

    /// The environments with a policy that run any of these artifacts.
    pub async fn environments_running_any(
        &mut self,
        organization: &str,
        artifacts: impl Iterator<Item = Fingerprint>,
    ) -> Result<Vec<String>, Error> {
        let rows: Vec<(String,)> = fetch_for_all!(
            self,
            |query| {
                query.push(
                    "SELECT DISTINCT e.name FROM artifact_runs r JOIN environments e ON e.id = r.environment
                     JOIN policies p ON p.organization = e.organization AND p.environment = e.name
                     WHERE r.organization = ",
                );
                query.push_bind(organization);
                query.push(" AND r.ended_at IS NULL AND p.closed_at IS NULL AND r.fingerprint IN");
            },
            artifacts.map(|artifact| artifact.bytes().to_vec()),
            ""
        );
        let names: std::collections::BTreeSet<String> = rows.into_iter().map(|(name,)| name).collect();
        Ok(names.into_iter().collect())
    }

    /// The environments that are due for re-evaluation: an allow-list entry expired, or they have a policy and were
    /// last evaluated before `stale`. The latter because a replica of the previous version may have changed the input.
    pub async fn due_environments(
        &mut self,
        now: Timestamp,
        stale: Timestamp,
    ) -> Result<Vec<DueEnvironment>, Error> {
        const SELECT: &str = "
            SELECT e.organization, e.name FROM environments e JOIN organizations o ON o.name = e.organization
            WHERE o.closed_at IS NULL AND e.snapshot > 0
              AND (e.compliant_until <= $1
                   OR (e.evaluated_at IS NULL OR e.evaluated_at < $2)
                      AND EXISTS (SELECT 1 FROM policies p
                                  WHERE p.organization = e.organization AND p.environment = e.name
                                    AND p.closed_at IS NULL))
            ORDER BY e.organization, e.name";
        let rows: Vec<(String, String)> = on!(self, |connection| {
            sqlx::query(SELECT)
                .bind(now.micros())
                .bind(stale.micros())
                .fetch_all(connection)
                .await
                .and_then(all_from_rows)?
        });
        Ok(rows.into_iter().map(|(organization, name)| DueEnvironment { organization, name }).collect())
    }
}
