//! What is known of one artifact or trail, for people who look at it.

use std::time::Duration;

use sqlx::types::Uuid;

use super::live::Environment;
use super::rows::{Bytes, rows};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::compliance::Compliance;
use crate::domain::model::{Fingerprint, FreeForm, GitCommit, JunitResult, Timestamp};
use crate::domain::standing::Verdict;

/// As many of a kind as are read at most, the latest first.
pub const MOST: usize = 100;

/// As many environments are read in which an artifact runs: all, but for the largest fleets.
pub const ENVIRONMENTS: usize = 400;

/// The latest of a kind, and whether there are more.
#[derive(Debug, Clone)]
pub struct Latest<T> {
    /// At most [`MOST`], or [`ENVIRONMENTS`].
    pub listed: Vec<T>,
    /// Whether earlier ones were left off.
    pub has_more: bool,
}

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

/// An attestation as lists show it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its identifier.
    pub id: Uuid,
    /// Its flow.
    pub flow: String,
    /// Its trail.
    pub trail: String,
    /// Its name.
    pub name: String,
    /// Whether it passes.
    pub passes: bool,
    /// The results of all suites together.
    pub results: JunitResult,
    /// When it came.
    pub created_at: Timestamp,
    /// Whose token it came with.
    pub reported_by: String,
    /// Whether a later one took its place.
    pub is_superseded: bool,
    /// Whether a commit was tested.
    pub has_commit: bool,
}

