//! Records and reads the origins of artifacts, and the flows that own repositories and images.
//!
//! `claims` has what flows named, and `provenance` the claim that counts for each artifact: of the highest priority, the first
//! that was recorded, whenever it got its priority. Attestations exclude each other within an organization, so two cannot
//! record the same artifact at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::{fetch_all, fetch_for_all, for_all, insert};
use crate::precedence::precedes;
use crate::repositories::{RecordedRepository, RepositorySource};
use crate::{Error, Tenant};
use model::{Fingerprint, GitCommit, RepositoryInfo, Timestamp, UrlText};
use rules::ownership::Ownership;

/// The origin that a request names.
#[derive(Debug, Clone, Copy)]
pub struct ArtifactOrigin<'a> {
    /// The flow and the token.
    pub reporter: RepositorySource<'a>,
    pub named: &'a RepositoryInfo,
    pub commit: Option<&'a GitCommit>,
    /// The URL of a page about the commit.
    pub commit_url: Option<&'a str>,
    /// The attestation; `None` for the report of an artifact.
    pub attestation: Option<Uuid>,
    /// The report of an artifact; `None` for an attestation.
    pub report: Option<Uuid>,
    /// When it was received: later than all other requests of the flow.
    pub at: Timestamp,
}

/// The effect of the origin that a request names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OriginEffect {
    /// Number of artifacts for which it is new and differs from the origin that counts.
    pub conflicts: i64,
    /// Number of artifacts for which it replaced the origin of another flow or repository.
    pub replaced: usize,
    /// Describes a new or changed repository.
    pub repository: Option<String>,
}

/// A repository and commit that an artifact was built from, as a flow named them.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Source {
    pub name: String,
    pub url: Option<String>,
    pub commit_sha: Option<String>,
    /// The URL of a page about the commit.
    pub commit_url: Option<String>,
    pub flow: String,
    /// The name of the token.
    pub reported_by: String,
    pub recorded_at: Timestamp,
}

/// Matches claims that differ from the origin that counts.
macro_rules! is_conflict {
    () => {
        "(c.url IS NOT NULL OR NOT EXISTS (
            SELECT 1 FROM provenance p
            WHERE p.organization = c.organization AND p.fingerprint = c.fingerprint AND p.repository = c.repository
              AND COALESCE(c.commit_sha = p.commit_sha, TRUE)))"
    };
}

/// The flows that own repositories or images.
pub async fn ownerships(tenant: &mut Tenant<'_>) -> Result<BTreeMap<String, Ownership>, Error> {
    const SELECT: &str =
        "SELECT flow, content FROM flow_ownerships WHERE organization = $1 AND closed_at IS NULL";
    let rows: Vec<(String, Json<Ownership>)> = fetch_all!(tenant.tx, SELECT, tenant.name);
    Ok(rows.into_iter().map(|(flow, Json(ownership))| (flow, ownership)).collect())
}

