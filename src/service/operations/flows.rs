//! Create flows: extensions of the interface.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::template_file;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::model::{
    FlowName, RequiredArtifact, RequiredAttestation, ShortText, TemplateBody, Text, UnknownFields,
};
use crate::service::access::{Admitted, Caller, CreateFlow};
use crate::service::app::App;
use crate::service::creation::{check_limit, declared};
use crate::service::evaluation::audit::Audit;
use crate::service::evaluation::guard::Evaluating;
use crate::service::http::form::Form;
use crate::service::http::json;
use crate::service::http::problem::{BodyErrorResponses, ErrorResponses, Problem};
use crate::service::http::response::created;
use crate::store::creations::Created;
use crate::store::flows::NewFlow;

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
    params(("org" = String, Path, description = "Organization")),
    request_body(content = FlowForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "The flow existed", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
        ErrorResponses,
        BodyErrorResponses,
    ),
    security(("token" = [])),
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
    params(("org" = String, Path, description = "Organization")),
    request_body(content = FlowWithList, content_type = "application/json"),
    responses(
        (status = 200, description = "The flow existed", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
        ErrorResponses,
        BodyErrorResponses,
    ),
    security(("token" = [])),
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
    let mut evaluating =
        Evaluating::exclusive(app, BTreeSet::from([organization]), app.limits.permit_timeout).await?;
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
