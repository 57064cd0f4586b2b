//! The outbox: pending notifications, which any replica may lease and send.
//!
//! A replica leases a target and moves the due time of one notification, so that another replica sends it if this one is
//! killed. A target gets one notification at a time, so that only a failed one arrives after later ones. Delivery is at least
//! once, always with the same identifier.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::types::Uuid;

use crate::database::columns::{Json, json};
use crate::database::transaction::{execute, fetch_all, fetch_one, fetch_optional_scalar};
use crate::{Error, Tenant, Transaction};
use model::{TargetKind, Timestamp, Trigger};

/// An open target with a due notification.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct DueTarget {
    pub id: Uuid,
    pub organization: String,
    /// The action's number.
    pub action: i64,
    pub action_name: String,
    /// Its name within the action.
    pub name: String,
    pub kind: TargetKind,
    /// Since when its first notification is due.
    due_at: Option<Timestamp>,
}

/// A notification that only this replica sends until the lease ends.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct LeasedNotification {
    pub organization: String,
    /// Its identifier, the same for each attempt.
    pub id: Uuid,
    /// The identifier of the target's row.
    pub target: Uuid,
    pub leased_until: Timestamp,
    pub environment: Uuid,
    /// The event as JSON.
    pub content: String,
    /// Number of attempts, including this one.
    pub attempts: i64,
    /// Number of earlier events that were merged into it.
    pub merged_events: i64,
    /// The recipients of mail that need no further attempt.
    #[sqlx(try_from = "Json<Option<Recipients>>")]
    pub recipients: Recipients,
}

/// Recipients of mail, and why the mail server refused them; `None`: it took the mail.
pub type Recipients = BTreeMap<String, Option<String>>;

