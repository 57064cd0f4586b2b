//! Removing what is past an environment's retention, and recording from when on all is there.

use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::duration;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::Timestamp;

/// An environment whose history ends somewhere.
#[derive(Debug, Clone)]
pub struct Retained {
    /// Its identifier.
    pub id: Uuid,
    /// How long its history is kept.
    pub retention: Duration,
}

/// How many rows of a table one transaction removes at most: reports get their turn in between.
const BATCH: i64 = 5_000;

/// What is removed: closed before the horizon. What still runs stays, however old.
const REMOVALS: [&str; 7] = [
    "DELETE FROM pod_runs WHERE id IN
     (SELECT id FROM pod_runs WHERE environment = $1 AND ended_at < $2 LIMIT $3)",
    "DELETE FROM artifact_runs WHERE environment = $1 AND (fingerprint, first_snapshot) IN
     (SELECT fingerprint, first_snapshot FROM artifact_runs WHERE environment = $1 AND ended_at < $2 LIMIT $3)",
    "DELETE FROM snapshots WHERE environment = $1 AND snapshot IN
     (SELECT snapshot FROM snapshots WHERE environment = $1 AND superseded_at < $2 LIMIT $3)",
    "DELETE FROM verdicts WHERE environment = $1 AND (fingerprint, from_at) IN
     (SELECT fingerprint, from_at FROM verdicts WHERE environment = $1 AND until_at < $2 LIMIT $3)",
    // What is on its way still goes out.
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
    /// The environments whose history is not kept for ever.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn retained_environments(&mut self) -> Result<Vec<Retained>, Error> {
        const SELECT: &str = "
            SELECT e.id, o.retention FROM environments e JOIN organizations o ON o.name = e.organization
            WHERE o.retention IS NOT NULL";
        let rows: Vec<(Uuid, i64)> =
            on!(self, |connection| sqlx::query_as(SELECT).fetch_all(connection).await?);
        Ok(rows.into_iter().map(|(id, micros)| Retained { id, retention: duration(micros) }).collect())
    }

    /// Removes some of what ended before a horizon, and records that; says how many rows went. Where
    /// none did, the horizon stays, for all is still there.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn remove_before(&mut self, environment: Uuid, horizon: Timestamp) -> Result<u64, Error> {
        const RECORD: &str = "
            UPDATE environments SET horizon_at = $2
            WHERE id = $1 AND (horizon_at IS NULL OR horizon_at < $2)";
        let mut removed = 0;
        for removal in REMOVALS {
            removed += on!(self, |connection| {
                let removal = sqlx::query(removal).bind(environment).bind(horizon.micros());
                removal.bind(BATCH).execute(connection).await?.rows_affected()
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
