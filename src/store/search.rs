//! What people look for: digests, images, pods, commits, flows and trails.
//!
//! Digests and commits are looked up by their beginnings, in indexes. Words may stand
//! anywhere in a name, which no index helps with: all image names that an organization's history holds are read, all
//! its flows, and its trails from the newest until there are enough; of the pods those that run, and those that ended
//! where too few run.

use std::collections::BTreeMap;

use super::at_most::{AtMost, one_more_than};
use super::columns::fingerprint;
use super::like::{anywhere, literal};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Timestamp};

/// As many of a kind as are found at most.
const MOST: usize = 50;

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
    as_written: String,
    lower: String,
}

impl Words {
    /// These words, taken literally.
    #[must_use]
    pub fn new(words: &str) -> Self {
        Self { as_written: anywhere(words), lower: anywhere(&words.to_lowercase()) }
    }
}

/// Whether a column holds the words of `$2` and `$3`: SQLite's `lower` knows ASCII alone.
macro_rules! holds {
    ($column:literal) => {
        concat!("(", $column, " LIKE $2 ESCAPE '!' OR lower(", $column, ") LIKE $3 ESCAPE '!')")
    };
}

impl Transaction {
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
              SELECT r.fingerprint, r.name FROM environments e CROSS JOIN artifact_runs r
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

    /// The artifacts that ran under such a name.
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
            "SELECT DISTINCT r.fingerprint, r.name FROM environments e CROSS JOIN artifact_runs r
             WHERE e.organization = $1 AND r.environment = e.id AND ",
            holds!("r.name"),
            " ORDER BY r.name, r.fingerprint LIMIT $4"
        );
        let rows: Vec<(Vec<u8>, String)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&words.as_written);
            select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
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
            ($state:literal) => {
                concat!(
                    "SELECT p.name, p.namespace, p.pod, p.started_at, p.ended_at, w.digests
                     FROM (SELECT e.name, p.namespace, p.pod, p.started_at, p.ended_at, p.workload, p.id
                           FROM environments e CROSS JOIN pod_runs p
                           WHERE e.organization = $1 AND p.environment = e.id AND ",
                    $state,
                    " AND ",
                    holds!("p.pod"),
                    "      ORDER BY p.started_at DESC, p.id LIMIT $4) p
                       CROSS JOIN workloads w
                     WHERE w.organization = $1 AND w.hash = p.workload
                     ORDER BY p.started_at DESC, p.id"
                )
            };
        }
        let mut rows: Vec<Row> = Vec::new();
        // Each has an index of its own.
        for select in [select!("p.ended_at IS NULL"), select!("p.ended_at > 0")] {
            if rows.len() <= MOST {
                rows.append(&mut on!(self, |connection| {
                    let select = sqlx::query_as(select).bind(organization).bind(&words.as_written);
                    select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
                }));
            }
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

    /// The flows with such a name, each with the number of its trails.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_flows(
        &mut self,
        organization: &str,
        words: &Words,
    ) -> Result<AtMost<(String, i64)>, Error> {
        const SELECT: &str = concat!(
            "SELECT f.name, (SELECT COUNT(*) FROM trails t WHERE t.organization = f.organization AND t.flow = f.name)
             FROM flows f WHERE f.organization = $1 AND ",
            holds!("f.name"),
            " ORDER BY f.name LIMIT $4"
        );
        let rows = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&words.as_written);
            select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }

    /// The trails with such a name, or of a flow with one, the newest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn find_trails(&mut self, organization: &str, words: &Words) -> Result<AtMost<Trail>, Error> {
        const SELECT: &str = concat!(
            "SELECT flow, name FROM trails WHERE organization = $1 AND (",
            holds!("name"),
            " OR ",
            holds!("flow"),
            ") ORDER BY created_at DESC, id DESC LIMIT $4"
        );
        let rows = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(&words.as_written);
            select.bind(&words.lower).bind(one_more_than(MOST)).fetch_all(connection).await?
        });
        Ok(AtMost::of(MOST, rows))
    }
}

fn artifacts(rows: Vec<(Vec<u8>, String)>) -> Result<AtMost<Artifact>, Error> {
    let read = |(bytes, name): (Vec<u8>, String)| Ok(Artifact { fingerprint: fingerprint(&bytes)?, name });
    Ok(AtMost::of(MOST, rows.into_iter().map(read).collect::<Result<_, Error>>()?))
}
