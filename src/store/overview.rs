//! Reads the status of an organization's environments, for the pages.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{compliance, duration};
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;
use crate::store::from_row::{all_from_rows, optional_from_row};

/// The status of an environment.
#[derive(Debug, Clone)]
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
    pub silent_after: Option<Duration>,
    /// Its compliance as of the last evaluation.
    pub compliance: Compliance,
    /// Why it runs too few artifacts, if it does.
    pub absence: Option<String>,
    /// When the first allow-list entry that its compliance depends on expires.
    pub compliant_until: Option<Timestamp>,
    /// When it was last evaluated, if it is queued for evaluation.
    pub last_evaluated_at: Option<Timestamp>,
    /// Number of running artifacts.
    pub artifacts: i64,
    /// Number of running pods.
    pub pods: i64,
}

/// Number of events by environment and hour since the start of a time range.
pub type EventsPerHour = HashMap<(Uuid, i64), i64>;

#[derive(sqlx::FromRow)]
struct EnvironmentRow {
    id: Uuid,
    name: String,
    snapshot: i64,
    last_report_at: Option<i64>,
    silent_after: Option<i64>,
    compliance: Option<String>,
    absence: Option<String>,
    compliant_until: Option<i64>,
    last_evaluated_at: Option<i64>,
    artifacts: i64,
    pods: i64,
}

impl EnvironmentRow {
    fn parse(self) -> Result<EnvironmentOverview, Error> {
        Ok(EnvironmentOverview {
            id: self.id,
            name: self.name,
            snapshot: self.snapshot,
            last_report_at: self.last_report_at.map(Timestamp::from_micros),
            silent_after: self.silent_after.map(duration),
            compliance: compliance(self.compliance.as_deref())?,
            absence: self.absence,
            compliant_until: self.compliant_until.map(Timestamp::from_micros),
            last_evaluated_at: self.last_evaluated_at.map(Timestamp::from_micros),
            artifacts: self.artifacts,
            pods: self.pods,
        })
    }
}

macro_rules! select_environments {
    ($condition:literal) => {
        concat!(
            "SELECT e.id, e.name, e.snapshot, e.last_report_at, e.silent_after, e.compliance, e.absence,
                   e.compliant_until,
                   (SELECT e.evaluated_at FROM evaluation_queue q WHERE q.environment = e.id) AS last_evaluated_at,
                   (SELECT COUNT(*) FROM artifact_runs r WHERE r.environment = e.id AND r.ended_at IS NULL)
                     AS artifacts,
                   (SELECT COUNT(*) FROM pod_runs p WHERE p.environment = e.id AND p.ended_at IS NULL) AS pods
            FROM environments e WHERE ",
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
        let mut rows: Vec<OrderRow> = on!(self, |connection| sqlx::query(SELECT)
            .bind(organization)
            .fetch_all(connection)
            .await
            .and_then(all_from_rows)?);
        // Sorted here: the database's order depends on its locale.
        rows.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// These environments, in this order.
    pub async fn overview(&mut self, environments: &[Uuid]) -> Result<Vec<EnvironmentOverview>, Error> {
        let rows: Vec<EnvironmentRow> = fetch_for_all!(
            self,
            |query| query.push(select_environments!("e.id IN")),
            environments.iter().copied(),
            ""
        );
        let mut rows: HashMap<Uuid, EnvironmentRow> = rows.into_iter().map(|row| (row.id, row)).collect();
        environments.iter().filter_map(|id| rows.remove(id)).map(EnvironmentRow::parse).collect()
    }

    /// The environment with this name.
    pub async fn environment_overview(
        &mut self,
        organization: &str,
        name: &str,
    ) -> Result<Option<EnvironmentOverview>, Error> {
        let row: Option<EnvironmentRow> = on!(self, |connection| {
            let select = sqlx::query(select_environments!("e.organization = $1 AND e.name = $2"));
            select
                .bind(organization)
                .bind(name)
                .fetch_optional(connection)
                .await
                .and_then(optional_from_row)?
        });
        row.map(EnvironmentRow::parse).transpose()
    }

    /// The number of events in environments, by hour since a point in time.
    pub async fn events_per_hour(
        &mut self,
        environments: &[EnvironmentOverview],
        since: Timestamp,
    ) -> Result<EventsPerHour, Error> {
        // Integer division on both databases.
        let rows: Vec<(Uuid, i64, i64)> = fetch_for_all!(
            self,
            |query| {
                query.push("SELECT environment, (occurred_at - ").push_bind(since.micros());
                query.push(
                    ") / 3600000000, COUNT(*) FROM events WHERE kind <> 'ON_CHECKPOINT' AND occurred_at >= ",
                );
                query.push_bind(since.micros()).push(" AND environment IN");
            },
            environments.iter().map(|environment| environment.id),
            " GROUP BY 1, 2"
        );
        Ok(rows.into_iter().map(|(environment, hour, count)| ((environment, hour), count)).collect())
    }
}
