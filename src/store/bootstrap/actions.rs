//! Actions and their targets: each change of an action is a row of its own; a target keeps its row, and with
//! it what is on its way there, for as long as its name and kind stay.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::{Action, Journal, Refused, Shown, Taken, Target};
use crate::domain::model::Timestamp;
use crate::store::columns::json;
use crate::store::transaction::on;
use crate::store::{Error, Transaction};

/// An action that is open: its row, number and, as they are compared, name, environments and triggers.
type Open = (Uuid, i64, String, String, String, i64);

fn content(action: &Action) -> (&str, String, String) {
    (&action.name, json(&action.environments), json(&action.triggers))
}

impl Transaction {
    pub(super) async fn reconcile_actions(
        &mut self,
        organization: &str,
        actions: &[Action],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Refused> {
        const CLOSE: &str = "UPDATE actions SET closed_at = $1 WHERE id = $2";
        let mut wanted: BTreeMap<i64, &Action> =
            actions.iter().map(|action| (action.number, action)).collect();
        for (id, number, name, environments, triggers, created_at) in self.open_actions(organization).await? {
            let Some(action) = wanted.remove(&number) else {
                self.close(CLOSE, id, now).await?;
                self.reconcile_targets(organization, number, &[], now).await?;
                journal.note(organization, format!("the action {number}, {name}, was closed"));
                continue;
            };
            let are_others = self.reconcile_targets(organization, number, &action.targets, now).await?;
            if are_others || content(action) != (name.as_str(), environments, triggers) {
                self.close(CLOSE, id, now).await?;
                self.insert_action(organization, action, created_at, now).await?;
                journal.note(organization, changed(action));
            }
        }
        for action in wanted.into_values() {
            if self.knows_action(organization, action.number).await? {
                let what = format!("action {}", action.number);
                return Err(Refused::Taken(Taken::closed(organization, what)));
            }
            self.reconcile_targets(organization, action.number, &action.targets, now).await?;
            self.insert_action(organization, action, now.micros(), now).await?;
            journal.note(organization, changed(action));
        }
        Ok(())
    }

    async fn open_actions(&mut self, organization: &str) -> Result<Vec<Open>, Error> {
        const SELECT: &str = "
            SELECT id, number, name, environments, triggers, created_at FROM actions
            WHERE organization = $1 AND closed_at IS NULL";
        Ok(on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?))
    }

    async fn knows_action(&mut self, organization: &str, number: i64) -> Result<bool, Error> {
        const COUNT: &str = "SELECT COUNT(*) FROM actions WHERE organization = $1 AND number = $2";
        let count: i64 = on!(self, |connection| {
            sqlx::query_scalar(COUNT).bind(organization).bind(number).fetch_one(connection).await?
        });
        Ok(count > 0)
    }

    async fn insert_action(
        &mut self,
        organization: &str,
        action: &Action,
        created_at: i64,
        now: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO actions (id, organization, number, name, environments, triggers, created_at, modified_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let (name, environments, triggers) = content(action);
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(action.number);
            let insert = insert.bind(name).bind(environments).bind(triggers).bind(created_at);
            insert.bind(now.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// Says whether they were others.
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
        const CLOSE: &str = "UPDATE targets SET closed_at = $1 WHERE id = $2";
        // What is on its way there goes nowhere.
        const DROP: &str = "
            UPDATE notifications SET dropped_at = $1, problem = 'its target was taken out'
            WHERE target = $2 AND sent_at IS NULL AND dropped_at IS NULL";
        const SHOW: &str = "UPDATE targets SET content = $1 WHERE id = $2";
        const INSERT: &str = "
            INSERT INTO targets (id, organization, action, name, kind, content, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let mut wanted: BTreeMap<&str, &Target> = targets.iter().map(|t| (t.name.as_str(), t)).collect();
        let open: Vec<(Uuid, String, String, String)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(action).fetch_all(connection).await?
        });
        let mut are_others = false;
        for (id, name, kind, content) in &open {
            match wanted.get(name.as_str()) {
                Some(target) if target.kind.as_str() == kind => {
                    let shown = json(&target.shown);
                    if shown != *content {
                        on!(self, |connection| {
                            sqlx::query(SHOW).bind(shown).bind(id).execute(connection).await?;
                        });
                        are_others = true;
                    }
                    wanted.remove(name.as_str());
                }
                _ => {
                    self.close(CLOSE, *id, now).await?;
                    self.close(DROP, *id, now).await?;
                    are_others = true;
                }
            }
        }
        for target in wanted.into_values() {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(action);
                let insert = insert.bind(&target.name).bind(target.kind.as_str()).bind(json(&target.shown));
                insert.bind(now.micros()).execute(connection).await?;
            });
            are_others = true;
        }
        Ok(are_others)
    }
}

fn changed(action: &Action) -> String {
    let Action { number, name, environments, triggers, targets } = action;
    let triggers: Vec<_> = triggers.iter().map(|trigger| trigger.as_str()).collect();
    let place = |target: &Target| {
        let Shown { webhook, recipients, .. } = &target.shown;
        let place = webhook.clone().unwrap_or_else(|| recipients.join(" and "));
        format!("{} at {place}", target.name)
    };
    let targets: Vec<_> = targets.iter().map(place).collect();
    let (environments, triggers, targets) =
        (environments.join(", "), triggers.join(", "), targets.join(", "));
    format!("the action {number}, {name}, sends {triggers} of {environments} to {targets}")
}