/// An attestation with all that was kept of it but the file.
#[derive(Debug, Clone)]
pub struct Attested {
    /// Its identifier.
    pub id: Uuid,
    /// Its flow.
    pub flow: String,
    /// Its trail.
    pub trail: String,
    /// Its name.
    pub name: String,
    /// The artifacts of the template that it is about, each by its name.
    pub targets: Vec<String>,
    /// Whether it passes.
    pub passes: bool,
    /// The results, one a suite.
    pub results: Vec<JunitResult>,
    /// When it came.
    pub created_at: Timestamp,
    /// Whose token it came with.
    pub reported_by: String,
    /// Whether a later one took its place.
    pub is_superseded: bool,
    /// What a person wrote about it.
    pub description: String,
    /// Where it came from.
    pub origin_url: String,
    /// Anything.
    pub user_data: FreeForm,
    /// Addresses by name.
    pub external_urls: FreeForm,
    /// The commit that was tested.
    pub commit: Option<GitCommit>,
    /// How many bytes the file has that came with it, where one did.
    pub attachment: Option<i64>,
    /// What that file was called.
    pub attachment_name: Option<String>,
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

/// Results up to this length are read with a list; longer ones by themselves, one after the other.
const SHORT: i64 = 16 * 1024;

type ListedRow = (Uuid, String, String, String, bool, Option<String>, i64, String, bool, bool);

/// What lists read of attestations; what follows says which. `$1` is [`SHORT`], and a commit's hash is what is
/// written first of it.
macro_rules! listed {
    ($which:literal) => {
        concat!(
            "SELECT a.id, a.flow, t.name, a.name, a.is_compliant,
                    CASE WHEN LENGTH(a.results) <= $1 THEN a.results END, a.created_at, a.reported_by,
                    a.superseded_by IS NOT NULL,
                    a.git_commit_info IS NOT NULL AND a.git_commit_info LIKE '{\"sha1\":\"%'
             FROM attestations a JOIN trails t ON t.id = a.trail
             WHERE ",
            $which
        )
    };
}

impl Transaction {
    /// The names that an artifact was last reported under in each of its runs, that of the latest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn names(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<Latest<String>, Error> {
        const SELECT: &str = "
            SELECT r.name FROM environments e CROSS JOIN artifact_runs r
            WHERE e.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
            GROUP BY r.name ORDER BY MAX(r.started_at) DESC, r.name LIMIT $3";
        Ok(Latest::of(on!(self, |connection| {
            let select = sqlx::query_scalar(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(wanted()).fetch_all(connection).await?
        })))
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
    ) -> Result<Latest<Running>, Error> {
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
        let mut running = Latest::of_at_most(ENVIRONMENTS, running);
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
    ) -> Result<Latest<Ran>, Error> {
        // That there is a last snapshot says that it ended: asked for that, SQLite would read all that ended there.
        const SELECT: &str = "
            SELECT e.name, r.started_at, r.ended_at, r.first_snapshot, r.last_snapshot, e.snapshot
            FROM environments e CROSS JOIN artifact_runs r
            WHERE e.organization = $1 AND r.environment = e.id AND r.fingerprint = $2
              AND r.last_snapshot IS NOT NULL
            ORDER BY r.ended_at DESC, r.started_at DESC, e.name LIMIT $3";
        let rows: Vec<(String, i64, i64, i64, i64, i64)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(wanted()).fetch_all(connection).await?
        });
        Ok(Latest::of(
            rows.into_iter()
                .map(|(environment, started, ended, first, last, current)| Ran {
                    environment,
                    started_at: Timestamp::from_micros(started),
                    ended_at: Timestamp::from_micros(ended),
                    snapshots: (first, last),
                    current,
                })
                .collect(),
        ))
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
    ) -> Result<Latest<Source>, Error> {
        const SELECT: &str = "
            SELECT r.name, r.url, p.commit_sha, p.commit_url FROM repositories r CROSS JOIN provenance p
            WHERE r.organization = $1 AND p.organization = r.organization AND p.repository = r.id
              AND p.fingerprint = $2
            ORDER BY p.recorded_at DESC, r.id LIMIT $3";
        Ok(Latest::of(on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.bind(wanted()).fetch_all(connection).await?
        })))
    }

    /// The attestations of an artifact, the latest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestations_of_artifact(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<Latest<Listed>, Error> {
        const SELECT: &str = listed!(
            "a.id IN (SELECT attestation FROM attested_artifacts WHERE organization = $3 AND fingerprint = $4)
             ORDER BY a.created_at DESC, a.id DESC LIMIT $2"
        );
        let rows: Vec<ListedRow> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(SHORT).bind(wanted()).bind(organization);
            select.bind(artifact.bytes().to_vec()).fetch_all(connection).await?
        });
        self.listed(rows).await
    }

    /// The attestations of a trail, those that count before those that no longer do, the latest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestations_of_trail(&mut self, trail: Uuid) -> Result<Latest<Listed>, Error> {
        const SELECT: &str = listed!(
            "a.trail = $3
             ORDER BY CASE WHEN a.superseded_by IS NULL THEN 0 ELSE 1 END, a.created_at DESC, a.id DESC
             LIMIT $2"
        );
        let rows: Vec<ListedRow> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(SHORT).bind(wanted()).bind(trail).fetch_all(connection).await?
        });
        self.listed(rows).await
    }

    /// Attestations, with the results that were too long to be read together.
    async fn listed(&mut self, rows: Vec<ListedRow>) -> Result<Latest<Listed>, Error> {
        const RESULTS: &str = "SELECT results FROM attestations WHERE id = $1";
        let Latest { listed: rows, has_more } = Latest::of(rows);
        let mut listed = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, flow, trail, name, passes, results, created, reported_by, is_superseded, has_commit) =
                row;
            let results: String = match results {
                Some(results) => results,
                None => on!(self, |connection| {
                    sqlx::query_scalar(RESULTS).bind(id).fetch_one(connection).await?
                }),
            };
            let results: Vec<JunitResult> =
                serde_json::from_str(&results).map_err(|_| Error::Unreadable("an attestation"))?;
            listed.push(Listed {
                id,
                flow,
                trail,
                name,
                passes,
                results: JunitResult::of_all(&results),
                created_at: Timestamp::from_micros(created),
                reported_by,
                is_superseded,
                has_commit,
            });
        }
        Ok(Latest { listed, has_more })
    }

    /// One attestation of an organization.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attestation(&mut self, organization: &str, id: Uuid) -> Result<Option<Attested>, Error> {
        const SELECT: &str = "
            SELECT a.id, a.flow, t.name AS trail, a.name, a.targets, a.is_compliant, a.results, a.created_at,
                   a.reported_by, a.superseded_by IS NOT NULL AS is_superseded, a.description, a.origin_url,
                   a.user_data, a.external_urls, a.git_commit_info, a.attachment_name,
                   CAST(length(x.content) AS BIGINT) AS attachment
            FROM attestations a JOIN trails t ON t.id = a.trail
              LEFT JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
            WHERE a.organization = $1 AND a.id = $2";
        let row: Option<Row> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(organization).bind(id).fetch_optional(connection).await?
        });
        row.map(Row::read).transpose()
    }

    /// The artifacts that an attestation is about.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn artifacts_of_attestation(&mut self, id: Uuid) -> Result<Latest<Fingerprint>, Error> {
        let rows: Vec<(Bytes,)> = rows!(
            self,
            "hex(fingerprint)",
            "SELECT fingerprint FROM attested_artifacts WHERE attestation = $1 ORDER BY fingerprint LIMIT $2",
            |query| query.bind(id).bind(wanted())
        );
        Ok(Latest::of(rows.into_iter().map(|(Bytes(artifact),)| artifact).collect()))
    }

    /// The file that came with an attestation.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn attachment(&mut self, organization: &str, id: Uuid) -> Result<Option<Vec<u8>>, Error> {
        const SELECT: &str = "
            SELECT x.content FROM attestations a
              JOIN attachments x ON x.organization = a.organization AND x.sha256 = a.attachment
            WHERE a.organization = $1 AND a.id = $2";
        Ok(on!(self, |connection| {
            sqlx::query_scalar(SELECT).bind(organization).bind(id).fetch_optional(connection).await?
        }))
    }
}

