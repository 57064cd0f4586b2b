//! What comes from the bootstrap file: brought into the database, and closed when it is taken out.
//!
//! The service hands in a [`Plan`] and is told what changed, which it writes into the audit log and judges
//! environments by anew. What is superseded is closed at a time and stays; numbers are never given again.

mod actions;
mod approvals;
mod environments;
mod flows;
mod plan;
mod tokens;

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{fingerprint, micros};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::Timestamp;

pub use plan::{
    Action, Allowance, Approval, ApprovalContent, Environment, Flow, Organization, Plan, Shown, Target, Token,
};

/// Until when something holds, in words.
fn until(end: Option<Timestamp>) -> String {
    let second = |end: Timestamp| jiff::Timestamp::from_second(end.micros() / 1_000_000).ok();
    end.and_then(second).map_or_else(|| "for ever".to_owned(), |end| format!("until {end}"))
}

/// What came of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The database is as it says: this is what that changed.
    Done(Journal),
    /// It gives a number to something else than it was given to, and the database stays as it is.
    Taken(Taken),
    /// The database has seen this generation with another file, and stays as it is.
    Changed,
    /// The database has seen this later generation, and stays as it is.
    Outdated(i64),
}

/// What a plan changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    /// In words, with the organization that it is in.
    pub changes: Vec<(String, String)>,
    /// The environments, after their organizations, whose verdicts may be others now.
    pub environments: BTreeSet<(String, String)>,
}

/// The names that an organization has, declared or come into being.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Of environments.
    pub environments: BTreeSet<String>,
    /// Of flows.
    pub flows: BTreeSet<String>,
}

/// A number that cannot be given to what a plan gives it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {organization} {why}: numbers are never given again")]
pub struct Taken {
    /// The organization.
    pub organization: String,
    /// What has the number.
    pub what: String,
    /// What became of the number.
    pub why: &'static str,
}

