//! Reads the input of an evaluation: attestations, trails, approvals and allow-lists.
//!
//! Called by `service::engine` and by the page of an environment. [`Needs`] limits what is read, which does
//! not grow with the history of the same flows, names and trails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use sqlx::types::Uuid;

use crate::approvals::ApprovalContent;
use crate::database::columns::{Json, Micros, json};
use crate::database::from_row::all_from_rows;
use crate::database::rows::{Bytes, Id, converted, flag};
use crate::database::transaction::{MAX_STATEMENT_ROWS, fetch_for_all, fetch_scalars};
use crate::image_indexes::related;
use crate::{Error, Tenant, Transaction};
use model::{
    ComplianceState, EnvironmentName, EvidenceKind, Fingerprint, JunitResult, SignedEvidence, Timestamp,
};
use rules::ownership::Pattern;
use rules::policy::facts::{
    AllowList, AllowListEntry, AllowListSubject, ApprovalEvidence, AttestationEvidence, Evidence,
    FlowEvidence, TrailEvidence, relate,
};
use rules::policy::{LatestNeeded, Needs};

/// The columns in the order of `latest_attestations`.
#[derive(sqlx::FromRow, Deserialize)]
struct LatestRow {
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    fingerprint: Fingerprint,
    flow: String,
    name: String,
    #[serde(deserialize_with = "flag")]
    is_compliant: bool,
    #[serde(deserialize_with = "converted::<_, Id, _>")]
    attestation: Uuid,
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    created_at: Timestamp,
    kind: String,
    #[serde(deserialize_with = "converted::<_, Id, _>")]
    trail: Uuid,
}

#[derive(sqlx::FromRow)]
struct AllowanceRow {
    environment: String,
    fingerprint: Fingerprint,
    pattern: Option<Pattern>,
    reason: String,
    author: String,
    expires_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct ApprovedRow {
    target: Fingerprint,
    environment: Option<EnvironmentName>,
    created_by: Option<String>,
    content: Json<ApprovalContent>,
}

type Tags = HashMap<String, Arc<BTreeMap<String, String>>>;

/// The evidence of a flow that holds the artifact.
fn held_by<'a>(evidence: &'a mut Evidence, flow: String, tags: &Tags) -> &'a mut FlowEvidence {
    evidence.flows.entry(flow).or_insert_with_key(|flow| {
        let tags = tags.get(flow).map(Arc::clone).unwrap_or_default();
        FlowEvidence { tags, ..FlowEvidence::default() }
    })
}

fn trail(name: &str, state: ComplianceState) -> TrailEvidence {
    TrailEvidence { name: name.to_owned(), is_compliant: state == ComplianceState::Compliant }
}

/// Pushes ` AND COLUMN IN (…)`.
macro_rules! push_in {
    ($query:ident, $column:literal, $values:expr) => {
        $query.push(concat!(" AND ", $column, " IN ("));
        let mut list = $query.separated(", ");
        for value in $values {
            list.push_bind(value);
        }
        $query.push(")");
    };
}

/// The evidence that policies need, of these artifacts.
pub async fn read(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    needs: &Needs<'_>,
) -> Result<BTreeMap<Fingerprint, Evidence>, Error> {
    let listed = if needs.related && (needs.approvals || !needs.latest.is_empty()) {
        crate::image_indexes::listed_manifests(tenant, artifacts).await?
    } else {
        Vec::new()
    };
    let wanted = artifacts;
    let mut artifacts = wanted.clone();
    artifacts.extend(related(&listed));
    let mut evidence: BTreeMap<Fingerprint, Evidence> = BTreeMap::new();
    if !needs.latest.is_empty() {
        add_attestations(tenant, &artifacts, needs, &mut evidence).await?;
    }
    if needs.authors {
        let first = if listed.is_empty() {
            Vec::new()
        } else {
            crate::image_indexes::first_indexes(tenant, &artifacts).await?
        };
        let mut named = artifacts.clone();
        named.extend(first.iter().map(|(_, index)| *index));
        let authorship = crate::attestations::authors::read(tenant, &named).await?;
        for (manifest, index) in first {
            if let Some(of_index) = authorship.get(&index) {
                evidence.entry(manifest).or_default().authorship.add(of_index);
            }
        }
        for artifact in &artifacts {
            if let Some(own) = authorship.get(artifact) {
                evidence.entry(*artifact).or_default().authorship.add(own);
            }
        }
    }
    if needs.approvals {
        for (artifact, approval) in approved(tenant, artifacts).await? {
            evidence.entry(artifact).or_default().approvals.push(approval);
        }
    }
    relate(&mut evidence, wanted, &listed);
    Ok(evidence)
}

