//! Records events and, in the same transaction, their notifications in the outbox.

use sqlx::types::Uuid;

use super::transaction::{insert, on};
use super::{Error, Transaction};
use crate::domain::model::{Timestamp, Trigger};
use crate::store::from_row::all_from_rows;

/// An event to be recorded.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The environment.
    pub environment: Uuid,
    /// Its name.
    pub name: String,
    /// The kind of event.
    pub trigger: Trigger,
    /// Its content as JSON.
    pub content: String,
}

/// In an action's list of environments: all environments.
pub const ALL_ENVIRONMENTS: &str = "*";

impl Transaction {
    /// Records events, and a notification for each target of each matching action. Returns the number of
    /// notifications.
    pub async fn insert_events(
        &mut self,
        organization: &str,
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
                values.push_bind(*id).push_bind(organization).push_bind(event.environment);
                values.push_bind(event.trigger.as_str()).push_bind(at.micros()).push_bind(&event.content);
            }
        );
        let targets = self.targets(organization).await?;
        let notifications: Vec<(Uuid, Uuid)> = events
            .iter()
            .flat_map(|(id, event)| {
                targets.iter().filter(|target| target.matches(event)).map(|target| (*id, target.id))
            })
            .collect();
        insert!(
            self,
            "INSERT INTO notifications (id, event, target, created_at, due_at, attempts) ",
            "",
            &notifications,
            |values, (event, target)| {
                values.push_bind(Uuid::now_v7()).push_bind(*event).push_bind(*target);
                // 0: due immediately, independent of clocks.
                values.push_bind(at.micros()).push_bind(0_i64).push_bind(0_i64);
            }
        );
        Ok(notifications.len())
    }

    /// The open targets of an organization's actions.
    async fn targets(&mut self, organization: &str) -> Result<Vec<Target>, Error> {
        const SELECT: &str = "
            SELECT t.id, a.environments, a.triggers
            FROM actions a JOIN targets t ON t.organization = a.organization AND t.action = a.number
            WHERE a.organization = $1 AND a.closed_at IS NULL AND t.closed_at IS NULL ORDER BY t.id";
        let rows: Vec<(Uuid, String, String)> = on!(self, |connection| sqlx::query(SELECT)
            .bind(organization)
            .fetch_all(connection)
            .await
            .and_then(all_from_rows)?);
        let unreadable = |_| Error::Unreadable("an action");
        let target = |(id, environments, triggers): (Uuid, String, String)| {
            Ok(Target {
                id,
                environments: serde_json::from_str(&environments).map_err(unreadable)?,
                triggers: serde_json::from_str(&triggers).map_err(unreadable)?,
            })
        };
        rows.into_iter().map(target).collect()
    }
}

/// A target with the filters of its action.
struct Target {
    id: Uuid,
    environments: Vec<String>,
    triggers: Vec<Trigger>,
}

impl Target {
    fn matches(&self, event: &NewEvent) -> bool {
        self.environments.iter().any(|name| name == ALL_ENVIRONMENTS || *name == event.name)
            && self.triggers.contains(&event.trigger)
    }
}
