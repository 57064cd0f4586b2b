//! Reconciles the database with the bootstrap file.
//!
//! The service passes a [`Plan`] and gets a [`Journal`] of the changes, for the audit log and for re-evaluation. Rows
//! that are superseded or removed are closed and kept; numbers are never reused.

mod actions;
mod approvals;
mod environments;
pub mod file;
mod flows;
mod issuers;
mod policies;
mod tokens;
mod trust;

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

pub use self::trust::trusted;

use crate::bootstrap::file::{Organization, Span};
use crate::database::columns::micros;
use crate::database::transaction::{execute, fetch_optional, fetch_scalar, fetch_scalars, in_chunks};
use crate::retention::OrganizationRetention;
use crate::tokens::authentication::Token;
use crate::{Error, Tenant, Transaction};
use model::{Fingerprint, Timestamp};

/// The content of a bootstrap file.
#[derive(Debug)]
pub struct Plan {
    /// Increases with each change of the file.
    pub generation: i64,
    /// The hash of the file, without the files that it refers to.
    pub sha256: Fingerprint,
    pub organizations: Vec<Organization>,
}

/// Describes an expiry for the audit log.
#[must_use]
pub fn until(expiry: Option<Timestamp>) -> String {
    let second = |expiry: Timestamp| jiff::Timestamp::from_second(expiry.micros() / 1_000_000).ok();
    expiry.and_then(second).map_or_else(|| "without expiry".to_owned(), |expiry| format!("until {expiry}"))
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
    pub environments: BTreeSet<String>,
    pub flows: BTreeSet<String>,
}

/// Why a plan was not applied.
#[derive(Debug)]
pub enum ReconcileError {
    /// A number is in use for something else: which one, and what to do.
    NumberConflict(String),
    /// The database has this generation of another file.
    Changed,
    /// The database has this later generation.
    Outdated(i64),
    Store(Error),
}

impl From<Error> for ReconcileError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<sqlx::Error> for ReconcileError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The reconciliation of one organization.
struct Reconciliation<'a> {
    tenant: Tenant<'a>,
    now: Timestamp,
    journal: &'a mut Journal,
}

/// The rows to close and to insert, so that the open rows of a kind are those of the file.
struct Difference<Key, Content> {
    /// Open rows that the file does not declare, or with other content.
    closed: Vec<(Uuid, Key, Content)>,
    /// Rows that the file declares and that are not open.
    inserted: BTreeMap<Key, Content>,
}

impl<Key: Ord, Content: PartialEq> Difference<Key, Content> {
    /// Compares the open rows with those that the file declares.
    fn new(open: Vec<(Uuid, Key, Content)>, mut declared: BTreeMap<Key, Content>) -> Self {
        let mut closed = Vec::new();
        for (id, key, content) in open {
            if declared.get(&key) == Some(&content) {
                declared.remove(&key);
            } else {
                closed.push((id, key, content));
            }
        }
        Self { closed, inserted: declared }
    }
}

impl Reconciliation<'_> {
    fn record(&mut self, change: String) {
        self.journal.changes.push((self.tenant.name.to_owned(), change));
    }

    fn mark_for_evaluation(&mut self, environment: &str) {
        self.journal.environments.insert((self.tenant.name.to_owned(), environment.to_owned()));
    }

    /// For a change of what conditions of policies and trails depend on.
    async fn mark_environments_with_policies(&mut self) -> Result<(), Error> {
        for environment in crate::policies::environments(&mut self.tenant).await? {
            self.mark_for_evaluation(&environment);
        }
        Ok(())
    }

    fn number_conflict(&self, subject: &str, reason: &str) -> ReconcileError {
        let organization = self.tenant.name;
        ReconcileError::NumberConflict(format!("{subject} of {organization} {reason}: use a new number"))
    }

    /// Closes rows of a table.
    async fn close(&mut self, table: &'static str, ids: Vec<Uuid>) -> Result<(), Error> {
        in_chunks!(
            self.tenant.tx,
            |query| {
                query.push("UPDATE ").push(table).push(" SET closed_at = ").push_bind(self.now);
                query.push(" WHERE organization = ").push_bind(self.tenant.name).push(" AND id IN (");
            },
            ids,
            ")",
            |statement, connection| {
                statement.execute(connection).await?;
            }
        );
        Ok(())
    }

    async fn open_organization(&mut self, declared: &Organization) -> Result<(), Error> {
        const IS_OPEN: &str = "SELECT COUNT(*) FROM organizations WHERE name = $1 AND closed_at IS NULL";
        const OPEN: &str = "
            INSERT INTO organizations (name, created_at) VALUES ($1, $2)
            ON CONFLICT (name) DO UPDATE SET closed_at = NULL";
        let open: i64 = fetch_scalar!(self.tenant.tx, IS_OPEN, self.tenant.name);
        if open == 0 {
            self.record("the organization was added".to_owned());
        }
        execute!(self.tenant.tx, OPEN, self.tenant.name, self.now);
        self.retention(declared).await
    }

    /// A changed retention gets a new row. The retention locks the organization, as the statement above does, so that a removal
    /// precedes the end of its retention in the log.
    async fn retention(&mut self, declared: &Organization) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO retentions (id, organization, history, attachments, audit, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)";
        let Organization { retention, attachment_retention, audit_retention, .. } = declared;
        let [history, attachments, audit] =
            [retention, attachment_retention, audit_retention].map(|span| span.map(|Span(span)| span));
        let wanted = OrganizationRetention { history, attachments, audit };
        let current = crate::retention::current(&mut self.tenant).await?;
        let (id, current) = current.map(|current| (current.id, current.retention)).unzip();
        if current.unwrap_or_default() == wanted {
            return Ok(());
        }
        self.close("retentions", id.into_iter().collect()).await?;
        if wanted != OrganizationRetention::default() {
            let [history, attachments, audit] = [history, attachments, audit].map(|span| span.map(micros));
            let id = crate::new_id();
            execute!(self.tenant.tx, INSERT, id, self.tenant.name, history, attachments, audit, self.now);
        }
        self.record(wanted.describe());
        Ok(())
    }
}

