//! Records verdicts with their periods of validity, and locks them.
//!
//! A transaction that changes verdicts, or the input of an evaluation, must lock the organization's verdicts first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::Deserialize;
use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros, json, read_compliance};
use crate::database::from_row::all_from_rows;
use crate::database::rows::{Bytes, Id, converted, flag, rows};
use crate::database::transaction::{MAX_STATEMENT_ROWS, fetch_for_all, insert, on};
use crate::{Error, Tenant, Transaction};
use model::log::environment_change::StartedVerdict;
use model::reason::Reason;
use model::{Fingerprint, Timestamp};
use rules::compliance::{Compliance, ComplianceCounts};
use rules::environment_status::{EnvironmentStatus, Expiry, ReportedArtifact, RunningArtifact, Verdict};

/// The status of an environment before and after an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct StatusChange<'a> {
    pub environment: Uuid,
    /// Its compliance, and the evaluated artifacts, before.
    pub before: &'a EnvironmentStatus,
    /// Its compliance, and the evaluated artifacts, after.
    pub after: &'a EnvironmentStatus,
    /// All of its artifacts by compliance, after.
    pub counts: ComplianceCounts,
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

/// An environment with a policy. The columns in the order of `governed_artifacts`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct GovernedEnvironment {
    #[serde(deserialize_with = "converted::<_, Id, _>")]
    pub id: Uuid,
    pub name: String,
    /// Its current snapshot.
    pub snapshot: i64,
    #[sqlx(rename = "environment_compliance")]
    #[serde(deserialize_with = "read_compliance")]
    pub compliance: Compliance,
    /// The latest time of its records.
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub changed_at: Timestamp,
    /// Its running artifacts by compliance.
    #[sqlx(flatten)]
    pub counts: ComplianceCounts,
    /// Why it runs too few artifacts, if it does.
    #[sqlx(try_from = "Json<Option<Reason>>")]
    #[serde(deserialize_with = "converted::<_, Json<_>, _>")]
    pub absence: Option<Reason>,
    /// Whether its artifacts are queued, and none of them was evaluated yet.
    #[serde(deserialize_with = "flag")]
    pub is_queued: bool,
    /// Whether some of its artifacts were evaluated as a whole, and others are queued.
    #[serde(deserialize_with = "flag")]
    pub is_in_progress: bool,
}

/// An artifact that runs in an environment with a policy. The columns in the order of `governed_artifacts`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct GovernedArtifact {
    #[sqlx(flatten)]
    pub environment: GovernedEnvironment,
    #[sqlx(rename = "fingerprint")]
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub artifact: Fingerprint,
    /// The artifact in the environment.
    #[sqlx(flatten, try_from = "RunningRow")]
    #[serde(deserialize_with = "converted::<_, RunningRow, _>")]
    pub running: RunningArtifact,
}

/// The columns of a verdict, in this order. An artifact without one was not evaluated.
#[derive(sqlx::FromRow, Deserialize)]
pub(crate) struct VerdictRow {
    #[serde(deserialize_with = "read_compliance")]
    compliance: Compliance,
    #[serde(deserialize_with = "flag")]
    is_allowed: bool,
    reasons: Json<Option<Vec<Reason>>>,
}

impl From<VerdictRow> for Verdict {
    fn from(row: VerdictRow) -> Self {
        let VerdictRow { compliance, is_allowed, reasons: Json(reasons) } = row;
        Self { compliance, is_allowed, reasons: reasons.unwrap_or_default() }
    }
}

/// The columns of a running artifact, in this order.
#[derive(sqlx::FromRow, Deserialize)]
pub(crate) struct RunningRow {
    image: String,
    pods: i64,
    namespaces: Json<Vec<String>>,
    #[sqlx(flatten)]
    verdict: VerdictRow,
}

impl From<RunningRow> for RunningArtifact {
    fn from(row: RunningRow) -> Self {
        let RunningRow { image: name, pods, namespaces: Json(namespaces), verdict } = row;
        Self { reported: ReportedArtifact { name, pods, namespaces }, verdict: verdict.into() }
    }
}

/// The columns in the order of `running_artifacts`.
#[derive(sqlx::FromRow, Deserialize)]
struct RunningIdRow {
    fingerprint: Bytes,
    #[sqlx(flatten)]
    running: RunningRow,
}

