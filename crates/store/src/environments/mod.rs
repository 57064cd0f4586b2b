//! Reads the settings and the status of environments, for the API and the pages.
//!
//! The database has intervals: a snapshot is the set of fingerprints whose interval includes its number. It costs as
//! much as it changes, and no later snapshot alters it.

pub mod contents;
pub mod events;
pub mod failing;
pub mod reporters;
pub mod reports;
pub mod runs;
pub mod silence;
pub mod timeline;

use std::collections::HashMap;
use std::time::Duration;

use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros};
use crate::database::from_row::all_from_rows;
use crate::database::transaction::{fetch_all, fetch_for_all, fetch_scalar, fetch_scalars, on};
use crate::{Error, Tenant};
use model::Timestamp;
use model::reason::Reason;
use rules::compliance::Compliance;
use rules::validity::Validity;

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EnvironmentOverview {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// Whether the bootstrap file declares it.
    pub is_declared: bool,
    /// When it was declared, created or first reported.
    pub created_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    /// Its current snapshot; 0 before the first.
    pub snapshot: i64,
    /// When its current snapshot was received.
    pub last_changed_at: Option<Timestamp>,
    /// When it was last reported; `None` if never.
    pub last_report_at: Option<Timestamp>,
    /// Number of pods that the agent of its last report excluded.
    pub excluded_pods: i64,
    /// Time without reports until it counts as silent; `None` for the service's default.
    #[sqlx(try_from = "Micros")]
    pub silent_after: Option<Duration>,
    /// Its compliance as of the last evaluation.
    pub compliance: Compliance,
    /// Why it runs too few artifacts, if it does.
    #[sqlx(try_from = "Json<Option<Reason>>")]
    pub absence: Option<Reason>,
    /// When the first allow-list entry that its compliance depends on expires.
    pub compliant_until: Option<Timestamp>,
    pub is_queued: bool,
    /// When it was last evaluated, if it is queued for evaluation.
    pub last_evaluated_at: Option<Timestamp>,
    /// Whether its evaluation failed at least twice.
    pub has_failed: bool,
    /// Number of policies that are attached to it.
    pub policies: i64,
}

/// What decides the place of an environment among those of its organization.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EnvironmentPlace {
    pub id: Uuid,
    pub name: String,
    pub compliance: Compliance,
    pub is_declared: bool,
    pub last_report_at: Option<Timestamp>,
    #[sqlx(try_from = "Micros")]
    pub silent_after: Option<Duration>,
    pub compliant_until: Option<Timestamp>,
}

/// The columns of an [`EnvironmentOverview`].
const SELECT_OVERVIEWS: &str = "
    SELECT e.id, e.name, e.description, e.is_declared, e.created_at, e.archived_at, e.snapshot,
           e.last_report_at, e.excluded_pods,
           (SELECT s.received_at FROM snapshots s
            WHERE s.organization = e.organization AND s.environment = e.id AND s.snapshot = e.snapshot)
             AS last_changed_at,
           e.silent_after, e.compliance, e.absence, e.compliant_until,
           q.environment IS NOT NULL AS is_queued,
           CASE WHEN q.environment IS NOT NULL THEN e.evaluated_at END AS last_evaluated_at,
           COALESCE(q.attempts, 0) > 1 AS has_failed,
           (SELECT COUNT(*) FROM policy_attachments p
            WHERE p.organization = e.organization AND p.environment = e.name AND p.closed_at IS NULL) AS policies
    FROM environments e
      LEFT JOIN evaluation_queue q ON q.organization = e.organization AND q.environment = e.id
    WHERE e.organization = ";

/// Number of artifacts and pods that run in an environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningTotals {
    pub artifacts: i64,
    pub pods: i64,
}

/// Number of events by environment and hour since the start of a time range.
pub type EventsPerHour = HashMap<(Uuid, i64), i64>;

impl EnvironmentPlace {
    /// The validity of its compliance. `silent_after` is the service's default.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::new(self.last_report_at, self.silent_after, silent_after, self.compliant_until)
    }
}

