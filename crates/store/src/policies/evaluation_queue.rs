//! The queue of environments to be evaluated. It is filled by a bootstrap file, an expiry, an attestation of an
//! allow-listed artifact or of one that runs in many environments.
//!
//! Any replica evaluates environments and removes them from the queue in the same transaction. An environment that fails is
//! tried again later, after all others.
//!
//! A row keeps its position: a change meanwhile does not start the evaluation over.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use sqlx::types::Uuid;

use crate::database::columns::{Json, json};
use crate::database::transaction::{
    execute, fetch_all, fetch_for_all, fetch_one, fetch_optional, fetch_scalars, for_all,
};
use crate::{Error, Tenant, Transaction};
use model::{Fingerprint, Timestamp};
use rules::environment_status::Expiry;
use rules::notification::{Cause, CauseKind};

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct QueuedEnvironment {
    pub environment: Uuid,
    pub name: String,
    #[sqlx(try_from = "Json<Cause>")]
    pub cause: Cause,
    /// The artifacts to be evaluated; `None`: all.
    #[sqlx(try_from = "Json<Option<BTreeSet<Fingerprint>>>")]
    pub artifacts: Option<BTreeSet<Fingerprint>>,
    /// Number of attempts that failed.
    pub attempts: i64,
}

/// How far the evaluation of all artifacts of an environment has come. A change meanwhile does not begin it again, which
/// would never end with many changes: it goes on, and ends where it was then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, sqlx::FromRow)]
pub struct Progress {
    /// The last evaluated artifact; `None` if it has not begun.
    pub position: Option<Fingerprint>,
    /// The artifact with which it ends, after beginning again at the first one; `None`: it ends with the last one.
    pub end_position: Option<Fingerprint>,
    /// The expiry of the evaluated artifacts.
    #[sqlx(flatten)]
    pub expiry: Expiry,
}