/// The names under which artifacts ran.
pub async fn names(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<(Fingerprint, String)>, Error> {
    const SELECT: &str = "
        SELECT DISTINCT r.fingerprint, r.name FROM environments e CROSS JOIN artifact_runs r
        WHERE r.environment = e.id AND e.organization = ? AND r.organization = ? AND r.fingerprint IN (?)";
    Ok(fetch_for_all!(tenant.tx, SELECT, artifacts.iter().copied(), tenant.name, tenant.name))
}

/// Records the origin that a request names for artifacts, and the origins that it determines.
pub async fn record(
    tenant: &mut Tenant<'_>,
    repository: RecordedRepository,
    origin: ArtifactOrigin<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<OriginEffect, Error> {
    const DELETE: &str = concat!(
        "DELETE FROM provenance AS p WHERE EXISTS (
            SELECT 1 FROM claims c
            WHERE c.organization = p.organization AND c.fingerprint = p.fingerprint AND ",
        precedes!(),
        " AND c.flow = ? AND c.repository = ?)
          AND organization = ? AND fingerprint IN (?) RETURNING flow, repository"
    );
    const INSERT: &str = "
        INSERT INTO provenance (organization, repository, fingerprint, commit_sha, commit_url, recorded_at,
                                flow, reported_by, priority)
        SELECT organization, repository, fingerprint, commit_sha, commit_url, recorded_at, flow, reported_by, priority
        FROM claims c WHERE flow = ? AND repository = ? AND NOT EXISTS (
            SELECT 1 FROM provenance p
            WHERE p.organization = c.organization AND p.fingerprint = c.fingerprint
              AND (p.repository <> c.repository OR p.flow <> c.flow OR p.commit_sha IS NOT NULL))
          AND organization = ? AND fingerprint IN (?)
        ON CONFLICT (organization, repository, fingerprint) DO UPDATE
        SET commit_sha = excluded.commit_sha, commit_url = excluded.commit_url";
    const NEW_CONFLICTS: &str = concat!(
        "SELECT COUNT(*) FROM claims c WHERE ",
        is_conflict!(),
        " AND c.recorded_at = ? AND c.flow = ? AND c.organization = ? AND c.fingerprint IN (?)"
    );
    let RepositorySource { flow, reported_by, owned } = origin.reporter;
    let claimed = origin.named.url.as_ref().map(UrlText::as_str);
    let other_url = claimed.filter(|url| Some(*url) != repository.url.as_deref());
    let commit_sha = origin.commit.and_then(|commit| commit.sha1.as_deref());
    // The page of a commit must not be elsewhere than the repository.
    let commit_url = origin.commit_url.filter(|_| other_url.is_none());
    insert!(
        tenant.tx,
        "INSERT INTO claims (organization, fingerprint, flow, repository, url, commit_sha, commit_url, attestation,
                             reported_by, recorded_at, priority, commit_report) ",
        " ON CONFLICT (organization, fingerprint, flow, repository) DO UPDATE
          SET commit_sha = COALESCE(claims.commit_sha, excluded.commit_sha),
              commit_url = CASE WHEN claims.commit_sha IS NULL THEN excluded.commit_url ELSE claims.commit_url END,
              commit_report = CASE WHEN claims.commit_sha IS NULL THEN excluded.commit_report
                                   ELSE claims.commit_report END,
              priority = CASE WHEN excluded.priority > claims.priority THEN excluded.priority ELSE claims.priority END
          WHERE claims.commit_sha IS NULL OR excluded.priority > claims.priority",
        artifacts,
        |values, artifact| {
            values.push_bind(tenant.name).push_bind(artifact.bytes().as_slice());
            values.push_bind(flow).push_bind(repository.id).push_bind(other_url);
            values.push_bind(commit_sha).push_bind(commit_url).push_bind(origin.attestation);
            values.push_bind(reported_by).push_bind(origin.at.micros()).push_bind(owned.priority(artifact));
            values.push_bind(origin.report.filter(|_| commit_sha.is_some()));
        }
    );
    let keys = || artifacts.iter().copied();
    let removed: Vec<(String, Uuid)> = if owned.is_owner {
        fetch_for_all!(tenant.tx, DELETE, keys(), flow, repository.id, tenant.name)
    } else {
        Vec::new()
    };
    let is_other = |(of, named): &&(String, Uuid)| of != flow || *named != repository.id;
    let replaced = removed.iter().filter(is_other).count();
    for_all!(tenant.tx, INSERT, keys(), flow, repository.id, tenant.name);
    let new: Vec<(i64,)> = fetch_for_all!(tenant.tx, NEW_CONFLICTS, keys(), origin.at, flow, tenant.name);
    let conflicts = new.into_iter().map(|(count,)| count).sum();
    Ok(OriginEffect { conflicts, replaced, repository: repository.change })
}

/// The repositories and commits that an artifact was built from.
pub async fn sources(tenant: &mut Tenant<'_>, artifact: Fingerprint) -> Result<AtMost<Source>, Error> {
    const SELECT: &str = "
        SELECT r.name, r.url, p.commit_sha, p.commit_url, p.flow, p.reported_by, p.recorded_at
        FROM provenance p JOIN repositories r ON r.organization = p.organization AND r.id = p.repository
        WHERE p.organization = $1 AND p.fingerprint = $2
        ORDER BY p.recorded_at DESC, r.id LIMIT $3";
    select_sources(tenant, SELECT, artifact).await
}

/// The origins that flows named for an artifact and that do not count, latest first, with the URLs that they named.
pub async fn conflicting_claims(
    tenant: &mut Tenant<'_>,
    artifact: Fingerprint,
) -> Result<AtMost<Source>, Error> {
    const SELECT: &str = concat!(
        "SELECT r.name, COALESCE(c.url, r.url) AS url, c.commit_sha, c.commit_url, c.flow, c.reported_by,
                c.recorded_at
         FROM claims c JOIN repositories r ON r.organization = c.organization AND r.id = c.repository
         WHERE c.organization = $1 AND c.fingerprint = $2 AND ",
        is_conflict!(),
        " ORDER BY c.recorded_at DESC, c.attestation LIMIT $3"
    );
    select_sources(tenant, SELECT, artifact).await
}

async fn select_sources(
    tenant: &mut Tenant<'_>,
    select: &'static str,
    artifact: Fingerprint,
) -> Result<AtMost<Source>, Error> {
    let rows = fetch_all!(tenant.tx, select, tenant.name, artifact, one_more_than(MAX_ROWS));
    Ok(AtMost::from_rows(MAX_ROWS, rows))
}

/// The numbers of [`conflicting_claims`], of the artifacts that have any.
pub async fn numbers_of_conflicts(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, i64>, Error> {
    const SELECT: &str = concat!(
        "SELECT c.fingerprint, COUNT(*) FROM claims c WHERE ",
        is_conflict!(),
        " AND c.organization = ? AND c.fingerprint IN (?) GROUP BY c.fingerprint"
    );
    let rows: Vec<(Fingerprint, i64)> =
        fetch_for_all!(tenant.tx, SELECT, artifacts.iter().copied(), tenant.name);
    Ok(rows.into_iter().collect())
}
