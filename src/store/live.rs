//! What runs now, of one repository.

use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{compliance, duration, fingerprint};
use super::rows::{Bytes, Id, rows};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::compliance::Compliance;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::domain::validity::Validity;

/// A repository that was attested from.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Repository {
    /// Its identifier.
    pub id: Uuid,
    /// The interface's word for its provider; empty where none is known.
    pub provider: String,
}

/// An artifact that runs in an environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The environment.
    pub environment: Environment,
    /// The image's name.
    pub name: String,
    /// The artifact.
    pub fingerprint: Fingerprint,
    /// Since when it runs.
    pub started_at: Timestamp,
    /// Whether it may, as was last decided.
    pub compliance: Compliance,
}

/// An environment in which something runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Its identifier.
    pub id: Uuid,
    /// Its current snapshot.
    pub snapshot: i64,
    /// When it was last reported.
    pub last_report_at: Timestamp,
    /// How long it may be silent; `None`: the default.
    pub silent_after: Option<Duration>,
    /// When an entry of its allow-list ends that was relied on.
    pub compliant_until: Option<Timestamp>,
}

/// The columns of an [`Environment`]: its identifier, name, snapshot, last report, how long it may be silent, and
/// until when it is compliant.
pub(super) type Columns = (Uuid, String, i64, i64, Option<i64>, Option<i64>);

impl Environment {
    pub(super) fn read((id, name, snapshot, last, silent, until): Columns) -> Self {
        Self {
            name,
            id,
            snapshot,
            last_report_at: Timestamp::from_micros(last),
            silent_after: silent.map(duration),
            compliant_until: until.map(Timestamp::from_micros),
        }
    }

    /// How long what was decided of it holds, where it may be silent for so long if it does not say itself.
    #[must_use]
    pub fn validity(&self, silent_after: Duration) -> Validity {
        Validity::of(Some(self.last_report_at), self.silent_after, silent_after, self.compliant_until)
    }
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
        type Row = (String, Bytes, i64, Id, String, i64, i64, Option<i64>, Option<i64>, Option<String>);
        // SQLite takes a CROSS JOIN in the order in which it stands (sqlite.org/optoverview.html, "Manual
        // Control Of Query Plans"); by itself it would begin with all that the organization runs.
        let rows: Vec<Row> = rows!(
            self,
            "artifact, hex(fingerprint), started_at, hex(id), name, snapshot, last_report_at, silent_after,
             compliant_until, compliance",
            "SELECT r.name AS artifact, r.fingerprint, r.started_at, e.id, e.name, e.snapshot,
                    e.last_report_at, e.silent_after, e.compliant_until, v.compliance
             FROM provenance p CROSS JOIN artifact_runs r CROSS JOIN environments e
               LEFT JOIN verdicts v
                 ON v.environment = e.id AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
             WHERE p.organization = $1 AND p.repository = $2
               AND r.organization = p.organization AND r.fingerprint = p.fingerprint AND r.ended_at IS NULL
               AND e.id = r.environment AND e.last_report_at IS NOT NULL",
            |query| query.bind(organization).bind(repository)
        );
        let running = rows.into_iter().map(
            |(
                artifact,
                Bytes(fingerprint),
                started_at,
                Id(id),
                name,
                snapshot,
                last,
                silent,
                until,
                word,
            )| {
                let environment = Environment::read((id, name, snapshot, last, silent, until));
                Ok(Running {
                    environment,
                    name: artifact,
                    fingerprint,
                    started_at: Timestamp::from_micros(started_at),
                    compliance: compliance(word.as_deref())?,
                })
            },
        );
        let mut running: Vec<_> = running.collect::<Result<_, Error>>()?;
        // Not by the database, which sorts names as its locale does.
        running.sort_unstable();
        Ok(running)
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
        const SELECT: &str = "
            SELECT p.fingerprint, p.commit_sha, p.commit_url FROM provenance p
            WHERE p.organization = $1 AND p.repository = $2
              AND EXISTS (SELECT 1 FROM artifact_runs r
                          WHERE r.organization = p.organization AND r.fingerprint = p.fingerprint
                            AND r.ended_at IS NULL)
            ORDER BY p.fingerprint";
        let rows: Vec<(Vec<u8>, Option<String>, Option<String>)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(repository).fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(artifact, commit_sha, commit_url)| {
                Ok(Built { fingerprint: fingerprint(&artifact)?, commit_sha, commit_url })
            })
            .collect()
    }
}
