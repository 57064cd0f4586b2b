//! The queue of environments to be evaluated. It is filled by a bootstrap file, an expiry, an attestation of an
//! allow-listed artifact or of one that runs in many environments.
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
                    "INSERT INTO evaluation_queue (organization, environment, cause, queued_at, artifacts)",
                );
                query.push(" SELECT organization, id, ").push_bind(&cause).push(", ").push_bind(at.micros());
                query.push(", ").push_bind(&artifacts);
                query.push(" FROM environments WHERE organization = ").push_bind(organization);
                query.push(" AND snapshot > 0 AND name IN");
            },
            environments,
            " ORDER BY id ON CONFLICT (organization, environment) DO UPDATE SET artifacts = NULL"
        );
        Ok(())
    }

    /// The organizations with environments that are due by [`queue_due`](Self::queue_due).
    pub async fn due_organizations(&mut self, now: Timestamp) -> Result<Vec<String>, Error> {
        const SELECT: &str = "
            SELECT o.name FROM organizations o
            WHERE o.closed_at IS NULL AND EXISTS
              (SELECT 1 FROM environments e
               WHERE e.organization = o.name AND e.evaluate_at <= $1 AND NOT EXISTS
                 (SELECT 1 FROM evaluation_queue q WHERE q.organization = o.name AND q.environment = e.id))
            ORDER BY o.name";
        Ok(fetch_scalars!(self, SELECT, now))
    }

    /// Queues the environments of an organization in which an allow-list entry or an attestation expired. The caller has
    /// locked the organization's verdicts exclusively, so that transactions that queue the same environments cannot deadlock.
    pub async fn queue_due(
        &mut self,
        organization: &str,
        cause: &Cause,
        now: Timestamp,
    ) -> Result<(), Error> {
        const QUEUE: &str = "
            INSERT INTO evaluation_queue (organization, environment, cause, queued_at)
            SELECT organization, id, $1, $2 FROM environments WHERE organization = $3 AND evaluate_at <= $2
            ON CONFLICT DO NOTHING";
        execute!(self, QUEUE, json(cause)?, now, organization);
        Ok(())
    }

    /// Environments that were queued first; organizations alternate.
    pub async fn queued_evaluations(&mut self, limit: usize) -> Result<Vec<QueuedEnvironment>, Error> {
        const ORGANIZATIONS: &str = "
            SELECT o.name FROM organizations o JOIN evaluation_queue q ON q.organization = o.name
            GROUP BY o.name ORDER BY MIN(q.queued_at), o.name LIMIT $1";
        const SELECT: &str = "
            SELECT q.environment, q.organization, e.name, q.cause, q.artifacts
            FROM evaluation_queue q JOIN environments e ON e.organization = q.organization AND e.id = q.environment
            WHERE q.organization = $1 ORDER BY q.queued_at, q.environment LIMIT $2";
        let to_i64 = |limit: usize| i64::try_from(limit).unwrap_or(i64::MAX);
        let organizations: Vec<String> = fetch_scalars!(self, ORGANIZATIONS, to_i64(limit));
        let share = to_i64(limit.checked_div(organizations.len()).unwrap_or_default());
        let mut by_organization = Vec::with_capacity(organizations.len());
        for organization in &organizations {
            let queued: Vec<QueuedEnvironment> = fetch_all!(self, SELECT, organization, share);
            by_organization.push(queued.into_iter());
        }
        let mut queued = Vec::new();
        loop {
            let before = queued.len();
            queued.extend(by_organization.iter_mut().filter_map(Iterator::next));
            if queued.len() == before {
                return Ok(queued);
            }
        }
    }

    /// Takes environments from the queue, except those that another replica has taken. With artifacts: except those that
    /// were queued for other artifacts meanwhile.
    pub async fn take_evaluations(
        &mut self,
        organization: &str,
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
                query.push("DELETE FROM evaluation_queue WHERE organization = ").push_bind(organization);
                query.push(
                    " AND environment IN (SELECT environment FROM evaluation_queue WHERE organization = ",
                );
                query.push_bind(organization).push(" AND ");
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
        const SELECT: &str = "
            SELECT COUNT(*), MIN(q.queued_at) FROM organizations o JOIN evaluation_queue q ON q.organization = o.name";
        let (waiting, oldest) = fetch_one!(self, SELECT);
        Ok(QueueBacklog { waiting, oldest })
    }
}
