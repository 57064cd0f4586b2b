//! Reads the attestations of an artifact or a trail as lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, MAX_ROWS, one_more_than};
use crate::database::transaction::{fetch_all, fetch_for_all, fetch_optional_scalar, fetch_scalar};
use crate::{Error, Tenant};
use model::{Fingerprint, GitCommit, JunitResult, SignedEvidence, Timestamp};

/// An attestation in a list.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AttestationSummary {
    pub id: Uuid,
    pub flow: String,
    pub trail: String,
    pub name: String,
    pub kind: String,
    /// Whether it passes; `None` if its type has no verdict.
    pub passes: Option<bool>,
    /// The test results of all suites together.
    #[sqlx(try_from = "Json<Option<Vec<JunitResult>>>")]
    pub results: JunitResult,
    /// Whether they are longer than [`MAX_INLINE_RESULTS`].
    has_long_results: bool,
    pub created_at: Timestamp,
    /// The name of the reporter's token.
    pub reported_by: String,
    pub is_superseded: bool,
    /// The template's artifacts that it is about, by name.
    #[sqlx(try_from = "Json<Vec<String>>")]
    pub targets: Vec<String>,
    /// The artifact that it is about; the first of several.
    pub artifact: Option<Fingerprint>,
}

/// Signed evidence for an artifact: the latest attestation of its flow and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
pub struct SignedAttestation {
    pub flow_name: String,
    pub attestation_name: String,
    pub attestation_type: String,
    /// Who signed it, and what that says of builder and source.
    #[serde(flatten)]
    pub evidence: SignedEvidence,
}

#[derive(sqlx::FromRow)]
struct SignedRow {
    flow: String,
    name: String,
    kind: String,
    signed_evidence: Json<SignedEvidence>,
}