impl Progress {
    /// The artifacts that remain to be evaluated.
    pub fn rest<T>(self, artifacts: &BTreeMap<Fingerprint, T>) -> impl Iterator<Item = Fingerprint> {
        let Self { position, end_position, .. } = self;
        let after = position.map_or(Bound::Unbounded, Bound::Excluded);
        // Before the end, the evaluation has begun again already.
        let is_repeated = end_position > position;
        let last = end_position.filter(|_| is_repeated).map_or(Bound::Unbounded, Bound::Included);
        let first = end_position.filter(|_| !is_repeated);
        let first = first.map(|last| artifacts.range(..=last)).into_iter().flatten();
        artifacts.range((after, last)).chain(first).map(|(artifact, _)| *artifact)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct QueueBacklog {
    /// Number of environments.
    pub waiting: i64,
    /// Number of those whose evaluation failed at least twice.
    pub failing: i64,
    pub oldest: Option<Timestamp>,
}

/// Queues environments of an organization by name, unless they were never reported, for the evaluation of these
/// artifacts, or of all. An environment that is queued already keeps its cause and its position, and, if it is queued for
/// other artifacts, all of its artifacts are evaluated.
pub async fn push(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = &str>,
    artifacts: Option<&BTreeSet<Fingerprint>>,
    cause: &Cause,
    at: Timestamp,
) -> Result<(), Error> {
    // A changed rule may repair an environment whose evaluation failed; more evidence does not.
    let due = match cause.kind {
        CauseKind::Policy | CauseKind::Bootstrap => ", due_at = 0",
        _ => "",
    };
    let insert = format!(
        "INSERT INTO evaluation_queue (organization, environment, cause, queued_at, artifacts)
         SELECT organization, id, ?, ?, ? FROM environments
         WHERE organization = ? AND snapshot > 0 AND name IN (?) ORDER BY id
         ON CONFLICT (organization, environment)
         DO UPDATE SET artifacts = CASE WHEN evaluation_queue.artifacts = excluded.artifacts THEN excluded.artifacts END,
                       end_position = evaluation_queue.position, compliant_until = NULL,
                       evaluate_at = NULL{due}"
    );
    let cause = json(cause)?;
    let artifacts = artifacts.map(json).transpose()?;
    for_all!(tenant.tx, insert, environments, &cause, at, &artifacts, tenant.name);
    Ok(())
}

/// The organizations with environments that are due by [`push_due`].
pub async fn due_organizations(transaction: &mut Transaction, now: Timestamp) -> Result<Vec<String>, Error> {
    const SELECT: &str = "
        SELECT o.name FROM organizations o
        WHERE o.closed_at IS NULL AND EXISTS
          (SELECT 1 FROM environments e
           WHERE e.organization = o.name AND e.evaluate_at <= $1 AND NOT EXISTS
             (SELECT 1 FROM evaluation_queue q WHERE q.organization = o.name AND q.environment = e.id))
        ORDER BY o.name";
    Ok(fetch_scalars!(transaction, SELECT, now))
}

/// Queues the environments of an organization in which an allow-list entry or an attestation expired. The caller has
/// locked the organization's verdicts exclusively, so that transactions that queue the same environments cannot deadlock.
pub async fn push_due(tenant: &mut Tenant<'_>, cause: &Cause, now: Timestamp) -> Result<(), Error> {
    const QUEUE: &str = "
        INSERT INTO evaluation_queue (organization, environment, cause, queued_at)
        SELECT organization, id, $1, $2 FROM environments WHERE organization = $3 AND evaluate_at <= $2
        ON CONFLICT DO NOTHING";
    execute!(tenant.tx, QUEUE, json(cause)?, now, tenant.name);
    Ok(())
}

/// The organizations whose environments were queued first and are due.
pub async fn organizations(
    transaction: &mut Transaction,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<String>, Error> {
    const SELECT: &str = "
        SELECT o.name FROM organizations o JOIN evaluation_queue q ON q.organization = o.name
        WHERE q.due_at <= $1 GROUP BY o.name ORDER BY MIN(q.queued_at), o.name LIMIT $2";
    Ok(fetch_scalars!(transaction, SELECT, now, i64::try_from(limit).unwrap_or(i64::MAX)))
}

/// Environments that are due: first those that never failed, in the order of the queue.
pub async fn list(
    tenant: &mut Tenant<'_>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<QueuedEnvironment>, Error> {
    const SELECT: &str = "
        SELECT q.environment, e.name, q.cause, q.artifacts, q.attempts
        FROM evaluation_queue q JOIN environments e ON e.organization = q.organization AND e.id = q.environment
        WHERE q.organization = $1 AND q.due_at <= $2 ORDER BY q.attempts, q.queued_at, q.environment LIMIT $3";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, now, i64::try_from(limit).unwrap_or(i64::MAX)))
}

/// Takes environments from the queue, except those that another replica has taken, and those that were queued for other
/// artifacts meanwhile.
pub async fn take(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<Uuid>, Error> {
    let artifacts = json(artifacts)?;
    // PostgreSQL: does not wait for a replica that is evaluating them.
    let lock = match tenant.tx {
        Transaction::Sqlite(_) => "",
        Transaction::Postgres(_) => "FOR UPDATE SKIP LOCKED",
    };
    let delete = format!(
        "DELETE FROM evaluation_queue WHERE organization = ? AND environment IN (
           SELECT environment FROM evaluation_queue
           WHERE organization = ? AND artifacts = ? AND environment IN (?) {lock}) RETURNING environment"
    );
    let taken: Vec<(Uuid,)> =
        fetch_for_all!(tenant.tx, delete, environments, tenant.name, tenant.name, &artifacts);
    Ok(taken.into_iter().map(|(environment,)| environment).collect())
}

/// The progress of a queued evaluation of all artifacts of a locked environment; `None` if another replica completed it.
pub async fn progress(tenant: &mut Tenant<'_>, environment: Uuid) -> Result<Option<Progress>, Error> {
    const SELECT: &str = "
        SELECT position, end_position, compliant_until, evaluate_at FROM evaluation_queue
        WHERE organization = $1 AND environment = $2 AND artifacts IS NULL";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, environment))
}

/// Queues the rest of an evaluation of a locked environment. An environment that is queued already keeps its place.
pub async fn push_rest(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    progress: Progress,
    cause: &Cause,
    at: Timestamp,
) -> Result<(), Error> {
    const UPSERT: &str = "
        INSERT INTO evaluation_queue
            (organization, environment, cause, queued_at, position, end_position, compliant_until, evaluate_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (organization, environment) DO UPDATE
        SET artifacts = NULL, position = excluded.position, end_position = excluded.end_position,
            compliant_until = excluded.compliant_until, evaluate_at = excluded.evaluate_at, attempts = 0,
            due_at = 0";
    let Progress { position, end_position, expiry } = progress;
    let Expiry { compliant_until, evaluate_at } = expiry;
    execute!(
        tenant.tx,
        UPSERT,
        tenant.name,
        environment,
        json(cause)?,
        at,
        position,
        end_position,
        compliant_until,
        evaluate_at
    );
    Ok(())
}

/// Adds the expiry of artifacts that were evaluated before the evaluation of all artifacts of their environment is
/// complete.
pub async fn add_expiry(tenant: &mut Tenant<'_>, environment: Uuid, expiry: Expiry) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE evaluation_queue
        SET compliant_until = CASE WHEN compliant_until <= $1 THEN compliant_until ELSE COALESCE($1, compliant_until) END,
            evaluate_at = CASE WHEN evaluate_at <= $2 THEN evaluate_at ELSE COALESCE($2, evaluate_at) END
        WHERE organization = $3 AND environment = $4";
    execute!(tenant.tx, UPDATE, expiry.compliant_until, expiry.evaluate_at, tenant.name, environment);
    Ok(())
}

/// Removes a locked environment from the queue, all artifacts of which were evaluated.
pub async fn remove(tenant: &mut Tenant<'_>, environment: Uuid) -> Result<(), Error> {
    const DELETE: &str = "DELETE FROM evaluation_queue WHERE organization = $1 AND environment = $2";
    execute!(tenant.tx, DELETE, tenant.name, environment);
    Ok(())
}

/// Counts a failed attempt to evaluate environments. The next one is at this time.
pub async fn postpone(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = Uuid>,
    due_at: Timestamp,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE evaluation_queue SET attempts = attempts + 1, due_at = ?
        WHERE organization = ? AND environment IN (?)";
    for_all!(tenant.tx, UPDATE, environments, due_at, tenant.name);
    Ok(())
}

/// The length of the queue.
pub async fn backlog(transaction: &mut Transaction) -> Result<QueueBacklog, Error> {
    const SELECT: &str = "
        SELECT COUNT(*) AS waiting, COUNT(CASE WHEN q.attempts > 1 THEN 1 END) AS failing,
               MIN(q.queued_at) AS oldest
        FROM organizations o JOIN evaluation_queue q ON q.organization = o.name";
    Ok(fetch_one!(transaction, SELECT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluation_ends_where_the_last_change_found_it() {
        let fingerprint = |n: u8| Fingerprint::from([n; 32]);
        let artifacts: BTreeMap<Fingerprint, u8> = (1..=5).map(|n| (fingerprint(n), n)).collect();
        for (position, end_position, rest) in [
            (None, None, &[1, 2, 3, 4, 5][..]),
            (Some(2), None, &[3, 4, 5]),
            (Some(5), None, &[]),
            (Some(2), Some(2), &[3, 4, 5, 1, 2]),
            (Some(4), Some(2), &[5, 1, 2]),
            (Some(5), Some(2), &[1, 2]),
            (Some(1), Some(2), &[2]),
            // The artifacts at both positions stopped.
            (Some(6), Some(6), &[1, 2, 3, 4, 5]),
            (Some(0), Some(6), &[1, 2, 3, 4, 5]),
        ] {
            let progress = Progress {
                position: position.map(fingerprint),
                end_position: end_position.map(fingerprint),
                expiry: Expiry::default(),
            };
            let expected: Vec<Fingerprint> = rest.iter().copied().map(fingerprint).collect();
            assert_eq!(
                progress.rest(&artifacts).collect::<Vec<_>>(),
                expected,
                "{position:?} {end_position:?}"
            );
        }
    }
}
