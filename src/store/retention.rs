//! Removes history that is past its retention, and records from when on the history is complete.
//!
//! Called periodically by `service::maintenance::retention`.

use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::duration;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::Timestamp;
use crate::store::from_row::all_from_rows;

/// An environment with a limited retention.
#[derive(Debug, Clone)]
pub struct EnvironmentRetention {
    /// Its identifier.
    pub id: Uuid,
    /// The retention of its history.
    pub retention: Duration,
}

/// Maximum number of rows per table and transaction, so that reports can be recorded in between.
const MAX_BATCH: i64 = 5_000;

/// Removes rows that ended before the horizon. Running pods and artifacts stay, however old.
const REMOVALS: [&str; 7] = [
    "DELETE FROM pod_runs WHERE id IN
     (SELECT id FROM pod_runs WHERE environment = $1 AND ended_at < $2 LIMIT $3)",
    "DELETE FROM artifact_runs WHERE environment = $1 AND (fingerprint, first_snapshot) IN
     (SELECT fingerprint, first_snapshot FROM artifact_runs WHERE environment = $1 AND ended_at < $2 LIMIT $3)",
    "DELETE FROM snapshots WHERE environment = $1 AND snapshot IN
     (SELECT snapshot FROM snapshots WHERE environment = $1 AND superseded_at < $2 LIMIT $3)",
    "DELETE FROM verdicts WHERE environment = $1 AND (fingerprint, from_at) IN
     (SELECT fingerprint, from_at FROM verdicts WHERE environment = $1 AND until_at < $2 LIMIT $3)",
    // Pending notifications stay.
    "DELETE FROM notifications WHERE id IN
     (SELECT n.id FROM notifications n JOIN events e ON e.id = n.event
      WHERE e.environment = $1 AND e.occurred_at < $2
        AND (n.sent_at IS NOT NULL OR n.dropped_at IS NOT NULL) LIMIT $3)",
    "DELETE FROM events WHERE id IN
     (SELECT e.id FROM events e WHERE e.environment = $1 AND e.occurred_at < $2
        AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.event = e.id) LIMIT $3)",
    "DELETE FROM gaps WHERE environment = $1 AND from_at IN
     (SELECT from_at FROM gaps WHERE environment = $1 AND to_at < $2 LIMIT $3)",
];

impl Transaction {
    /// The environments with a limited retention.
    pub async fn environment_retentions(&mut self) -> Result<Vec<EnvironmentRetention>, Error> {
        const SELECT: &str = "
            SELECT e.id, o.retention FROM environments e JOIN organizations o ON o.name = e.organization
            WHERE o.retention IS NOT NULL";
        let rows: Vec<(Uuid, i64)> = on!(self, |connection| sqlx::query(SELECT)
            .fetch_all(connection)
            .await
            .and_then(all_from_rows)?);
        let retention = |(id, micros)| EnvironmentRetention { id, retention: duration(micros) };
        Ok(rows.into_iter().map(retention).collect())
    }

    /// Removes a batch of the history before a horizon, and returns the number of rows. Records the horizon only if
    /// rows were removed; otherwise the history is still complete.
    pub async fn remove_before(&mut self, environment: Uuid, horizon: Timestamp) -> Result<u64, Error> {
        const RECORD: &str = "
            UPDATE environments SET horizon_at = $2
            WHERE id = $1 AND (horizon_at IS NULL OR horizon_at < $2)";
        let mut removed = 0;
        for removal in REMOVALS {
            removed += on!(self, |connection| {
                let removal = sqlx::query(removal).bind(environment).bind(horizon.micros());
                removal.bind(MAX_BATCH).execute(connection).await?.rows_affected()
            });
        }
        if removed > 0 {
            on!(self, |connection| {
                sqlx::query(RECORD).bind(environment).bind(horizon.micros()).execute(connection).await?;
            });
        }
        Ok(removed)
    }
}
