//! Reads the flows that hold artifacts: those that attested or reported them, what they require, and their artifacts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::from_row::all_from_rows;
use crate::database::transaction::{fetch_all, fetch_for_all, fetch_scalar, on};
use crate::trails::{AttestationRow, COLUMNS, TrailRow};
use crate::{Error, Tenant};
use model::{Fingerprint, GitCommit, Page, ReportedArtifact, ShortText, Template, Text, Timestamp, UrlText};
use rules::verdict::LatestAttestation;

/// Maximum number of newest artifacts of a flow that are checked for running ones.
const MAX_DEPLOYED: i64 = 1_000;

/// Artifacts, each with the time since which it is known.
type Artifacts = Vec<(Fingerprint, Timestamp)>;

/// An artifact in a flow: in its last trail there.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ArtifactFlow {
    pub flow: String,
    /// The trail; `None` if an older client reported the artifact without one.
    pub trail: Option<String>,
    /// When it was first attested or reported in the flow.
    pub created_at: Timestamp,
    /// When it was last attested or reported in the flow.
    pub modified_at: Timestamp,
    /// Its last report in the flow.
    #[sqlx(rename = "content", try_from = "Json<Option<ReportedArtifact>>")]
    pub report: Option<ReportedArtifact>,
}

/// The flows of an artifact, and its origin.
#[derive(Debug, Clone, Default)]
pub struct KnownArtifact {
    /// By name.
    pub flows: Vec<ArtifactFlow>,
    origin: Option<OriginRow>,
}

impl ArtifactFlow {
    /// Its name in the template of the trail.
    #[must_use]
    pub fn template_name(&self) -> Option<&str> {
        self.report.as_ref()?.template_reference_name.as_ref().map(ShortText::as_str)
    }

    /// The page of the build.
    #[must_use]
    pub fn build_url(&self) -> Option<&str> {
        self.report.as_ref()?.build_url.as_ref().map(UrlText::as_str)
    }
}

impl KnownArtifact {
    /// The flow whose origin counts, or else the one that attested it last.
    #[must_use]
    pub fn flow(&self) -> Option<&str> {
        let last = self.flows.iter().max_by_key(|flow| flow.modified_at).map(|flow| flow.flow.as_str());
        self.origin.as_ref().map(|origin| origin.flow.as_str()).or(last)
    }

    /// The hash of the commit, and its page: of the report in this flow, or else of the artifact's origin.
    #[must_use]
    pub fn commit<'a>(&'a self, flow: Option<&'a ArtifactFlow>) -> (Option<&'a str>, Option<&'a str>) {
        let report = flow.and_then(|flow| flow.report.as_ref());
        let hash = report.and_then(|report| report.git_commit.as_ref()).map(Text::as_str);
        let url = report.and_then(|report| report.commit_url.as_ref()).map(UrlText::as_str);
        // The public client fails on an empty hash.
        let hash = hash.filter(|hash| hash.len() >= 7);
        let origin = self.origin.as_ref();
        let (commit, page) = origin.map(|origin| (&origin.commit_sha, &origin.commit_url)).unzip();
        (hash.or(commit.and_then(Option::as_deref)), url.or(page.and_then(Option::as_deref)))
    }
}

/// The origin that counts.
#[derive(Debug, Clone, sqlx::FromRow)]
struct OriginRow {
    fingerprint: Fingerprint,
    flow: String,
    commit_sha: Option<String>,
    commit_url: Option<String>,
}

#[derive(sqlx::FromRow)]
struct FlowRow {
    fingerprint: Fingerprint,
    #[sqlx(flatten)]
    flow: ArtifactFlow,
}

/// What a flow that holds an artifact requires of it and knows about it.
#[derive(Debug, Clone)]
pub struct AssertedFlow {
    /// The trail in which the artifact was last reported, otherwise last attested; `None` if it was reported without one.
    pub trail: Option<String>,
    /// The template of the trail, otherwise the current one of the flow.
    pub template: Option<Template>,
    /// The names of the image or file that pipelines reported, the latest last.
    pub reported_names: Vec<String>,
    /// The artifact's names in the template, as far as they are known.
    pub names: BTreeSet<String>,
    /// The latest attestations of the artifact in the flow, after those of the trail that attest no artifact.
    pub attestations: Vec<LatestAttestation>,
}

