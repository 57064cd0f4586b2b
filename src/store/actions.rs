//! Reads actions and their targets, for the API and the pages.

use std::collections::BTreeMap;

use super::bootstrap::PublicAddress;
use super::columns::Json;
use super::transaction::fetch_all;
use super::{Error, Transaction};
use crate::domain::model::{DeliveryTimes, TargetKind, Timestamp, Trigger};

/// An open action.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Action {
    /// Its number in its organization.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The environments that it applies to.
    #[sqlx(try_from = "Json<Vec<String>>")]
    pub environments: Vec<String>,
    /// The events that it sends.
    #[sqlx(try_from = "Json<Vec<Trigger>>")]
    pub triggers: Vec<Trigger>,
    /// Where it sends them, in order of creation.
    #[sqlx(skip)]
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
struct TargetRow {
    action: i64,
    name: String,
    kind: TargetKind,
    content: Json<PublicAddress>,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
}

impl From<TargetRow> for Target {
    fn from(row: TargetRow) -> Self {
        let TargetRow { name, kind, content: Json(address), last_success_at, last_failure_at, .. } = row;
        Self { name, kind, address, deliveries: DeliveryTimes { last_success_at, last_failure_at } }
    }
}

impl Transaction {
    /// The open actions of an organization by number, or the one with this number.
    pub async fn actions(&mut self, organization: &str, number: Option<i64>) -> Result<Vec<Action>, Error> {
        const SELECT: &str = "
            SELECT number, name, environments, triggers, created_at, modified_at FROM actions
            WHERE organization = $1 AND closed_at IS NULL AND ($2 IS NULL OR number = $2) ORDER BY number";
        let mut actions: Vec<Action> = fetch_all!(self, SELECT, organization, number);
        let mut targets = self.targets_by_action(organization).await?;
        for action in &mut actions {
            action.targets = targets.remove(&action.number).unwrap_or_default();
        }
        Ok(actions)
    }

    /// The open targets of each action.
    async fn targets_by_action(&mut self, organization: &str) -> Result<BTreeMap<i64, Vec<Target>>, Error> {
        const SELECT: &str = "
            SELECT action, name, kind, content, last_success_at, last_failure_at FROM targets
            WHERE organization = $1 AND closed_at IS NULL ORDER BY created_at, id";
        let rows: Vec<TargetRow> = fetch_all!(self, SELECT, organization);
        let mut targets: BTreeMap<i64, Vec<Target>> = BTreeMap::new();
        for row in rows {
            targets.entry(row.action).or_default().push(row.into());
        }
        Ok(targets)
    }
}
