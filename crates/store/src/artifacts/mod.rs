//! Reads the environments that run or ran an artifact, for the pages and the gate.

pub mod digests;
pub mod flows;
pub mod live;
pub mod reported;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::artifacts::live::LiveEnvironment;
use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::{fetch_all, fetch_scalars};
use crate::policies::verdicts::RunningRow;
use crate::{Error, Tenant};
use model::{Fingerprint, Timestamp};
use rules::environment_status::{ReportedArtifact, RunningArtifact};

/// Maximum number of environments in which an artifact runs. Only the largest fleets have more.
const MAX_ENVIRONMENTS: usize = 400;

/// An environment in which an artifact runs.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct CurrentRun {
    #[sqlx(flatten)]
    pub environment: LiveEnvironment,
    #[sqlx(flatten, try_from = "RunningRow")]
    pub artifact: RunningArtifact,
    pub started_at: Timestamp,
    pub first_snapshot: i64,
}

/// A run of an artifact that ended.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct PastRun {
    /// The environment.
    pub environment_name: String,
    /// The last snapshot that contains it.
    pub snapshot_index: i64,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub exited_at: Timestamp,
    /// The first snapshot that contains it.
    #[serde(skip)]
    pub first_snapshot: i64,
    /// The environment's current snapshot.
    #[serde(skip)]
    pub current_snapshot: i64,
}

#[derive(sqlx::FromRow)]
struct ReportedRow {
    environment: String,
    name: String,
    pods: i64,
    namespaces: Json<Vec<String>>,
}

/// The image names of an artifact, the latest run's first. Names are cut to slightly more than a page shows.
pub async fn image_names(tenant: &mut Tenant<'_>, artifact: Fingerprint) -> Result<AtMost<String>, Error> {
    const SELECT: &str = "
        SELECT SUBSTR(r.name, 1, 1000) FROM environments e CROSS JOIN artifact_runs r
        WHERE e.organization = $1 AND r.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
        GROUP BY r.name ORDER BY MAX(r.started_at) DESC, r.name LIMIT $3";
    let rows = fetch_scalars!(tenant.tx, SELECT, tenant.name, artifact, one_more_than(MAX_ROWS));
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}

/// The artifact as it runs in each environment, by the environment's name.
pub async fn running_in(
    tenant: &mut Tenant<'_>,
    artifact: Fingerprint,
) -> Result<BTreeMap<String, ReportedArtifact>, Error> {
    const SELECT: &str = "
        SELECT e.name AS environment, r.name, r.pods, r.namespaces
        FROM artifact_runs r JOIN environments e ON e.organization = r.organization AND e.id = r.environment
        WHERE r.organization = $1 AND r.fingerprint = $2 AND r.ended_at IS NULL";
    let rows: Vec<ReportedRow> = fetch_all!(tenant.tx, SELECT, tenant.name, artifact);
    let running = |row: ReportedRow| {
        let ReportedRow { environment, name, pods, namespaces: Json(namespaces) } = row;
        (environment, ReportedArtifact { name, pods, namespaces })
    };
    Ok(rows.into_iter().map(running).collect())
}

/// The environments in which an artifact runs, by name. If there are too many: those where it started last.
pub async fn current_runs(
    tenant: &mut Tenant<'_>,
    artifact: Fingerprint,
) -> Result<AtMost<CurrentRun>, Error> {
    const SELECT: &str = "
        SELECT e.id, e.name, e.snapshot, e.last_report_at, e.silent_after, e.compliant_until,
               (SELECT e.evaluated_at FROM evaluation_queue q
                WHERE q.organization = e.organization AND q.environment = e.id) AS last_evaluated_at, e.absence,
               r.name AS image, r.namespaces, r.pods, r.started_at, r.first_snapshot, v.compliance,
               COALESCE(v.is_allowed, FALSE) AS is_allowed, v.reasons
        FROM artifact_runs r JOIN environments e ON e.organization = r.organization AND e.id = r.environment
          LEFT JOIN verdicts v ON v.organization = r.organization AND v.environment = r.environment
            AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
        WHERE r.organization = $1 AND r.fingerprint = $2 AND r.ended_at IS NULL
          AND e.last_report_at IS NOT NULL
        ORDER BY r.started_at DESC, e.id LIMIT $3";
    let rows: Vec<CurrentRun> =
        fetch_all!(tenant.tx, SELECT, tenant.name, artifact, one_more_than(MAX_ENVIRONMENTS));
    let mut runs = AtMost::from_rows(MAX_ENVIRONMENTS, rows);
    // Sorted here: the database's order depends on its locale.
    runs.listed.sort_by(|one, other| one.environment.name.cmp(&other.environment.name));
    Ok(runs)
}

/// The runs of an artifact that ended, latest end first.
pub async fn past_runs(tenant: &mut Tenant<'_>, artifact: Fingerprint) -> Result<AtMost<PastRun>, Error> {
    // A run that ended has a last snapshot. `ended_at IS NOT NULL` would make SQLite read all
    // ended runs of the environment.
    const SELECT: &str = "
        SELECT e.name AS environment_name, r.last_snapshot AS snapshot_index, r.started_at, r.ended_at AS exited_at,
               r.first_snapshot, e.snapshot AS current_snapshot
        FROM environments e CROSS JOIN artifact_runs r
        WHERE e.organization = $1 AND r.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
          AND r.last_snapshot IS NOT NULL
        ORDER BY r.ended_at DESC, r.started_at DESC, e.name LIMIT $3";
    let rows = fetch_all!(tenant.tx, SELECT, tenant.name, artifact, one_more_than(MAX_ROWS));
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}
