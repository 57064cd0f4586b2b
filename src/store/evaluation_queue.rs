//! The queue of environments to be evaluated. It is filled by a bootstrap file, an expiry, an attestation of an
//! allow-listed artifact or of one that runs in many environments, and an evaluation by another version of the program.
//!
//! Any replica takes environments from the queue and evaluates them in the same transaction.

use std::collections::BTreeSet;

use sqlx::types::Uuid;

use super::columns::{Json, json};
use super::transaction::{execute, fetch_all, fetch_for_all, fetch_one, fetch_scalars, for_all};
use super::{Error, Transaction};
use crate::domain::evidence::notification::Cause;
use crate::domain::model::{Fingerprint, Timestamp};

/// A queued environment.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct QueuedEnvironment {
    /// Its identifier.
    pub environment: Uuid,
    /// Its organization.
    pub organization: String,
    /// Its name.
    pub name: String,
    /// Why it is evaluated.
    #[sqlx(try_from = "Json<Cause>")]
    pub cause: Cause,
    /// The artifacts to be evaluated; `None`: all.
    #[sqlx(try_from = "Json<Option<BTreeSet<Fingerprint>>>")]
    pub artifacts: Option<BTreeSet<Fingerprint>>,
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
/// queued yet; `$1` is the current time. Each part has an index of its own. An environment may be in both.
macro_rules! due {
    ($select:literal, $end:literal) => {
        concat!(
            $select,
            " FROM (SELECT id FROM environments WHERE evaluate_at <= $1
                    UNION ALL
                    SELECT id FROM environments WHERE snapshot > 0 AND (counted_at IS NULL OR counted_at <> evaluated_at)
                   ) due JOIN environments e ON e.id = due.id JOIN organizations o ON o.name = e.organization
              WHERE o.closed_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM evaluation_queue q WHERE q.environment = e.id)",
            $end
        )
    };
}

impl Transaction {
    /// Queues environments of an organization by name, unless they were never reported, for the evaluation of these
    /// artifacts, or of all. An environment that is queued already keeps its cause, and all of its artifacts are evaluated.
    pub async fn queue_evaluations(
        &mut self,
        organization: &str,
        environments: impl IntoIterator<Item = &str>,
        artifacts: Option<&BTreeSet<Fingerprint>>,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(), Error> {
        let cause = json(cause)?;
        let artifacts = artifacts.map(json).transpose()?;
        for_all!(
            self,
            |query| {
                query.push(
                    "INSERT INTO evaluation_queue (environment, organization, cause, queued_at, artifacts)",
                );
                query.push(" SELECT id, ").push_bind(organization).push(", ").push_bind(&cause);
                query.push(", ").push_bind(at.micros()).push(", ").push_bind(&artifacts);
                query.push(" FROM environments WHERE organization = ").push_bind(organization);
                query.push(" AND snapshot > 0 AND name IN");
            },
            environments,
            " ORDER BY id ON CONFLICT (environment) DO UPDATE SET artifacts = NULL"
        );
        Ok(())
    }

    /// The organizations with environments that are due by [`queue_due`](Self::queue_due).
    pub async fn due_organizations(&mut self, now: Timestamp) -> Result<Vec<String>, Error> {
        const SELECT: &str = due!("SELECT DISTINCT e.organization", " ORDER BY e.organization");
        Ok(fetch_scalars!(self, SELECT, now))
    }

    /// Queues the environments of an organization in which an allow-list entry expired, and those that another version of
    /// the program evaluated or has never evaluated. The caller has locked the organization's verdicts exclusively, so that
    /// transactions that queue the same environments cannot deadlock.
    pub async fn queue_due(
        &mut self,
        organization: &str,
        cause: &Cause,
        now: Timestamp,
    ) -> Result<(), Error> {
        const QUEUE: &str = due!(
            "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
             SELECT e.id, e.organization, $2, $1",
            " AND e.organization = $3 ON CONFLICT DO NOTHING"
        );
        execute!(self, QUEUE, now, json(cause)?, organization);
        Ok(())
    }

    /// The first queued environments; organizations alternate.
    pub async fn queued_evaluations(&mut self, limit: usize) -> Result<Vec<QueuedEnvironment>, Error> {
        const SELECT: &str = "
            SELECT q.environment, q.organization, e.name, q.cause, q.artifacts
            FROM evaluation_queue q JOIN environments e ON e.id = q.environment
            ORDER BY ROW_NUMBER() OVER (PARTITION BY q.organization ORDER BY q.queued_at, q.environment),
                     q.queued_at, q.environment
            LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(fetch_all!(self, SELECT, limit))
    }

    /// Takes environments from the queue, except those that another replica has taken. With artifacts: except those that
    /// were queued for other artifacts meanwhile.
    pub async fn take_evaluations(
        &mut self,
        environments: impl IntoIterator<Item = Uuid>,
        artifacts: Option<&BTreeSet<Fingerprint>>,
    ) -> Result<Vec<Uuid>, Error> {
        let artifacts = artifacts.map(json).transpose()?;
        // PostgreSQL: does not wait for a replica that is evaluating them.
        let end = match self {
            Self::Sqlite(_) => ") RETURNING environment",
            Self::Postgres(_) => " FOR UPDATE SKIP LOCKED) RETURNING environment",
        };
        let taken: Vec<(Uuid,)> = fetch_for_all!(
            self,
            |query| {
                query.push("DELETE FROM evaluation_queue WHERE environment IN (SELECT environment FROM evaluation_queue");
                query.push(" WHERE ");
                if let Some(artifacts) = &artifacts {
                    query.push("artifacts = ").push_bind(artifacts).push(" AND ");
                }
                query.push("environment IN");
            },
            environments,
            end
        );
        Ok(taken.into_iter().map(|(environment,)| environment).collect())
    }

    /// The length of the queue.
    pub async fn queue_backlog(&mut self) -> Result<QueueBacklog, Error> {
        const SELECT: &str = "SELECT COUNT(*), MIN(queued_at) FROM evaluation_queue";
        let (waiting, oldest) = fetch_one!(self, SELECT);
        Ok(QueueBacklog { waiting, oldest })
    }
}
