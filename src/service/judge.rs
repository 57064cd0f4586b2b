//! How an environment stands, judged anew in the transaction that changed something, and what follows from
//! that: verdicts, events, notifications.

use super::app::App;
use super::clock::Clock;
use crate::domain::event::{self, Event};
use crate::domain::model::{EnvironmentName, Timestamp, Trigger};
use crate::domain::notification::{Cause, Content};
use crate::domain::standing::{self, Seen, Standing};
use crate::store::events::NewEvent;
use crate::store::reports::Environment;
use crate::store::{Error, Transaction};

/// What judging led to, to be told once the transaction is committed.
#[derive(Debug, Default)]
#[must_use = "the outbox has to be told"]
pub(super) struct Judged {
    triggers: Vec<Trigger>,
    notifications: usize,
}

/// An environment that is held, and where it is.
pub(super) struct Held<'a> {
    pub(super) organization: &'a str,
    pub(super) name: &'a EnvironmentName,
    pub(super) environment: &'a Environment,
    /// Its current snapshot.
    pub(super) snapshot: i64,
}

/// Judges an environment of which this is now seen, and which stood so before.
pub(super) async fn environment(
    transaction: &mut Transaction,
    held: Held<'_>,
    before: &Standing,
    seen: Seen,
    cause: &Cause,
    clock: &Clock,
    at: Timestamp,
) -> Result<Judged, Error> {
    let Held { organization, name, environment, snapshot } = held;
    let policy = transaction.policy(organization, name.as_str()).await?;
    let artifacts = seen.keys().copied();
    let evidence = transaction.evidence(organization, name.as_str(), policy.as_ref(), artifacts).await?;
    // By the clock, and not by when it is recorded, which may be later than what another clock wrote.
    let now = clock.now();
    let after = Standing::judged(name, policy.as_ref(), seen, &evidence, now);
    let until = standing::until(&evidence, now);
    transaction.keep_standing(environment.id, before, &after, until, at).await?;
    if snapshot > environment.snapshot {
        transaction.keep_with_snapshot(environment.id, snapshot, after.compliance).await?;
    }
    let events = event::between(before, &after);
    let triggers = events.iter().map(|event| event.trigger).collect();
    let said = |Event { trigger, artifacts, total }| Content {
        trigger,
        occurred_at: at,
        organization: organization.to_owned(),
        environment: name.to_string(),
        snapshot_index: snapshot,
        compliance: after.compliance.as_str().to_owned(),
        cause: cause.clone(),
        artifacts,
        artifacts_total: total,
    };
    let new = |content: Content| {
        let trigger = content.trigger;
        let content = serde_json::to_string(&content).map_err(|_| Error::Unreadable("an event"))?;
        Ok(NewEvent { trigger, content })
    };
    let events = events.into_iter().map(said).map(new).collect::<Result<Vec<_>, Error>>()?;
    let place = (environment.id, name.as_str());
    let notifications = transaction.insert_events(organization, place, &events, at).await?;
    Ok(Judged { triggers, notifications })
}

/// Judges an environment in which the same runs as before, if ever anything did.
pub(super) async fn again(
    transaction: &mut Transaction,
    organization: &str,
    name: &str,
    cause: &Cause,
    clock: &Clock,
) -> Result<Judged, Error> {
    let parsed = name.parse::<EnvironmentName>().map_err(|_| Error::Unreadable("an environment's name"))?;
    let held = transaction.environment(organization, name, clock.now()).await?;
    if held.snapshot == 0 {
        return Ok(Judged::default());
    }
    let at = clock.now().after(held.judged_at);
    let before = Standing { artifacts: transaction.standing(held.id).await?, compliance: held.compliance };
    let seen =
        before.artifacts.iter().map(|(artifact, is)| (*artifact, (is.name.clone(), is.pods))).collect();
    let subject = Held { organization, name: &parsed, environment: &held, snapshot: held.snapshot };
    environment(transaction, subject, &before, seen, cause, clock, at).await
}

impl Judged {
    /// This and what judging another environment led to.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.triggers.extend(other.triggers);
        self.notifications += other.notifications;
        self
    }

    /// Counts what happened, and wakes those who send notifications: once all of it is committed.
    pub(super) fn tell(self, app: &App) {
        for trigger in self.triggers {
            app.metrics.happened(trigger);
        }
        if self.notifications > 0 {
            app.outbox.notify_one();
        }
    }
}
