//! Lists trails (operation 1), with everything that their compliance depends on.

pub mod compliance;
pub mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::row_limit::PageBudget;
use crate::database::transaction::{fetch_for_all, on};
use crate::{Error, Tenant};
use model::{
    AnyJson, ComplianceState, ComplianceStatus, Fingerprint, FreeForm, Page, Template, Timestamp,
    TrailCommit, TrailEvent,
};
use rules::verdict::{LatestAttestation, evaluate_trail};

/// Filters of a list of trails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub flow: Option<&'a str>,
    pub name: Option<&'a str>,
    /// By key and value of a tag of the flow.
    pub tag: Option<(&'a str, &'a str)>,
    /// By attested artifact.
    pub fingerprint: Option<Fingerprint>,
}

/// A trail. Lists have no `events`.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Trail {
    #[serde(skip)]
    pub id: Uuid,
    pub name: String,
    pub last_modified_at: Timestamp,
    pub created_at: Timestamp,
    #[sqlx(skip)]
    pub compliance_state: ComplianceState,
    #[sqlx(skip)]
    pub compliance_status: ComplianceStatus,
    /// The one that it was begun with, otherwise the current one of its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(flatten, try_from = "OwnTemplateRow")]
    pub template: Option<Template>,
    #[sqlx(skip)]
    pub is_compliant: bool,
    pub created_by: String,
    #[sqlx(flatten)]
    pub flow: Flow,
    /// The trail's page.
    #[sqlx(skip)]
    pub html_url: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Json<Option<TrailCommit>>")]
    pub git_commit_info: Option<TrailCommit>,
    pub origin_url: String,
    pub user_data: AnyJson,
    /// The repositories that it and its attestations name.
    #[sqlx(skip)]
    pub repo_ids: BTreeSet<String>,
    #[sqlx(skip)]
    pub events: Vec<TrailEvent>,
    pub external_urls: FreeForm,
}

/// The flow of a trail.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Flow {
    #[sqlx(rename = "flow")]
    pub name: String,
    #[sqlx(skip)]
    pub tags: BTreeMap<String, String>,
}

/// A trail before its evaluation, with everything that its compliance depends on.
#[derive(sqlx::FromRow)]
pub(crate) struct TrailRow {
    #[sqlx(flatten)]
    pub(crate) trail: Trail,
    /// The current attestations.
    #[sqlx(skip)]
    pub(crate) latest: Vec<LatestAttestation>,
    /// The repository that it was begun with.
    repository: Option<Uuid>,
    /// The reported artifacts by their names in the template.
    #[sqlx(skip)]
    artifacts: BTreeMap<String, Fingerprint>,
}

#[derive(sqlx::FromRow)]
struct OwnTemplateRow {
    template: Option<Uuid>,
    template_version: Option<i64>,
    template_content: Option<String>,
}

impl TryFrom<OwnTemplateRow> for Option<Template> {
    type Error = serde_json::Error;

    fn try_from(row: OwnTemplateRow) -> serde_json::Result<Self> {
        let row = row.template.zip(row.template_version).zip(row.template_content);
        row.map(|((id, version), content)| template(id, version, content)).transpose()
    }
}

fn template(id: Uuid, version: i64, content: String) -> serde_json::Result<Template> {
    Ok(Template { id: id.to_string(), body: serde_json::from_str(&content)?, version, content })
}

#[derive(sqlx::FromRow)]
pub(crate) struct AttestationRow {
    pub(crate) trail: Uuid,
    id: Uuid,
    name: String,
    kind: String,
    overrides: Option<Uuid>,
    is_compliant: bool,
    has_verdict: bool,
    targets: Json<BTreeSet<String>>,
}

impl From<AttestationRow> for LatestAttestation {
    fn from(row: AttestationRow) -> Self {
        Self {
            id: row.id.to_string(),
            name: row.name,
            kind: row.kind,
            overrides: row.overrides.map(|id| id.to_string()),
            passes: row.has_verdict.then_some(row.is_compliant),
            targets: row.targets.0,
        }
    }
}

/// An artifact that was reported in a trail.
#[derive(sqlx::FromRow)]
struct ReportedRow {
    trail: Uuid,
    template_name: String,
    fingerprint: Fingerprint,
}

/// An attestation of a reported artifact.
#[derive(sqlx::FromRow)]
struct NamedRow {
    trail: Uuid,
    template_name: String,
    attestation: Uuid,
}

impl TrailRow {
    /// Adds the name of an artifact to an attestation by fingerprint that was recorded before the artifact was reported.
    fn name_targets(&mut self, name: &str, attestation: Uuid) {
        let attestation = attestation.to_string();
        for latest in self.latest.iter_mut().filter(|latest| latest.id == attestation) {
            latest.targets.insert(name.to_owned());
        }
    }
}

