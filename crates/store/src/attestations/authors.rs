//! Records who wrote the commits of artifacts, as attestations and reports name them.
//!
//! A row is the first attestation or report that names an author of an artifact in a flow, so the cost of an evaluation does
//! not grow with the attestations of an artifact.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::database::columns::{Json, json};
use crate::database::transaction::{execute, fetch_for_all};
use crate::{Error, Tenant};
use model::{Fingerprint, GitCommit, ReportedArtifact, Timestamp};
use rules::policy::authorship::{Authorship, MAX_NAMED, NamedAuthor, named};

#[derive(sqlx::FromRow)]
struct AuthorRow {
    fingerprint: Fingerprint,
    flow: String,
    created_at: Timestamp,
    git_commit_info: Json<Option<GitCommit>>,
    content: Json<Option<ReportedArtifact>>,
}

/// Records the author that an attestation names of its artifacts: of those that it attests, or with `report`, of the one that
/// this report linked to it.
pub(crate) async fn record_attested(
    tenant: &mut Tenant<'_>,
    attestation: Uuid,
    report: Option<Uuid>,
    commit: Option<&GitCommit>,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO artifact_authors (organization, fingerprint, flow, author, attestation, report, created_at)
        SELECT x.organization, x.fingerprint, a.flow, $1, a.id, x.report, a.created_at
        FROM attestations a JOIN attested_artifacts x ON x.organization = a.organization AND x.attestation = a.id
        WHERE a.organization = $2 AND a.id = $3 AND x.report IS NOT DISTINCT FROM $4
          AND (SELECT COUNT(*) FROM artifact_authors n
               WHERE n.organization = x.organization AND n.fingerprint = x.fingerprint AND n.flow = a.flow) < $5
        ON CONFLICT (organization, fingerprint, flow, author) DO NOTHING";
    let Some(author) = hash(commit.and_then(named))? else { return Ok(()) };
    execute!(tenant.tx, INSERT, author, tenant.name, attestation, report, max_named());
    Ok(())
}

/// Records the author that the report of an artifact names.
pub(crate) async fn record_reported(
    tenant: &mut Tenant<'_>,
    report: Uuid,
    sent: &ReportedArtifact,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO artifact_authors (organization, fingerprint, flow, author, report, created_at)
        SELECT r.organization, r.fingerprint, r.flow, $1, r.id, r.created_at
        FROM reported_artifacts r
        WHERE r.organization = $2 AND r.id = $3
          AND (SELECT COUNT(*) FROM artifact_authors n
               WHERE n.organization = r.organization AND n.fingerprint = r.fingerprint AND n.flow = r.flow) < $4
        ON CONFLICT (organization, fingerprint, flow, author) DO NOTHING";
    // A commit by another name than its hash is also one, without an author.
    let names_commit = sent.git_commit.as_ref().is_some_and(|commit| !commit.as_str().trim().is_empty());
    let names = named(&sent.commit()).or_else(|| names_commit.then(Vec::new));
    let Some(author) = hash(names)? else { return Ok(()) };
    execute!(tenant.tx, INSERT, author, tenant.name, report, max_named());
    Ok(())
}

fn max_named() -> i64 {
    i64::try_from(MAX_NAMED).unwrap_or(i64::MAX)
}

/// The hash of the names of a commit's author; `None` if there is no commit.
fn hash(names: Option<Vec<String>>) -> Result<Option<Fingerprint>, Error> {
    let content = names.map(|names| json(&names)).transpose()?;
    Ok(content.map(|content| Fingerprint::from_content(content.as_bytes())))
}

/// The authors of artifacts, with what decides which one counts.
pub(crate) async fn read(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<BTreeMap<Fingerprint, Authorship>, Error> {
    const HELD: &str = "
        SELECT fingerprint, flow, created_at FROM flow_artifacts WHERE organization = ? AND fingerprint IN (?)";
    // As rules::ownership::Owned: the artifact ran under one of the flow's images.
    const OWNERS: &str = "
        SELECT fingerprint, flow FROM provenance WHERE priority = 2 AND organization = ? AND fingerprint IN (?)";
    const NAMED: &str = "
        SELECT n.fingerprint, n.flow, n.created_at, a.git_commit_info, r.content
        FROM artifact_authors n
          LEFT JOIN attestations a ON a.organization = n.organization AND a.id = n.attestation
          LEFT JOIN reported_artifacts r ON r.organization = n.organization AND r.id = n.report AND n.attestation IS NULL
        WHERE n.organization = ? AND n.fingerprint IN (?)";
    let keys = || artifacts.iter().copied();
    let held: Vec<(Fingerprint, String, Timestamp)> = fetch_for_all!(tenant.tx, HELD, keys(), tenant.name);
    let owners: Vec<(Fingerprint, String)> = fetch_for_all!(tenant.tx, OWNERS, keys(), tenant.name);
    let authors: Vec<AuthorRow> = fetch_for_all!(tenant.tx, NAMED, keys(), tenant.name);
    let mut authorship: BTreeMap<Fingerprint, Authorship> = BTreeMap::new();
    for (artifact, flow, since) in held {
        authorship.entry(artifact).or_default().held.insert(flow, since);
    }
    for (artifact, flow) in owners {
        authorship.entry(artifact).or_default().owners.insert(flow);
    }
    for AuthorRow { fingerprint, flow, created_at: at, git_commit_info, content } in authors {
        let commit = git_commit_info.0.or_else(|| content.0.map(|report| report.commit()));
        let names = commit.as_ref().and_then(named).unwrap_or_default();
        authorship.entry(fingerprint).or_default().named.insert(NamedAuthor { at, flow, names });
    }
    Ok(authorship)
}
