//! Searches digests, images, pods, commits, flows, repositories and trails.
//!
//! Indexes find digests and commits by prefix, and ended runs by exact name. No index finds a text anywhere in a name:
//! a search scans running pods and artifacts, flows, repositories, and the latest [`MAX_SCANNED`] ended runs and trails. Only the
//! first 255 characters of an image name are searched: its length is unlimited, and `LIKE` is slow on long names.

use std::collections::BTreeMap;

use serde::Serialize;
use sqlx::AssertSqlSafe;

use crate::database::columns::Json;
use crate::database::from_row::all_from_rows;
use crate::database::like_pattern::{anywhere, literal};
use crate::database::row_limit::{AtMost, one_more_than};
use crate::database::transaction::{fetch_all, fetch_scalar, fetch_scalars, on};
use crate::{Error, Tenant, Transaction};
use model::{Fingerprint, Timestamp};

/// Maximum number of results per kind.
const MAX_RESULTS: usize = 50;

/// Maximum number of latest trails, and of last ended images and pods, that are scanned. Environments share the pods
/// equally, with at least 10 each.
pub const MAX_SCANNED: i64 = 5_000;

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Artifact {
    pub fingerprint: Fingerprint,
    /// The name of an image or a file; empty if the artifact neither ran nor was reported.
    pub name: String,
}

/// Where and when a pod ran.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct PodRun {
    /// The environment.
    pub environment: String,
    /// The namespace.
    pub namespace: String,
    /// Its name.
    #[sqlx(rename = "pod")]
    #[serde(skip)]
    pub name: String,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs.
    pub ended_at: Option<Timestamp>,
    /// Its digests by image name.
    #[sqlx(try_from = "Json<BTreeMap<String, Fingerprint>>")]
    pub digests: BTreeMap<String, Fingerprint>,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Trail {
    pub flow: String,
    pub name: String,
}

/// A text to search for anywhere in a name, ignoring the case of ASCII letters.
#[derive(Debug, Clone)]
pub struct SearchText {
    text: String,
    pattern: String,
}

impl SearchText {
    /// Wildcards in the text match only themselves.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), pattern: anywhere(&text.to_ascii_lowercase()) }
    }
}

/// Matches a column with the pattern `$2`. `LIKE` ignores the case of ASCII letters on SQLite only. The rules of a
/// language make `lower` of PostgreSQL three times as slow.
fn contains_text(transaction: &mut Transaction, column: &str) -> String {
    match transaction {
        Transaction::Sqlite(_) => format!("{column} LIKE $2 ESCAPE '!'"),
        Transaction::Postgres(_) => format!("lower({column} COLLATE \"C\") LIKE $2 ESCAPE '!'"),
    }
}

/// The environments of an organization, each with its `limit` last ended pods. SQLite has no `LATERAL`, and evaluates
/// the subquery once per environment, because an index range starts there. PostgreSQL would read the whole table
/// instead.
fn last_ended_pods(transaction: &mut Transaction, condition: &str, limit: &str) -> String {
    match transaction {
        Transaction::Sqlite(_) => format!(
            "environments e CROSS JOIN pod_runs p
             WHERE e.organization = $1 AND p.organization = $1 AND p.environment = e.id AND {condition}
               AND p.ended_at >= COALESCE((SELECT p.ended_at FROM pod_runs p
                               WHERE p.organization = $1 AND p.environment = e.id AND {condition}
                                 AND p.ended_at IS NOT NULL ORDER BY p.ended_at DESC LIMIT 1 OFFSET {limit} - 1), 0)"
        ),
        Transaction::Postgres(_) => format!(
            "environments e CROSS JOIN LATERAL (
               SELECT * FROM pod_runs p WHERE p.organization = $1 AND p.environment = e.id AND {condition}
                 AND p.ended_at IS NOT NULL ORDER BY p.ended_at DESC LIMIT {limit}) p
             WHERE e.organization = $1"
        ),
    }
}

