//! Reads the status of an organization's environments, for the pages.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{Json, Micros};
use super::transaction::{fetch_all, fetch_for_all, fetch_optional};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::reason::Reason;
use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;

/// The status of an environment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EnvironmentOverview {
    /// Its identifier.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its current snapshot; 0 before the first.
    pub snapshot: i64,
    /// When it was last reported; `None` if never.
    pub last_report_at: Option<Timestamp>,
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
    /// When it was last evaluated, if it is queued for evaluation.
    pub last_evaluated_at: Option<Timestamp>,
    /// Whether its evaluation failed at least twice.
    pub has_failed: bool,
    /// Number of running artifacts.
    pub artifacts: i64,
    /// Number of running pods.
    pub pods: i64,
}

/// Number of events by environment and hour since the start of a time range.
pub type EventsPerHour = HashMap<(Uuid, i64), i64>;

macro_rules! select_environments {
    ($condition:literal) => {
        concat!(
            "SELECT e.id, e.name, e.snapshot, e.last_report_at, e.silent_after, e.compliance, e.absence,
                   e.compliant_until,
                   CASE WHEN q.environment IS NOT NULL THEN e.evaluated_at END AS last_evaluated_at,
                   COALESCE(q.attempts, 0) > 1 AS has_failed,
                   (SELECT COUNT(*) FROM artifact_runs r
                    WHERE r.organization = e.organization AND r.environment = e.id AND r.ended_at IS NULL) AS artifacts,
                   (SELECT COUNT(*) FROM pod_runs p
                    WHERE p.organization = e.organization AND p.environment = e.id AND p.ended_at IS NULL) AS pods
            FROM environments e
              LEFT JOIN evaluation_queue q ON q.organization = e.organization AND q.environment = e.id
            WHERE ",
            $condition
        )
    };
}

/// The columns that decide the order of environments on the first page.
#[derive(sqlx::FromRow)]
struct OrderRow {
    id: Uuid,
    name: String,
    compliance: Option<String>,
    is_declared: bool,
}

impl OrderRow {
    /// Non-compliant environments first, then those of the bootstrap file: a token cannot hide either by reporting many
    /// new environments.
    fn key(&self) -> (bool, bool, &str) {
        let is_compliant = self.compliance.as_deref() != Some(Compliance::NonCompliant.as_str());
        (is_compliant, !self.is_declared, &self.name)
    }
}

impl EnvironmentOverview {
    /// The validity of its compliance. `silent_after` is the service's default.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::new(self.last_report_at, self.silent_after, silent_after, self.compliant_until)
    }
}

impl Transaction {
    /// The identifiers of an organization's environments: non-compliant ones first, then declared ones, each sorted by
    /// name.
    pub async fn environment_ids(&mut self, organization: &str) -> Result<Vec<Uuid>, Error> {
        const SELECT: &str =
            "SELECT id, name, compliance, is_declared FROM environments WHERE organization = $1";
        let mut rows: Vec<OrderRow> = fetch_all!(self, SELECT, organization);
        // Sorted here: the database's order depends on its locale.
        rows.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// These environments, in this order.
    pub async fn overview(
        &mut self,
        organization: &str,
        environments: &[Uuid],
    ) -> Result<Vec<EnvironmentOverview>, Error> {
        const SELECT: &str = select_environments!("e.organization = ? AND e.id IN (?)");
        let rows: Vec<EnvironmentOverview> =
            fetch_for_all!(self, SELECT, environments.iter().copied(), organization);
        let mut rows: HashMap<Uuid, _> = rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(environments.iter().filter_map(|id| rows.remove(id)).collect())
    }

    /// The environment with this name.
    pub async fn environment_overview(
        &mut self,
        organization: &str,
        name: &str,
    ) -> Result<Option<EnvironmentOverview>, Error> {
        const SELECT: &str = select_environments!("e.organization = $1 AND e.name = $2");
        Ok(fetch_optional!(self, SELECT, organization, name))
    }

    /// The number of events in environments, by hour since a point in time.
    pub async fn events_per_hour(
        &mut self,
        organization: &str,
        environments: &[EnvironmentOverview],
        since: Timestamp,
    ) -> Result<EventsPerHour, Error> {
        // Integer division on both databases.
        const SELECT: &str = "
            SELECT environment, (occurred_at - ?) / 3600000000, COUNT(*) FROM events
            WHERE kind NOT IN ('ON_CHECKPOINT', 'ON_SILENT_ENV', 'ON_REPORTING_ENV') AND occurred_at >= ?
              AND organization = ? AND environment IN (?) GROUP BY 1, 2";
        let ids = environments.iter().map(|environment| environment.id);
        let rows: Vec<(Uuid, i64, i64)> = fetch_for_all!(self, SELECT, ids, since, since, organization);
        Ok(rows.into_iter().map(|(environment, hour, count)| ((environment, hour), count)).collect())
    }
}