impl EnvironmentOverview {
    /// The validity of its compliance. `silent_after` is the service's default.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::new(self.last_report_at, self.silent_after, silent_after, self.compliant_until)
    }
}

/// The environments of an organization that are not archived; the one of this name, if there is a name.
pub async fn list(tenant: &mut Tenant<'_>, name: Option<&str>) -> Result<Vec<EnvironmentOverview>, Error> {
    Ok(on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(SELECT_OVERVIEWS);
        query.push_bind(tenant.name);
        if let Some(name) = name {
            query.push(" AND e.name = ").push_bind(name);
        } else {
            query.push(" AND e.archived_at IS NULL");
        }
        query.build().fetch_all(connection).await.and_then(all_from_rows)?
    }))
}

/// The environment with this name.
pub async fn overview(tenant: &mut Tenant<'_>, name: &str) -> Result<Option<EnvironmentOverview>, Error> {
    Ok(list(tenant, Some(name)).await?.pop())
}

/// What decides the order of an organization's environments that are not archived.
pub async fn places(tenant: &mut Tenant<'_>) -> Result<Vec<EnvironmentPlace>, Error> {
    const SELECT: &str = "
        SELECT id, name, compliance, is_declared, last_report_at, silent_after, compliant_until
        FROM environments WHERE organization = $1 AND archived_at IS NULL";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name))
}

/// These environments, in this order.
pub async fn by_id(tenant: &mut Tenant<'_>, ids: &[Uuid]) -> Result<Vec<EnvironmentOverview>, Error> {
    let mut rows: Vec<EnvironmentOverview> = fetch_for_all!(
        tenant.tx,
        |query| query.push(SELECT_OVERVIEWS).push_bind(tenant.name).push(" AND e.id IN ("),
        ids.iter().copied(),
        ")"
    );
    rows.sort_by_key(|row| ids.iter().position(|id| *id == row.id));
    Ok(rows)
}

/// What runs in these environments.
pub async fn running_totals(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
) -> Result<HashMap<Uuid, RunningTotals>, Error> {
    const SELECT: &str = "
        SELECT e.id,
               (SELECT COUNT(*) FROM artifact_runs r
                WHERE r.organization = e.organization AND r.environment = e.id AND r.ended_at IS NULL),
               (SELECT COUNT(*) FROM pod_runs p
                WHERE p.organization = e.organization AND p.environment = e.id AND p.ended_at IS NULL)
        FROM environments e WHERE e.organization = ? AND e.id IN (?)";
    let rows: Vec<(Uuid, i64, i64)> = fetch_for_all!(tenant.tx, SELECT, environments, tenant.name);
    let totals = |(id, artifacts, pods)| (id, RunningTotals { artifacts, pods });
    Ok(rows.into_iter().map(totals).collect())
}

/// The number of events in environments, by hour since a point in time.
pub async fn events_per_hour(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
    since: Timestamp,
) -> Result<EventsPerHour, Error> {
    // Integer division on both databases.
    const SELECT: &str = "
        SELECT environment, (occurred_at - ?) / 3600000000, COUNT(*) FROM events
        WHERE kind NOT IN ('ON_CHECKPOINT', 'ON_SILENT_ENV', 'ON_REPORTING_ENV', 'ON_NON_COMPLIANT_ARTIFACT', 'ON_TEST') AND occurred_at >= ?
          AND organization = ? AND environment IN (?) GROUP BY 1, 2";
    let rows: Vec<(Uuid, i64, i64)> =
        fetch_for_all!(tenant.tx, SELECT, environments, since, since, tenant.name);
    Ok(rows.into_iter().map(|(environment, hour, count)| ((environment, hour), count)).collect())
}

pub async fn names(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str = "SELECT name FROM environments WHERE organization = $1 AND archived_at IS NULL";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

pub async fn exists(tenant: &mut Tenant<'_>, name: &str) -> Result<bool, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM environments WHERE organization = $1 AND name = $2";
    let count: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name, name);
    Ok(count > 0)
}
