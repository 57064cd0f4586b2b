//! Create an environment: an extension of the interface.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::{check_limit, declared};
use crate::engine::guard::Evaluating;
use crate::http::json;
use crate::http::problem::Problem;
use crate::http::response::created;
use crate::identity::access::{Admitted, Create};
use model::access::Operation;
use model::{EnvironmentName, Text, UnknownFields};
use rules::snapshot::report::Kind;
use store::quotas::Created;

/// An environment to be created.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct NewEnvironment {
    name: EnvironmentName,
    #[serde(rename = "type")]
    kind: Kind,
    /// An empty one keeps the description of an existing environment.
    description: Option<Text>,
    /// The number of pods makes no snapshot.
    #[schema(ignore)]
    include_scaling: Option<bool>,
    /// A policy requires provenance.
    #[schema(ignore)]
    require_provenance: Option<bool>,
    /// No environment has parts.
    #[schema(ignore)]
    included_environments: Option<Vec<String>>,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

/// Create an environment, change its description, or, with role `admin`, restore an archived one.
#[utoipa::path(
    put,
    path = "/environments/{org}",
    tag = "environments",
    request_body(content = NewEnvironment, content_type = "application/json"),
    responses(
        (status = 200, description = "The environment existed", body = String, content_type = "application/json"),
        (status = 201, description = "Created", body = String, content_type = "application/json"),
    ),
)]
pub(crate) async fn create_environment(
    State(app): State<App>,
    Admitted { organization, caller, .. }: Admitted<Create>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (new, _share): (NewEnvironment, _) =
        json::receive(&app, &organization, "the environment", &headers, body).await?;
    let Kind::K8S = new.kind;
    caller.authorize_creation(&organization, &new.name)?;
    new.check()?;
    app.unknown_fields.warn(
        caller.token,
        &caller.name,
        &organization,
        new.unknown.names().map(str::to_owned).collect(),
    );
    let (name, description) = (new.name.as_str(), new.description.as_ref().map_or("", Text::as_str));
    let mut evaluating = Evaluating::shared(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    let existing = store::environments::overview(tenant, name).await?;
    if existing.as_ref().is_some_and(|existing| existing.is_declared) {
        return Err(declared("environment", name));
    }
    if existing.as_ref().is_some_and(|existing| existing.archived_at.is_some()) {
        caller.authorize(&organization, Operation::Administer)?;
    }
    let is_new = existing.is_none();
    if is_new {
        check_limit(&app, tenant, &caller, Created::Environments).await?;
    }
    let now = app.site.now();
    store::environments::reports::create(tenant, name, caller.token, now).await?;
    if !description.is_empty() {
        store::environments::reports::describe(tenant, name, description).await?;
    }
    let is_restored = store::environments::reports::set_archived(tenant, name, None).await?;
    let change = match (is_new, is_restored) {
        (true, _) => "created",
        (false, true) => "restored",
        (false, false) => "changed the description of",
    };
    let audit = Audit::from_token(&caller.name, &organization, format!("{change} the environment {name}"));
    evaluating.audit(audit, now).await?;
    evaluating.commit().await?;
    Ok(created(is_new))
}

impl NewEnvironment {
    /// Rejects what the service does not do.
    fn check(&self) -> Result<(), Problem> {
        let (field, why) = if self.include_scaling == Some(true) {
            ("include_scaling", "the number of pods makes no snapshot")
        } else if self.require_provenance == Some(true) {
            ("require_provenance", "attach a policy that requires provenance")
        } else if self.included_environments.as_ref().is_some_and(|names| !names.is_empty()) {
            ("included_environments", "environments of type K8S have no parts")
        } else {
            return Ok(());
        };
        Err(Problem::field(field, &format!("not supported: {why}")))
    }
}
