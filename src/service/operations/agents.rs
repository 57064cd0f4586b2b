//! List the agents of an environment: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::model::{EnvironmentName, Timestamp};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::site::Site;
use crate::store;
use crate::store::reporters::Reporter;

/// An agent of an environment, or another client that reports it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ListedAgent {
    /// The name of its token, or `issuer/subject` of its identity
    pub(crate) name: String,
    /// `User-Agent` of the last report, such as `supercargo/0.1.0 (agent)`; at most 200 characters
    pub(crate) user_agent: String,
    /// UID of the cluster's namespace `kube-system`; null if the agent does not send it
    pub(crate) cluster: Option<String>,
    pub(crate) first_reported_at: Timestamp,
    pub(crate) last_reported_at: Timestamp,
    /// Number of pods in the last report
    pub(crate) pods: i64,
    /// Whether another agent overwrites its reports: both reported in turns within `silentAfter`
    pub(crate) is_overwritten: bool,
}

/// List the latest 20 agents of an environment, latest first. Not in the interface.
#[utoipa::path(
    get,
    path = "/environments/{org}/{env_name}/agents",
    tag = "environments",
    responses(
        (status = 200, description = "The agents", body = Vec<ListedAgent>),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn list_agents(
    State(site): State<Site>,
    Admitted { organization, rest: name, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Vec<ListedAgent>>, Problem> {
    let name: EnvironmentName = Problem::parse("env_name", &name)?;
    Parameters::read(&uri, &[])?;
    let agents = read(&site, &organization, name.as_str()).await?;
    let not_found = || Problem::not_found(format!("environment \"{name}\" not found"));
    agents.map(axum::Json).ok_or_else(not_found)
}

/// The agents of an environment; `None` if it does not exist.
pub(crate) async fn read(
    site: &Site,
    organization: &str,
    name: &str,
) -> Result<Option<Vec<ListedAgent>>, store::Error> {
    let mut transaction = site.store.read().await?;
    let Some(environment) = transaction.environment_overview(organization, name).await? else {
        return Ok(None);
    };
    let reporters = transaction.reporters(organization, environment.id).await?;
    drop(transaction);
    let since = site.now().earlier(environment.validity(site.silent_after).silent_after);
    // A token may report one cluster with its identity and without.
    let are_distinct = |one: &Reporter, other: &Reporter| {
        one.name != other.name || !(one.cluster.is_empty() || other.cluster.is_empty())
    };
    let alternate = |one: &Reporter, other: &Reporter| {
        are_distinct(one, other)
            && one.last_at.min(other.last_at) >= since.max(one.first_at).max(other.first_at)
    };
    let agent = |reporter: &Reporter| ListedAgent {
        name: reporter.name.clone(),
        user_agent: reporter.user_agent.clone(),
        cluster: Some(reporter.cluster.clone()).filter(|cluster| !cluster.is_empty()),
        first_reported_at: reporter.first_at,
        last_reported_at: reporter.last_at,
        pods: reporter.pods,
        is_overwritten: reporters
            .iter()
            .any(|other| !std::ptr::eq(other, reporter) && alternate(reporter, other)),
    };
    Ok(Some(reporters.iter().map(agent).collect()))
}