/// Whether an environment `e` has a policy.
macro_rules! has_policy {
    () => {
        "EXISTS (SELECT 1 FROM policy_attachments a
                 WHERE a.organization = e.organization AND a.environment = e.name AND a.closed_at IS NULL)"
    };
}

/// The columns of [`GovernedArtifact`]. `CASE`, so that PostgreSQL does not read all artifacts of the environments in the
/// range.
macro_rules! governed_artifacts {
    ($artifacts:literal) => {
        concat!(
            "SELECT e.id, e.name, e.snapshot, e.compliance AS environment_compliance, e.changed_at,
                    e.compliant_artifacts AS compliant, e.unknown_artifacts AS unknown,
                    e.non_compliant_artifacts AS non_compliant,
                    e.absence, q.environment IS NOT NULL AND q.position IS NULL AS is_queued,
                    q.position IS NOT NULL AS is_in_progress, r.fingerprint, r.name AS image, r.pods, r.namespaces,
                    v.compliance, COALESCE(v.is_allowed, FALSE) AS is_allowed, v.reasons
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

/// Locks the organization's verdicts exclusively until the transaction ends: for attestations and the bootstrap
/// file.
pub async fn lock(tenant: &mut Tenant<'_>) -> Result<(), Error> {
    lock_row(tenant, "SELECT pg_advisory_xact_lock(hashtextextended('verdicts/' || $1, 0))").await
}

/// Locks the organization's verdicts until the transaction ends, shared with other reports: for a report.
pub async fn lock_shared(tenant: &mut Tenant<'_>) -> Result<(), Error> {
    lock_row(tenant, "SELECT pg_advisory_xact_lock_shared(hashtextextended('verdicts/' || $1, 0))").await
}

/// Locks on PostgreSQL. SQLite has a single writer.
async fn lock_row(tenant: &mut Tenant<'_>, lock: &'static str) -> Result<(), Error> {
    if let Transaction::Postgres(transaction) = tenant.tx {
        sqlx::query(lock).bind(tenant.name).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// Locks environments until the transaction ends, and returns the latest time of their records: a heartbeat may have
/// changed it.
pub async fn lock_environments(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
) -> Result<Timestamp, Error> {
    // In order, so that transactions that lock the same environments cannot deadlock.
    let lock = match tenant.tx {
        Transaction::Sqlite(_) => "",
        Transaction::Postgres(_) => "ORDER BY id FOR NO KEY UPDATE",
    };
    let select = format!("SELECT changed_at FROM environments WHERE organization = ? AND id IN (?) {lock}");
    let changed: Vec<(Timestamp,)> = fetch_for_all!(tenant.tx, select, environments, tenant.name);
    Ok(changed.into_iter().map(|(at,)| at).max().unwrap_or(Timestamp::EPOCH))
}

/// The running artifacts of an environment, with their verdicts.
pub async fn running_artifacts(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
) -> Result<BTreeMap<Fingerprint, RunningArtifact>, Error> {
    let rows: Vec<RunningIdRow> = rows!(
        tenant.tx,
        "hex(fingerprint), json_array(image, pods, namespaces, json_array(compliance, is_allowed, reasons))",
        "SELECT r.fingerprint, r.name AS image, r.pods, r.namespaces, v.compliance,
                COALESCE(v.is_allowed, FALSE) AS is_allowed, v.reasons
         FROM artifact_runs r LEFT JOIN verdicts v ON v.organization = r.organization
           AND v.environment = r.environment AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
         WHERE r.organization = $1 AND r.environment = $2 AND r.ended_at IS NULL",
        |query| query.bind(tenant.name).bind(environment)
    );
    Ok(rows.into_iter().map(|row| (row.fingerprint.0, row.running.into())).collect())
}

/// Records the result of an evaluation: ends and starts the verdicts that differ, and updates the compliance of
/// the environments.
pub async fn record(
    tenant: &mut Tenant<'_>,
    changes: Vec<StatusChange<'_>>,
    at: Timestamp,
) -> Result<(), Error> {
    let (mut ended, mut started) = (Vec::new(), Vec::new());
    for StatusChange { environment, before, after, .. } in &changes {
        ended.extend(only_in(before, after).map(|(artifact, _)| (*environment, *artifact)));
        for (artifact, running) in only_in(after, before) {
            let verdict = &running.verdict;
            started.push((*environment, artifact, verdict, json(&verdict.reasons)?));
        }
    }
    for (environment, artifact) in &ended {
        let change = tenant.tx.log().environment(tenant.name, *environment, at);
        change.verdicts_ended.insert(*artifact);
    }
    for (environment, artifact, verdict, reasons) in &started {
        let started = StartedVerdict {
            fingerprint: **artifact,
            compliance: verdict.compliance.as_str().to_owned(),
            is_allowed: verdict.is_allowed,
            reasons: reasons.clone(),
        };
        tenant.tx.log().environment(tenant.name, *environment, at).verdicts_started.insert(started);
    }
    for chunk in ended.chunks(MAX_STATEMENT_ROWS) {
        on!(tenant.tx, |connection| {
            let mut query = sqlx::QueryBuilder::new("WITH ended (environment, fingerprint) AS (");
            query.push_values(chunk, |mut values, (environment, artifact)| {
                values.push_bind(*environment).push_bind(*artifact);
            });
            query.push(") UPDATE verdicts SET until_at = ").push_bind(at.micros());
            query.push(
                " FROM ended WHERE verdicts.environment = ended.environment
                 AND verdicts.fingerprint = ended.fingerprint AND until_at IS NULL AND organization = ",
            );
            query.push_bind(tenant.name);
            query.build().persistent(false).execute(connection).await?;
        });
    }
    insert!(
        tenant.tx,
        "INSERT INTO verdicts (organization, environment, fingerprint, from_at, compliance, is_allowed, reasons) ",
        "",
        started,
        |values, (environment, artifact, verdict, reasons)| {
            values.push_bind(tenant.name).push_bind(*environment).push_bind(artifact.bytes().as_slice());
            values.push_bind(at.micros());
            values.push_bind(verdict.compliance.as_str()).push_bind(verdict.is_allowed);
            values.push_bind(reasons.as_str());
        }
    );
    for chunk in changes.chunks(MAX_STATEMENT_ROWS) {
        on!(tenant.tx, |connection| {
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
            query.push_bind(tenant.name);
            query.build().persistent(chunk.len() == 1).execute(connection).await?;
        });
    }
    Ok(())
}

/// At most `limit` runs of these artifacts in environments with a policy, with identifiers in this range.
pub async fn governed_artifacts(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    environments: &RangeInclusive<Uuid>,
    limit: usize,
) -> Result<Vec<GovernedArtifact>, Error> {
    const JSON: &str = concat!(
        "SELECT json_group_array(json_array(json_array(hex(id), name, snapshot, environment_compliance, changed_at,
           json_array(compliant, unknown, non_compliant), absence, is_queued, is_in_progress), hex(fingerprint),
           json_array(image, pods, namespaces, json_array(compliance, is_allowed, reasons)))) FROM (",
        governed_artifacts!("IN (SELECT unhex(value) FROM json_each($2))"),
        ")"
    );
    let (first, last) = (environments.start(), environments.end());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(match tenant.tx {
        Transaction::Sqlite(transaction) => {
            let select = sqlx::query_scalar(JSON).bind(tenant.name).bind(json(artifacts)?);
            let select = select.bind(first).bind(last).bind(limit);
            let json: String = select.fetch_one(&mut **transaction).await?;
            serde_json::from_str(&json).map_err(|_| Error::Unreadable("rows"))?
        }
        Transaction::Postgres(transaction) => {
            let keys: Vec<&[u8]> = artifacts.iter().map(|artifact| artifact.bytes().as_slice()).collect();
            let select = sqlx::query(governed_artifacts!("= ANY($2)")).bind(tenant.name).bind(keys);
            let select = select.bind(first).bind(last).bind(limit);
            select.fetch_all(&mut **transaction).await.and_then(all_from_rows)?
        }
    })
}

/// The names of the environments with a policy that run any of these artifacts, with identifiers in this range.
pub async fn governed_environments(
    tenant: &mut Tenant<'_>,
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
        fetch_for_all!(tenant.tx, SELECT, artifacts.iter().copied(), tenant.name, first, last);
    Ok(names.into_iter().map(|(name,)| name).collect())
}
