//! Get an environment: an extension of the interface.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::evidence::compliance::Compliance;
use crate::domain::model::{EnvironmentName, Timestamp};
use crate::service::access::{Admitted, ReadEnvironment};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, ErrorResponses, Problem};
use crate::service::site::Site;

/// An environment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Environment {
    org: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    last_modified_at: Timestamp,
    last_reported_at: Option<Timestamp>,
    last_changed_at: Option<Timestamp>,
    /// Whether it is compliant; null if that is unknown.
    state: Option<bool>,
    include_scaling: bool,
    tags: BTreeMap<String, String>,
    policies: Vec<String>,
    included_environments: Option<Vec<String>>,
    html_url: String,
}

/// Get an environment. Its reporters may read it too. Not in the interface.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}",
    tag = "environments",
    params(
        ("org" = String, Path, description = "Organization"),
        ("env_name" = inline(EnvironmentName), Path, description = "Environment"),
    ),
    responses(
        (status = 200, description = "The environment", body = Environment),
        (status = 404, description = "No such environment", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn get_environment(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<ReadEnvironment, String>,
    uri: Uri,
) -> Result<axum::Json<Environment>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let stored = transaction.environment_settings(&organization, name.as_str()).await?;
    drop(transaction);
    let stored = stored.ok_or_else(|| Problem::not_found(format!("environment \"{name}\" not found")))?;
    let is_valid = stored.validity(site.silent_after).is_valid(site.now());
    Ok(axum::Json(Environment {
        html_url: site.links.environment_page(&organization, name.as_str()),
        org: organization,
        name: name.as_str().to_owned(),
        kind: "K8S",
        description: stored.description,
        last_modified_at: stored.last_changed_at.unwrap_or(stored.created_at),
        last_reported_at: stored.last_report_at,
        last_changed_at: stored.last_changed_at,
        state: match stored.compliance.confirmed(is_valid) {
            Compliance::Compliant => Some(true),
            Compliance::NonCompliant => Some(false),
            Compliance::Unknown => None,
        },
        include_scaling: false,
        tags: BTreeMap::new(),
        policies: Vec::new(),
        included_environments: None,
    }))
}
