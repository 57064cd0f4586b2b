//! Records verdicts with their periods of validity, and locks them.
//!
//! A transaction that changes verdicts, or the input of an evaluation, must lock the organization's verdicts first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::Deserialize;
use sqlx::types::Uuid;

use super::columns::{Json, compliance, json, verdict};
use super::from_row::all_from_rows;
use super::rows::{Bytes, Id, rows};
use super::transaction::{MAX_STATEMENT_ROWS, fetch_for_all, insert, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::{Compliance, ComplianceCounts};
use crate::domain::evidence::environment_status::{EnvironmentStatus, Expiry, RunningArtifact, Verdict};
use crate::domain::evidence::log::environment_change::StartedVerdict;
use crate::domain::evidence::reason::Reason;
use crate::domain::model::{Fingerprint, Timestamp};

/// The status of an environment before and after an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct StatusChange<'a> {
    /// Its identifier.
    pub environment: Uuid,
    /// Its compliance, and the evaluated artifacts, before.
    pub before: &'a EnvironmentStatus,
    /// Its compliance, and the evaluated artifacts, after.
    pub after: &'a EnvironmentStatus,
    /// All of its artifacts by compliance, after.
    pub counts: ComplianceCounts,
    /// When the status expires.
    pub expiry: ExpiryChange,
}

/// The expiry of a status after an evaluation.
#[derive(Debug, Clone, Copy)]
pub enum ExpiryChange {
    /// The expiry of all artifacts replaces the recorded one.
    All(Expiry),
    /// The expiry of some artifacts counts if it is earlier than the recorded one.
    Some(Expiry),
}

impl<'a> StatusChange<'a> {
    /// The artifacts whose verdict ends.
    fn ended(&self) -> impl Iterator<Item = (Uuid, Fingerprint)> + use<'a> {
        let Self { environment, before, after, .. } = *self;
        only_in(before, after).map(move |(artifact, _)| (environment, *artifact))
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

/// An artifact that runs in an environment with a policy.
#[derive(Debug, Clone)]
pub struct GovernedArtifact {
    /// The identifier of the environment.
    pub environment: Uuid,
    /// The name of the environment.
    pub name: String,
    /// The current snapshot of the environment.
    pub snapshot: i64,
    /// The compliance of the environment.
    pub compliance: Compliance,
    /// The latest time of the environment's records.
    pub changed_at: Timestamp,
    /// The running artifacts of the environment by compliance.
    pub counts: ComplianceCounts,
    /// Why the environment runs too few artifacts, if it does.
    pub absence: Option<Reason>,
    /// Whether its artifacts are queued, and none of them was evaluated yet.
    pub is_queued: bool,
    /// Whether some of its artifacts were evaluated as a whole, and others are queued.
    pub is_in_progress: bool,
    /// The artifact.
    pub artifact: Fingerprint,
    /// The artifact in the environment.
    pub running: RunningArtifact,
}

/// Whether an environment `e` has a policy.
macro_rules! has_policy {
    () => {
        "EXISTS (SELECT 1 FROM policy_attachments a
                 WHERE a.organization = e.organization AND a.environment = e.name AND a.closed_at IS NULL)"
    };
}