#[derive(sqlx::FromRow)]
struct TemplateRow {
    flow: String,
    id: Uuid,
    version: i64,
    content: String,
}

/// Pushes `FROM` and `WHERE` of a filter. Only the clauses that are needed, so that each combination gets its own
/// query plan.
macro_rules! push_filter {
    ($query:ident, $organization:expr, $filter:ident) => {
        $query.push(" FROM ");
        // The CROSS JOIN makes SQLite start from the artifact's trails; it would scan all trails otherwise.
        if let Some(fingerprint) = $filter.fingerprint {
            $query.push("(SELECT DISTINCT trail FROM attested_artifacts WHERE organization = ");
            $query.push_bind($organization).push(" AND fingerprint = ");
            $query.push_bind(fingerprint.bytes().to_vec()).push(") x CROSS JOIN ");
        }
        $query.push("trails t WHERE t.organization = ").push_bind($organization);
        if let Some(flow) = $filter.flow {
            $query.push(" AND t.flow = ").push_bind(flow);
        }
        if let Some(name) = $filter.name {
            $query.push(" AND t.name = ").push_bind(name);
        }
        if let Some((tag, value)) = $filter.tag {
            $query.push(" AND t.flow IN (SELECT flow FROM flow_tags WHERE organization = ");
            $query.push_bind($organization).push(" AND closed_at IS NULL AND tag = ").push_bind(tag);
            $query.push(" AND tag_value = ").push_bind(value).push(")");
        }
        if $filter.fingerprint.is_some() {
            $query.push(" AND t.id = x.trail");
        }
    };
}

/// The columns of [`TrailRow`].
pub(crate) const COLUMNS: &str =
    "SELECT t.id, t.flow, t.name, t.created_at, t.last_modified_at, t.created_by, t.git_commit_info,
                        COALESCE(t.description, '') AS description, COALESCE(t.origin_url, '') AS origin_url,
                        COALESCE(t.user_data, '{}') AS user_data, COALESCE(t.external_urls, '{}') AS external_urls,
                        t.repository, t.template,
                        (SELECT f.version FROM flow_templates f
                         WHERE f.organization = t.organization AND f.id = t.template) AS template_version,
                        (SELECT f.content FROM flow_templates f
                         WHERE f.organization = t.organization AND f.id = t.template) AS template_content";

pub async fn count(tenant: &mut Tenant<'_>, filter: Filter<'_>) -> Result<u64, Error> {
    let total: i64 = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*)");
        push_filter!(query, tenant.name, filter);
        query.build_query_scalar().fetch_one(connection).await?
    });
    Ok(total.unsigned_abs())
}

/// A page of trails, newest first, evaluated at `now`. Their size includes their current attestations once per target.
pub async fn list(
    tenant: &mut Tenant<'_>,
    filter: Filter<'_>,
    page: Page,
    html_url: impl Fn(&str, &str) -> String,
    now: Timestamp,
) -> Result<Vec<Trail>, Error> {
    let mut budget = PageBudget::of_page();
    let mut rows: Vec<TrailRow> = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(COLUMNS);
        query.push(
            ", CAST(COALESCE(octet_length(t.git_commit_info), 0) + 6 * COALESCE(octet_length(t.description), 0)
                    + 6 * COALESCE(octet_length(t.origin_url), 0) + COALESCE(octet_length(t.user_data), 0)
                    + COALESCE(octet_length(t.external_urls), 0)
                    + 3 * COALESCE((SELECT octet_length(f.content) FROM flow_templates f
                                    WHERE f.organization = t.organization AND f.id = t.template), 0) AS BIGINT)
               AS size",
        );
        push_filter!(query, tenant.name, filter);
        query.push(" ORDER BY t.created_at DESC, t.id DESC LIMIT ").push_bind(page.size());
        query.push(" OFFSET ").push_bind(page.offset());
        budget.read(query.build().fetch(connection)).await?
    });
    if !rows.is_empty() {
        read_attestations(tenant, &mut rows, &mut budget).await?;
    }
    let tags = crate::tags::of_flows(tenant).await?;
    let flows: BTreeSet<&str> = rows.iter().map(|row| row.trail.flow.name.as_str()).collect();
    let templates = templates(tenant, flows).await?;
    let evaluated = |TrailRow { mut trail, latest, artifacts, .. }: TrailRow| {
        trail.template = trail.template.or_else(|| templates.get(&trail.flow.name).cloned());
        let mut status = evaluate_trail(trail.template.as_ref(), &latest, now);
        for (name, artifact) in artifacts {
            status.artifacts_statuses.entry(name).or_default().artifact_fingerprint = Some(artifact);
        }
        trail.flow.tags = tags.get(&trail.flow.name).cloned().unwrap_or_default();
        trail.html_url = html_url(&trail.flow.name, &trail.name);
        trail.is_compliant = status.is_compliant;
        trail.compliance_state = status.status;
        Trail { compliance_status: status, ..trail }
    };
    Ok(rows.into_iter().map(evaluated).collect())
}

