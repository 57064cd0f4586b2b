//! Events, and the notifications that follow from them: the outbox is filled in the transaction of the event.

use sqlx::types::Uuid;

use super::transaction::{insert, on};
use super::{Error, Transaction};
use crate::domain::model::{Timestamp, Trigger};

/// An event as it is about to be recorded.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// What happened.
    pub trigger: Trigger,
    /// All that is said of it, as JSON.
    pub content: String,
}

/// Stands for every environment in an action's.
pub const EVERY: &str = "*";

impl Transaction {
    /// Records what happened in an environment, and puts it into the outbox for each target of each action
    /// that is for it; says how many notifications that are.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn insert_events(
        &mut self,
        organization: &str,
        (environment, name): (Uuid, &str),
        events: &[NewEvent],
        at: Timestamp,
    ) -> Result<usize, Error> {
        if events.is_empty() {
            return Ok(0);
        }
        let events: Vec<(Uuid, &NewEvent)> = events.iter().map(|event| (Uuid::now_v7(), event)).collect();
        insert!(
            self,
            "INSERT INTO events (id, organization, environment, kind, occurred_at, content) ",
            "",
            &events,
            |values, (id, event)| {
                values.push_bind(*id).push_bind(organization).push_bind(environment);
                values.push_bind(event.trigger.as_str()).push_bind(at.micros()).push_bind(&event.content);
            }
        );
        let wanted = self.targets_for(organization, name).await?;
        let notifications: Vec<(Uuid, Uuid)> = events
            .iter()
            .flat_map(|(id, event)| {
                let targets = wanted.iter().filter(|(_, triggers)| triggers.contains(&event.trigger));
                targets.map(|(target, _)| (*id, *target))
            })
            .collect();
        insert!(
            self,
            "INSERT INTO notifications (id, event, target, created_at, due_at, tries) ",
            "",
            &notifications,
            |values, (event, target)| {
                values.push_bind(Uuid::now_v7()).push_bind(*event).push_bind(*target);
                // Due at once, whatever time is recorded.
                values.push_bind(at.micros()).push_bind(0_i64).push_bind(0_i64);
            }
        );
        Ok(notifications.len())
    }

    /// The open targets of the actions that are for an environment, and what triggers them.
    async fn targets_for(
        &mut self,
        organization: &str,
        environment: &str,
    ) -> Result<Vec<(Uuid, Vec<Trigger>)>, Error> {
        const SELECT: &str = "
            SELECT t.id, a.environments, a.triggers
            FROM actions a JOIN targets t ON t.organization = a.organization AND t.action = a.number
            WHERE a.organization = $1 AND a.closed_at IS NULL AND t.closed_at IS NULL ORDER BY t.id";
        let rows: Vec<(Uuid, String, String)> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let unreadable = |_| Error::Unreadable("an action");
        let mut wanted = Vec::new();
        for (target, environments, triggers) in rows {
            let environments: Vec<String> = serde_json::from_str(&environments).map_err(unreadable)?;
            if environments.iter().any(|name| name == EVERY || name == environment) {
                wanted.push((target, serde_json::from_str(&triggers).map_err(unreadable)?));
            }
        }
        Ok(wanted)
    }
}