/// As many rows as are asked for.
pub(super) fn wanted() -> i64 {
    one_more_than(MOST)
}

/// One more than is shown says whether there are more.
fn one_more_than(most: usize) -> i64 {
    i64::try_from(most).map_or(i64::MAX, |most| most.saturating_add(1))
}

impl<T> Latest<T> {
    pub(super) fn of(listed: Vec<T>) -> Self {
        Self::of_at_most(MOST, listed)
    }

    fn of_at_most(most: usize, mut listed: Vec<T>) -> Self {
        let has_more = listed.len() > most;
        listed.truncate(most);
        Self { listed, has_more }
    }
}

impl Running {
    fn new(row: RunningRow) -> Result<Self, Error> {
        let (id, name, snapshot, last, silent, until, pods, started_at, word, allowed, reasons) = row;
        let verdict = match (word, reasons) {
            (Some(word), Some(reasons)) => Verdict {
                compliance: word.parse::<Compliance>().map_err(|_| Error::Unreadable("a verdict"))?,
                is_allowed: allowed.unwrap_or_default(),
                reasons: serde_json::from_str(&reasons).map_err(|_| Error::Unreadable("reasons"))?,
            },
            _ => Verdict::UNKNOWN,
        };
        let environment = Environment {
            name,
            id,
            snapshot,
            last_report_at: Timestamp::from_micros(last),
            silent_after: silent.map(|micros| Duration::from_micros(micros.unsigned_abs())),
            compliant_until: until.map(Timestamp::from_micros),
        };
        Ok(Self { environment, pods, started_at: Timestamp::from_micros(started_at), verdict })
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    flow: String,
    trail: String,
    name: String,
    targets: String,
    is_compliant: bool,
    results: String,
    created_at: i64,
    reported_by: String,
    is_superseded: bool,
    description: String,
    origin_url: String,
    user_data: String,
    external_urls: String,
    git_commit_info: Option<String>,
    attachment_name: Option<String>,
    attachment: Option<i64>,
}

impl Row {
    fn read(self) -> Result<Attested, Error> {
        let unreadable = |_| Error::Unreadable("an attestation");
        let commit = self.git_commit_info.map(|commit| serde_json::from_str(&commit)).transpose();
        Ok(Attested {
            id: self.id,
            flow: self.flow,
            trail: self.trail,
            name: self.name,
            targets: serde_json::from_str(&self.targets).map_err(unreadable)?,
            passes: self.is_compliant,
            results: serde_json::from_str(&self.results).map_err(unreadable)?,
            created_at: Timestamp::from_micros(self.created_at),
            reported_by: self.reported_by,
            is_superseded: self.is_superseded,
            description: self.description,
            origin_url: self.origin_url,
            user_data: serde_json::from_str(&self.user_data).map_err(unreadable)?,
            external_urls: serde_json::from_str(&self.external_urls).map_err(unreadable)?,
            commit: commit.map_err(unreadable)?,
            attachment: self.attachment,
            attachment_name: self.attachment_name,
        })
    }
}