#[derive(sqlx::FromRow)]
struct OwnRow {
    fingerprint: Fingerprint,
    flow: String,
    #[sqlx(flatten)]
    attestation: AttestationRow,
}

#[derive(sqlx::FromRow)]
struct ReportedRow {
    fingerprint: Fingerprint,
    flow: String,
    trail: Option<Uuid>,
    name: String,
    template_name: Option<String>,
}

/// The latest attestations and the reports of an artifact in a flow, in the order of receipt.
#[derive(Default)]
struct Recorded {
    attestations: Vec<AttestationRow>,
    reports: Vec<ReportedRow>,
}

impl Recorded {
    /// The trail in which the artifact was last reported, otherwise last attested.
    fn trail(&self) -> Option<Uuid> {
        let reported = self.reports.iter().rev().find_map(|report| report.trail);
        reported.or_else(|| self.attestations.last().map(|attestation| attestation.trail))
    }
}

/// Flows by name, by artifact.
type AssertedFlows = BTreeMap<Fingerprint, BTreeMap<String, AssertedFlow>>;

/// The commits that the latest attestations of artifacts name.
pub async fn attested_commits(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, Vec<GitCommit>>, Error> {
    const SELECT: &str = "
        SELECT l.fingerprint, a.git_commit_info
        FROM latest_attestations l
          JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
        WHERE a.git_commit_info IS NOT NULL AND l.organization = ? AND l.fingerprint IN (?)
        ORDER BY l.created_at, l.attestation";
    let rows: Vec<(Fingerprint, Json<GitCommit>)> =
        fetch_for_all!(tenant.tx, SELECT, artifacts.iter().copied(), tenant.name);
    let mut commits: HashMap<Fingerprint, Vec<GitCommit>> = HashMap::new();
    for (artifact, Json(commit)) in rows {
        commits.entry(artifact).or_default().push(commit);
    }
    Ok(commits)
}

/// The flows and origins of artifacts. Artifacts of which no flow knows anything are absent.
pub async fn known(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, KnownArtifact>, Error> {
    const ORIGINS: &str = "
        SELECT fingerprint, flow, commit_sha, commit_url FROM provenance
        WHERE organization = ? AND fingerprint IN (?) ORDER BY recorded_at";
    const FLOWS: &str = "
        SELECT f.fingerprint, f.flow, t.name AS trail, f.created_at, f.modified_at, r.content
        FROM flow_artifacts f
          LEFT JOIN trails t ON t.organization = f.organization AND t.id = f.trail
          LEFT JOIN reported_artifacts r ON r.organization = f.organization AND r.id = f.report
        WHERE f.organization = ? AND f.fingerprint IN (?)";
    let keys = || artifacts.iter().copied();
    let mut known: HashMap<Fingerprint, KnownArtifact> = HashMap::new();
    let origins: Vec<OriginRow> = fetch_for_all!(tenant.tx, ORIGINS, keys(), tenant.name);
    for row in origins {
        let artifact = known.entry(row.fingerprint).or_default();
        artifact.origin = Some(row);
    }
    let rows: Vec<FlowRow> = fetch_for_all!(tenant.tx, FLOWS, keys(), tenant.name);
    for FlowRow { fingerprint, flow } in rows {
        known.entry(fingerprint).or_default().flows.push(flow);
    }
    // Sorted here: the database's order depends on its locale.
    for artifact in known.values_mut() {
        artifact.flows.sort_unstable_by(|one, other| one.flow.cmp(&other.flow));
    }
    Ok(known)
}

/// A page of the artifacts of a flow, newest first.
pub async fn of_flow(tenant: &mut Tenant<'_>, flow: &str, page: Page) -> Result<Artifacts, Error> {
    const SELECT: &str = "
        SELECT fingerprint, created_at FROM flow_artifacts WHERE organization = $1 AND flow = $2
        ORDER BY created_at DESC, fingerprint LIMIT $3 OFFSET $4";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, flow, page.size(), page.offset()))
}

/// The artifacts of a flow between two fingerprints, inclusive: at most two.
pub async fn two_of_flow(
    tenant: &mut Tenant<'_>,
    flow: &str,
    first: Fingerprint,
    last: Fingerprint,
) -> Result<Artifacts, Error> {
    const SELECT: &str = "
        SELECT fingerprint, created_at FROM flow_artifacts
        WHERE organization = $1 AND flow = $2 AND fingerprint >= $3 AND fingerprint <= $4
        ORDER BY fingerprint LIMIT 2";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name, flow, first, last))
}

/// When the last of a flow's 1,000 newest artifacts that run started; `None` if none of them runs.
pub async fn last_deployment(tenant: &mut Tenant<'_>, flow: &str) -> Result<Option<Timestamp>, Error> {
    const SELECT: &str = "
        SELECT MAX(r.started_at) FROM (
          SELECT fingerprint FROM flow_artifacts WHERE organization = $1 AND flow = $2
          ORDER BY created_at DESC, fingerprint LIMIT $3) f CROSS JOIN artifact_runs r
        WHERE r.organization = $1 AND r.fingerprint = f.fingerprint AND r.ended_at IS NULL";
    Ok(fetch_scalar!(tenant.tx, SELECT, tenant.name, flow, MAX_DEPLOYED))
}

/// The artifacts of a set that were attested or reported in a trail.
pub async fn in_trail(
    tenant: &mut Tenant<'_>,
    trail: Uuid,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<BTreeSet<Fingerprint>, Error> {
    let mut found = BTreeSet::new();
    for table in ["attested_artifacts", "reported_artifacts"] {
        let select = format!(
            "SELECT fingerprint FROM {table} WHERE trail = ? AND organization = ? AND fingerprint IN (?)"
        );
        let rows: Vec<(Fingerprint,)> =
            fetch_for_all!(tenant.tx, select, artifacts.iter().copied(), trail, tenant.name);
        found.extend(rows.into_iter().map(|(artifact,)| artifact));
    }
    Ok(found)
}

/// A page of the artifacts whose origin is one of these repositories, newest first.
pub async fn built_from(
    tenant: &mut Tenant<'_>,
    repositories: &[Uuid],
    page: Page,
) -> Result<Artifacts, Error> {
    Ok(on!(tenant.tx, |connection| {
        let mut query =
            sqlx::QueryBuilder::new("SELECT fingerprint, recorded_at FROM provenance WHERE organization = ");
        query.push_bind(tenant.name).push(" AND repository IN (");
        let mut list = query.separated(", ");
        for repository in repositories {
            list.push_bind(repository);
        }
        query.push(") ORDER BY recorded_at DESC, fingerprint LIMIT ").push_bind(page.size());
        query.push(" OFFSET ").push_bind(page.offset());
        query.build().persistent(false).fetch_all(connection).await.and_then(all_from_rows)?
    }))
}

/// The flows that hold artifacts; with `flow`: only this one.
pub async fn of_artifacts(
    tenant: &mut Tenant<'_>,
    artifacts: &BTreeSet<Fingerprint>,
    flow: Option<&str>,
) -> Result<AssertedFlows, Error> {
    const LATEST_ATTESTATIONS: &str = "
        SELECT l.fingerprint, l.flow, a.trail, a.id, a.name, a.kind, a.overrides, a.is_compliant,
               a.has_verdict, a.targets
        FROM latest_attestations l
          JOIN attestations a ON a.organization = l.organization AND a.id = l.attestation
        WHERE l.organization = ? AND l.fingerprint IN (?) ORDER BY a.created_at, a.id";
    const REPORTS: &str = "
        SELECT fingerprint, flow, trail, name, template_name FROM reported_artifacts
        WHERE organization = ? AND fingerprint IN (?) ORDER BY created_at, id";
    let keys = || artifacts.iter().copied();
    let own: Vec<OwnRow> = fetch_for_all!(tenant.tx, LATEST_ATTESTATIONS, keys(), tenant.name);
    let reported: Vec<ReportedRow> = fetch_for_all!(tenant.tx, REPORTS, keys(), tenant.name);
    let mut held: BTreeMap<(Fingerprint, String), Recorded> = BTreeMap::new();
    for OwnRow { fingerprint, flow, attestation } in own {
        held.entry((fingerprint, flow)).or_default().attestations.push(attestation);
    }
    for report in reported {
        held.entry((report.fingerprint, report.flow.clone())).or_default().reports.push(report);
    }
    held.retain(|(_, of), _| flow.is_none_or(|flow| flow == of));
    let ids = held.values().filter_map(Recorded::trail).collect();
    let trails = trails_with_own_attestations(tenant, &ids).await?;
    let trail = |recorded: &Recorded| recorded.trail().and_then(|id| trails.get(&id));
    let current =
        held.iter().filter(|(_, recorded)| trail(recorded).is_none_or(|row| row.trail.template.is_none()));
    let current: BTreeSet<&str> = current.map(|((_, flow), _)| flow.as_str()).collect();
    let templates = crate::trails::templates(tenant, current).await?;
    let mut flows = AssertedFlows::new();
    for ((artifact, flow), recorded) in held {
        let (id, trail) = (recorded.trail(), trail(&recorded));
        let template = trail.and_then(|row| row.trail.template.as_ref()).or_else(|| templates.get(&flow));
        let current = recorded.reports.iter().filter(|report| report.trail == id);
        let own_names: BTreeSet<String> = current.filter_map(|report| report.template_name.clone()).collect();
        let mut names = own_names.clone();
        let mut attestations = trail.map(|trail| trail.latest.clone()).unwrap_or_default();
        for mut attestation in recorded.attestations.into_iter().map(LatestAttestation::from) {
            names.extend(attestation.targets.iter().cloned());
            // As in a trail: an attestation by fingerprint is about the reported artifact.
            attestation.targets.extend(own_names.iter().cloned());
            attestations.push(attestation);
        }
        let asserted = AssertedFlow {
            trail: trail.map(|row| row.trail.name.clone()),
            template: template.cloned(),
            reported_names: recorded.reports.into_iter().map(|report| report.name).collect(),
            names,
            attestations,
        };
        flows.entry(artifact).or_default().insert(flow, asserted);
    }
    Ok(flows)
}

/// Trails by identifier, with their attestations that attest no artifact.
async fn trails_with_own_attestations(
    tenant: &mut Tenant<'_>,
    ids: &BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, TrailRow>, Error> {
    const SELECT: &str = "
        SELECT trail, id, name, kind, overrides, is_compliant, has_verdict, targets FROM attestations a
        WHERE superseded_by IS NULL AND targets = '[]'
          AND NOT EXISTS (SELECT 1 FROM attested_artifacts x
                          WHERE x.organization = a.organization AND x.attestation = a.id)
          AND organization = ? AND trail IN (?) ORDER BY created_at, id";
    let select = format!("{COLUMNS} FROM trails t WHERE t.organization = ? AND t.id IN (?)");
    let trails: Vec<TrailRow> = fetch_for_all!(tenant.tx, select, ids.iter().copied(), tenant.name);
    let mut by_id: HashMap<Uuid, _> = trails.into_iter().map(|row| (row.trail.id, row)).collect();
    let attestations: Vec<AttestationRow> =
        fetch_for_all!(tenant.tx, SELECT, ids.iter().copied(), tenant.name);
    for row in attestations {
        if let Some(trail) = by_id.get_mut(&row.trail) {
            trail.latest.push(row.into());
        }
    }
    Ok(by_id)
}
