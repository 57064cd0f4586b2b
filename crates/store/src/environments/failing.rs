//! Reads why environments do not comply: an artifact, and what was found.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::transaction::{fetch_for_all, fetch_optional};
use crate::environments::timeline::Snapshot;
use crate::search::Artifact;
use crate::{Error, Tenant};
use model::Timestamp;
use model::reason::Reason;
use rules::compliance::Compliance;

/// An artifact that does not comply.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct FailingArtifact {
    #[sqlx(flatten)]
    pub artifact: Artifact,
    #[sqlx(try_from = "Json<Vec<Reason>>")]
    pub reasons: Vec<Reason>,
    /// Since when.
    #[sqlx(rename = "from_at")]
    pub since: Timestamp,
}

#[derive(sqlx::FromRow)]
struct FailingRow {
    environment: Uuid,
    total: i64,
    #[sqlx(flatten)]
    failing: FailingArtifact,
}

/// Of each environment the artifact that has failed for the longest time, and the number of all that fail.
pub async fn longest(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
) -> Result<BTreeMap<Uuid, (FailingArtifact, i64)>, Error> {
    // Materialized: SQLite would select the artifact again for each verdict of the environment.
    const SELECT: &str = "
        WITH first AS MATERIALIZED (
          SELECT e.organization, e.id, e.non_compliant_artifacts AS total,
                 (SELECT x.fingerprint FROM verdicts x
                  WHERE x.organization = e.organization AND x.environment = e.id AND x.until_at IS NULL
                    AND x.compliance = ?
                  ORDER BY x.from_at, x.fingerprint LIMIT 1) AS fingerprint
          FROM environments e WHERE e.organization = ? AND e.id IN (?))
        SELECT f.id AS environment, f.total, v.fingerprint, COALESCE(r.name, '') AS name, v.reasons, v.from_at
        FROM first f
          JOIN verdicts v ON v.organization = f.organization AND v.environment = f.id AND v.until_at IS NULL
            AND v.fingerprint = f.fingerprint
          LEFT JOIN artifact_runs r ON r.organization = v.organization AND r.environment = v.environment
            AND r.fingerprint = v.fingerprint AND r.ended_at IS NULL";
    let failing = Compliance::NonCompliant.as_str();
    let rows: Vec<FailingRow> = fetch_for_all!(tenant.tx, SELECT, environments, failing, tenant.name);
    Ok(rows.into_iter().map(|row| (row.environment, (row.failing, row.total))).collect())
}

/// An artifact that did not comply when a snapshot was received; one that started with it, if there is one.
pub async fn at_receipt(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    snapshot: &Snapshot,
) -> Result<Option<FailingArtifact>, Error> {
    const STARTED: &str = "
        SELECT v.fingerprint, r.name, v.reasons, v.from_at
        FROM artifact_runs r
          JOIN verdicts v ON v.organization = r.organization AND v.environment = r.environment
            AND v.fingerprint = r.fingerprint AND v.from_at <= $3 AND (v.until_at IS NULL OR v.until_at > $3)
        WHERE r.organization = $1 AND r.environment = $2 AND r.first_snapshot = $5 AND v.compliance = $4
        ORDER BY r.name, v.fingerprint LIMIT 1";
    // Ended and current verdicts have an index each, of which the first match is read.
    const BEFORE: &str = "
        SELECT v.fingerprint, COALESCE(r.name, '') AS name, v.reasons, v.from_at
        FROM (SELECT * FROM (
                SELECT fingerprint, reasons, from_at FROM verdicts
                WHERE organization = $1 AND environment = $2 AND until_at IS NOT NULL AND until_at > $3
                  AND from_at <= $3 AND compliance = $4
                ORDER BY until_at LIMIT 1) AS ended
              UNION ALL
              SELECT * FROM (
                SELECT fingerprint, reasons, from_at FROM verdicts
                WHERE organization = $1 AND environment = $2 AND until_at IS NULL AND from_at <= $3
                  AND compliance = $4
                ORDER BY fingerprint LIMIT 1) AS current) AS v
          LEFT JOIN artifact_runs r ON r.organization = $1 AND r.environment = $2 AND r.fingerprint = v.fingerprint
            AND r.started_at <= $3 AND (r.ended_at IS NULL OR r.ended_at > $3)
        LIMIT 1";
    let (at, failing) = (snapshot.received_at, Compliance::NonCompliant.as_str());
    let started = fetch_optional!(tenant.tx, STARTED, tenant.name, environment, at, failing, snapshot.number);
    if started.is_some() {
        return Ok(started);
    }
    Ok(fetch_optional!(tenant.tx, BEFORE, tenant.name, environment, at, failing))
}