async fn add_attestations(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    needs: &Needs<'_>,
    evidence: &mut BTreeMap<Fingerprint, Evidence>,
) -> Result<(), Error> {
    // The flows in which pipelines reported artifacts, with the trails of the latest reports.
    const REPORTED: &str = "
        SELECT f.fingerprint, f.flow, r.trail
        FROM flow_artifacts f JOIN reported_artifacts r ON r.organization = f.organization AND r.id = f.report
        WHERE f.organization = ? AND f.fingerprint IN (?)";
    let latest = latest_attestations(tenant, &needs.latest, artifacts).await?;
    let mut reported: Vec<(Fingerprint, String, Option<Uuid>)> = Vec::new();
    if needs.latest == LatestNeeded::All {
        reported = fetch_for_all!(tenant.tx, REPORTED, artifacts.iter().copied(), tenant.name);
    }
    let counted = latest.iter().filter(|row| needs.counts_tests(&row.flow, &row.name));
    let counts = test_counts(tenant, counted.map(|row| row.attestation).collect()).await?;
    let is_evidence = |row: &&LatestRow| EvidenceKind::ALL.iter().any(|kind| kind.as_str() == row.kind);
    let signed = latest.iter().filter(is_evidence).filter(|row| needs.reads_signature(&row.flow, &row.name));
    let signed = signatures(tenant, signed.map(|row| row.attestation).collect()).await?;
    let trails = latest.iter().map(|row| row.trail).chain(reported.iter().filter_map(|(.., trail)| *trail));
    let trails = trails.filter(|_| needs.trails).collect();
    let trails = crate::trails::compliance::read(tenant, &trails).await?;
    let mut tags = Tags::new();
    if needs.tags {
        let all = crate::tags::of_flows(tenant).await?;
        tags.extend(all.into_iter().map(|(flow, tags)| (flow, Arc::new(tags))));
    }
    for row in latest {
        let evidence = evidence.entry(row.fingerprint).or_default();
        let (tests, skipped) = counts.get(&row.attestation).copied().unwrap_or_default();
        let flow = held_by(evidence, row.flow, &tags);
        let latest = AttestationEvidence {
            kind: row.kind,
            passes: row.is_compliant,
            created_at: row.created_at,
            tests,
            skipped,
            signed: signed.get(&row.attestation).cloned(),
            trail: trails.get(&row.trail).map(|(name, state)| trail(name, *state)),
        };
        flow.attestations.insert(row.name, latest);
    }
    for (artifact, flow, reported_in) in reported {
        let flow = held_by(evidence.entry(artifact).or_default(), flow, &tags);
        flow.trails
            .extend(reported_in.and_then(|id| trails.get(&id)).map(|(name, state)| trail(name, *state)));
    }
    Ok(())
}

