//! The reporters of environments. A heartbeat only changes its environment; the next other report adds it to its reporter.

use serde::Serialize;
use sqlx::types::Uuid;

use crate::database::transaction::{execute, fetch_all};
use crate::environments::reports::{LockedEnvironment, ReceivedReport};
use crate::{Error, Tenant};
use model::Timestamp;
use model::reporter::Sender;

/// An agent of an environment, or another client that reports it.
#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ListedAgent {
    /// The name of its token, or `issuer/subject` of its identity
    pub name: String,
    /// `User-Agent` of the last report, such as `supercargo/0.1.0 (agent)`; at most 200 characters
    pub user_agent: String,
    /// UID of the cluster's namespace `kube-system`; null if the agent does not send it
    pub cluster: Option<String>,
    /// When it reported first
    pub first_reported_at: Timestamp,
    /// When it reported last
    pub last_reported_at: Timestamp,
    /// Number of pods in the last report
    pub pods: i64,
    /// Whether another agent overwrites its reports: both reported in turns within `silentAfter`
    #[sqlx(skip)]
    pub is_overwritten: bool,
}

/// The reporters of an environment, latest first.
pub async fn list(tenant: &mut Tenant<'_>, environment: Uuid) -> Result<Vec<ListedAgent>, Error> {
    const SELECT: &str = "
        SELECT r.name, r.user_agent, NULLIF(r.cluster, '') AS cluster, r.first_at AS first_reported_at,
               CASE WHEN r.last_at = MAX(r.last_at) OVER () THEN e.last_report_at ELSE r.last_at END
                 AS last_reported_at, r.pods
        FROM environments e JOIN reporters r ON r.organization = e.organization AND r.environment = e.id
        WHERE e.organization = $1 AND e.id = $2 ORDER BY r.last_at DESC";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, environment))
}

/// Records the sender of a report other than a heartbeat. The caller then records the report in the environment.
pub async fn record(
    tenant: &mut Tenant<'_>,
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
        execute!(tenant.tx, CONFIRM, last, tenant.name, environment.id);
    }
    execute!(tenant.tx, UPSERT, tenant.name, environment.id, reported_by, cluster, user_agent, at, pods);
    execute!(tenant.tx, DELETE, tenant.name, environment.id);
    Ok(())
}
