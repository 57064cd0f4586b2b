//! Create, list and get flows: extensions of the interface.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::template_file;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::model::{
    ComplianceState, FlowName, Page, Pagination, RequiredArtifact, RequiredAttestation, ShortText,
    TemplateBody, TemplateFile, Text, Timestamp, UnknownFields,
};
use crate::service::access::{Admitted, Caller, CreateFlow, Read};
use crate::service::app::App;
use crate::service::creation::{check_limit, declared};
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::guard::Evaluating;
use crate::service::http::form::Form;
use crate::service::http::json;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::http::response::created;
use crate::service::site::Site;
use crate::store::Transaction;
use crate::store::creations::Created;
use crate::store::flows::{FlowFilter, ListedFlow, NewFlow};

/// A flow to be created.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct FlowData {
    name: FlowName,
    #[serde(default)]
    description: Text,
    /// Ignored: the members of the organization see all flows.
    #[schema(ignore)]
    #[expect(dead_code, reason = "older clients send it")]
    visibility: Option<Text>,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

/// The form, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the form in the OpenAPI document")]
pub(crate) struct FlowForm {
    /// The flow, a JSON object
    data_json: FlowData,
    /// The template, YAML
    #[schema(value_type = Option<String>, format = Binary)]
    template_file: Option<Vec<u8>>,
}

/// A flow with the names of the attestations that its artifact requires, as older clients send it.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct FlowWithList {
    name: FlowName,
    #[serde(default)]
    description: Text,
    /// Names of attestations; `artifact` is the artifact itself.
    #[schema(max_items = 100)]
    template: Option<Vec<ShortText>>,
    #[schema(ignore)]
    #[expect(dead_code, reason = "older clients send it")]
    visibility: Option<Text>,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

/// Create a flow, or replace its description and template. Not in the interface.
#[utoipa::path(
    put,
    path = "/flows/{org}/template_file",
    tag = "flows",
    request_body(content = FlowForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "The flow existed", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
    ),
)]
pub(crate) async fn create_flow(
    State(app): State<App>,
    Admitted { organization, caller, .. }: Admitted<CreateFlow>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let mut share = app.inbound.share(&organization);
    let form = Form::read(template_file::PARTS, &headers, body, &app.limits, &mut share).await?;
    let FlowData { name, description, unknown, .. } = json::read(template_file::DATA, form.data()?)?;
    let template = form.file().map(template_file::read).transpose()?;
    put(&app, &caller, &organization, &name, &description, template.as_ref(), &unknown).await
}

/// Create a flow with a list of attestations that its artifact requires, or replace its description and template. Not in the
/// interface.
#[utoipa::path(
    put,
    path = "/flows/{org}",
    tag = "flows",
    request_body(content = FlowWithList, content_type = "application/json"),
    responses(
        (status = 200, description = "The flow existed", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
    ),
)]
pub(crate) async fn create_flow_with_list(
    State(app): State<App>,
    Admitted { organization, caller, .. }: Admitted<CreateFlow>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (new, _share): (FlowWithList, _) =
        json::receive(&app, &organization, "the flow", &headers, body).await?;
    let template = new.template.as_deref().map(template_of_list).transpose()?;
    put(&app, &caller, &organization, &new.name, &new.description, template.as_ref(), &new.unknown).await
}

/// A flow.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FlowDetails {
    /// Its name
    id: String,
    name: String,
    description: String,
    org: String,
    /// YAML; empty if it has none: the latest attestation of each name must pass
    template: String,
    tags: BTreeMap<String, String>,
    created_at: Timestamp,
    /// When its latest attestation or new artifact was received, or its latest trail changed
    latest_activity_at: Option<Timestamp>,
    /// The state of the trail that was begun last
    latest_state: Option<ComplianceState>,
    /// When one of its newest artifacts last started among those that run; not in lists
    #[serde(skip_serializing_if = "Option::is_none")]
    last_deployment_at: Option<Timestamp>,
    /// Always null
    #[schema(value_type = Option<String>)]
    visibility: (),
    /// Always null
    #[schema(value_type = Option<String>)]
    repo_url: (),
}

/// Flows: all of them, or a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum Flows {
    All(Vec<FlowDetails>),
    Page(FlowsPage),
}

/// A page of flows.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FlowsPage {
    data: Vec<FlowDetails>,
    pagination: Pagination,
}

