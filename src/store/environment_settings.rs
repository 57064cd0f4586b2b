//! Reads the settings and the status of environments.

use std::time::Duration;

use super::columns::Micros;
use super::from_row::all_from_rows;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::validity::Validity;
use crate::domain::model::Timestamp;

/// An environment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct EnvironmentSettings {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// When it was declared, created or first reported.
    pub created_at: Timestamp,
    /// When its current snapshot was received.
    pub last_changed_at: Option<Timestamp>,
    /// When it was last reported; `None` if never.
    pub last_report_at: Option<Timestamp>,
    /// Its compliance as of the last evaluation.
    pub compliance: Compliance,
    /// Whether it is queued for evaluation.
    pub is_queued: bool,
    /// Whether its evaluation failed at least twice.
    pub has_failed: bool,
    #[sqlx(try_from = "Micros")]
    silent_after: Option<Duration>,
    compliant_until: Option<Timestamp>,
}

impl EnvironmentSettings {
    /// The validity of its compliance. `silent_after` is the service's default.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::new(self.last_report_at, self.silent_after, silent_after, self.compliant_until)
    }
}

impl Transaction {
    /// The environments of an organization; of this name, if there is one.
    pub async fn environment_settings(
        &mut self,
        organization: &str,
        name: Option<&str>,
    ) -> Result<Vec<EnvironmentSettings>, Error> {
        Ok(on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT e.name, e.description, e.created_at, e.last_report_at,
                        e.compliance, e.silent_after,
                        e.compliant_until,
                         q.environment IS NOT NULL AS is_queued, COALESCE(q.attempts, 0) > 1 AS has_failed,
                        (SELECT s.received_at FROM snapshots s
                         WHERE s.organization = e.organization AND s.environment = e.id AND s.snapshot = e.snapshot) AS last_changed_at
                 FROM environments e
                   LEFT JOIN evaluation_queue q ON q.organization = e.organization AND q.environment = e.id
                 WHERE e.organization = ",
            );
            query.push_bind(organization);
            if let Some(name) = name {
                query.push(" AND e.name = ").push_bind(name);
            }
            query.build().fetch_all(connection).await.and_then(all_from_rows)?
        }))
    }
}