impl From<Json<Option<Self>>> for Recipients {
    fn from(Json(recipients): Json<Option<Self>>) -> Self {
        recipients.unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct OutboxBacklog {
    pub waiting: i64,
    pub oldest: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct FailedAttempt<'a> {
    pub error: &'a str,
    pub at: Timestamp,
    pub retry_at: Timestamp,
    /// Until then, the target wants no notification at all.
    pub paused_until: Option<Timestamp>,
    /// The target's notifications that were created before this time are dropped.
    pub drop_before: Timestamp,
    /// The recipients of mail that need no further attempt.
    pub recipients: &'a Recipients,
}

/// Ends a lease, unless another replica leased the target since.
const RETURN: &str =
    "UPDATE targets SET leased_until = 0 WHERE organization = $1 AND id = $2 AND leased_until = $3";

/// The latest end of a lease that the current clock can have made. One that ends later is from before the clock was set
/// back, and has no effect.
fn latest_end(now: Timestamp, lease: Duration) -> Timestamp {
    now.later(lease * 2)
}

/// The open targets with a due notification that no replica leases and that are not paused, longest overdue first. A pause
/// that ends after `max_pause` is from before the clock was set back.
pub async fn due_targets(
    transaction: &mut Transaction,
    now: Timestamp,
    lease: Duration,
    max_pause: Duration,
) -> Result<Vec<DueTarget>, Error> {
    // One index lookup per target, however many notifications are pending.
    const SELECT: &str = "
        SELECT t.id, t.organization, t.action, a.name AS action_name, t.name, t.kind,
               (SELECT MIN(n.due_at) FROM notifications n
                WHERE n.organization = t.organization AND n.target = t.id
                  AND n.sent_at IS NULL AND n.dropped_at IS NULL) AS due_at
        FROM organizations o
          JOIN targets t ON t.organization = o.name
          JOIN actions a ON a.organization = o.name AND a.number = t.action
        WHERE t.closed_at IS NULL AND a.closed_at IS NULL AND o.closed_at IS NULL
          AND NOT (t.leased_until > $1 AND t.leased_until <= $2)
          AND NOT (t.paused_until > $1 AND t.paused_until <= $3)";
    let mut targets: Vec<DueTarget> =
        fetch_all!(transaction, SELECT, now, latest_end(now, lease), now.later(max_pause));
    targets.retain(|target| target.due_at.is_some_and(|at| at <= now));
    targets.sort_by_key(|target| target.due_at);
    Ok(targets)
}

/// Leases these targets, except those that another replica leases, with the first due notification of each: first those
/// about compliance, then the longest overdue.
pub async fn lease(
    transaction: &mut Transaction,
    targets: impl IntoIterator<Item = &DueTarget>,
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<LeasedNotification>, Error> {
    const FIRST: &str = "
        SELECT id FROM notifications
        WHERE organization = $1 AND target = $2 AND COALESCE(sent_at, dropped_at) IS NULL AND due_at <= $3
        ORDER BY priority, due_at, id LIMIT 1";
    const TAKE: &str = "
        UPDATE targets SET leased_until = $1
        WHERE organization = $2 AND id = $3 AND NOT (leased_until > $4 AND leased_until <= $5)";
    // Does not wait for others that have locked the target.
    const TAKE_FREE: &str = "
        UPDATE targets SET leased_until = $1
        WHERE organization = $2 AND id =
          (SELECT id FROM targets
           WHERE organization = $2 AND id = $3 AND NOT (leased_until > $4 AND leased_until <= $5)
           FOR NO KEY UPDATE SKIP LOCKED)";
    // Skips rows that another replica is leasing, or that are being merged.
    const FIRST_FREE: &str = "
        SELECT id FROM notifications
        WHERE organization = $1 AND target = $2 AND COALESCE(sent_at, dropped_at) IS NULL AND due_at <= $3
        ORDER BY priority, due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
    const LEASE: &str = "
        UPDATE notifications SET due_at = $1, attempts = attempts + 1 WHERE organization = $2 AND id = $3
        RETURNING organization, id, target, due_at AS leased_until, environment,
                  (SELECT v.content FROM events v WHERE v.organization = $2 AND v.id = event) AS content,
                  attempts, merged_events, recipients";
    let until = now.later(lease).micros();
    let mut leased = Vec::new();
    for DueTarget { organization, id: target, .. } in targets {
        // Before its notifications, as in `record_failure`.
        let take = if matches!(transaction, Transaction::Sqlite(_)) { TAKE } else { TAKE_FREE };
        if execute!(transaction, take, until, organization, target, now, latest_end(now, lease)) == 0 {
            continue;
        }
        let first = if matches!(transaction, Transaction::Sqlite(_)) { FIRST } else { FIRST_FREE };
        let id: Option<Uuid> = fetch_optional_scalar!(transaction, first, organization, target, now);
        let Some(id) = id else {
            execute!(transaction, RETURN, organization, target, until);
            continue;
        };
        leased.push(fetch_one!(transaction, LEASE, until, organization, id));
    }
    Ok(leased)
}

/// Records that a notification was sent; `refused` names the recipients that it did not reach. Locks the target before the
/// notification, as [`record_failure`] does, so that replicas cannot deadlock.
pub async fn record_sent(
    transaction: &mut Transaction,
    leased: &LeasedNotification,
    refused: Option<&str>,
    at: Timestamp,
) -> Result<(), Error> {
    const SENT: &str = "
        UPDATE notifications SET sent_at = $1, last_error = $2, recipients = NULL WHERE organization = $3 AND id = $4";
    const SUCCESS: &str = "
        UPDATE targets
        SET last_success_at = $1, last_error = $2, last_failure_at = CASE WHEN $3 THEN $1 ELSE last_failure_at END
        WHERE organization = $4 AND id = $5";
    let organization = &leased.organization;
    execute!(transaction, SUCCESS, at, refused, refused.is_some(), organization, leased.target);
    execute!(transaction, RETURN, organization, leased.target, leased.leased_until);
    execute!(transaction, SENT, at, refused, organization, leased.id);
    Ok(())
}

/// Records a failed attempt: schedules the retry, and drops the target's notifications that are too old.
/// Returns the number of dropped notifications.
///
/// The lock of the target makes other replicas wait that drop the same notifications.
pub async fn record_failure(
    transaction: &mut Transaction,
    leased: &LeasedNotification,
    FailedAttempt { error, at, retry_at, paused_until, drop_before, recipients }: FailedAttempt<'_>,
) -> Result<u64, Error> {
    const RETRY: &str = "
        UPDATE notifications SET last_error = $1, due_at = $2, recipients = $3
        WHERE organization = $4 AND id = $5 AND sent_at IS NULL AND dropped_at IS NULL";
    const DROP: &str = "
        UPDATE notifications SET dropped_at = $1, last_error = COALESCE(last_error, $2)
        WHERE organization = $3 AND target = $4 AND created_at < $5 AND COALESCE(sent_at, dropped_at) IS NULL";
    const FAILURE: &str = "
        UPDATE targets SET last_failure_at = $1, last_error = $2, paused_until = COALESCE($3, paused_until)
        WHERE organization = $4 AND id = $5";
    let LeasedNotification { organization, id, target, leased_until, .. } = leased;
    let recipients = if recipients.is_empty() { None } else { Some(json(recipients)?) };
    execute!(transaction, FAILURE, at, error, paused_until, organization, target);
    execute!(transaction, RETURN, organization, target, leased_until);
    execute!(transaction, RETRY, error, retry_at, recipients, organization, id);
    Ok(execute!(transaction, DROP, at, error, organization, target, drop_before))
}

/// Whether a later event began or ended the condition of a notification's event, and has a notification for its target.
pub async fn is_superseded(tenant: &mut Tenant<'_>, notification: Uuid) -> Result<bool, Error> {
    const SELECT: &str = "
        SELECT e.kind, later.kind
        FROM notifications n JOIN events e ON e.organization = n.organization AND e.id = n.event
          JOIN events later ON later.organization = n.organization AND later.environment = e.environment
            AND later.occurred_at > e.occurred_at
          JOIN notifications m ON m.organization = n.organization AND m.event = later.id AND m.target = n.target
        WHERE n.organization = $1 AND n.id = $2
          AND later.kind IN ('ON_NON_COMPLIANT_ENV', 'ON_COMPLIANT_ENV', 'ON_SILENT_ENV', 'ON_REPORTING_ENV')";
    let kinds: Vec<(String, String)> = fetch_all!(tenant.tx, SELECT, tenant.name, notification);
    let condition = |kind: &str| kind.parse::<Trigger>().ok().and_then(Trigger::condition);
    Ok(kinds.iter().any(|(kind, later)| condition(kind) == condition(later)))
}

/// The pending notifications for open targets.
pub async fn backlog(transaction: &mut Transaction) -> Result<OutboxBacklog, Error> {
    const SELECT: &str = "
        SELECT COUNT(*) AS waiting, MIN(n.created_at) AS oldest
        FROM organizations o
          JOIN notifications n ON n.organization = o.name
          JOIN targets t ON t.organization = o.name AND t.id = n.target
        WHERE n.sent_at IS NULL AND n.dropped_at IS NULL AND t.closed_at IS NULL
          AND o.closed_at IS NULL";
    Ok(fetch_one!(transaction, SELECT))
}
