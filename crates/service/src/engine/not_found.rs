//! 404 for environments, flows, trails, repositories and policies that do not exist, with the names that may be meant.
//!
//! The caller may read all names of the organization, or passes a filter.

use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::access::Operation;
use model::escape::Escaped;
use model::{FlowName, Provider, TrailName, at_provider, did_you_mean};
use store::Tenant;

/// The environments that an unknown name may mean, as the end of a message.
pub(crate) async fn nearest_environments(
    tenant: &mut Tenant<'_>,
    name: &str,
    may_read: impl Fn(&str) -> bool,
) -> Result<String, store::Error> {
    let names = store::environments::names(tenant).await?;
    Ok(did_you_mean(name, names.iter().map(String::as_str).filter(|name| may_read(name))))
}

pub(crate) async fn environment(tenant: &mut Tenant<'_>, name: &str) -> Problem {
    match nearest_environments(tenant, name, |_| true).await {
        Ok(nearest) => Problem::not_found(unknown_environment(name, &nearest)),
        Err(error) => error.into(),
    }
}

pub(crate) fn unknown_environment(name: &str, nearest: &str) -> String {
    format!("environment {} not found{nearest}", Escaped(name))
}

/// Returns 404 unless the environment exists.
pub(crate) async fn require_environment(tenant: &mut Tenant<'_>, name: &str) -> Result<(), Problem> {
    if store::environments::exists(tenant, name).await? {
        return Ok(());
    }
    Err(environment(tenant, name).await)
}

pub(crate) async fn flow(tenant: &mut Tenant<'_>, flow: &FlowName) -> Problem {
    unknown_flow(tenant, flow, "", |_| true).await
}

/// 404: the caller needs a flow that exists. It may attest in the suggested ones.
pub(crate) async fn flow_to_attest(tenant: &mut Tenant<'_>, flow: &FlowName, caller: &Caller) -> Problem {
    let may_attest = |name: &str| caller.may(Operation::Attest(name));
    unknown_flow(tenant, flow, ": create the flow first", may_attest).await
}

async fn unknown_flow(
    tenant: &mut Tenant<'_>,
    flow: &FlowName,
    what_to_do: &str,
    may_suggest: impl Fn(&str) -> bool,
) -> Problem {
    match store::flows::names(tenant).await {
        Ok(names) => {
            let names = names.iter().map(String::as_str).filter(|name| may_suggest(name));
            let nearest = did_you_mean(flow.as_str(), names);
            let name = Escaped(flow.as_str());
            Problem::not_found(format!("flow {name} not found{what_to_do}{nearest}"))
        }
        Err(error) => error.into(),
    }
}

/// Returns 404 unless the flow exists.
pub(crate) async fn require_flow(tenant: &mut Tenant<'_>, name: &FlowName) -> Result<(), Problem> {
    if store::flows::exists(tenant, name.as_str()).await? {
        return Ok(());
    }
    Err(flow(tenant, name).await)
}

/// 404: the trail does not exist, or its flow.
pub(crate) async fn trail(
    tenant: &mut Tenant<'_>,
    flow: &FlowName,
    trail: &TrailName,
) -> Result<Problem, Problem> {
    require_flow(tenant, flow).await?;
    Ok(Problem::not_found(format!("trail \"{trail}\" of flow \"{flow}\" not found")))
}

/// `why` explains, after the provider, when a repository exists.
pub(crate) async fn repository(
    tenant: &mut Tenant<'_>,
    name: &str,
    provider: Option<&Provider>,
    why: &str,
) -> Problem {
    match store::repositories::names(tenant).await {
        Ok(names) => {
            // Another provider may have it.
            let names = names.iter().map(String::as_str).filter(|known| *known != name);
            let (at, nearest) = (at_provider(provider), did_you_mean(name, names));
            Problem::not_found(format!("repository {}{at} not found{why}{nearest}", Escaped(name)))
        }
        Err(error) => error.into(),
    }
}

pub(crate) async fn policy(tenant: &mut Tenant<'_>, name: &str) -> Problem {
    match unknown_policy(tenant, name).await {
        Ok(message) => Problem::not_found(message),
        Err(error) => error.into(),
    }
}

pub(crate) async fn unknown_policy(tenant: &mut Tenant<'_>, name: &str) -> Result<String, store::Error> {
    let names = store::policies::names(tenant).await?;
    let nearest = did_you_mean(name, names.iter().map(String::as_str));
    Ok(format!("policy {} not found{nearest}", Escaped(name)))
}