/// The latest attestation of each needed flow and name, in the order of recording. May return more: flows and names are
/// matched independently.
async fn latest_attestations(
    tenant: &mut Tenant<'_>,
    needed: &LatestNeeded<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<Vec<LatestRow>, Error> {
    const COLUMNS: &str = "
        SELECT fingerprint, flow, name, is_compliant, attestation, created_at, kind, trail
        FROM latest_attestations WHERE organization = ";
    macro_rules! push_filter {
        ($query:ident) => {
            $query.push(COLUMNS).push_bind(tenant.name);
            if let LatestNeeded::Of { flows, names } = needed {
                push_in!($query, "flow", flows.iter().copied());
                push_in!($query, "name", names.iter().copied());
            }
        };
    }
    match tenant.tx {
        Transaction::Sqlite(transaction) => {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT json_group_array(json_array(hex(fingerprint), flow, name, is_compliant, hex(attestation),
                   created_at, kind, hex(trail))) FROM (",
            );
            push_filter!(query);
            query.push(" AND fingerprint IN (SELECT unhex(value) FROM json_each(");
            query.push_bind(json(artifacts)?).push(")) ORDER BY created_at, attestation)");
            let json: String = query.build_query_scalar().fetch_one(&mut **transaction).await?;
            serde_json::from_str(&json).map_err(|_| Error::Unreadable("rows"))
        }
        Transaction::Postgres(transaction) => {
            let mut query = sqlx::QueryBuilder::new("");
            push_filter!(query);
            let keys: Vec<&[u8]> = artifacts.iter().map(|artifact| artifact.bytes().as_slice()).collect();
            query.push(" AND fingerprint = ANY(").push_bind(keys).push(") ORDER BY created_at, attestation");
            let query = query.build().persistent(false);
            Ok(query.fetch_all(&mut **transaction).await.and_then(all_from_rows)?)
        }
    }
}

/// The allow-lists of environments, by environment; only entries that may be about these artifacts.
pub async fn allow_lists(
    tenant: &mut Tenant<'_>,
    environments: impl IntoIterator<Item = &str>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<HashMap<String, AllowList>, Error> {
    let mut lists: HashMap<String, AllowList> = HashMap::new();
    if artifacts.is_empty() {
        return Ok(lists);
    }
    let rows: Vec<AllowanceRow> = fetch_for_all!(
        tenant.tx,
        |query| {
            query.push(
                "SELECT environment, fingerprint, pattern, reason, author, expires_at FROM allowances
                 WHERE organization = ",
            );
            query.push_bind(tenant.name).push(" AND closed_at IS NULL");
            // More are read together with the entries for other artifacts.
            if artifacts.len() <= MAX_STATEMENT_ROWS {
                query.push(" AND (pattern IS NOT NULL OR fingerprint IN (");
                let mut list = query.separated(", ");
                for artifact in artifacts {
                    list.push_bind(artifact);
                }
                query.push("))");
            }
            query.push(" AND environment IN (");
        },
        environments,
        ")"
    );
    for AllowanceRow { environment, fingerprint, pattern, reason, author, expires_at: until } in rows {
        let subject = pattern.map_or(AllowListSubject::Artifact(fingerprint), AllowListSubject::Image);
        let entry = AllowListEntry { subject, reason, author, until };
        lists.entry(environment).or_default().0.push(entry);
    }
    Ok(lists)
}

/// The numbers of tests that ran and of skipped tests of each of these attestations.
async fn test_counts(
    tenant: &mut Tenant<'_>,
    attestations: BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, (u32, u32)>, Error> {
    const SELECT: &str = "SELECT id, results FROM attestations WHERE organization = ? AND id IN (?)";
    let rows: Vec<(Uuid, Json<Vec<JunitResult>>)> =
        fetch_for_all!(tenant.tx, SELECT, attestations, tenant.name);
    let sum = |(id, Json(results)): (Uuid, Json<Vec<JunitResult>>)| {
        let JunitResult { total, skipped, .. } = JunitResult::sum(&results);
        (id, (total.saturating_sub(skipped), skipped))
    };
    Ok(rows.into_iter().map(sum).collect())
}

/// The verified signatures of those of these attestations that have one.
async fn signatures(
    tenant: &mut Tenant<'_>,
    attestations: BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, SignedEvidence>, Error> {
    const SELECT: &str = "
        SELECT id, signed_evidence FROM attestations
        WHERE signed_evidence IS NOT NULL AND organization = ? AND id IN (?)";
    let rows: Vec<(Uuid, Json<SignedEvidence>)> =
        fetch_for_all!(tenant.tx, SELECT, attestations, tenant.name);
    Ok(rows.into_iter().map(|(id, Json(signed))| (id, signed)).collect())
}

async fn approved(
    tenant: &mut Tenant<'_>,
    artifacts: impl IntoIterator<Item = Fingerprint>,
) -> Result<Vec<(Fingerprint, ApprovalEvidence)>, Error> {
    const SELECT: &str = "
        SELECT target, environment, created_by, content FROM approvals
        WHERE organization = ? AND closed_at IS NULL AND state = 'APPROVED' AND target IN (?)";
    let rows: Vec<ApprovedRow> = fetch_for_all!(tenant.tx, SELECT, artifacts, tenant.name);
    let approval = |row: ApprovedRow| {
        let ApprovedRow { target, environment, created_by, content: Json(content) } = row;
        let approvers = content.approvals.into_iter().map(|sign_off| sign_off.approved_by).collect();
        (target, ApprovalEvidence { environment, created_by, approvers })
    };
    Ok(rows.into_iter().map(approval).collect())
}

/// The artifacts whose latest attestations are in a trail, and those that were reported in it, at most `limit`.
pub async fn artifacts_of_trail(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    limit: usize,
) -> Result<BTreeSet<Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT fingerprint FROM (
          SELECT fingerprint FROM latest_attestations WHERE organization = $1 AND trail = $2
          UNION SELECT fingerprint FROM reported_artifacts WHERE organization = $1 AND trail = $2 LIMIT $3) AS held";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let artifacts: Vec<Fingerprint> = fetch_scalars!(tenant.tx, SELECT, tenant.name, trail, limit);
    Ok(artifacts.into_iter().collect())
}
