//! What runs now, of one repository.

use std::time::Duration;

use sqlx::types::Uuid;

use super::access::fingerprint;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Timestamp};

/// A repository that was attested from.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Repository {
    /// Its identifier.
    pub id: Uuid,
    /// The interface's word for its provider; empty where none is known.
    pub provider: String,
}

/// An artifact that runs in an environment.
#[derive(Debug, Clone)]
pub struct Running {
    /// The environment.
    pub environment: Uuid,
    /// The artifact.
    pub fingerprint: Fingerprint,
    /// The image's name.
    pub name: String,
    /// Since when it runs.
    pub started_at: Timestamp,
}

/// An artifact that was built from the repository.
#[derive(Debug, Clone)]
pub struct Built {
    /// The artifact.
    pub fingerprint: Fingerprint,
    /// The commit that it was built from.
    pub commit_sha: Option<String>,
    /// Where the commit can be seen.
    pub commit_url: Option<String>,
}

/// An environment in which something runs.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its identifier.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its current snapshot.
    pub snapshot: i64,
    /// When it was last reported.
    pub last_report_at: Timestamp,
    /// How long it may be silent; `None`: the default.
    pub silent_after: Option<Duration>,
}

/// A query over the artifacts of a repository that run anywhere.
macro_rules! of_live {
    ($what:literal, $end:literal) => {
        concat!(
            $what,
            " FROM provenance p JOIN artifact_runs r
               ON r.organization = p.organization AND r.fingerprint = p.fingerprint AND r.ended_at IS NULL
             WHERE p.organization = $1 AND p.repository = $2",
            $end
        )
    };
}

impl Transaction {
    /// The repositories of this name, one for each provider.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn repositories(&mut self, organization: &str, name: &str) -> Result<Vec<Repository>, Error> {
        const SELECT: &str = "
            SELECT id, provider FROM repositories WHERE organization = $1 AND name = $2 ORDER BY provider";
        Ok(on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(name).fetch_all(connection).await?
        }))
    }

    /// What runs now of a repository, by environment and name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn live(&mut self, organization: &str, repository: Uuid) -> Result<Vec<Running>, Error> {
        const SELECT: &str = of_live!("SELECT r.environment, r.fingerprint, r.name, r.started_at", "");
        let rows: Vec<(Uuid, Vec<u8>, String, i64)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(repository).fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(environment, artifact, name, started_at)| {
                let started_at = Timestamp::from_micros(started_at);
                Ok(Running { environment, fingerprint: fingerprint(&artifact)?, name, started_at })
            })
            .collect()
    }

    /// The artifacts among them, and where they were built from.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn live_artifacts(
        &mut self,
        organization: &str,
        repository: Uuid,
    ) -> Result<Vec<Built>, Error> {
        const SELECT: &str = of_live!("SELECT DISTINCT p.fingerprint, p.commit_sha, p.commit_url", "");
        let rows: Vec<(Vec<u8>, Option<String>, Option<String>)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(repository).fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(artifact, commit_sha, commit_url)| {
                Ok(Built { fingerprint: fingerprint(&artifact)?, commit_sha, commit_url })
            })
            .collect()
    }

    /// The environments among them.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn live_environments(
        &mut self,
        organization: &str,
        repository: Uuid,
    ) -> Result<Vec<Environment>, Error> {
        const SELECT: &str = of_live!(
            "SELECT id, name, snapshot, last_report_at, silent_after FROM environments
             WHERE id IN (SELECT r.environment",
            ") AND last_report_at IS NOT NULL"
        );
        let rows: Vec<(Uuid, String, i64, i64, Option<i64>)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(repository).fetch_all(connection).await?
        });
        Ok(rows
            .into_iter()
            .map(|(id, name, snapshot, last_report_at, silent_after)| Environment {
                id,
                name,
                snapshot,
                last_report_at: Timestamp::from_micros(last_report_at),
                silent_after: silent_after.map(|micros| Duration::from_micros(micros.unsigned_abs())),
            })
            .collect())
    }
}
