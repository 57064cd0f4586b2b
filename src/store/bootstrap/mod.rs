//! Reconciles the database with the bootstrap file.
//!
//! The service passes a [`Plan`] and gets a [`Journal`] of the changes, for the audit log and for re-evaluation. Rows
//! that are superseded or removed are closed and kept; numbers are never reused.

mod actions;
mod approvals;
mod environments;
mod flows;
mod issuers;
mod plan;
mod policies;
mod tokens;

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::micros;
use super::transaction::{execute, fetch_optional, fetch_scalars};
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Timestamp};

pub use plan::{
    Action, Allowance, Approval, ApprovalContent, EnvironmentConfig, Flow, Organization, Plan, PolicyConfig,
    PublicAddress, Retention, Target, Token,
};

/// Describes an expiry for the audit log.
pub(crate) fn until(expiry: Option<Timestamp>) -> String {
    let second = |expiry: Timestamp| jiff::Timestamp::from_second(expiry.micros() / 1_000_000).ok();
    expiry.and_then(second).map_or_else(|| "without expiry".to_owned(), |expiry| format!("until {expiry}"))
}

#[derive(Debug, PartialEq, Eq, Default, sqlx::FromRow)]
struct RetentionRow {
    retention: Option<i64>,
    attachment_retention: Option<i64>,
    audit_retention: Option<i64>,
}

impl From<Retention> for RetentionRow {
    fn from(Retention { history, attachments, audit }: Retention) -> Self {
        Self {
            retention: history.map(micros),
            attachment_retention: attachments.map(micros),
            audit_retention: audit.map(micros),
        }
    }
}

/// Describes the retention of an organization for the audit log.
fn describe_retention(Retention { history, attachments, audit }: Retention) -> String {
    let describe = |retention: Option<Duration>| match retention.map(|retention| retention.as_secs()) {
        None => "unlimited".to_owned(),
        Some(seconds) if seconds % 86_400 == 0 => format!("{}d", seconds / 86_400),
        Some(seconds) => format!("{seconds}s"),
    };
    let [history, attachments, audit] = [history, attachments, audit].map(describe);
    format!(
        "the retention of the history is {history}, of attached files {attachments}, of the audit log {audit}"
    )
}

/// The result of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciliation {
    /// The plan was applied, with these changes.
    Applied(Journal),
    /// Rejected: a number is in use for something else.
    NumberConflict(NumberConflict),
    /// Rejected: the database has this generation of another file.
    Changed,
    /// Rejected: the database has this later generation.
    Outdated(i64),
}

/// The changes that a plan made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    /// Organizations, and descriptions of changes for the audit log.
    pub changes: Vec<(String, String)>,
    /// Organizations and environments that must be re-evaluated.
    pub environments: BTreeSet<(String, String)>,
}

/// The names of an organization's environments and flows, from the bootstrap file or from reports and attestations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNames {
    /// Environments.
    pub environments: BTreeSet<String>,
    /// Flows.
    pub flows: BTreeSet<String>,
}

/// A number that was used for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} of {organization} {reason}: use a new number")]
pub struct NumberConflict {
    /// The organization.
    pub organization: String,
    /// The action or approval with the number.
    pub subject: String,
    /// Why the number cannot be used.
    pub reason: &'static str,
}

/// A failed reconciliation.
enum ReconcileError {
    NumberConflict(NumberConflict),
    Store(Error),
}

impl From<Error> for ReconcileError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl ReconcileError {
    fn number_was_removed(organization: &str, subject: String) -> Self {
        let reason = "was removed from the file before";
        Self::NumberConflict(NumberConflict { organization: organization.to_owned(), subject, reason })
    }

    fn number_is_of_a_token(organization: &str, subject: String) -> Self {
        let reason = "was made by a token";
        Self::NumberConflict(NumberConflict { organization: organization.to_owned(), subject, reason })
    }

    fn number_has_other_artifact(organization: &str, subject: String) -> Self {
        let reason = "is for another artifact";
        Self::NumberConflict(NumberConflict { organization: organization.to_owned(), subject, reason })
    }
}

impl Journal {
    fn record(&mut self, organization: &str, change: String) {
        self.changes.push((organization.to_owned(), change));
    }

    fn mark_for_evaluation(&mut self, organization: &str, environment: &str) {
        self.environments.insert((organization.to_owned(), environment.to_owned()));
    }
}

impl Transaction {
    /// Reconciles the database with a plan. Closes everything that is not in it at `now`. The caller has locked the
    /// verdicts of the plan's organizations.
    pub async fn reconcile(&mut self, plan: &Plan, now: Timestamp) -> Result<Reconciliation, Error> {
        const LAST: &str = "SELECT generation, sha256 FROM bootstraps ORDER BY generation DESC LIMIT 1";
        const INSERT: &str = "INSERT INTO bootstraps (generation, sha256, applied_at) VALUES ($1, $2, $3)";
        if let Self::Postgres(transaction) = self {
            // SQLite has a single writer.
            sqlx::query("LOCK TABLE bootstraps IN EXCLUSIVE MODE").execute(&mut **transaction).await?;
        }
        let last: Option<(i64, Fingerprint)> = fetch_optional!(self, LAST);
        match last {
            Some((last, _)) if last > plan.generation => return Ok(Reconciliation::Outdated(last)),
            Some((last, sha256)) if last == plan.generation => {
                if sha256 != plan.sha256 {
                    return Ok(Reconciliation::Changed);
                }
            }
            _ => {
                execute!(self, INSERT, plan.generation, plan.sha256, now);
            }
        }
        match self.apply(plan, now).await {
            Ok(journal) => {
                let organizations = plan.organizations.iter().map(|organization| organization.name.as_str());
                let changed = journal.changes.iter().map(|(organization, _)| organization.as_str());
                self.log().declared(organizations, changed, now);
                Ok(Reconciliation::Applied(journal))
            }
            Err(ReconcileError::NumberConflict(conflict)) => Ok(Reconciliation::NumberConflict(conflict)),
            Err(ReconcileError::Store(error)) => Err(error),
        }
    }

