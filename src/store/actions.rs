//! Reads actions and their targets, for the API and the pages.

use std::collections::BTreeMap;

use super::bootstrap::PublicAddress;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{DeliveryTimes, TargetKind, Timestamp, Trigger};
use crate::store::from_row::all_from_rows;

/// An open action.
#[derive(Debug, Clone)]
pub struct Action {
    /// Its number in its organization.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The environments that it applies to.
    pub environments: Vec<String>,
    /// The events that it sends.
    pub triggers: Vec<Trigger>,
    /// Where it sends them, in order of creation.
    pub targets: Vec<Target>,
    /// When the number was first used.
    pub created_at: Timestamp,
    /// When the action last changed.
    pub modified_at: Timestamp,
}

/// A target of an action.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: TargetKind,
    /// The part of its address that is not secret.
    pub address: PublicAddress,
    /// When a delivery last succeeded and last failed.
    pub deliveries: DeliveryTimes,
}

#[derive(sqlx::FromRow)]
struct ActionRow {
    number: i64,
    name: String,
    environments: String,
    triggers: String,
    created_at: i64,
    modified_at: i64,
}

impl ActionRow {
    fn parse(self, targets: Vec<Target>) -> Result<Action, Error> {
        let unreadable = |_| Error::Unreadable("an action");
        Ok(Action {
            number: self.number,
            name: self.name,
            environments: serde_json::from_str(&self.environments).map_err(unreadable)?,
            triggers: serde_json::from_str(&self.triggers).map_err(unreadable)?,
            targets,
            created_at: Timestamp::from_micros(self.created_at),
            modified_at: Timestamp::from_micros(self.modified_at),
        })
    }
}

#[derive(sqlx::FromRow)]
struct TargetRow {
    action: i64,
    name: String,
    kind: String,
    content: String,
    last_success_at: Option<i64>,
    last_failure_at: Option<i64>,
}

impl TargetRow {
    fn parse(self) -> Result<Target, Error> {
        let unreadable = || Error::Unreadable("a target");
        Ok(Target {
            name: self.name,
            kind: self.kind.parse().map_err(|_| unreadable())?,
            address: serde_json::from_str(&self.content).map_err(|_| unreadable())?,
            deliveries: DeliveryTimes {
                last_success_at: self.last_success_at.map(Timestamp::from_micros),
                last_failure_at: self.last_failure_at.map(Timestamp::from_micros),
            },
        })
    }
}

impl Transaction {
    /// The open actions of an organization by number, or the one with this number.
    pub async fn actions(&mut self, organization: &str, number: Option<i64>) -> Result<Vec<Action>, Error> {
        const SELECT: &str = "
            SELECT number, name, environments, triggers, created_at, modified_at FROM actions
            WHERE organization = $1 AND closed_at IS NULL AND ($2 IS NULL OR number = $2) ORDER BY number";
        let rows: Vec<ActionRow> = on!(self, |connection| {
            sqlx::query(SELECT)
                .bind(organization)
                .bind(number)
                .fetch_all(connection)
                .await
                .and_then(all_from_rows)?
        });
        let mut targets = self.targets_by_action(organization).await?;
        let action = |row: ActionRow| {
            let targets = targets.remove(&row.number).unwrap_or_default();
            row.parse(targets)
        };
        rows.into_iter().map(action).collect()
    }

    /// The open targets of each action.
    async fn targets_by_action(&mut self, organization: &str) -> Result<BTreeMap<i64, Vec<Target>>, Error> {
        const SELECT: &str = "
            SELECT action, name, kind, content, last_success_at, last_failure_at FROM targets
            WHERE organization = $1 AND closed_at IS NULL ORDER BY created_at, id";
        let rows: Vec<TargetRow> = on!(self, |connection| sqlx::query(SELECT)
            .bind(organization)
            .fetch_all(connection)
            .await
            .and_then(all_from_rows)?);
        let mut targets: BTreeMap<i64, Vec<Target>> = BTreeMap::new();
        for row in rows {
            targets.entry(row.action).or_default().push(row.parse()?);
        }
        Ok(targets)
    }
}
