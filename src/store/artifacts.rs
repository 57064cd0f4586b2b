//! Where an artifact was built, runs and ran, for people who look at it.

use sqlx::types::Uuid;

use super::columns::verdict;
use super::live::Environment;
use super::row_limit::{AtMost, MOST, one_more_than};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, Timestamp};

/// As many environments are read in which an artifact runs: all, but for the largest fleets.
const ENVIRONMENTS: usize = 400;

/// Where an artifact runs.
#[derive(Debug, Clone)]
pub struct Running {
    /// The environment.
    pub environment: Environment,
    /// In how many pods; `None` where that was not counted.
    pub pods: Option<i64>,
    /// Since when.
    pub started_at: Timestamp,
    /// Whether it may, as was last decided.
    pub verdict: Verdict,
}

/// Where and when an artifact ran.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The environment's name.
    pub environment: String,
    /// From when.
    pub started_at: Timestamp,
    /// Until when.
    pub ended_at: Timestamp,
    /// The first and the last snapshot that it was in.
    pub snapshots: (i64, i64),
    /// The environment's current one.
    pub current: i64,
}

/// Where an artifact was built from.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Source {
    /// The repository.
    pub name: String,
    /// Its address.
    pub url: Option<String>,
    /// The commit.
    pub commit_sha: Option<String>,
    /// Where the commit can be seen.
    pub commit_url: Option<String>,
}

type RunningRow = (
    Uuid,
    String,
    i64,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    i64,
    Option<String>,
    Option<bool>,
    Option<String>,
);

impl Transaction {
    /// The names that an artifact was last reported under in each of its runs, that of the latest first; of each as much
    /// as is shown, and more.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn names(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<AtMost<String>, Error> {
        const SELECT: &str = "
            SELECT SUBSTR(r.name, 1, 1000) FROM environments e CROSS JOIN artifact_runs r
            WHERE e.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
            GROUP BY r.name ORDER BY MAX(r.started_at) DESC, r.name LIMIT $3";
        let rows = on!(self, |connection| {
            let select = sqlx::query_scalar(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }

    /// Where an artifact runs, by environment: where it started last, if those are too many.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn runs_now(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<AtMost<Running>, Error> {
        const SELECT: &str = "
            SELECT e.id, e.name, e.snapshot, e.last_report_at, e.silent_after, e.compliant_until, r.pods,
                   r.started_at, v.compliance, v.is_allowed, v.reasons
            FROM artifact_runs r JOIN environments e ON e.id = r.environment
              LEFT JOIN verdicts v
                ON v.environment = e.id AND v.fingerprint = r.fingerprint AND v.until_at IS NULL
            WHERE r.organization = $1 AND r.fingerprint = $2 AND r.ended_at IS NULL
              AND e.last_report_at IS NOT NULL
            ORDER BY r.started_at DESC, e.id LIMIT $3";
        let rows: Vec<RunningRow> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(one_more_than(ENVIRONMENTS)).fetch_all(connection).await?
        });
        let running = rows.into_iter().map(Running::new).collect::<Result<_, Error>>()?;
        let mut running = AtMost::of(ENVIRONMENTS, running);
        // Not by the database, which sorts names as its locale does.
        running.listed.sort_by(|one, other| one.environment.name.cmp(&other.environment.name));
        Ok(running)
    }

    /// Where and when an artifact ran before, the latest end first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn ran_before(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<AtMost<Ran>, Error> {
        // That there is a last snapshot says that it ended: asked for that, SQLite would read all that ended there.
        const SELECT: &str = "
            SELECT e.name, r.started_at, r.ended_at, r.first_snapshot, r.last_snapshot, e.snapshot
            FROM environments e CROSS JOIN artifact_runs r
            WHERE e.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
              AND r.last_snapshot IS NOT NULL
            ORDER BY r.ended_at DESC, r.started_at DESC, e.name LIMIT $3";
        let rows: Vec<(String, i64, i64, i64, i64, i64)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        let ran = |(environment, started, ended, first, last, current)| Ran {
            environment,
            started_at: Timestamp::from_micros(started),
            ended_at: Timestamp::from_micros(ended),
            snapshots: (first, last),
            current,
        };
        Ok(AtMost::of(MOST, rows.into_iter().map(ran).collect()))
    }

    /// Where an artifact was built from, by repository.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn sources(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<AtMost<Source>, Error> {
        const SELECT: &str = "
            SELECT r.name, r.url, p.commit_sha, p.commit_url FROM repositories r CROSS JOIN provenance p
            WHERE r.organization = $1 AND p.organization = r.organization AND p.repository = r.id
              AND p.fingerprint = $2
            ORDER BY p.recorded_at DESC, r.id LIMIT $3";
        let rows = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }
}

impl Running {
    fn new(row: RunningRow) -> Result<Self, Error> {
        let (id, name, snapshot, last, silent, until, pods, started_at, word, allowed, reasons) = row;
        let verdict = verdict(word.as_deref(), allowed.unwrap_or_default(), reasons.as_deref())?;
        let environment = Environment::read((id, name, snapshot, last, silent, until));
        Ok(Self { environment, pods, started_at: Timestamp::from_micros(started_at), verdict })
    }
}