    async fn apply(&mut self, plan: &Plan, now: Timestamp) -> Result<Journal, ReconcileError> {
        let mut journal = Journal::default();
        // Close first: a token may move from one organization to another.
        self.close_organizations(plan, now, &mut journal).await?;
        let mut missing = Vec::new();
        let declared = plan.organizations.iter().flat_map(|organization| &organization.tokens);
        let declared: BTreeSet<Fingerprint> = declared.map(|token| token.sha256).collect();
        for organization in &plan.organizations {
            let (name, tokens) = (organization.name.as_str(), &organization.tokens);
            // The file wins: a token that it declares replaces one that was created at runtime.
            let is_replaced = |token: &Token| {
                declared.contains(&token.sha256) || tokens.iter().any(|declared| declared.name == token.name)
            };
            missing.push(self.close_tokens(name, tokens, is_replaced, now, &mut journal).await?);
        }
        for (organization, missing) in plan.organizations.iter().zip(missing) {
            let name = organization.name.as_str();
            self.open_organization(name, organization.retention, now, &mut journal).await?;
            self.open_tokens(name, &missing, now, &mut journal).await?;
            self.reconcile_issuers(name, &organization.issuers, now, &mut journal).await?;
            self.reconcile_flows(name, &organization.flows, now, &mut journal).await?;
            self.reconcile_environments(name, &organization.environments, now, &mut journal).await?;
            let (policies, environments) = (&organization.policies, &organization.environments);
            self.reconcile_policies(name, policies, environments, now, &mut journal).await?;
            self.reconcile_approvals(name, &organization.flows, now, &mut journal).await?;
            self.reconcile_actions(name, &organization.actions, now, &mut journal).await?;
        }
        Ok(journal)
    }

    /// The names of an organization's environments and flows.
    pub async fn known_names(&mut self, organization: &str) -> Result<KnownNames, Error> {
        const ENVIRONMENTS: &str = "SELECT name FROM environments WHERE organization = $1";
        const FLOWS: &str = "SELECT name FROM flows WHERE organization = $1";
        Ok(KnownNames {
            environments: self.select_names(ENVIRONMENTS, organization).await?,
            flows: self.select_names(FLOWS, organization).await?,
        })
    }

    async fn select_names(
        &mut self,
        select: &'static str,
        organization: &str,
    ) -> Result<BTreeSet<String>, Error> {
        let rows: Vec<String> = fetch_scalars!(self, select, organization);
        Ok(rows.into_iter().collect())
    }

    /// Closes a row: `close` is an `UPDATE` of `closed_at` by `id`.
    async fn close(
        &mut self,
        close: &'static str,
        organization: &str,
        id: Uuid,
        now: Timestamp,
    ) -> Result<(), Error> {
        execute!(self, close, now, organization, id);
        Ok(())
    }

    /// The organizations of the file that was applied last.
    pub async fn open_organizations(&mut self) -> Result<Vec<String>, Error> {
        Ok(fetch_scalars!(self, "SELECT name FROM organizations WHERE closed_at IS NULL"))
    }

    async fn close_organizations(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const CLOSE: &str = "UPDATE organizations SET closed_at = $1 WHERE name = $2";
        let open = self.open_organizations().await?;
        let kept: BTreeSet<&str> = plan.organizations.iter().map(|o| o.name.as_str()).collect();
        for name in open.iter().filter(|name| !kept.contains(name.as_str())) {
            execute!(self, CLOSE, now, name);
            journal.record(name, "the organization was removed".to_owned());
            self.close_tokens(name, &[], |_| true, now, journal).await?;
            self.reconcile_issuers(name, &[], now, journal).await?;
        }
        Ok(())
    }

    async fn open_organization(
        &mut self,
        name: &str,
        retention: Retention,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const CURRENT: &str = "
            SELECT retention, attachment_retention, audit_retention FROM organizations
            WHERE name = $1 AND closed_at IS NULL";
        const OPEN: &str = "
            INSERT INTO organizations (name, retention, attachment_retention, audit_retention, created_at)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (name) DO UPDATE SET retention = excluded.retention,
              attachment_retention = excluded.attachment_retention, audit_retention = excluded.audit_retention,
              closed_at = NULL";
        let current: Option<RetentionRow> = fetch_optional!(self, CURRENT, name);
        if current.is_none() {
            journal.record(name, "the organization was added".to_owned());
        }
        let row = RetentionRow::from(retention);
        if current.unwrap_or_default() != row {
            journal.record(name, describe_retention(retention));
        }
        execute!(self, OPEN, name, row.retention, row.attachment_retention, row.audit_retention, now);
        Ok(())
    }
}
