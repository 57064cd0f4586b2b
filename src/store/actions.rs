//! Actions, as they are shown.

use std::collections::BTreeMap;

use super::bootstrap::Shown;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Sent, TargetKind, Timestamp, Trigger};

/// An action that is open.
#[derive(Debug, Clone)]
pub struct Action {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The environments that it is for.
    pub environments: Vec<String>,
    /// What has to happen.
    pub triggers: Vec<Trigger>,
    /// Where it is sent, by name.
    pub targets: Vec<Target>,
    /// When the number was first there.
    pub created_at: Timestamp,
    /// Since when it is as it is.
    pub modified_at: Timestamp,
}

/// A target of an action.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: TargetKind,
    /// As much of its address as everybody may see.
    pub shown: Shown,
    /// When something was last sent there.
    pub sent: Sent,
}

impl Transaction {
    /// The open actions of an organization by number, or the one of this number.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn actions(&mut self, organization: &str, number: Option<i64>) -> Result<Vec<Action>, Error> {
        type Row = (i64, String, String, String, i64, i64);
        const SELECT: &str = "
            SELECT number, name, environments, triggers, created_at, modified_at FROM actions
            WHERE organization = $1 AND closed_at IS NULL AND ($2 IS NULL OR number = $2) ORDER BY number";
        let rows: Vec<Row> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(number).fetch_all(connection).await?
        });
        let mut targets = self.targets_of(organization).await?;
        let unreadable = |_| Error::Unreadable("an action");
        rows.into_iter()
            .map(|(number, name, environments, triggers, created_at, modified_at)| {
                Ok(Action {
                    number,
                    name,
                    environments: serde_json::from_str(&environments).map_err(unreadable)?,
                    triggers: serde_json::from_str(&triggers).map_err(unreadable)?,
                    targets: targets.remove(&number).unwrap_or_default(),
                    created_at: Timestamp::from_micros(created_at),
                    modified_at: Timestamp::from_micros(modified_at),
                })
            })
            .collect()
    }

    /// The open targets of each action.
    async fn targets_of(&mut self, organization: &str) -> Result<BTreeMap<i64, Vec<Target>>, Error> {
        type Row = (i64, String, String, String, Option<i64>, Option<i64>);
        const SELECT: &str = "
            SELECT action, name, kind, content, last_success_at, last_failure_at FROM targets
            WHERE organization = $1 AND closed_at IS NULL ORDER BY created_at, id";
        let rows: Vec<Row> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut targets: BTreeMap<i64, Vec<Target>> = BTreeMap::new();
        for (action, name, kind, content, success, failure) in rows {
            targets.entry(action).or_default().push(Target {
                name,
                kind: kind.parse().map_err(|_| Error::Unreadable("a target"))?,
                shown: serde_json::from_str(&content).map_err(|_| Error::Unreadable("a target"))?,
                sent: Sent {
                    last_success_at: success.map(Timestamp::from_micros),
                    last_failure_at: failure.map(Timestamp::from_micros),
                },
            });
        }
        Ok(targets)
    }
}
