//! Creates flows by operation, and versions of their templates. Lists flows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use sqlx::types::Uuid;

use crate::database::columns::json;
use crate::database::row_limit::PageBudget;
use crate::database::transaction::{
    execute, fetch_optional, fetch_optional_scalar, fetch_scalar, fetch_scalars, on,
};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{ComplianceState, Fingerprint, Page, TemplateBody, TemplateFile, Timestamp};

/// A flow, and what the bootstrap file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct FlowState {
    /// Whether the bootstrap file lists it.
    pub is_declared: bool,
    pub has_template: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum FlowFilter<'a> {
    Name(&'a str),
    /// By a part of the name.
    Part(&'a str),
    /// By a part of the name, ignoring case.
    PartIgnoringCase(&'a str),
}

/// A flow.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct FlowDetails {
    /// Its name.
    pub id: String,
    pub name: String,
    pub description: String,
    pub org: String,
    /// YAML; empty if it has none: the latest attestation of each name must pass.
    #[sqlx(skip)]
    pub template: String,
    #[sqlx(skip)]
    pub tags: BTreeMap<String, String>,
    pub created_at: Timestamp,
    /// When its latest attestation or new artifact was received, or its latest trail changed.
    pub latest_activity_at: Option<Timestamp>,
    /// The state of the trail that was begun last.
    #[sqlx(skip)]
    pub latest_state: Option<ComplianceState>,
    /// When one of its newest artifacts last started among those that run; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(skip)]
    pub last_deployment_at: Option<Timestamp>,
    /// Always null.
    #[schema(value_type = Option<String>)]
    #[sqlx(skip)]
    pub visibility: (),
    /// Always null.
    #[schema(value_type = Option<String>)]
    #[sqlx(skip)]
    pub repo_url: (),
    #[serde(skip)]
    latest_trail: Option<Uuid>,
    #[serde(skip)]
    attested_at: Option<Timestamp>,
    #[serde(skip)]
    artifact_at: Option<Timestamp>,
}

/// Pushes the conditions of a filter.
macro_rules! push_filter {
    ($query:ident, $organization:expr, $filter:ident) => {
        $query.push(" FROM flows f WHERE f.organization = ").push_bind($organization);
        // Names are ASCII. LIKE ignores case on SQLite only.
        match $filter {
            FlowFilter::Name(name) => {
                $query.push(" AND f.name = ").push_bind(name);
            }
            FlowFilter::Part(part) => {
                $query.push(" AND (f.name <> REPLACE(f.name, ").push_bind(part);
                $query.push(", '') OR ").push_bind(part).push(" = '')");
            }
            FlowFilter::PartIgnoringCase(part) => {
                let part = part.to_ascii_lowercase();
                $query.push(" AND (lower(f.name) <> REPLACE(lower(f.name), ").push_bind(part.clone());
                $query.push(", '') OR ").push_bind(part).push(" = '')");
            }
        }
    };
}

#[derive(sqlx::FromRow)]
struct TemplateRow {
    id: Uuid,
    content: String,
}

/// A flow; `None` if it does not exist.
pub async fn get(tenant: &mut Tenant<'_>, flow: &str) -> Result<Option<FlowState>, Error> {
    const SELECT: &str = "
        SELECT is_declared,
               EXISTS (SELECT 1 FROM flow_templates t
                       WHERE t.organization = f.organization AND t.flow = f.name AND t.closed_at IS NULL)
                 AS has_template
        FROM flows f WHERE organization = $1 AND name = $2";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, flow))
}

pub async fn count(tenant: &mut Tenant<'_>, filter: FlowFilter<'_>) -> Result<u64, Error> {
    let total: i64 = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new("SELECT COUNT(*)");
        push_filter!(query, tenant.name, filter);
        query.build_query_scalar().fetch_one(connection).await?
    });
    Ok(total.unsigned_abs())
}

/// Flows by name: all, or a page.
pub async fn list(
    tenant: &mut Tenant<'_>,
    filter: FlowFilter<'_>,
    page: Option<Page>,
) -> Result<Vec<FlowDetails>, Error> {
    let mut flows: Vec<FlowDetails> = on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new(
            "SELECT f.name AS id, f.name, f.description, f.organization AS org, f.created_at,
                    (SELECT t.id FROM trails t WHERE t.organization = f.organization AND t.flow = f.name
                     ORDER BY t.created_at DESC, t.id DESC LIMIT 1) AS latest_trail,
                    (SELECT t.last_modified_at FROM trails t
                     WHERE t.organization = f.organization AND t.flow = f.name
                     ORDER BY t.created_at DESC, t.id DESC LIMIT 1) AS latest_activity_at,
                    (SELECT a.created_at FROM attestations a
                     WHERE a.organization = f.organization AND a.flow = f.name
                     ORDER BY a.created_at DESC, a.id DESC LIMIT 1) AS attested_at,
                    (SELECT x.created_at FROM flow_artifacts x
                     WHERE x.organization = f.organization AND x.flow = f.name
                     ORDER BY x.created_at DESC LIMIT 1) AS artifact_at,
                    CAST(500 + 6 * octet_length(f.description)
                         + 2 * COALESCE((SELECT octet_length(t.content) FROM flow_templates t
                                         WHERE t.organization = f.organization AND t.flow = f.name
                                           AND t.closed_at IS NULL), 0) AS BIGINT) AS size",
        );
        push_filter!(query, tenant.name, filter);
        query.push(" ORDER BY f.name");
        if let Some(page) = page {
            query.push(" LIMIT ").push_bind(page.size()).push(" OFFSET ").push_bind(page.offset());
        }
        PageBudget::of_page().read(query.build().fetch(connection)).await?
    });
    let trails: BTreeSet<Uuid> = flows.iter().filter_map(|flow| flow.latest_trail).collect();
    let states = crate::trails::compliance::read(tenant, &trails).await?;
    let mut templates = crate::trails::templates(tenant, flows.iter().map(|flow| flow.name.as_str())).await?;
    let mut tags = crate::tags::of_flows(tenant).await?;
    for flow in &mut flows {
        flow.latest_activity_at = flow.latest_activity_at.max(flow.attested_at).max(flow.artifact_at);
        flow.latest_state = flow.latest_trail.and_then(|trail| Some(states.get(&trail)?.1));
        if let Some(template) = templates.remove(&flow.name) {
            let file = serde_saphyr::to_string(&TemplateFile::from(template.body));
            flow.template = file.map_err(|_| Error::Unreadable("a template"))?;
        }
        flow.tags = tags.remove(&flow.name).unwrap_or_default();
    }
    Ok(flows)
}

