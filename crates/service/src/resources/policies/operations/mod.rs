//! Create, list and get policies.

pub(crate) mod check;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::declared;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::engine::queue;
use crate::http::form::{Form, Parts};
use crate::http::json;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Administer, Admitted, Read};
use crate::site::Site;
use model::{PolicyName, PolicySummary, Text};
use rules::notification::{Cause, CauseKind};
use rules::policy::{MAX_FILE, Needs, Policy, PolicyVersion};
use store::policies::NewPolicy;

const PAYLOAD: &str = "payload";
const FILE: &str = "policy_file";

/// The form, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the form in the OpenAPI document")]
pub(crate) struct PolicyForm {
    /// The policy, a JSON object
    payload: Payload,
    /// The policy file
    #[schema(value_type = String, format = Binary)]
    policy_file: Vec<u8>,
}

/// The description of a policy.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct Payload {
    /// The policy's name
    name: PolicyName,
    /// The description; replaces the earlier one
    #[schema(value_type = Option<String>)]
    description: Option<Text>,
    /// A comment on this version
    #[schema(value_type = Option<String>)]
    comment: Option<Text>,
    /// The kind of policy
    #[serde(rename = "type", default)]
    kind: PolicyKind,
}

/// The kind of policy.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum PolicyKind {
    /// Policy of environments
    #[default]
    Env,
}

/// Create a policy, or a new version of it. A file and description that equal those of the current version create none.
#[utoipa::path(
    put,
    path = "/policies/{org}",
    tag = "policies",
    request_body(content = PolicyForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "Updated, or unchanged", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
    ),
)]
pub(crate) async fn put_policy(
    State(app): State<App>,
    Admitted { organization, caller, .. }: Admitted<Administer>,
    request: Request,
) -> Result<Response, Problem> {
    let max_file = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
    let parts = Parts { data: PAYLOAD, file: FILE, max_file };
    let form = Form::read(&app, &organization, parts, request).await?;
    let payload: Payload = json::read(PAYLOAD, form.data()?)?;
    let file = form.file().ok_or_else(|| Problem::field(FILE, "missing part"))?;
    let content =
        std::str::from_utf8(&file.content).map_err(|_| Problem::field(FILE, "expected text in UTF-8"))?;
    if content.contains('\0') {
        return Err(Problem::field(FILE, "expected text without NUL"));
    }
    let (name, PolicyKind::Env) = (payload.name.as_str(), payload.kind);
    let version = PolicyVersion { name: name.to_owned(), version: 0 };
    let parsed = Policy::parse(version, content).map_err(|error| Problem::field(FILE, &error))?;
    let text = |text: &Option<Text>| text.as_ref().map_or("", Text::as_str).to_owned();
    let (description, comment) = (text(&payload.description), text(&payload.comment));

    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let current = store::policies::current(tenant, name).await?;
    if current.as_ref().is_some_and(|current| current.is_declared) {
        return Err(declared("policy", name));
    }
    let is_known = current.is_some();
    if current.is_some_and(|current| {
        (current.description, current.content.as_str()) == (description.clone(), content)
    }) {
        return Ok((StatusCode::OK, axum::Json("OK")).into_response());
    }
    let new = NewPolicy {
        name,
        description: &description,
        comment: &comment,
        content,
        needs_trails: Needs::new([&parsed]).trails,
        is_declared: false,
        created_by: &caller.name,
    };
    let now = app.site.now();
    let number = store::policies::insert(tenant, new, now).await?;
    let attached = store::policies::attachments(tenant, None, Some(name)).await?;
    let environments = attached.iter().map(|attachment| attachment.environment.as_str());
    let cause = Cause { kind: CauseKind::Policy, by: Some(caller.name.clone()) };
    store::policies::evaluation_queue::push(tenant, environments, None, &cause, now).await?;
    let audit =
        Audit::from_caller(&caller, &organization, || format!("the policy {name} has version {number}"));
    evaluating.audit(audit, now).await?;
    evaluating.commit().await?;
    drop(form);
    if !attached.is_empty() {
        queue::evaluate_requested(&app, &organization).await;
    }
    let status = if is_known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, axum::Json("OK")).into_response())
}

/// List policies by name: all, or a page.
#[utoipa::path(
    get,
    path = "/policies/{org}",
    tag = "policies",
    params(
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "The policies", body = Vec<PolicySummary>)),
)]
pub(crate) async fn list_policies(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Vec<PolicySummary>>, Problem> {
    let parameters = Parameters::read(&uri, &["page", "per_page"])?;
    let page = parameters.page()?;
    let mut policies =
        store::policies::summaries::list(&mut site.store.read().await?.of(&organization)).await?;
    if parameters.is_paged() {
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        policies = policies.into_iter().skip(count(page.offset())).take(count(page.size())).collect();
    }
    Ok(axum::Json(policies))
}

/// Get a policy with its versions.
#[utoipa::path(
    get,
    path = "/policies/{org}/{policy_name}",
    tag = "policies",
    params(("policy_name" = inline(PolicyName), Path, description = "Policy")),
    responses(
        (status = 200, description = "The policy", body = PolicySummary),
        (status = 404, description = "No such policy", body = ErrorBody),
    ),
)]
pub(crate) async fn get_policy(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
) -> Result<axum::Json<PolicySummary>, Problem> {
    let name: PolicyName = Problem::parse("policy_name", &name)?;
    find(&site, &organization, name.as_str()).await
}

/// Get the policy named `check`: another operation has its path.
#[utoipa::path(
    get,
    path = "/policies/{org}/check",
    tag = "policies",
    responses(
        (status = 200, description = "The policy", body = PolicySummary),
        (status = 404, description = "No such policy", body = ErrorBody),
    ),
)]
pub(crate) async fn get_policy_named_check(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
) -> Result<axum::Json<PolicySummary>, Problem> {
    find(&site, &organization, "check").await
}

async fn find(site: &Site, organization: &str, name: &str) -> Result<axum::Json<PolicySummary>, Problem> {
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(organization);
    match store::policies::summaries::get(tenant, name).await? {
        Some(policy) => Ok(axum::Json(policy)),
        None => Err(not_found::policy(tenant, name).await),
    }
}
