//! List the agents of an environment: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::EnvironmentName;
use store::environments::reporters::ListedAgent;

/// List the latest 20 agents of an environment, latest first. Not in Kosli's API.
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
    match agents {
        Some(agents) => Ok(axum::Json(agents)),
        None => {
            Err(not_found::environment(&mut site.store.read().await?.of(&organization), name.as_str()).await)
        }
    }
}

/// The agents of an environment; `None` if it does not exist.
pub(crate) async fn read(
    site: &Site,
    organization: &str,
    name: &str,
) -> Result<Option<Vec<ListedAgent>>, store::Error> {
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(organization);
    let Some(environment) = store::environments::overview(tenant, name).await? else {
        return Ok(None);
    };
    let mut agents = store::environments::reporters::list(tenant, environment.id).await?;
    drop(transaction);
    let since = site.now().earlier(environment.validity(site.silent_after).silent_after);
    // A token may report one cluster with its identity and without.
    let are_distinct = |one: &ListedAgent, other: &ListedAgent| {
        one.name != other.name || one.cluster.is_some() && other.cluster.is_some()
    };
    let alternate = |one: &ListedAgent, other: &ListedAgent| {
        let both_since = since.max(one.first_reported_at).max(other.first_reported_at);
        are_distinct(one, other) && one.last_reported_at.min(other.last_reported_at) >= both_since
    };
    let is_overwritten = |agent: &ListedAgent| {
        agents.iter().any(|other| !std::ptr::eq(other, agent) && alternate(agent, other))
    };
    let overwritten: Vec<bool> = agents.iter().map(is_overwritten).collect();
    for (agent, is_overwritten) in agents.iter_mut().zip(overwritten) {
        agent.is_overwritten = is_overwritten;
    }
    Ok(Some(agents))
}