/// Creates a flow unless it exists.
pub async fn create(
    tenant: &mut Tenant<'_>,
    name: &str,
    token: Fingerprint,
    now: Timestamp,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO flows (organization, name, created_at, created_by_token) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    execute!(tenant.tx, INSERT, tenant.name, name, now, token);
    Ok(())
}

/// Creates a flow, or replaces its description.
pub async fn upsert(
    tenant: &mut Tenant<'_>,
    name: &str,
    description: &str,
    token: Fingerprint,
    now: Timestamp,
) -> Result<(), Error> {
    const UPSERT: &str = "
        INSERT INTO flows (organization, name, description, created_at, created_by_token) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (organization, name) DO UPDATE SET description = excluded.description";
    execute!(tenant.tx, UPSERT, tenant.name, name, description, now, token);
    Ok(())
}

/// Sets the template of a flow. Returns whether it changed.
pub async fn set_template(
    tenant: &mut Tenant<'_>,
    flow: &str,
    body: &TemplateBody,
    now: Timestamp,
) -> Result<bool, Error> {
    const CLOSE: &str = "UPDATE flow_templates SET closed_at = $1 WHERE organization = $2 AND id = $3";
    let content = json(body)?;
    if let Some(open) = open_template(tenant, flow).await? {
        if open.content == content {
            return Ok(false);
        }
        execute!(tenant.tx, CLOSE, now, tenant.name, open.id);
        tenant.tx.log().row(tenant.name, Kind::TemplateEnd, open.id);
    }
    insert_template(tenant, flow, &content, now, None).await?;
    Ok(true)
}

/// The identifier of the current template of a flow.
pub async fn open_template_id(tenant: &mut Tenant<'_>, flow: &str) -> Result<Option<Uuid>, Error> {
    Ok(open_template(tenant, flow).await?.map(|open| open.id))
}

async fn open_template(tenant: &mut Tenant<'_>, flow: &str) -> Result<Option<TemplateRow>, Error> {
    const SELECT: &str = "
        SELECT id, content FROM flow_templates WHERE organization = $1 AND flow = $2 AND closed_at IS NULL";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, flow))
}

/// The identifier of a version of a flow's templates with this content. Creates one that is not current if there is
/// none: for a trail with a template of its own.
pub async fn template_version(
    tenant: &mut Tenant<'_>,
    flow: &str,
    body: &TemplateBody,
    now: Timestamp,
) -> Result<Uuid, Error> {
    const SELECT: &str = "
        SELECT id FROM flow_templates WHERE organization = $1 AND flow = $2 AND sha256 = $3
        ORDER BY version DESC LIMIT 1";
    let content = json(body)?;
    let hash = Fingerprint::from_content(content.as_bytes());
    let known: Option<Uuid> = fetch_optional_scalar!(tenant.tx, SELECT, tenant.name, flow, hash);
    match known {
        Some(id) => Ok(id),
        None => insert_template(tenant, flow, &content, now, Some(now)).await,
    }
}

/// Inserts the next version of a flow's templates.
pub(crate) async fn insert_template(
    tenant: &mut Tenant<'_>,
    flow: &str,
    content: &str,
    now: Timestamp,
    closed_at: Option<Timestamp>,
) -> Result<Uuid, Error> {
    const INSERT: &str = "
        INSERT INTO flow_templates (id, organization, flow, version, content, sha256, created_at, closed_at)
        VALUES ($1, $2, $3,
                COALESCE((SELECT MAX(version) FROM flow_templates WHERE organization = $2 AND flow = $3), 0) + 1,
                $4, $5, $6, $7)";
    let (id, hash) = (crate::new_id(), Fingerprint::from_content(content.as_bytes()));
    execute!(tenant.tx, INSERT, id, tenant.name, flow, content, hash, now, closed_at);
    tenant.tx.log().row(tenant.name, Kind::Template, id);
    if closed_at.is_some() {
        tenant.tx.log().row(tenant.name, Kind::TemplateEnd, id);
    }
    Ok(id)
}

pub async fn names(tenant: &mut Tenant<'_>) -> Result<Vec<String>, Error> {
    const SELECT: &str = "SELECT name FROM flows WHERE organization = $1";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name))
}

pub async fn exists(tenant: &mut Tenant<'_>, name: &str) -> Result<bool, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM flows WHERE organization = $1 AND name = $2";
    let count: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name, name);
    Ok(count > 0)
}
