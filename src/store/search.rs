//! What people look for: digests, images, pods, commits, flows and trails.
//!
//! Digests and commits are looked up by their beginnings, and what is long over by its whole name, in indexes. Words may
//! stand anywhere in a name, which no index helps with: the names of what runs are read, of the flows, and of as much of
//! the past as is [`LATEST`], however much there is. Of an image's name, which nobody bounds, its first 255 characters
//! are: a pattern is compared with each beginning that a name has.

use std::collections::BTreeMap;

use super::columns::fingerprint;
use super::like_pattern::{anywhere, literal};
use super::row_limit::{AtMost, one_more_than};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Timestamp};

/// As many of a kind as are found at most.
const MOST: usize = 50;

/// As many trails that came last are looked through for a part of a name, and as many images and pods that ended last:
/// of each environment its share, and a hundred at least.
pub const LATEST: i64 = 20_000;

/// An artifact, and a name of it; empty where it never ran.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The artifact.
    pub fingerprint: Fingerprint,
    /// The image's name.
    pub name: String,
}

/// A pod that runs, or ran.
#[derive(Debug, Clone)]
pub struct Pod {
    /// The environment.
    pub environment: String,
    /// The namespace.
    pub namespace: String,
    /// The pod.
    pub name: String,
    /// Since when it ran.
    pub started_at: Timestamp,
    /// Until when; `None` while it runs.
    pub ended_at: Option<Timestamp>,
    /// What it runs, by the image's name.
    pub digests: BTreeMap<String, Fingerprint>,
}

/// A trail.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Trail {
    /// Its flow.
    pub flow: String,
    /// Its name.
    pub name: String,
}

/// Words that a name may hold anywhere, in upper or lower case.
#[derive(Debug, Clone)]
pub struct Words {
    whole: String,
    as_written: String,
    lower: String,
}

impl Words {
    /// These words, taken literally.
    #[must_use]
    pub fn new(words: &str) -> Self {
        let (as_written, lower) = (anywhere(words), anywhere(&words.to_lowercase()));
        Self { whole: words.to_owned(), as_written, lower }
    }
}

/// Whether a column holds the words of `$2` and `$3`: SQLite's `lower` knows ASCII alone.
macro_rules! holds {
    ($column:literal) => {
        concat!("(", $column, " LIKE $2 ESCAPE '!' OR lower(", $column, ") LIKE $3 ESCAPE '!')")
    };
}