/// The columns of [`GovernedArtifactRow`]. `CASE`, so that PostgreSQL does not read all artifacts of the environments in the
/// range.
macro_rules! governed_artifacts {
    ($artifacts:literal) => {
        concat!(
            "SELECT e.id, e.name, e.snapshot, e.compliance AS environment_compliance, e.changed_at,
                    e.compliant_artifacts, e.unknown_artifacts, e.non_compliant_artifacts,
                    e.absence,
                    CAST(CASE WHEN q.environment IS NOT NULL AND q.position IS NULL THEN 1 ELSE 0 END AS BIGINT) AS is_queued,
                    CAST(CASE WHEN q.position IS NOT NULL THEN 1 ELSE 0 END AS BIGINT) AS is_in_progress,
                    r.fingerprint, r.name AS artifact, r.pods, r.namespaces, v.compliance,
                    CAST(CASE WHEN v.is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed, v.reasons
             FROM artifact_runs r JOIN environments e ON e.organization = r.organization AND e.id = r.environment
               LEFT JOIN evaluation_queue q ON q.organization = r.organization AND q.environment = r.environment
               LEFT JOIN verdicts v ON v.organization = r.organization AND v.environment = r.environment
                 AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.organization = $1 AND r.fingerprint ",
            $artifacts,
            " AND CASE WHEN r.environment >= $3 THEN r.environment <= $4 END AND r.ended_at IS NULL AND ",
            has_policy!(),
            " LIMIT $5"
        )
    };
}

/// The columns in the order of `governed_artifacts`. JSON from SQLite has 0 and 1 instead of booleans.
#[derive(sqlx::FromRow, Deserialize)]
struct GovernedArtifactRow {
    id: Id,
    name: String,
    snapshot: i64,
    environment_compliance: Option<String>,
    changed_at: i64,
    compliant_artifacts: i64,
    unknown_artifacts: i64,
    non_compliant_artifacts: i64,
    absence: Json<Option<Reason>>,
    is_queued: i64,
    is_in_progress: i64,
    fingerprint: Bytes,
    artifact: String,
    pods: i64,
    namespaces: Json<Vec<String>>,
    compliance: Option<String>,
    is_allowed: i64,
    reasons: Option<String>,
}

impl GovernedArtifactRow {
    fn parse(self) -> Result<GovernedArtifact, Error> {
        let verdict = verdict(self.compliance.as_deref(), self.is_allowed != 0, self.reasons.as_deref())?;
        Ok(GovernedArtifact {
            environment: self.id.0,
            name: self.name,
            snapshot: self.snapshot,
            compliance: compliance(self.environment_compliance.as_deref())?,
            changed_at: Timestamp::from_micros(self.changed_at),
            counts: ComplianceCounts {
                compliant: self.compliant_artifacts,
                unknown: self.unknown_artifacts,
                non_compliant: self.non_compliant_artifacts,
            },
            absence: self.absence.0,
            is_queued: self.is_queued != 0,
            is_in_progress: self.is_in_progress != 0,
            artifact: self.fingerprint.0,
            running: RunningArtifact {
                name: self.artifact,
                pods: self.pods,
                namespaces: self.namespaces.0,
                verdict,
            },
        })
    }
}

/// The columns in the order of `running_artifacts`. JSON from SQLite has 0 and 1 instead of booleans.
#[derive(sqlx::FromRow, Deserialize)]
struct RunningArtifactRow {
    fingerprint: Bytes,
    name: String,
    pods: i64,
    namespaces: Json<Vec<String>>,
    compliance: Option<String>,
    is_allowed: i64,
    reasons: Option<String>,
}

impl RunningArtifactRow {
    fn parse(self) -> Result<(Fingerprint, RunningArtifact), Error> {
        let verdict = verdict(self.compliance.as_deref(), self.is_allowed != 0, self.reasons.as_deref())?;
        let (name, pods, Json(namespaces)) = (self.name, self.pods, self.namespaces);
        Ok((self.fingerprint.0, RunningArtifact { name, pods, namespaces, verdict }))
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

    /// Locks environments until the transaction ends, and returns the latest time of their records: a heartbeat may have
    /// changed it.
    pub async fn lock_environments(
        &mut self,
        organization: &str,
        environments: impl IntoIterator<Item = Uuid>,
    ) -> Result<Timestamp, Error> {
        // In order, so that transactions that lock the same environments cannot deadlock.
        let lock = match self {
            Self::Sqlite(_) => "",
            Self::Postgres(_) => "ORDER BY id FOR NO KEY UPDATE",
        };
        let select =
            format!("SELECT changed_at FROM environments WHERE organization = ? AND id IN (?) {lock}");
        let changed: Vec<(Timestamp,)> = fetch_for_all!(self, select, environments, organization);
        Ok(changed.into_iter().map(|(at,)| at).max().unwrap_or(Timestamp::EPOCH))
    }

    /// The running artifacts of an environment, with their verdicts.
    pub async fn running_artifacts(
        &mut self,
        organization: &str,
        environment: Uuid,
    ) -> Result<BTreeMap<Fingerprint, RunningArtifact>, Error> {
        let rows: Vec<RunningArtifactRow> = rows!(
            self,
            "hex(fingerprint), name, pods, namespaces, compliance, is_allowed, reasons",
            "SELECT r.fingerprint, r.name, r.pods, r.namespaces, v.compliance,
                    CAST(CASE WHEN v.is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed, v.reasons
             FROM artifact_runs r LEFT JOIN verdicts v ON v.organization = r.organization
               AND v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE r.organization = $1 AND r.environment = $2 AND r.ended_at IS NULL",
            |query| query.bind(organization).bind(environment)
        );
        rows.into_iter().map(RunningArtifactRow::parse).collect()
    }

    /// Records the result of an evaluation: ends and starts the verdicts that differ, and updates the compliance of
    /// the environments.
    pub async fn record_status_changes(
        &mut self,
        organization: &str,
        changes: Vec<StatusChange<'_>>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let ended: Vec<(Uuid, Fingerprint)> = changes.iter().flat_map(StatusChange::ended).collect();
        let started = changes.iter().flat_map(StatusChange::started);
        let started = started.map(|(environment, artifact, running)| {
            Ok((environment, artifact, &running.verdict, json(&running.verdict.reasons)?))
        });
        let started: Vec<_> = started.collect::<Result<_, Error>>()?;
        for (environment, artifact) in &ended {
            let change = self.log().environment(organization, *environment, at);
            change.verdicts_ended.insert(*artifact);
        }
        for (environment, artifact, verdict, reasons) in &started {
            let started = StartedVerdict {
                fingerprint: **artifact,
                compliance: verdict.compliance.as_str().to_owned(),
                is_allowed: verdict.is_allowed,
                reasons: reasons.clone(),
            };
            self.log().environment(organization, *environment, at).verdicts_started.insert(started);
        }
        for chunk in ended.chunks(MAX_STATEMENT_ROWS) {
            on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new("WITH ended (environment, fingerprint) AS (");
                query.push_values(chunk, |mut values, (environment, artifact)| {
                    values.push_bind(*environment).push_bind(*artifact);
                });
                query.push(") UPDATE verdicts SET until_at = ").push_bind(at.micros());
                query.push(
                    " FROM ended WHERE verdicts.environment = ended.environment
                     AND verdicts.fingerprint = ended.fingerprint AND until_at IS NULL AND organization = ",
                );
                query.push_bind(organization);
                query.build().persistent(false).execute(connection).await?;
            });
        }
        insert!(
            self,
            "INSERT INTO verdicts (organization, environment, fingerprint, from_at, compliance, is_allowed, reasons) ",
            "",
            started,
            |values, (environment, artifact, verdict, reasons)| {
                values.push_bind(organization).push_bind(*environment).push_bind(artifact.bytes().as_slice());
                values.push_bind(at.micros());
                values.push_bind(verdict.compliance.as_str()).push_bind(verdict.is_allowed);
                values.push_bind(reasons.as_str());
            }
        );
        for chunk in changes.chunks(MAX_STATEMENT_ROWS) {
            on!(self, |connection| {
                let mut query = sqlx::QueryBuilder::new(
                    "WITH evaluated (id, compliance, compliant, unknown, non_compliant, is_whole, until, next) AS (",
                );
                query.push_values(chunk, |mut values, change| {
                    let ComplianceCounts { compliant, unknown, non_compliant } = change.counts;
                    values.push_bind(change.environment).push_bind(change.after.compliance.as_str());
                    values.push_bind(compliant).push_bind(unknown).push_bind(non_compliant);
                    let (is_whole, expiry) = match change.expiry {
                        ExpiryChange::All(expiry) => (true, expiry),
                        ExpiryChange::Some(expiry) => (false, expiry),
                    };
                    values.push_bind(is_whole).push_bind(expiry.compliant_until.map(Timestamp::micros));
                    values.push_bind(expiry.evaluate_at.map(Timestamp::micros));
                });
                query.push(") UPDATE environments SET evaluated_at = ").push_bind(at.micros());
                query.push(", changed_at = ").push_bind(at.micros());
                query.push(
                    ", compliance = evaluated.compliance, compliant_artifacts = compliant,
                       unknown_artifacts = unknown, non_compliant_artifacts = non_compliant,
                       compliant_until = CASE WHEN is_whole OR compliant_until IS NULL OR until < compliant_until
                                              THEN until ELSE compliant_until END,
                       evaluate_at = CASE WHEN is_whole OR evaluate_at IS NULL OR next < evaluate_at
                                          THEN next ELSE evaluate_at END
                     FROM evaluated WHERE environments.id = evaluated.id AND organization = ",
                );
                query.push_bind(organization);
                query.build().persistent(chunk.len() == 1).execute(connection).await?;
            });
        }
        Ok(())
    }

    /// At most `limit` runs of these artifacts in environments with a policy, with identifiers in this range.
    pub async fn governed_artifacts(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
        environments: &RangeInclusive<Uuid>,
        limit: usize,
    ) -> Result<Vec<GovernedArtifact>, Error> {
        const JSON: &str = concat!(
            "SELECT json_group_array(json_array(hex(id), name, snapshot, environment_compliance, changed_at,
               compliant_artifacts, unknown_artifacts, non_compliant_artifacts, absence, is_queued,
               is_in_progress,
               hex(fingerprint), artifact, pods, namespaces, compliance, is_allowed, reasons)) FROM (",
            governed_artifacts!("IN (SELECT unhex(value) FROM json_each($2))"),
            ")"
        );
        let (first, last) = (environments.start(), environments.end());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<GovernedArtifactRow> = match self {
            Self::Sqlite(transaction) => {
                let select = sqlx::query_scalar(JSON).bind(organization).bind(json(artifacts)?);
                let select = select.bind(first).bind(last).bind(limit);
                let json: String = select.fetch_one(&mut **transaction).await?;
                serde_json::from_str(&json).map_err(|_| Error::Unreadable("rows"))?
            }
            Self::Postgres(transaction) => {
                let keys: Vec<&[u8]> = artifacts.iter().map(|artifact| artifact.bytes().as_slice()).collect();
                let select = sqlx::query(governed_artifacts!("= ANY($2)")).bind(organization).bind(keys);
                let select = select.bind(first).bind(last).bind(limit);
                select.fetch_all(&mut **transaction).await.and_then(all_from_rows)?
            }
        };
        rows.into_iter().map(GovernedArtifactRow::parse).collect()
    }

    /// The names of the environments with a policy that run any of these artifacts, with identifiers in this range.
    pub async fn governed_environments(
        &mut self,
        organization: &str,
        artifacts: &BTreeSet<Fingerprint>,
        environments: &RangeInclusive<Uuid>,
    ) -> Result<BTreeSet<String>, Error> {
        const SELECT: &str = concat!(
            "SELECT DISTINCT e.name
             FROM artifact_runs r JOIN environments e ON e.organization = r.organization AND e.id = r.environment
             WHERE r.organization = ? AND r.ended_at IS NULL AND ",
            has_policy!(),
            " AND CASE WHEN r.environment >= ? THEN r.environment <= ? END AND r.fingerprint IN (?)"
        );
        let (first, last) = (*environments.start(), *environments.end());
        let names: Vec<(String,)> =
            fetch_for_all!(self, SELECT, artifacts.iter().copied(), organization, first, last);
        Ok(names.into_iter().map(|(name,)| name).collect())
    }
}