async fn read_attestations(
    tenant: &mut Tenant<'_>,
    rows: &mut [TrailRow],
    budget: &mut PageBudget,
) -> Result<(), Error> {
    const REPOSITORIES: &str = "
        SELECT DISTINCT trail, repository FROM attestations
        WHERE repository IS NOT NULL AND organization = ? AND trail IN (?)";
    const REPORTED: &str = "
        SELECT trail, template_name, fingerprint FROM reported_artifacts
        WHERE template_name IS NOT NULL AND organization = ? AND trail IN (?) ORDER BY created_at, id";
    read_latest(tenant, rows, budget).await?;
    let repositories: Vec<(Uuid, Uuid)> =
        fetch_for_all!(tenant.tx, REPOSITORIES, rows.iter().map(|row| row.trail.id), tenant.name);
    let reported: Vec<ReportedRow> =
        fetch_for_all!(tenant.tx, REPORTED, rows.iter().map(|row| row.trail.id), tenant.name);
    let mut by_id = by_id(rows);
    for row in by_id.values_mut() {
        row.trail.repo_ids.extend(row.repository.map(|id| id.to_string()));
    }
    for (trail, repository) in repositories {
        if let Some(row) = by_id.get_mut(&trail) {
            row.trail.repo_ids.insert(repository.to_string());
        }
    }
    for ReportedRow { trail, template_name, fingerprint } in reported {
        if let Some(row) = by_id.get_mut(&trail) {
            row.artifacts.insert(template_name, fingerprint);
        }
    }
    Ok(())
}

/// Reads the current attestations of trails.
pub(crate) async fn read_latest(
    tenant: &mut Tenant<'_>,
    rows: &mut [TrailRow],
    budget: &mut PageBudget,
) -> Result<(), Error> {
    // In this order, neither all reports of a trail nor all attestations of an artifact are read.
    const NAMED: &str = "
        SELECT DISTINCT a.trail, r.template_name, a.id AS attestation
        FROM attestations a CROSS JOIN attested_artifacts x CROSS JOIN reported_artifacts r
        WHERE x.organization = a.organization AND x.attestation = a.id
          AND r.organization = a.organization AND r.trail = a.trail AND r.fingerprint = x.fingerprint
          AND r.template_name IS NOT NULL AND a.superseded_by IS NULL AND a.organization = ? AND a.trail IN (?)";
    let latest: Vec<AttestationRow> = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(
            // Counts targets by the commas between them.
            "SELECT trail, id, name, kind, overrides, is_compliant, has_verdict, targets,
                    CAST(octet_length(targets)
                         + (300 + 6 * octet_length(name))
                           * (1 + LENGTH(targets) - LENGTH(REPLACE(targets, ',', ''))) AS BIGINT) AS size
             FROM attestations
             WHERE superseded_by IS NULL AND organization = ",
        );
        query.push_bind(tenant.name).push(" AND trail IN (");
        let mut list = query.separated(", ");
        for row in &*rows {
            list.push_bind(row.trail.id);
        }
        query.push(") ORDER BY created_at, id");
        budget.read(query.build().persistent(false).fetch(connection)).await?
    });
    let named: Vec<NamedRow> =
        fetch_for_all!(tenant.tx, NAMED, rows.iter().map(|row| row.trail.id), tenant.name);
    let mut by_id = by_id(rows);
    for row in latest {
        if let Some(trail) = by_id.get_mut(&row.trail) {
            trail.latest.push(row.into());
        }
    }
    for NamedRow { trail, template_name, attestation } in named {
        if let Some(trail) = by_id.get_mut(&trail) {
            trail.name_targets(&template_name, attestation);
        }
    }
    Ok(())
}

/// The current templates of flows.
pub(crate) async fn templates(
    tenant: &mut Tenant<'_>,
    flows: impl IntoIterator<Item = &str>,
) -> Result<HashMap<String, Template>, Error> {
    const SELECT: &str = "
        SELECT flow, id, version, content FROM flow_templates
        WHERE closed_at IS NULL AND organization = ? AND flow IN (?)";
    let rows: Vec<TemplateRow> = fetch_for_all!(tenant.tx, SELECT, flows, tenant.name);
    let templates = rows.into_iter().map(|row| Ok((row.flow, template(row.id, row.version, row.content)?)));
    templates.collect::<serde_json::Result<_>>().map_err(|_| Error::Unreadable("a template"))
}

fn by_id(rows: &mut [TrailRow]) -> HashMap<Uuid, &mut TrailRow> {
    rows.iter_mut().map(|row| (row.trail.id, row)).collect()
}
