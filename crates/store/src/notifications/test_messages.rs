//! Tests of actions: notifications that are attempted once, when an administrator asks for it.

use std::time::Duration;

use crate::database::columns::json;
use crate::database::transaction::{execute, fetch_all, insert};
use crate::environments::events::first_environment;
use crate::notifications::outbox::{DueTarget, LeasedNotification, Recipients};
use crate::{Error, Tenant, Transaction};
use model::Timestamp;
use rules::notification::EventContent;

/// The open targets of an open action.
pub async fn targets(tenant: &mut Tenant<'_>, action: i64) -> Result<Vec<DueTarget>, Error> {
    const SELECT: &str = "
        SELECT t.id, t.organization, t.action, a.name AS action_name, t.name, t.kind, CAST(NULL AS BIGINT) AS due_at
        FROM actions a JOIN targets t ON t.organization = a.organization AND t.action = a.number
        WHERE a.organization = $1 AND a.number = $2 AND a.closed_at IS NULL AND t.closed_at IS NULL
        ORDER BY t.name";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, action))
}

/// Records a test and its notifications, in the order of the targets, whose first attempt begins now. `None` if the
/// organization has no environment. If this process is killed, another attempt follows after the lease.
pub async fn insert_notifications(
    tenant: &mut Tenant<'_>,
    content: &EventContent,
    targets: &[DueTarget],
    at: Timestamp,
    lease: Duration,
) -> Result<Option<Vec<LeasedNotification>>, Error> {
    const EVENT: &str = "
        INSERT INTO events (organization, id, environment, kind, occurred_at, content)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let Some(environment) = first_environment(tenant).await? else { return Ok(None) };
    let (event, kind, leased_until) = (crate::new_id(), content.trigger(), at.later(lease));
    let content = json(content)?;
    execute!(tenant.tx, EVENT, tenant.name, event, environment, kind, at, content.as_str());
    let leased = targets.iter().map(|target| LeasedNotification {
        organization: tenant.name.to_owned(),
        id: crate::new_id(),
        target: target.id,
        leased_until,
        environment,
        content: content.clone(),
        attempts: 1,
        merged_events: 0,
        recipients: Recipients::default(),
    });
    let leased: Vec<_> = leased.collect();
    insert!(
        tenant.tx,
        "INSERT INTO notifications (organization, id, event, target, created_at, due_at, attempts, environment, kind,
                                    priority, merged_events) ",
        "",
        &leased,
        |values, LeasedNotification { id, target, .. }| {
            values.push_bind(tenant.name).push_bind(*id).push_bind(event).push_bind(*target);
            values.push_bind(at).push_bind(leased_until).push_bind(1_i64);
            values.push_bind(environment).push_bind(kind).push_bind(0_i64).push_bind(0_i64);
        }
    );
    Ok(Some(leased))
}

/// Records that a test was not delivered. It is not retried: whoever asked for it sees the failure.
pub async fn record_failure(
    transaction: &mut Transaction,
    leased: &LeasedNotification,
    last_error: &str,
    at: Timestamp,
) -> Result<(), Error> {
    const DROP: &str = "
        UPDATE notifications SET last_error = $1, dropped_at = $2 WHERE organization = $3 AND id = $4";
    const FAILURE: &str = "UPDATE targets SET last_failure_at = $1 WHERE organization = $2 AND id = $3";
    let LeasedNotification { organization, id, target, .. } = leased;
    execute!(transaction, FAILURE, at, organization, target);
    execute!(transaction, DROP, last_error, at, organization, id);
    Ok(())
}
