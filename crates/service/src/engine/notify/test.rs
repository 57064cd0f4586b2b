//! Tests of actions.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::notify::{Sender, read_and_send, refusal};
use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::{TargetKind, Trigger};
use rules::notification::{EventContent, TestContent};
use runtime::error_causes;
use store::notifications::outbox::{DueTarget, LeasedNotification};
use store::notifications::{outbox, test_messages};

/// A target, and why a test did not reach it.
pub(crate) struct TestedTarget {
    pub(crate) name: String,
    pub(crate) kind: TargetKind,
    pub(crate) error: Option<String>,
}

/// Sends a test to each target of an action, at once and one time, and records the deliveries.
pub(crate) async fn send(
    app: &App,
    caller: &Caller,
    organization: &str,
    action: i64,
) -> Result<Vec<TestedTarget>, Problem> {
    let (now, lease) = (app.site.now(), app.limits.delivery.lease);
    let mut transaction = app.site.store.write().await?;
    let tenant = &mut transaction.of(organization);
    let targets = test_messages::targets(tenant, action).await?;
    if targets.is_empty() {
        return Err(Problem::not_found(format!("action {action} not found")));
    }
    let content = EventContent::Test(TestContent {
        trigger: Trigger::Test,
        occurred_at: now,
        organization: organization.to_owned(),
        tested_by: caller.name.clone(),
    });
    let leased = test_messages::insert_notifications(tenant, &content, &targets, now, lease).await?;
    let leased = leased.ok_or_else(|| {
        Problem::invalid("the organization has no environment: declare or report one first")
    })?;
    let audit = Audit::from_token(&caller.name, organization, format!("tested the action {action}"));
    audit.record(&mut transaction, now).await?;
    transaction.commit().await?;
    audit.log();
    let sender = Sender::current(app, None).map_err(|error| {
        tracing::error!("failed to create an HTTP client: {}", error_causes::describe(&error));
        Problem::defect()
    })?;
    let attempts = targets.into_iter().zip(leased);
    let attempts = attempts.map(|(target, leased)| attempt(app, Arc::clone(&sender), target, leased));
    join_all(attempts).await.into_iter().collect()
}

async fn attempt(
    app: &App,
    sender: Arc<Sender>,
    target: DueTarget,
    leased: LeasedNotification,
) -> Result<TestedTarget, Problem> {
    let sent = read_and_send(app, &sender, &target, &leased).await;
    app.metrics.notification(target.kind, if sent.is_ok() { "arrived" } else { "failed" });
    let error = match &sent {
        Ok(recipients) => refusal(recipients),
        Err(error) => Some(error_causes::describe(error)),
    };
    let mut transaction = app.site.store.write().await?;
    match &error {
        None => outbox::record_sent(&mut transaction, &leased, None, app.site.now()).await?,
        Some(error) => {
            test_messages::record_failure(&mut transaction, &leased, error, app.site.now()).await?;
        }
    }
    transaction.commit().await?;
    Ok(TestedTarget { name: target.name, kind: target.kind, error })
}
