//! What runs now, of one repository.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::{compliance, duration, fingerprint};
use super::rows::{Bytes, Id, rows};
use super::transaction::{fetch_for_all, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::validity::Validity;
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
        // SQLite takes a CROSS JOIN in the order in which it stands (sqlite.org/optoverview.html, "Manual Control Of
        // Query Plans"), and PostgreSQL in the one that it chooses.
        macro_rules! rows_of {
            ($first:literal, $second:literal) => {
                rows!(
                    self,
                    "artifact, hex(fingerprint), started_at, hex(id), name, snapshot, last_report_at, silent_after,
                     compliant_until, compliance",
                    concat!(
                        "SELECT r.name AS artifact, r.fingerprint, r.started_at, e.id, e.name, e.snapshot,
                                e.last_report_at, e.silent_after, e.compliant_until, v.compliance
                         FROM ",
                        $first,
                        " CROSS JOIN ",
                        $second,
                        " CROSS JOIN environments e
                           LEFT JOIN verdicts v
                             ON v.environment = e.id AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
                         WHERE p.organization = $1 AND p.repository = $2
                           AND r.organization = $1 AND r.fingerprint = p.fingerprint AND r.ended_at IS NULL
                           AND e.id = r.environment AND e.last_report_at IS NOT NULL"
                    ),
                    |query| query.bind(organization).bind(repository)
                )
            };
        }
        let rows: Vec<Row> = if self.is_built_seldom(organization, repository).await? {
            rows_of!("provenance p", "artifact_runs r")
        } else {
            rows_of!("artifact_runs r", "provenance p")
        };
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

    /// Whether fewer artifacts were ever built from a repository than its organization runs, as far as that is worth
    /// counting.
    async fn is_built_seldom(&mut self, organization: &str, repository: Uuid) -> Result<bool, Error> {
        const BUILT: &str = "
            SELECT COUNT(*) FROM (SELECT 1 FROM provenance WHERE organization = $1 AND repository = $2 LIMIT $3) AS b";
        const RUN: &str = "
            SELECT COUNT(*) FROM (SELECT 1 FROM artifact_runs WHERE organization = $1 AND ended_at IS NULL LIMIT $2) AS r";
        let Self::Sqlite(transaction) = self else { return Ok(true) };
        for most in [1_000_i64, 10_000, 100_000] {
            let built = sqlx::query_scalar(BUILT).bind(organization).bind(repository).bind(most);
            if built.fetch_one(&mut **transaction).await.map(|built: i64| built < most)? {
                return Ok(true);
            }
            let run = sqlx::query_scalar(RUN).bind(organization).bind(most);
            if run.fetch_one(&mut **transaction).await.map(|run: i64| run < most)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where artifacts were built from, as far as that is this repository, by fingerprint.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn built(
        &mut self,
        organization: &str,
        repository: Uuid,
        artifacts: BTreeSet<Fingerprint>,
    ) -> Result<Vec<Built>, Error> {
        let rows: Vec<(Vec<u8>, Option<String>, Option<String>)> = fetch_for_all!(
            self,
            |query| {
                query
                    .push("SELECT fingerprint, commit_sha, commit_url FROM provenance WHERE organization = ");
                query.push_bind(organization).push(" AND repository = ").push_bind(repository);
                query.push(" AND fingerprint IN");
            },
            artifacts.into_iter().map(|artifact| artifact.bytes().to_vec()),
            " ORDER BY fingerprint"
        );
        rows.into_iter()
            .map(|(artifact, commit_sha, commit_url)| {
                Ok(Built { fingerprint: fingerprint(&artifact)?, commit_sha, commit_url })
            })
            .collect()
    }
}
