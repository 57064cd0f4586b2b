//! Reconciles actions and their targets.
//!
//! Each change of an action is a new row. A target keeps its row, and its pending notifications, as long as its name
//! and kind stay the same.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use crate::Error;
use crate::bootstrap::file::{Action, Target};
use crate::bootstrap::{ReconcileError, Reconciliation};
use crate::database::columns::json;
use crate::database::transaction::{execute, fetch_scalar};
use crate::notifications::actions;
use crate::notifications::actions::PublicAddress;
use model::{TargetKind, Timestamp};

impl Reconciliation<'_> {
    pub(crate) async fn actions(&mut self, actions: &[Action]) -> Result<(), ReconcileError> {
        const USED: &str = "SELECT COUNT(*) FROM actions WHERE organization = $1 AND number = $2";
        let mut declared: BTreeMap<i64, &Action> =
            actions.iter().map(|action| (action.number, action)).collect();
        for open in crate::notifications::actions::list(&mut self.tenant, None).await? {
            let Some(action) = declared.remove(&open.number) else {
                self.close_action(open.number).await?;
                self.targets(open.number, &open.targets, &[]).await?;
                self.record(format!("the action {}, {}, was removed", open.number, open.name));
                continue;
            };
            let have_targets_changed = self.targets(open.number, &open.targets, &action.targets).await?;
            if have_targets_changed
                || (action.name.as_str(), &action.environments, &action.triggers)
                    != (open.name.as_str(), &open.environments, &open.triggers)
            {
                self.close_action(open.number).await?;
                self.insert_action(action, open.created_at).await?;
            }
        }
        for action in declared.into_values() {
            let used: i64 = fetch_scalar!(self.tenant.tx, USED, self.tenant.name, action.number);
            if used > 0 {
                let subject = format!("action {}", action.number);
                return Err(self.number_conflict(&subject, "was removed from the file before"));
            }
            self.targets(action.number, &[], &action.targets).await?;
            self.insert_action(action, self.now).await?;
        }
        Ok(())
    }

    async fn close_action(&mut self, number: i64) -> Result<(), Error> {
        const CLOSE: &str = "
            UPDATE actions SET closed_at = $1 WHERE organization = $2 AND number = $3 AND closed_at IS NULL";
        execute!(self.tenant.tx, CLOSE, self.now, self.tenant.name, number);
        Ok(())
    }

    async fn insert_action(&mut self, action: &Action, created_at: Timestamp) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO actions (id, organization, number, name, environments, triggers, created_at, modified_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        execute!(
            self.tenant.tx,
            INSERT,
            crate::new_id(),
            self.tenant.name,
            action.number,
            action.name.as_str(),
            json(&action.environments)?,
            json(&action.triggers)?,
            created_at,
            self.now
        );
        self.record(describe(action));
        Ok(())
    }

    /// Returns whether a target changed.
    async fn targets(
        &mut self,
        action: i64,
        open: &[actions::ListedTarget],
        declared: &[Target],
    ) -> Result<bool, Error> {
        const UPDATE: &str = "
            UPDATE targets SET content = $1
            WHERE organization = $2 AND action = $3 AND name = $4 AND closed_at IS NULL";
        const CLOSE: &str = "
            UPDATE targets SET closed_at = $1
            WHERE organization = $2 AND action = $3 AND name = $4 AND closed_at IS NULL RETURNING id";
        // Drops the pending notifications of a removed target.
        const DROP: &str = "
            UPDATE notifications SET dropped_at = $1, last_error = 'the target was removed'
            WHERE organization = $2 AND target = $3 AND sent_at IS NULL AND dropped_at IS NULL";
        const INSERT: &str = "
            INSERT INTO targets (id, organization, action, name, kind, content, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let mut declared: BTreeMap<(&str, TargetKind), &Target> =
            declared.iter().map(|target| ((target.name.as_str(), target.kind), target)).collect();
        let mut is_changed = false;
        for open in open {
            let name = open.name.as_str();
            let target = declared.remove(&(name, open.kind));
            if target.is_some_and(|target| target.address == open.address) {
                continue;
            }
            is_changed = true;
            if let Some(target) = target {
                let address = json(&target.address)?;
                execute!(self.tenant.tx, UPDATE, address, self.tenant.name, action, name);
            } else {
                let id: Uuid = fetch_scalar!(self.tenant.tx, CLOSE, self.now, self.tenant.name, action, name);
                execute!(self.tenant.tx, DROP, self.now, self.tenant.name, id);
            }
        }
        is_changed |= !declared.is_empty();
        for Target { name, kind, address, .. } in declared.into_values() {
            let (id, address) = (crate::new_id(), json(address)?);
            let (organization, name) = (self.tenant.name, name.as_str());
            execute!(self.tenant.tx, INSERT, id, organization, action, name, kind, address, self.now);
        }
        Ok(is_changed)
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
