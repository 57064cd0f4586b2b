//! Create, list and get flows: extensions of the interface.

use std::collections::BTreeSet;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::{check_limit, declared};
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::form::Form;
use crate::http::json::{self, Contents, Sent};
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::http::response::created;
use crate::http::template_file;
use crate::identity::access::{Admitted, Caller, CreateFlow, Read};
use crate::site::Site;
use model::access::Operation;
use model::{
    FlowName, Pagination, RequiredArtifact, RequiredAttestation, ShortText, TemplateBody, Text, UnknownFields,
};
use rules::notification::{Cause, CauseKind};
use store::flows::{FlowDetails, FlowFilter};
use store::quotas::Created;

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
    visibility: Option<Text>,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

impl Contents for FlowWithList {
    const WHAT: &'static str = "the flow";
}

/// Create a flow, or replace its description and template.
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
    request: Request,
) -> Result<Response, Problem> {
    let form = Form::read(&app, &organization, template_file::PARTS, request).await?;
    let new: FlowData = json::read(template_file::DATA, form.data()?)?;
    let template = form.file().map(template_file::read).transpose()?;
    put(&app, &caller, &organization, &new, template.as_ref()).await
}

/// Create a flow with a list of attestations that its artifact requires, or replace its description and template.
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
    Sent(sent, _share): Sent<FlowWithList>,
) -> Result<Response, Problem> {
    let FlowWithList { name, description, template, visibility, unknown } = sent;
    let template = template.as_deref().map(template_of_list).transpose()?;
    let new = FlowData { name, description, visibility, unknown };
    put(&app, &caller, &organization, &new, template.as_ref()).await
}

/// Flows: all of them, or a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum Flows {
    All(Vec<FlowDetails>),
    Page { data: Vec<FlowDetails>, pagination: Pagination },
}

/// List flows by name. A list without `page` and `per_page` is an array of all.
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
    let tenant = &mut transaction.of(&organization);
    let data = store::flows::list(tenant, filter, page).await?;
    Ok(axum::Json(match page {
        None => Flows::All(data),
        Some(page) => {
            let total = store::flows::count(tenant, filter).await?;
            Flows::Page { data, pagination: page.pagination(total) }
        }
    }))
}

/// Get a flow.
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
    let tenant = &mut transaction.of(organization);
    let mut found = store::flows::list(tenant, FlowFilter::Name(name.as_str()), None).await?;
    let Some(mut flow) = found.pop() else {
        return Err(not_found::flow(tenant, &name).await);
    };
    flow.last_deployment_at = store::artifacts::flows::last_deployment(tenant, name.as_str()).await?;
    Ok(axum::Json(flow))
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
    new: &FlowData,
    template: Option<&TemplateBody>,
) -> Result<Response, Problem> {
    let flow = &new.name;
    caller.authorize(organization, Operation::Attest(flow.as_str()))?;
    let unknown = new.unknown.names().map(str::to_owned).collect();
    app.unknown_fields.warn(caller.token, &caller.name, organization, unknown);
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let tenant = &mut evaluating.transaction.of(organization);
    let is_new = match store::flows::get(tenant, flow.as_str()).await? {
        Some(stored) if stored.is_declared => return Err(declared("flow", flow)),
        Some(_) => false,
        None => {
            check_limit(app, tenant, caller, Created::Flows).await?;
            true
        }
    };
    let now = app.site.now();
    let description = new.description.as_str();
    store::flows::upsert(tenant, flow.as_str(), description, caller.token, now).await?;
    let is_template_new = match template {
        Some(template) => store::flows::set_template(tenant, flow.as_str(), template, now).await?,
        None => false,
    };
    if is_template_new {
        // The compliance of the flow's trails depends on its template.
        let environments = store::policies::environments_that_need_trails(tenant).await?;
        let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
        let environments = environments.iter().map(String::as_str);
        store::policies::evaluation_queue::push(tenant, environments, None, &cause, now).await?;
    }
    if is_new || is_template_new {
        let change = if is_new { "created the flow" } else { "changed the template of the flow" };
        let audit = Audit::from_token(&caller.name, organization, format!("{change} {flow}"));
        evaluating.audit(audit, now).await?;
    }
    evaluating.commit().await?;
    Ok(created(is_new))
}