/// List flows by name. A list without `page` and `per_page` is an array of all. Not in the interface.
#[utoipa::path(
    get,
    path = "/flows/{org}",
    tag = "flows",
    params(
        ("search_by_name" = Option<String>, Query, description = "Part of the name", pattern = "^[^\\x00]*$"),
        ("case_sensitive" = Option<bool>, Query, description = "Whether case counts in search_by_name; true by default"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "The flows", body = Flows)),
)]
pub(crate) async fn list_flows(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Flows>, Problem> {
    let known = ["search_by_name", "case_sensitive", "page", "per_page"];
    let parameters = Parameters::read(&uri, &known)?;
    let page = Some(parameters.page()?).filter(|_| parameters.is_paged());
    let part = parameters.text("search_by_name").unwrap_or_default();
    let filter = match parameters.parsed::<bool>("case_sensitive")? {
        Some(false) => FlowFilter::PartIgnoringCase(part),
        _ => FlowFilter::Part(part),
    };
    let mut transaction = site.store.read().await?;
    let data = read(&mut transaction, &organization, filter, page).await?;
    Ok(axum::Json(match page {
        None => Flows::All(data),
        Some(page) => {
            let total = transaction.count_flows(&organization, filter).await?;
            Flows::Page(FlowsPage { data, pagination: page.pagination(total) })
        }
    }))
}

/// Get a flow. Not in the interface.
#[utoipa::path(
    get,
    path = "/flows/{org}/{flow_name}",
    tag = "flows",
    responses(
        (status = 200, description = "The flow", body = FlowDetails),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn get_flow(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<FlowDetails>, Problem> {
    find(&site, &organization, &name, &uri).await
}

/// Get the flow named `template_file`: another operation has its path.
#[utoipa::path(
    get,
    path = "/flows/{org}/template_file",
    tag = "flows",
    responses(
        (status = 200, description = "The flow", body = FlowDetails),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn get_flow_named_template_file(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<FlowDetails>, Problem> {
    find(&site, &organization, "template_file", &uri).await
}

async fn find(
    site: &Site,
    organization: &str,
    name: &str,
    uri: &Uri,
) -> Result<axum::Json<FlowDetails>, Problem> {
    let name: FlowName = Problem::parse("flow_name", name)?;
    Parameters::read(uri, &[])?;
    let mut transaction = site.store.read().await?;
    let mut found = read(&mut transaction, organization, FlowFilter::Name(name.as_str()), None).await?;
    let Some(flow) = found.pop() else {
        return Err(Problem::not_found(format!("flow \"{name}\" not found")));
    };
    let last_deployment_at = transaction.last_deployment(organization, name.as_str()).await?;
    Ok(axum::Json(FlowDetails { last_deployment_at, ..flow }))
}

async fn read(
    transaction: &mut Transaction,
    organization: &str,
    filter: FlowFilter<'_>,
    page: Option<Page>,
) -> Result<Vec<FlowDetails>, Problem> {
    let flows = transaction.flows(organization, filter, page).await?;
    flows.into_iter().map(|flow| FlowDetails::new(organization, flow)).collect()
}

impl FlowDetails {
    fn new(organization: &str, stored: ListedFlow) -> Result<Self, Problem> {
        let template = stored.template.map(|body| serde_saphyr::to_string(&TemplateFile::from(body)));
        Ok(Self {
            id: stored.name.clone(),
            name: stored.name,
            description: stored.description,
            org: organization.to_owned(),
            template: template.transpose().map_err(|_| Problem::defect())?.unwrap_or_default(),
            tags: stored.tags,
            created_at: stored.created_at,
            latest_activity_at: stored.latest_activity_at,
            latest_state: stored.latest_state,
            last_deployment_at: None,
            visibility: (),
            repo_url: (),
        })
    }
}

/// The word of a list that stands for the artifact.
const ARTIFACT: &str = "artifact";

fn template_of_list(names: &[ShortText]) -> Result<TemplateBody, Problem> {
    if names.len() > 100 {
        return Err(Problem::field("template", "expected at most 100 names"));
    }
    let names: BTreeSet<&str> =
        names.iter().map(ShortText::as_str).filter(|name| *name != ARTIFACT).collect();
    let required = |name: &str| RequiredAttestation { name: name.to_owned(), kind: "*".to_owned() };
    let attestations = names.into_iter().map(required).collect();
    let artifacts = vec![RequiredArtifact { name: ARTIFACT.to_owned(), attestations }];
    Ok(TemplateBody { attestations: Vec::new(), artifacts })
}

async fn put(
    app: &App,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    description: &Text,
    template: Option<&TemplateBody>,
    unknown: &UnknownFields,
) -> Result<Response, Problem> {
    caller.authorize_flow(organization, flow)?;
    let unknown = unknown.names().map(str::to_owned).collect();
    app.unknown_fields.warn((caller.token, &caller.name), organization, unknown);
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let transaction = &mut evaluating.transaction;
    let is_new = match transaction.flow(organization, flow.as_str()).await? {
        Some(stored) if stored.is_declared => return Err(declared("flow", flow)),
        Some(_) => false,
        None => {
            check_limit(app, transaction, caller, organization, Created::Flows).await?;
            true
        }
    };
    let now = app.site.now();
    let new =
        NewFlow { organization, name: flow.as_str(), description: description.as_str(), token: caller.token };
    transaction.upsert_flow(new, now).await?;
    let is_template_new = match template {
        Some(template) => transaction.set_template(organization, flow.as_str(), template, now).await?,
        None => false,
    };
    if is_template_new {
        // The compliance of the flow's trails depends on its template.
        let environments = transaction.environments_with_policies(organization, true).await?;
        let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
        let environments = environments.iter().map(String::as_str);
        transaction.queue_evaluations(organization, environments, None, &cause, now).await?;
    }
    if is_new || is_template_new {
        let change = if is_new { "created the flow" } else { "changed the template of the flow" };
        let audit = Audit::from_token(&caller.name, organization, format!("{change} {flow}"));
        evaluating.audit(audit, now).await?;
    }
    evaluating.commit().await?;
    Ok(created(is_new))
}
