//! The outbox: notifications on their way, which any replica may take in hand.
//!
//! Taking one moves the time at which it is due next, so that one whose replica is killed comes back by
//! itself. It is sent at least once, always under the same identifier.

use std::time::Duration;

use sqlx::types::Uuid;

use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{TargetKind, Timestamp};

/// A target that can be sent to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its row.
    pub id: Uuid,
    /// The organization.
    pub organization: String,
    /// The action's number.
    pub action: i64,
    /// The action's name.
    pub action_name: String,
    /// Its name within the action.
    pub name: String,
    /// What kind of place it is.
    pub kind: TargetKind,
}

/// A notification that was taken in hand.
#[derive(Debug, Clone)]
pub struct Leased {
    /// Its identifier, the same at each try.
    pub id: Uuid,
    /// The target's row.
    pub target: Uuid,
    /// What is said, as JSON.
    pub content: String,
    /// Since when it waits.
    pub created_at: Timestamp,
    /// How often it was tried, this time included.
    pub tries: i64,
}

/// A try that failed.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// What was sent.
    pub notification: Uuid,
    /// Where to.
    pub target: Uuid,
    /// Why it did not arrive.
    pub problem: &'a str,
    /// When it is tried again.
    pub again: Timestamp,
    /// What waits since before this is given up.
    pub oldest: Timestamp,
}

/// How many notifications wait, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// How many.
    pub waiting: i64,
    /// The time of the oldest.
    pub oldest: Option<Timestamp>,
}

impl Transaction {
    /// The open targets of open organizations for which something is due, the longest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn due_targets(&mut self, now: Timestamp) -> Result<Vec<Target>, Error> {
        type Row = (Uuid, String, i64, String, String, String, Option<i64>);
        // One look into an index for each target, however much waits.
        const SELECT: &str = "
            SELECT t.id, t.organization, t.action, a.name, t.name, t.kind,
                   (SELECT MIN(n.due_at) FROM notifications n
                    WHERE n.target = t.id AND n.sent_at IS NULL AND n.dropped_at IS NULL) AS due
            FROM targets t JOIN organizations o ON o.name = t.organization
            JOIN actions a ON a.organization = t.organization AND a.number = t.action
            WHERE t.closed_at IS NULL AND a.closed_at IS NULL AND o.closed_at IS NULL";
        let rows: Vec<Row> = on!(self, |connection| sqlx::query_as(SELECT).fetch_all(connection).await?);
        let mut due: Vec<(i64, Target)> = Vec::new();
        for (id, organization, action, action_name, name, kind, at) in rows {
            let Some(at) = at.filter(|at| *at <= now.micros()) else { continue };
            let kind = kind.parse().map_err(|_| Error::Unreadable("a target"))?;
            due.push((at, Target { id, organization, action, action_name, name, kind }));
        }
        due.sort_by_key(|(at, _)| *at);
        Ok(due.into_iter().map(|(_, target)| target).collect())
    }

    /// Takes in hand the first notification that is due of each of these targets; nobody else gets them
    /// before `lease` is over.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn lease(
        &mut self,
        targets: &[Uuid],
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Leased>, Error> {
        type Row = (Uuid, Uuid, String, i64, i64);
        const FIRST: &str = "
            SELECT id FROM notifications
            WHERE target = $1 AND sent_at IS NULL AND dropped_at IS NULL AND due_at <= $2
            ORDER BY due_at, id LIMIT 1";
        // Whoever else takes a row of a target in hand is passed over.
        const FIRST_FREE: &str = "
            SELECT id FROM notifications
            WHERE target = $1 AND sent_at IS NULL AND dropped_at IS NULL AND due_at <= $2
            ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
        const TAKE: &str = "
            UPDATE notifications SET due_at = $1, tries = tries + 1 WHERE id = $2
            RETURNING id, target, (SELECT content FROM events WHERE events.id = event), created_at, tries";
        let until = now.later(lease).micros();
        let mut leased = Vec::new();
        for target in targets {
            let first: Option<Uuid> = match self {
                Self::Sqlite(transaction) => {
                    let first = sqlx::query_scalar(FIRST).bind(target).bind(now.micros());
                    first.fetch_optional(&mut **transaction).await?
                }
                Self::Postgres(transaction) => {
                    let first = sqlx::query_scalar(FIRST_FREE).bind(target).bind(now.micros());
                    first.fetch_optional(&mut **transaction).await?
                }
            };
            let Some(id) = first else { continue };
            let (id, target, content, created_at, tries): Row = on!(self, |connection| {
                sqlx::query_as(TAKE).bind(until).bind(id).fetch_one(connection).await?
            });
            let created_at = Timestamp::from_micros(created_at);
            leased.push(Leased { id, target, content, created_at, tries });
        }
        Ok(leased)
    }

    /// Records that a notification arrived.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn arrived(&mut self, notification: Uuid, target: Uuid, at: Timestamp) -> Result<(), Error> {
        const SENT: &str = "UPDATE notifications SET sent_at = $1, problem = NULL WHERE id = $2";
        const SUCCESS: &str = "UPDATE targets SET last_success_at = $1 WHERE id = $2";
        for (statement, id) in [(SENT, notification), (SUCCESS, target)] {
            on!(self, |connection| {
                sqlx::query(statement).bind(at.micros()).bind(id).execute(connection).await?;
            });
        }
        Ok(())
    }

    /// Records that a notification did not arrive; it is due again at `again`, unless it is given up then, as is
    /// whatever else waits for the target since before `oldest`. Says how many were given up.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn failed(&mut self, failed: &Failed<'_>, at: Timestamp) -> Result<u64, Error> {
        const AGAIN: &str = "
            UPDATE notifications SET problem = $1, due_at = $2
            WHERE id = $3 AND sent_at IS NULL AND dropped_at IS NULL";
        const DROP: &str = "
            UPDATE notifications SET dropped_at = $1, problem = COALESCE(problem, $2)
            WHERE target = $3 AND created_at < $4 AND sent_at IS NULL AND dropped_at IS NULL";
        const FAILURE: &str = "UPDATE targets SET last_failure_at = $1 WHERE id = $2";
        on!(self, |connection| {
            let again = sqlx::query(AGAIN).bind(failed.problem).bind(failed.again.micros());
            again.bind(failed.notification).execute(connection).await?;
        });
        on!(self, |connection| {
            sqlx::query(FAILURE).bind(at.micros()).bind(failed.target).execute(connection).await?;
        });
        Ok(on!(self, |connection| {
            let drop = sqlx::query(DROP).bind(at.micros()).bind(failed.problem).bind(failed.target);
            drop.bind(failed.oldest.micros()).execute(connection).await?.rows_affected()
        }))
    }

    /// What waits to be sent to targets that are open.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn backlog(&mut self) -> Result<Backlog, Error> {
        const SELECT: &str = "
            SELECT COUNT(*), MIN(n.created_at)
            FROM notifications n JOIN targets t ON t.id = n.target
            JOIN organizations o ON o.name = t.organization
            WHERE n.sent_at IS NULL AND n.dropped_at IS NULL AND t.closed_at IS NULL
              AND o.closed_at IS NULL";
        let (waiting, oldest): (i64, Option<i64>) =
            on!(self, |connection| sqlx::query_as(SELECT).fetch_one(connection).await?);
        Ok(Backlog { waiting, oldest: oldest.map(Timestamp::from_micros) })
    }
}