/// An environment's share of the scanned pods.
async fn scanned_per_environment(tenant: &mut Tenant<'_>) -> Result<i64, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM environments WHERE organization = $1";
    let environments: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name);
    Ok((MAX_SCANNED / environments.max(1)).max(10))
}

/// The artifacts between two fingerprints, inclusive, that ran, or were reported, attested or approved.
pub async fn artifacts(
    tenant: &mut Tenant<'_>,
    first: Fingerprint,
    last: Fingerprint,
) -> Result<AtMost<Artifact>, Error> {
    const SELECT: &str = "
        SELECT f.fingerprint, MAX(f.name) AS name FROM (
          SELECT r.fingerprint, substr(r.name, 1, 255) AS name FROM environments e CROSS JOIN artifact_runs r
          WHERE e.organization = $1 AND r.organization = $1 AND r.environment = e.id AND r.fingerprint >= $2
            AND r.fingerprint <= $3
          UNION SELECT fingerprint, substr(name, 1, 255) FROM reported_artifacts
          WHERE organization = $1 AND fingerprint >= $2 AND fingerprint <= $3
          UNION SELECT fingerprint, '' FROM attested_artifacts
          WHERE organization = $1 AND fingerprint >= $2 AND fingerprint <= $3
          UNION SELECT target, '' FROM approvals
          WHERE organization = $1 AND target >= $2 AND target <= $3) AS f
        GROUP BY f.fingerprint ORDER BY f.fingerprint LIMIT $4";
    let rows = fetch_all!(tenant.tx, SELECT, tenant.name, first, last, one_more_than(MAX_RESULTS));
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The running and ended artifacts with a matching image name.
pub async fn images(tenant: &mut Tenant<'_>, text: &SearchText) -> Result<AtMost<Artifact>, Error> {
    let matches = contains_text(tenant.tx, "name");
    let select = AssertSqlSafe(format!(
        "SELECT fingerprint, name FROM (
           SELECT fingerprint, substr(name, 1, 255) AS name FROM artifact_runs
           WHERE organization = $1 AND ended_at IS NULL
           UNION ALL SELECT fingerprint, name FROM (
             SELECT fingerprint, substr(name, 1, 255) AS name FROM artifact_runs
             WHERE organization = $1 AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT $4) l) r
         WHERE {matches}
         UNION SELECT fingerprint, name FROM (
           SELECT fingerprint, substr(name, 1, 255) AS name FROM artifact_runs
           WHERE organization = $1 AND ended_at IS NOT NULL AND substr(name, 1, 255) = $5
           ORDER BY ended_at DESC LIMIT $4) n
         ORDER BY name, fingerprint LIMIT $3"
    ));
    let limit = one_more_than(MAX_RESULTS);
    let rows = fetch_all!(tenant.tx, select, tenant.name, &text.pattern, limit, MAX_SCANNED, &text.text);
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The pods with a matching name, running pods first.
pub async fn pods(tenant: &mut Tenant<'_>, text: &SearchText) -> Result<AtMost<PodRun>, Error> {
    const PODS: &str = "SELECT e.name, p.namespace, p.pod, p.started_at, p.ended_at, p.workload, p.id FROM";
    // Joins the workloads only of the pods within the limit.
    let select = |pods: String| {
        AssertSqlSafe(format!(
            "SELECT p.name AS environment, p.namespace, p.pod, p.started_at, p.ended_at, w.digests
             FROM (SELECT * FROM ({pods}) u ORDER BY started_at DESC, id LIMIT $3) p CROSS JOIN workloads w
             WHERE w.organization = $1 AND w.hash = p.workload
             ORDER BY p.started_at DESC, p.id"
        ))
    };
    let matches = contains_text(tenant.tx, "p.pod");
    let running = select(format!(
        "{PODS} environments e CROSS JOIN pod_runs p
         WHERE e.organization = $1 AND p.organization = $1 AND p.environment = e.id AND p.ended_at IS NULL
           AND {matches}"
    ));
    let limit = one_more_than(MAX_RESULTS);
    let mut pods: Vec<PodRun> = fetch_all!(tenant.tx, running, tenant.name, &text.pattern, limit);
    if pods.len() <= MAX_RESULTS {
        let scanned = last_ended_pods(tenant.tx, "TRUE", "$4");
        let named = last_ended_pods(tenant.tx, "p.pod = $5", "$3");
        let ended =
            select(format!("{PODS} {scanned} AND p.pod <> $5 AND {matches} UNION ALL {PODS} {named}"));
        let share = scanned_per_environment(tenant).await?;
        pods.append(&mut fetch_all!(tenant.tx, ended, tenant.name, &text.pattern, limit, share, &text.text));
    }
    Ok(AtMost::from_rows(MAX_RESULTS, pods))
}

/// The artifacts that were built from commits with this prefix of hex digits, each with its commit: by their origin, or
/// as pipelines reported them in trails of the commit. With `flow`: only artifacts of this flow.
pub async fn artifacts_of_commit(
    tenant: &mut Tenant<'_>,
    commit: &str,
    flow: Option<&str>,
) -> Result<AtMost<(String, Fingerprint)>, Error> {
    // Hashes with the prefix sort before the prefix with a `g` in any locale. The index of trails has the first 40
    // digits of a hash, which is the first field of its JSON. A report may be of another commit than its trail.
    const SELECT: &str = "
        SELECT DISTINCT b.commit_sha, b.fingerprint FROM (
          SELECT commit_sha, fingerprint FROM provenance
          WHERE organization = $1 AND commit_sha >= $2 AND commit_sha < $3
          UNION ALL
          SELECT substr(t.git_commit_info, 10, CASE WHEN substr(t.git_commit_info, 50, 1) = '\"' THEN 40 ELSE 64 END),
                 r.fingerprint
          FROM trails t CROSS JOIN reported_artifacts r
          WHERE t.organization = $1 AND substr(t.git_commit_info, 10, 40) >= $4
            AND substr(t.git_commit_info, 10, 40) < $5 AND t.git_commit_info LIKE $6 ESCAPE '!'
            AND r.organization = t.organization AND r.trail = t.id AND r.content LIKE $7 ESCAPE '!') AS b
        WHERE $8 = '' OR EXISTS (SELECT 1 FROM flow_artifacts f
                                 WHERE f.organization = $1 AND f.flow = $8 AND f.fingerprint = b.fingerprint)
        ORDER BY b.commit_sha, b.fingerprint LIMIT $9";
    let first: String = commit.chars().take(40).collect();
    let built = on!(tenant.tx, |connection| {
        let select = sqlx::query(SELECT).bind(tenant.name).bind(commit).bind(format!("{commit}g"));
        let select = select.bind(&first).bind(format!("{first}g")).bind(commit_pattern(commit));
        let select = select.bind(format!("%{}%", literal(&format!("\"git_commit\":\"{commit}"))));
        let select = select.bind(flow.unwrap_or_default()).bind(one_more_than(MAX_RESULTS));
        select.fetch_all(connection).await.and_then(all_from_rows)?
    });
    Ok(AtMost::from_rows(MAX_RESULTS, built))
}

/// The trails of commits with this prefix of hex digits, newest first.
pub async fn trails_of_commit(tenant: &mut Tenant<'_>, commit: &str) -> Result<AtMost<Trail>, Error> {
    // As in `find_artifacts_of_commit`. The index has the first 40 digits; a hash may be longer.
    const SELECT: &str = "
        SELECT flow, name FROM trails
        WHERE organization = $1 AND substr(git_commit_info, 10, 40) >= $2
          AND substr(git_commit_info, 10, 40) < $3 AND git_commit_info LIKE $4 ESCAPE '!'
        ORDER BY created_at DESC, id DESC LIMIT $5";
    let prefix: String = commit.chars().take(40).collect();
    let rows = fetch_all!(
        tenant.tx,
        SELECT,
        tenant.name,
        &prefix,
        format!("{prefix}g"),
        commit_pattern(commit),
        one_more_than(MAX_RESULTS)
    );
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The environments with a matching name.
pub async fn environments(tenant: &mut Tenant<'_>, text: &SearchText) -> Result<AtMost<String>, Error> {
    let matches = contains_text(tenant.tx, "e.name");
    let select = AssertSqlSafe(format!(
        "SELECT e.name FROM environments e WHERE e.organization = $1 AND e.archived_at IS NULL AND {matches} ORDER BY e.name LIMIT $3"
    ));
    let rows = fetch_scalars!(tenant.tx, select, tenant.name, &text.pattern, one_more_than(MAX_RESULTS));
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The flows with a matching name.
pub async fn flows(tenant: &mut Tenant<'_>, text: &SearchText) -> Result<AtMost<String>, Error> {
    let matches = contains_text(tenant.tx, "f.name");
    let select = AssertSqlSafe(format!(
        "SELECT f.name FROM flows f WHERE f.organization = $1 AND {matches} ORDER BY f.name LIMIT $3"
    ));
    let rows = fetch_scalars!(tenant.tx, select, tenant.name, &text.pattern, one_more_than(MAX_RESULTS));
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The open repositories with a matching name.
pub async fn repositories(tenant: &mut Tenant<'_>, text: &SearchText) -> Result<AtMost<String>, Error> {
    let matches = contains_text(tenant.tx, "r.name");
    let select = AssertSqlSafe(format!(
        "SELECT DISTINCT r.name FROM repositories r
         WHERE r.organization = $1 AND r.closed_at IS NULL AND {matches} ORDER BY r.name LIMIT $3"
    ));
    let rows = fetch_scalars!(tenant.tx, select, tenant.name, &text.pattern, one_more_than(MAX_RESULTS));
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// The trails with a matching name, and the latest trails of flows with a matching name, newest first, without those
/// that are listed elsewhere.
pub async fn trails(
    tenant: &mut Tenant<'_>,
    text: &SearchText,
    elsewhere: &[Trail],
) -> Result<AtMost<Trail>, Error> {
    let (flow_matches, matches) = (contains_text(tenant.tx, "f.name"), contains_text(tenant.tx, "name"));
    // The matching flows with the newest trails, each with the start of its oldest trail within the limit.
    let select = AssertSqlSafe(format!(
        "WITH named AS MATERIALIZED (
           SELECT f.name, COALESCE((SELECT q.created_at FROM trails q WHERE q.organization = $1 AND q.flow = f.name
                                    ORDER BY q.created_at DESC LIMIT 1), 0) AS last
           FROM flows f WHERE f.organization = $1 AND {flow_matches} ORDER BY last DESC LIMIT $3),
         since AS MATERIALIZED (
           SELECT f.name, COALESCE((SELECT q.created_at FROM trails q WHERE q.organization = $1 AND q.flow = f.name
                                    ORDER BY q.created_at DESC LIMIT 1 OFFSET $3 - 1), 0) AS since
           FROM named f)
         SELECT flow, name FROM (
           SELECT * FROM (SELECT flow, name, created_at, id FROM trails WHERE organization = $1
                          ORDER BY created_at DESC, id DESC LIMIT $4) t
           WHERE {matches}
           UNION SELECT t.flow, t.name, t.created_at, t.id FROM since f CROSS JOIN trails t
           WHERE t.organization = $1 AND t.flow = f.name AND t.created_at >= f.since
           UNION SELECT t.flow, t.name, t.created_at, t.id FROM flows f CROSS JOIN trails t
           WHERE f.organization = $1 AND t.organization = $1 AND t.flow = f.name AND t.name = $5) AS u
         ORDER BY created_at DESC, id DESC LIMIT $3"
    ));
    let limit = one_more_than(MAX_RESULTS + elsewhere.len());
    let mut rows: Vec<Trail> =
        fetch_all!(tenant.tx, select, tenant.name, &text.pattern, limit, MAX_SCANNED, &text.text);
    rows.retain(|trail| !elsewhere.contains(trail));
    Ok(AtMost::from_rows(MAX_RESULTS, rows))
}

/// Matches the commit of a trail, which is serialized with the hash first.
fn commit_pattern(commit: &str) -> String {
    format!("{}%", literal(&format!("{{\"sha1\":\"{commit}")))
}
