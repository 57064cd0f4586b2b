//! The reporters of environments. A heartbeat only changes its environment; the next other report adds it to its reporter.

use sqlx::types::Uuid;

use super::reports::{LockedEnvironment, ReceivedReport};
use super::transaction::{execute, fetch_all};
use super::{Error, Transaction};
use crate::domain::evidence::reporters::Sender;
use crate::domain::model::Timestamp;

/// A token or identity that reports an environment from one cluster.
#[derive(Debug, sqlx::FromRow)]
pub struct Reporter {
    /// The name of the token, or `issuer/subject`.
    pub name: String,
    /// The identity of the cluster; empty if it is unknown.
    pub cluster: String,
    /// The `User-Agent` of its last report.
    pub user_agent: String,
    /// Time of its first report.
    pub first_at: Timestamp,
    /// Time of its last report.
    pub last_at: Timestamp,
    /// Number of pods in its last report.
    pub pods: i64,
}

impl Transaction {
    /// The reporters of an environment, latest first.
    pub async fn reporters(&mut self, organization: &str, environment: Uuid) -> Result<Vec<Reporter>, Error> {
        const SELECT: &str = "
            SELECT r.name, r.cluster, r.user_agent, r.first_at, r.pods,
                   CASE WHEN r.last_at = MAX(r.last_at) OVER () THEN e.last_report_at ELSE r.last_at END AS last_at
            FROM environments e JOIN reporters r ON r.organization = e.organization AND r.environment = e.id
            WHERE e.organization = $1 AND e.id = $2 ORDER BY r.last_at DESC";
        Ok(fetch_all!(self, SELECT, organization, environment))
    }

    /// Records the sender of a report other than a heartbeat. The caller then records the report in the environment.
    pub async fn record_reporter(
        &mut self,
        organization: &str,
        environment: &LockedEnvironment,
        report: ReceivedReport<'_>,
        sender: &Sender,
        pods: i64,
    ) -> Result<(), Error> {
        // The heartbeats since the last other report.
        const CONFIRM: &str = "
            UPDATE reporters SET last_at = $1
            WHERE organization = $2 AND environment = $3 AND last_at =
              (SELECT MAX(last_at) FROM reporters WHERE organization = $2 AND environment = $3)";
        const UPSERT: &str = "
            INSERT INTO reporters (organization, environment, name, cluster, user_agent, first_at, last_at, pods)
            VALUES ($1, $2, $3, $4, $5, $6, $6, $7)
            ON CONFLICT (organization, environment, name, cluster) DO UPDATE
            SET user_agent = excluded.user_agent, last_at = excluded.last_at, pods = excluded.pods";
        // A client may claim any number of clusters, which must not push out the agents of other names.
        const DELETE: &str = "
            DELETE FROM reporters
            WHERE organization = $1 AND environment = $2 AND (name, cluster) IN (
                SELECT name, cluster FROM (
                    SELECT name, cluster, ROW_NUMBER() OVER (ORDER BY last_at DESC) AS place,
                           ROW_NUMBER() OVER (PARTITION BY name ORDER BY last_at DESC) AS place_of_name
                    FROM reporters WHERE organization = $1 AND environment = $2) AS ranked
                WHERE place > 20 OR place_of_name > 10)";
        let ReceivedReport { at, reported_by, .. } = report;
        let Sender { user_agent, cluster } = sender;
        if let Some(last) = environment.last_report_at {
            execute!(self, CONFIRM, last, organization, environment.id);
        }
        execute!(self, UPSERT, organization, environment.id, reported_by, cluster, user_agent, at, pods);
        execute!(self, DELETE, organization, environment.id);
        Ok(())
    }
}
