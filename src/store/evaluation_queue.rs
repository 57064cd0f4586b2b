//! The queue of environments to be evaluated: after a bootstrap file, an expiry, an attestation of an allow-listed
//! artifact, or an evaluation by another version of the program.
//!
//! Any replica takes an environment from the queue and evaluates it in the same transaction.

use sqlx::types::Uuid;

use super::columns::json;
use super::from_row::{all_from_rows, one_from_row};
use super::transaction::{in_chunks, on};
use super::{Error, Transaction};
use crate::domain::evidence::notification::Cause;
use crate::domain::model::Timestamp;

/// A queued environment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct QueuedEnvironment {
    /// Its identifier.
    pub environment: Uuid,
    /// Its organization.
    pub organization: String,
    /// Its name.
    pub name: String,
}

/// The length of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBacklog {
    /// Number of environments.
    pub waiting: i64,
    /// When the first was queued.
    pub oldest: Option<Timestamp>,
}

/// The environments `e` of open organizations that time or another version of the program made due, and that are not
/// queued yet; `$1` is the current time. Each part has an index of its own.
macro_rules! due {
    ($select:literal, $end:literal) => {
        concat!(
            $select,
            " FROM environments e JOIN organizations o ON o.name = e.organization
              WHERE o.closed_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM evaluation_queue q WHERE q.environment = e.id) AND e.id IN
                (SELECT id FROM environments WHERE evaluate_at <= $1
                 UNION ALL
                 SELECT id FROM environments WHERE snapshot > 0 AND (counted_at IS NULL OR counted_at <> evaluated_at))",
            $end
        )
    };
}

impl Transaction {
    /// Queues environments of an organization by name, unless they were never reported. Keeps the cause of those that are
    /// queued already.
    pub async fn queue_evaluations(
        &mut self,
        organization: &str,
        environments: &[&str],
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(), Error> {
        let cause = json(cause)?;
        in_chunks!(
            self,
            |query| {
                query.push(
                    "INSERT INTO evaluation_queue (environment, organization, cause, queued_at) SELECT id, ",
                );
                query.push_bind(organization).push(", ").push_bind(&cause).push(", ").push_bind(at.micros());
                query.push(" FROM environments WHERE organization = ").push_bind(organization);
                query.push(" AND snapshot > 0 AND name IN");
            },
            environments.iter().copied(),
            " ORDER BY id ON CONFLICT DO NOTHING",
            |connection| {
                query.build().persistent(false).execute(connection).await?;
            }
        );
        Ok(())
    }

    /// Whether environments are due by [`queue_due`](Self::queue_due).
    pub async fn has_due(&mut self, now: Timestamp) -> Result<bool, Error> {
        const COUNT: &str = due!("SELECT COUNT(*) FROM (SELECT 1", " LIMIT 1) AS due");
        let due: i64 = on!(self, |connection| sqlx::query_scalar(COUNT)
            .bind(now.micros())
            .fetch_one(connection)
            .await?);
        Ok(due > 0)
    }

    /// Queues the environments in which an allow-list entry expired, and those that another version of the program
    /// evaluated or has never evaluated.
    pub async fn queue_due(&mut self, cause: &Cause, now: Timestamp) -> Result<(), Error> {
        // In a fixed order, so that transactions that queue the same environments cannot deadlock.
        const QUEUE: &str = due!(
            "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
             SELECT e.id, e.organization, $2, $1",
            " ORDER BY e.id ON CONFLICT DO NOTHING"
        );
        on!(self, |connection| {
            sqlx::query(QUEUE).bind(now.micros()).bind(json(cause)?).execute(connection).await?;
        });
        Ok(())
    }

    /// The first queued environments; organizations alternate.
    pub async fn queued_evaluations(&mut self, limit: i64) -> Result<Vec<QueuedEnvironment>, Error> {
        const SELECT: &str = "
            SELECT q.environment, q.organization, e.name FROM evaluation_queue q JOIN environments e ON e.id = q.environment
            ORDER BY ROW_NUMBER() OVER (PARTITION BY q.organization ORDER BY q.queued_at, q.environment),
                     q.queued_at, q.environment
            LIMIT $1";
        Ok(on!(self, |connection| {
            sqlx::query(SELECT).bind(limit).fetch_all(connection).await.and_then(all_from_rows)?
        }))
    }

    /// Takes an environment from the queue and returns the cause. `None` if another replica has taken it.
    pub async fn take_evaluation(&mut self, environment: Uuid) -> Result<Option<Cause>, Error> {
        const TAKE: &str = "DELETE FROM evaluation_queue WHERE environment = $1 RETURNING cause";
        // Does not wait for a replica that is evaluating it.
        const TAKE_FREE: &str = "
            DELETE FROM evaluation_queue WHERE environment =
              (SELECT environment FROM evaluation_queue WHERE environment = $1 FOR UPDATE SKIP LOCKED)
            RETURNING cause";
        let take = match self {
            Self::Sqlite(_) => TAKE,
            Self::Postgres(_) => TAKE_FREE,
        };
        let cause: Option<String> = on!(self, |connection| {
            sqlx::query_scalar(take).bind(environment).fetch_optional(connection).await?
        });
        let parse = |json: String| {
            serde_json::from_str(&json).map_err(|_| Error::Unreadable("the cause of an evaluation"))
        };
        cause.map(parse).transpose()
    }

    /// The length of the queue.
    pub async fn queue_backlog(&mut self) -> Result<QueueBacklog, Error> {
        const SELECT: &str = "SELECT COUNT(*), MIN(queued_at) FROM evaluation_queue";
        let (waiting, oldest): (i64, Option<i64>) =
            on!(self, |connection| sqlx::query(SELECT).fetch_one(connection).await.and_then(one_from_row)?);
        Ok(QueueBacklog { waiting, oldest: oldest.map(Timestamp::from_micros) })
    }
}
