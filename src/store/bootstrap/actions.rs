//! Reconciles actions and their targets.
//!
//! Each change of an action is a new row. A target keeps its row, and its pending notifications, as long as its name
//! and kind stay the same.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::{Action, Journal, PublicAddress, ReconcileError, Target};
use crate::domain::model::Timestamp;
use crate::store::columns::json;
use crate::store::transaction::{execute, fetch_all, fetch_scalar, on};
use crate::store::{Error, Transaction};

/// An open action; environments and triggers are JSON.
#[derive(sqlx::FromRow)]
struct OpenAction {
    id: Uuid,
    number: i64,
    name: String,
    environments: String,
    triggers: String,
    created_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct OpenTarget {
    id: Uuid,
    name: String,
    kind: String,
    content: String,
}

/// The columns of an action that are compared.
fn columns(action: &Action) -> Result<(&str, String, String), Error> {
    Ok((&action.name, json(&action.environments)?, json(&action.triggers)?))
}

impl Transaction {
    pub(super) async fn reconcile_actions(
        &mut self,
        organization: &str,
        actions: &[Action],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), ReconcileError> {
        const CLOSE: &str = "UPDATE actions SET closed_at = $1 WHERE organization = $2 AND id = $3";
        let mut wanted: BTreeMap<i64, &Action> =
            actions.iter().map(|action| (action.number, action)).collect();
        for open in self.open_actions(organization).await? {
            let (id, number, name) = (open.id, open.number, open.name.as_str());
            let Some(action) = wanted.remove(&number) else {
                self.close(CLOSE, organization, id, now).await?;
                self.reconcile_targets(organization, number, &[], now).await?;
                journal.record(organization, format!("the action {number}, {name}, was removed"));
                continue;
            };
            let targets_changed = self.reconcile_targets(organization, number, &action.targets, now).await?;
            if targets_changed || columns(action)? != (name, open.environments, open.triggers) {
                self.close(CLOSE, organization, id, now).await?;
                self.insert_action(organization, action, open.created_at, now).await?;
                journal.record(organization, describe(action));
            }
        }
        for action in wanted.into_values() {
            if self.action_exists(organization, action.number).await? {
                let subject = format!("action {}", action.number);
                return Err(ReconcileError::number_was_removed(organization, subject));
            }
            self.reconcile_targets(organization, action.number, &action.targets, now).await?;
            self.insert_action(organization, action, now, now).await?;
            journal.record(organization, describe(action));
        }
        Ok(())
    }

    async fn open_actions(&mut self, organization: &str) -> Result<Vec<OpenAction>, Error> {
        const SELECT: &str = "
            SELECT id, number, name, environments, triggers, created_at FROM actions
            WHERE organization = $1 AND closed_at IS NULL";
        Ok(fetch_all!(self, SELECT, organization))
    }

    async fn action_exists(&mut self, organization: &str, number: i64) -> Result<bool, Error> {
        const COUNT: &str = "SELECT COUNT(*) FROM actions WHERE organization = $1 AND number = $2";
        let count: i64 = fetch_scalar!(self, COUNT, organization, number);
        Ok(count > 0)
    }

    async fn insert_action(
        &mut self,
        organization: &str,
        action: &Action,
        created_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO actions (id, organization, number, name, environments, triggers, created_at, modified_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let (name, environments, triggers) = columns(action)?;
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(action.number);
            let insert = insert.bind(name).bind(environments).bind(triggers).bind(created_at);
            insert.bind(now.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// Returns whether a target changed.
    async fn reconcile_targets(
        &mut self,
        organization: &str,
        action: i64,
        targets: &[Target],
        now: Timestamp,
    ) -> Result<bool, Error> {
        const SELECT: &str = "
            SELECT id, name, kind, content FROM targets
            WHERE organization = $1 AND action = $2 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE targets SET closed_at = $1 WHERE organization = $2 AND id = $3";
        // Drops the pending notifications of a removed target.
        const DROP: &str = "
            UPDATE notifications SET dropped_at = $1, last_error = 'the target was removed'
            WHERE organization = $2 AND target = $3 AND sent_at IS NULL AND dropped_at IS NULL";
        const UPDATE: &str = "UPDATE targets SET content = $1 WHERE organization = $2 AND id = $3";
        const INSERT: &str = "
            INSERT INTO targets (id, organization, action, name, kind, content, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let mut wanted: BTreeMap<&str, &Target> = targets.iter().map(|t| (t.name.as_str(), t)).collect();
        let open: Vec<OpenTarget> = fetch_all!(self, SELECT, organization, action);
        let mut changed = false;
        for open in &open {
            match wanted.get(open.name.as_str()) {
                Some(target) if target.kind.as_str() == open.kind => {
                    let address = json(&target.address)?;
                    if address != open.content {
                        execute!(self, UPDATE, address, organization, open.id);
                        changed = true;
                    }
                    wanted.remove(open.name.as_str());
                }
                _ => {
                    self.close(CLOSE, organization, open.id, now).await?;
                    self.close(DROP, organization, open.id, now).await?;
                    changed = true;
                }
            }
        }
        for target in wanted.into_values() {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(action);
                let insert =
                    insert.bind(&target.name).bind(target.kind.as_str()).bind(json(&target.address)?);
                insert.bind(now.micros()).execute(connection).await?;
            });
            changed = true;
        }
        Ok(changed)
    }
}

/// Describes an action for the audit log.
fn describe(action: &Action) -> String {
    let Action { number, name, environments, triggers, targets } = action;
    let triggers: Vec<_> = triggers.iter().map(|trigger| trigger.as_str()).collect();
    let target = |target: &Target| {
        let PublicAddress { webhook, recipients, .. } = &target.address;
        let address = webhook.clone().unwrap_or_else(|| recipients.join(" and "));
        format!("{} at {address}", target.name)
    };
    let targets: Vec<_> = targets.iter().map(target).collect();
    let (environments, triggers, targets) =
        (environments.join(", "), triggers.join(", "), targets.join(", "));
    format!("the action {number}, {name}, sends {triggers} of {environments} to {targets}")
}