/// The environments of an organization, each with when the first of so many rows of a table ended that ended last.
/// PostgreSQL would ask that for each row, were it not told to keep it.
macro_rules! environments_since {
    ($as:literal, $table:literal, $which:literal, $most:literal) => {
        concat!(
            $as,
            " AS MATERIALIZED (
               SELECT e.id, e.name,
                      COALESCE((SELECT q.ended_at FROM ",
            $table,
            "           q WHERE q.environment = e.id AND ",
            $which,
            "           AND q.ended_at IS NOT NULL ORDER BY q.ended_at DESC LIMIT 1 OFFSET ",
            $most,
            "           - 1), 0) AS since
               FROM environments e WHERE e.organization = $1)"
        )
    };
}

impl Transaction {
    /// How many of [`LATEST`] an environment has.
    async fn share(&mut self, organization: &str) -> Result<i64, Error> {
        const COUNT: &str = "SELECT COUNT(*) FROM environments WHERE organization = $1";
        let environments: i64 = on!(self, |connection| {
            sqlx::query_scalar(COUNT).bind(organization).fetch_one(connection).await?
        });
        Ok((LATEST / environments.max(1)).max(100))
    }

    /// The artifacts between two fingerprints, both included, that ran or were attested or approved.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_artifacts(
        &mut self,
        organization: &str,
        first: Fingerprint,
        last: Fingerprint,
    ) -> Result<AtMost<Artifact>, Error> {
        const SELECT: &str = "
            SELECT f.fingerprint, MAX(f.name) FROM (
              SELECT r.fingerprint, substr(r.name, 1, 255) AS name FROM environments e CROSS JOIN artifact_runs r
              WHERE e.organization = $1 AND r.environment = e.id AND r.fingerprint >= $2 AND r.fingerprint <= $3
              UNION SELECT fingerprint, '' FROM attested_artifacts
              WHERE organization = $1 AND fingerprint >= $2 AND fingerprint <= $3
              UNION SELECT target, '' FROM approvals
              WHERE organization = $1 AND target >= $2 AND target <= $3) AS f
            GROUP BY f.fingerprint ORDER BY f.fingerprint LIMIT $4";
        let rows: Vec<(Vec<u8>, String)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(first.bytes().to_vec());
            select.bind(last.bytes().to_vec()).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        artifacts(rows)
    }

    /// The artifacts that run or ran under such a name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_images(
        &mut self,
        organization: &str,
        words: &Words,
    ) -> Result<AtMost<Artifact>, Error> {
        const SELECT: &str = concat!(
            "WITH ",
            environments_since!("latest", "artifact_runs", "TRUE", "$5"),
            " SELECT f.fingerprint, f.name FROM (
               SELECT r.fingerprint, substr(r.name, 1, 255) AS name FROM environments e CROSS JOIN artifact_runs r
               WHERE e.organization = $1 AND r.environment = e.id AND r.ended_at IS NULL AND ",
            holds!("substr(r.name, 1, 255)"),
            "  UNION SELECT r.fingerprint, substr(r.name, 1, 255) FROM latest e CROSS JOIN artifact_runs r
               WHERE r.environment = e.id AND r.ended_at >= e.since AND ",
            holds!("substr(r.name, 1, 255)"),
            "  UNION SELECT fingerprint, name FROM (
                 SELECT fingerprint, substr(name, 1, 255) AS name FROM artifact_runs
                 WHERE organization = $1 AND ended_at IS NOT NULL AND substr(name, 1, 255) = $6
                 ORDER BY ended_at DESC LIMIT $5) n) AS f
             ORDER BY f.name, f.fingerprint LIMIT $4"
        );
        let share = self.share(organization).await?;
        let rows: Vec<(Vec<u8>, String)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&words.as_written).bind(&words.lower);
            let select = select.bind(one_more_than(MOST)).bind(share).bind(&words.whole);
            select.fetch_all(connection).await?
        });
        artifacts(rows)
    }

    /// The pods with such a name, those that run first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_pods(&mut self, organization: &str, words: &Words) -> Result<AtMost<Pod>, Error> {
        type Row = (String, String, String, i64, Option<i64>, String);
        // What they run is looked up once it is known which are shown.
        macro_rules! select {
            ($($which:expr),+) => {
                concat!(
                    "SELECT p.name, p.namespace, p.pod, p.started_at, p.ended_at, w.digests FROM (
                       SELECT * FROM (",
                    $($which),+,
                    "  ) u ORDER BY started_at DESC, id LIMIT $4) p
                       CROSS JOIN workloads w
                     WHERE w.organization = $1 AND w.hash = p.workload
                     ORDER BY p.started_at DESC, p.id"
                )
            };
        }
        macro_rules! pods_of {
            ($environments:literal, $which:expr) => {
                concat!(
                    "SELECT e.name, p.namespace, p.pod, p.started_at, p.ended_at, p.workload, p.id FROM ",
                    $environments,
                    " e CROSS JOIN pod_runs p WHERE p.environment = e.id AND ",
                    $which
                )
            };
        }
        const RUN: &str = select!(
            pods_of!("environments", "e.organization = $1 AND p.ended_at IS NULL AND "),
            holds!("p.pod")
        );
        const RAN: &str = concat!(
            "WITH ",
            environments_since!("latest", "pod_runs", "TRUE", "$5"),
            ", ",
            environments_since!("named", "pod_runs", "q.pod = $6", "$4"),
            select!(
                pods_of!("latest", "p.ended_at >= e.since AND "),
                holds!("p.pod"),
                " UNION ",
                pods_of!("named", "p.ended_at >= e.since AND p.pod = $6")
            )
        );
        let mut rows: Vec<Row> = on!(self, |connection| {
            let select = sqlx::query_as(RUN).bind(organization).bind(&words.as_written);
            select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        if rows.len() <= MOST {
            let share = self.share(organization).await?;
            rows.append(&mut on!(self, |connection| {
                let select =
                    sqlx::query_as(RAN).bind(organization).bind(&words.as_written).bind(&words.lower);
                let select = select.bind(one_more_than(MOST)).bind(share).bind(&words.whole);
                select.fetch_all(connection).await?
            }));
        }
        let pods = rows.into_iter().map(|(environment, namespace, name, started, ended, digests)| {
            Ok(Pod {
                environment,
                namespace,
                name,
                started_at: Timestamp::from_micros(started),
                ended_at: ended.map(Timestamp::from_micros),
                digests: serde_json::from_str(&digests).map_err(|_| Error::Unreadable("a workload"))?,
            })
        });
        Ok(AtMost::of(MOST, pods.collect::<Result<_, Error>>()?))
    }

    /// What was built from commits that begin with these hex digits, each with its commit.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_built(
        &mut self,
        organization: &str,
        commit: &str,
    ) -> Result<AtMost<(String, Fingerprint)>, Error> {
        // What begins with them lies before them with a `g`, wherever a locale puts digits.
        const SELECT: &str = "
            SELECT DISTINCT commit_sha, fingerprint FROM provenance
            WHERE organization = $1 AND commit_sha >= $2 AND commit_sha < $3
            ORDER BY commit_sha, fingerprint LIMIT $4";
        let rows: Vec<(String, Vec<u8>)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(commit).bind(format!("{commit}g"));
            select.bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        let built = rows.into_iter().map(|(commit, artifact)| Ok((commit, fingerprint(&artifact)?)));
        Ok(AtMost::of(MOST, built.collect::<Result<_, Error>>()?))
    }

    /// The trails of commits that begin with these hex digits, the newest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_trails_of(&mut self, organization: &str, commit: &str) -> Result<AtMost<Trail>, Error> {
        // Between them and them with a `g` in an index of the first forty, as above; a hash may be longer.
        const SELECT: &str = "
            SELECT flow, name FROM trails
            WHERE organization = $1 AND substr(git_commit_info, 10, 40) >= $2
              AND substr(git_commit_info, 10, 40) < $3 AND git_commit_info LIKE $4 ESCAPE '!'
            ORDER BY created_at DESC, id DESC LIMIT $5";
        // A commit's hash is what is written first of it.
        let pattern = format!("{}%", literal(&format!("{{\"sha1\":\"{commit}")));
        let first: String = commit.chars().take(40).collect();
        let rows = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&first).bind(format!("{first}g"));
            select.bind(pattern).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }

    /// The flows with such a name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_flows(&mut self, organization: &str, words: &Words) -> Result<AtMost<String>, Error> {
        const SELECT: &str = concat!(
            "SELECT f.name FROM flows f WHERE f.organization = $1 AND ",
            holds!("f.name"),
            " ORDER BY f.name LIMIT $4"
        );
        let rows = on!(self, |connection| {
            let select = sqlx::query_scalar(SELECT).bind(organization).bind(&words.as_written);
            select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }

    /// The trails with such a name, and the latest of each flow with one, the newest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_trails(&mut self, organization: &str, words: &Words) -> Result<AtMost<Trail>, Error> {
        // Of the flows those whose trails are the newest, each with when so many of its trails began.
        const SELECT: &str = concat!(
            "WITH named AS MATERIALIZED (
               SELECT f.name, COALESCE((SELECT q.created_at FROM trails q WHERE q.organization = $1 AND q.flow = f.name
                                        ORDER BY q.created_at DESC LIMIT 1), 0) AS last
               FROM flows f WHERE f.organization = $1 AND ",
            holds!("f.name"),
            "  ORDER BY last DESC LIMIT $4), since AS MATERIALIZED (
               SELECT f.name, COALESCE((SELECT q.created_at FROM trails q WHERE q.organization = $1 AND q.flow = f.name
                                        ORDER BY q.created_at DESC LIMIT 1 OFFSET $4 - 1), 0) AS since
               FROM named f)
             SELECT flow, name FROM (
               SELECT * FROM (SELECT flow, name, created_at, id FROM trails WHERE organization = $1
                              ORDER BY created_at DESC, id DESC LIMIT $5) t
               WHERE ",
            holds!("name"),
            "  UNION SELECT t.flow, t.name, t.created_at, t.id FROM since f CROSS JOIN trails t
               WHERE t.organization = $1 AND t.flow = f.name AND t.created_at >= f.since
               UNION SELECT t.flow, t.name, t.created_at, t.id FROM flows f CROSS JOIN trails t
               WHERE f.organization = $1 AND t.organization = $1 AND t.flow = f.name AND t.name = $6) AS u
             ORDER BY created_at DESC, id DESC LIMIT $4"
        );
        let rows = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&words.as_written).bind(&words.lower);
            let select = select.bind(one_more_than(MOST)).bind(LATEST).bind(&words.whole);
            select.fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }
}

fn artifacts(rows: Vec<(Vec<u8>, String)>) -> Result<AtMost<Artifact>, Error> {
    let read = |(bytes, name): (Vec<u8>, String)| Ok(Artifact { fingerprint: fingerprint(&bytes)?, name });
    Ok(AtMost::of(MOST, rows.into_iter().map(read).collect::<Result<_, Error>>()?))
}