/// Reconciles the database with a plan. Closes everything that is not in it at `now`. The caller has locked the
/// verdicts of the plan's organizations.
///
/// # Errors
///
/// [`ReconcileError`] for a plan that must not be applied. The caller rolls back.
pub async fn reconcile(
    transaction: &mut Transaction,
    plan: &Plan,
    now: Timestamp,
) -> Result<Journal, ReconcileError> {
    const LAST: &str = "SELECT generation, sha256 FROM bootstraps ORDER BY generation DESC LIMIT 1";
    const INSERT: &str = "INSERT INTO bootstraps (generation, sha256, applied_at) VALUES ($1, $2, $3)";
    const CLOSE: &str = "UPDATE organizations SET closed_at = $1 WHERE name = $2";
    if let Transaction::Postgres(transaction) = transaction {
        // SQLite has a single writer.
        sqlx::query("LOCK TABLE bootstraps IN EXCLUSIVE MODE").execute(&mut **transaction).await?;
    }
    let last: Option<(i64, Fingerprint)> = fetch_optional!(transaction, LAST);
    match last {
        Some((last, _)) if last > plan.generation => return Err(ReconcileError::Outdated(last)),
        Some((last, sha256)) if last == plan.generation => {
            if sha256 != plan.sha256 {
                return Err(ReconcileError::Changed);
            }
        }
        _ => {
            execute!(transaction, INSERT, plan.generation, plan.sha256, now);
        }
    }
    let mut journal = Journal::default();
    let names: BTreeSet<&str> = plan.organizations.iter().map(|declared| declared.name.as_str()).collect();
    // Close first: a token may move from one organization to another.
    for name in open_organizations(transaction).await? {
        if !names.contains(name.as_str()) {
            execute!(transaction, CLOSE, now, &name);
            let mut removed = reconciliation(transaction, &name, now, &mut journal);
            removed.record("the organization was removed".to_owned());
            removed.close_tokens(Vec::new(), |_| true).await?;
            removed.issuers(&[]).await?;
            removed.trust(&[]).await?;
        }
    }
    let tokens = plan.organizations.iter().flat_map(|declared| &declared.tokens);
    let hashes: BTreeSet<Fingerprint> = tokens.map(file::Token::hash).collect::<Result<_, Error>>()?;
    let mut missing = Vec::new();
    for declared in &plan.organizations {
        // The file wins: a token that it declares replaces one that was created at runtime.
        let is_replaced = |token: &Token| {
            hashes.contains(&token.sha256)
                || declared.tokens.iter().any(|other| other.name.as_str() == token.name)
        };
        let mut kept = reconciliation(transaction, declared.name.as_str(), now, &mut journal);
        let tokens = kept.declared_tokens(declared)?;
        missing.push(kept.close_tokens(tokens, is_replaced).await?);
    }
    for (declared, missing) in plan.organizations.iter().zip(missing) {
        let mut open = reconciliation(transaction, declared.name.as_str(), now, &mut journal);
        open.open_organization(declared).await?;
        open.open_tokens(&missing).await?;
        open.issuers(&declared.issuers).await?;
        open.trust(&declared.trust).await?;
        open.flows(&declared.flows).await?;
        open.environments(&declared.environments).await?;
        open.policies(&declared.policies, &declared.environments).await?;
        open.approvals(&declared.flows).await?;
        open.actions(&declared.actions).await?;
    }
    let changed = journal.changes.iter().map(|(organization, _)| organization.as_str());
    transaction.log().declared(names, changed, now);
    Ok(journal)
}

fn reconciliation<'a>(
    transaction: &'a mut Transaction,
    organization: &'a str,
    now: Timestamp,
    journal: &'a mut Journal,
) -> Reconciliation<'a> {
    Reconciliation { tenant: transaction.of(organization), now, journal }
}

/// The names of an organization's environments and flows.
pub async fn known_names(tenant: &mut Tenant<'_>) -> Result<KnownNames, Error> {
    const ENVIRONMENTS: &str = "SELECT name FROM environments WHERE organization = $1";
    const FLOWS: &str = "SELECT name FROM flows WHERE organization = $1";
    let environments: Vec<String> = fetch_scalars!(tenant.tx, ENVIRONMENTS, tenant.name);
    let flows: Vec<String> = fetch_scalars!(tenant.tx, FLOWS, tenant.name);
    Ok(KnownNames { environments: environments.into_iter().collect(), flows: flows.into_iter().collect() })
}

/// The organizations of the file that was applied last.
pub async fn open_organizations(transaction: &mut Transaction) -> Result<Vec<String>, Error> {
    Ok(fetch_scalars!(transaction, "SELECT name FROM organizations WHERE closed_at IS NULL"))
}