/// The signed evidence for artifacts by flow and name.
pub async fn signed(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<SignedAttestation>, Error> {
    const SELECT: &str = "
        SELECT l.flow, l.name, l.kind, a.signed_evidence
        FROM latest_attestations l
          JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
        WHERE a.signed_evidence IS NOT NULL AND l.organization = ? AND l.fingerprint IN (?)";
    let rows: Vec<SignedRow> = fetch_for_all!(tenant.tx, SELECT, artifacts.iter().copied(), tenant.name);
    let signed = |SignedRow { flow, name, kind, signed_evidence: Json(evidence) }| SignedAttestation {
        flow_name: flow,
        attestation_name: name,
        attestation_type: kind,
        evidence,
    };
    let signed: BTreeSet<_> = rows.into_iter().map(signed).collect();
    Ok(signed.into_iter().collect())
}

/// Results up to this length are read with a list. Longer results are read one at a time, to bound memory.
const MAX_INLINE_RESULTS: i64 = 16 * 1024;

/// Selects summaries; `$1` is [`MAX_INLINE_RESULTS`].
macro_rules! select_summaries {
    ($condition:literal) => {
        concat!(
            "SELECT a.id, a.flow, t.name AS trail, a.name, a.kind, CASE WHEN a.has_verdict THEN a.is_compliant END AS passes,
                    CASE WHEN LENGTH(a.results) <= $1 THEN a.results END AS results,
                    LENGTH(a.results) > $1 AS has_long_results, a.created_at, a.reported_by,
                    a.superseded_by IS NOT NULL AS is_superseded, a.targets,
                    (SELECT x.fingerprint FROM attested_artifacts x
                     WHERE x.organization = a.organization AND x.attestation = a.id
                     ORDER BY x.fingerprint LIMIT 1) AS artifact
             FROM attestations a JOIN trails t ON t.organization = a.organization AND t.id = a.trail
             WHERE a.organization = $3 AND ",
            $condition
        )
    };
}

/// The attestations of an artifact, newest first.
pub async fn of_artifact(
    tenant: &mut Tenant<'_>,
    artifact: Fingerprint,
) -> Result<AtMost<AttestationSummary>, Error> {
    const SELECT: &str = select_summaries!(
        "a.id IN (SELECT attestation FROM attested_artifacts WHERE organization = $3 AND fingerprint = $4)
         ORDER BY a.created_at DESC, a.id DESC LIMIT $2"
    );
    let rows =
        fetch_all!(tenant.tx, SELECT, MAX_INLINE_RESULTS, one_more_than(MAX_ROWS), tenant.name, artifact);
    complete(tenant, rows).await
}

#[derive(sqlx::FromRow)]
struct ResultsRow {
    fingerprint: Fingerprint,
    name: String,
    id: Uuid,
    /// `None` if they are longer than [`MAX_INLINE_RESULTS`].
    results: Option<Json<Option<Vec<JunitResult>>>>,
}

/// The tests of artifacts by the name of the attestation: the latest ones of all flows together. Artifacts without tests are
/// absent.
pub async fn tests(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, BTreeMap<String, JunitResult>>, Error> {
    const SELECT: &str = "
        SELECT l.fingerprint, l.name, a.id, CASE WHEN LENGTH(a.results) <= ? THEN a.results END AS results
        FROM latest_attestations l
          JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
        WHERE l.kind = 'junit' AND l.organization = ? AND l.fingerprint IN (?)";
    let keys = artifacts.iter().copied();
    let rows: Vec<ResultsRow> = fetch_for_all!(tenant.tx, SELECT, keys, MAX_INLINE_RESULTS, tenant.name);
    let mut tests: HashMap<Fingerprint, BTreeMap<String, JunitResult>> = HashMap::new();
    for ResultsRow { fingerprint, name, id, results } in rows {
        let results = match results {
            Some(Json(results)) => JunitResult::sum(&results.unwrap_or_default()),
            None => long_results(tenant, id).await?,
        };
        tests.entry(fingerprint).or_default().entry(name).or_default().add(&results);
    }
    Ok(tests)
}

/// The commit of the first attestation of an artifact that names one. A commit with a hash is serialized with the hash
/// first.
pub async fn first_commit(
    tenant: &mut Tenant<'_>,
    artifact: Fingerprint,
) -> Result<Option<GitCommit>, Error> {
    const SELECT: &str = "
        SELECT a.git_commit_info
        FROM attested_artifacts x JOIN attestations a ON a.organization = x.organization AND a.id = x.attestation
        WHERE x.organization = $1 AND x.fingerprint = $2 AND a.git_commit_info LIKE '{\"sha1\":\"%'
        ORDER BY a.created_at, a.id LIMIT 1";
    let commit: Option<Json<GitCommit>> = fetch_optional_scalar!(tenant.tx, SELECT, tenant.name, artifact);
    Ok(commit.map(|Json(commit)| commit))
}

/// The attestations of a trail, current before superseded, newest first.
pub async fn of_trail(tenant: &mut Tenant<'_>, trail: Uuid) -> Result<AtMost<AttestationSummary>, Error> {
    const SELECT: &str = select_summaries!(
        "a.trail = $4
         ORDER BY CASE WHEN a.superseded_by IS NULL THEN 0 ELSE 1 END, a.created_at DESC, a.id DESC
         LIMIT $2"
    );
    let rows = fetch_all!(tenant.tx, SELECT, MAX_INLINE_RESULTS, one_more_than(MAX_ROWS), tenant.name, trail);
    complete(tenant, rows).await
}

/// Reads the long results one at a time.
async fn complete(
    tenant: &mut Tenant<'_>,
    rows: Vec<AttestationSummary>,
) -> Result<AtMost<AttestationSummary>, Error> {
    let mut summaries = AtMost::from_rows(MAX_ROWS, rows);
    for attested in summaries.listed.iter_mut().filter(|attested| attested.has_long_results) {
        attested.results = long_results(tenant, attested.id).await?;
    }
    Ok(summaries)
}

async fn long_results(tenant: &mut Tenant<'_>, attestation: Uuid) -> Result<JunitResult, Error> {
    const RESULTS: &str = "SELECT results FROM attestations WHERE organization = $1 AND id = $2";
    let results: Json<Option<_>> = fetch_scalar!(tenant.tx, RESULTS, tenant.name, attestation);
    Ok(results.into())
}