/// Why a plan is not brought about.
enum Refused {
    Taken(Taken),
    Store(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl Taken {
    fn closed(organization: &str, what: String) -> Self {
        Self { organization: organization.to_owned(), what, why: "was taken out of the file before" }
    }
}

impl Journal {
    fn note(&mut self, organization: &str, change: String) {
        self.changes.push((organization.to_owned(), change));
    }

    fn touch(&mut self, organization: &str, environment: &str) {
        self.environments.insert((organization.to_owned(), environment.to_owned()));
    }
}

impl Transaction {
    /// Brings the database to what a plan says. What is not in it any more is closed at `now`.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn reconcile(&mut self, plan: &Plan, now: Timestamp) -> Result<Applied, Error> {
        const SEEN: &str = "SELECT generation, sha256 FROM bootstraps ORDER BY generation DESC LIMIT 1";
        const INSERT: &str = "INSERT INTO bootstraps (generation, sha256, applied_at) VALUES ($1, $2, $3)";
        if let Self::Postgres(transaction) = self {
            // On SQLite nobody else writes.
            sqlx::query("LOCK TABLE bootstraps IN EXCLUSIVE MODE").execute(&mut **transaction).await?;
        }
        let seen: Option<(i64, Vec<u8>)> =
            on!(self, |connection| sqlx::query_as(SEEN).fetch_optional(connection).await?);
        match seen {
            Some((seen, _)) if seen > plan.generation => return Ok(Applied::Outdated(seen)),
            Some((seen, sha256)) if seen == plan.generation => {
                if fingerprint(&sha256)? != plan.sha256 {
                    return Ok(Applied::Changed);
                }
            }
            _ => on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(plan.generation).bind(plan.sha256.bytes().as_slice());
                insert.bind(now.micros()).execute(connection).await?;
            }),
        }
        match self.bring_about(plan, now).await {
            Ok(journal) => Ok(Applied::Done(journal)),
            Err(Refused::Taken(taken)) => Ok(Applied::Taken(taken)),
            Err(Refused::Store(error)) => Err(error),
        }
    }

    async fn bring_about(&mut self, plan: &Plan, now: Timestamp) -> Result<Journal, Refused> {
        let mut journal = Journal::default();
        // In one order, so that no two wait for each other.
        let names: BTreeSet<&str> = plan.organizations.iter().map(|o| o.name.as_str()).collect();
        for name in names {
            self.hold_verdicts(name).await?;
        }
        // First all that is to be closed: a token may move from one organization to another.
        self.close_organizations(plan, now, &mut journal).await?;
        let mut missing = Vec::new();
        for organization in &plan.organizations {
            let (name, tokens) = (organization.name.as_str(), &organization.tokens);
            missing.push(self.close_tokens(name, tokens, now, &mut journal).await?);
        }
        for (organization, missing) in plan.organizations.iter().zip(missing) {
            let name = organization.name.as_str();
            self.open_organization(name, organization.retention, now, &mut journal).await?;
            self.open_tokens(name, &missing, now, &mut journal).await?;
            self.reconcile_flows(name, &organization.flows, now, &mut journal).await?;
            self.reconcile_environments(name, &organization.environments, now, &mut journal).await?;
            self.reconcile_approvals(name, &organization.flows, now, &mut journal).await?;
            self.reconcile_actions(name, &organization.actions, now, &mut journal).await?;
        }
        Ok(journal)
    }

    /// The names that an organization has.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn known_names(&mut self, organization: &str) -> Result<Names, Error> {
        const ENVIRONMENTS: &str = "SELECT name FROM environments WHERE organization = $1";
        const FLOWS: &str = "SELECT name FROM flows WHERE organization = $1";
        let mut names = Vec::new();
        for select in [ENVIRONMENTS, FLOWS] {
            let rows: Vec<String> = on!(self, |connection| {
                sqlx::query_scalar(select).bind(organization).fetch_all(connection).await?
            });
            names.push(rows.into_iter().collect());
        }
        let (flows, environments) = (names.pop().unwrap_or_default(), names.pop().unwrap_or_default());
        Ok(Names { environments, flows })
    }

    /// Closes a row: `close` is an `UPDATE` of `closed_at` by `id`.
    async fn close(&mut self, close: &'static str, id: Uuid, now: Timestamp) -> Result<(), Error> {
        on!(self, |connection| {
            sqlx::query(close).bind(now.micros()).bind(id).execute(connection).await?;
        });
        Ok(())
    }

    async fn close_organizations(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const CLOSE: &str = "UPDATE organizations SET closed_at = $1 WHERE name = $2";
        let open: Vec<String> = on!(self, |connection| {
            let open = sqlx::query_scalar("SELECT name FROM organizations WHERE closed_at IS NULL");
            open.fetch_all(connection).await?
        });
        let kept: BTreeSet<&str> = plan.organizations.iter().map(|o| o.name.as_str()).collect();
        for name in open.iter().filter(|name| !kept.contains(name.as_str())) {
            on!(self, |connection| {
                sqlx::query(CLOSE).bind(now.micros()).bind(name).execute(connection).await?;
            });
            journal.note(name, "the organization was closed".to_owned());
            self.close_tokens(name, &[], now, journal).await?;
        }
        Ok(())
    }

    async fn open_organization(
        &mut self,
        name: &str,
        retention: Option<Duration>,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const COUNT: &str = "SELECT COUNT(*) FROM organizations WHERE name = $1 AND closed_at IS NULL";
        const OPEN: &str = "
            INSERT INTO organizations (name, retention, created_at) VALUES ($1, $2, $3)
            ON CONFLICT (name) DO UPDATE SET retention = excluded.retention, closed_at = NULL";
        let open: i64 =
            on!(self, |connection| sqlx::query_scalar(COUNT).bind(name).fetch_one(connection).await?);
        if open == 0 {
            journal.note(name, "the organization was opened".to_owned());
        }
        on!(self, |connection| {
            let open = sqlx::query(OPEN).bind(name).bind(retention.map(micros)).bind(now.micros());
            open.execute(connection).await?;
        });
        Ok(())
    }
}
