//! 404 for environments, flows, trails, repositories and policies that do not exist, with the names that may be meant.
//!
//! The caller may read all names of the organization, or passes a filter.

use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::access::Operation;
use model::escape::Escaped;
use model::{FlowName, Provider, TrailName, at_provider, did_you_mean};
use store::Transaction;

/// The environments that an unknown name may mean, as the end of a message.
pub(crate) async fn nearest_environments(
    transaction: &mut Transaction,
    organization: &str,
    name: &str,
    may_read: impl Fn(&str) -> bool,
) -> Result<String, store::Error> {
    let names = store::environments::names(transaction, organization).await?;
    Ok(did_you_mean(name, names.iter().map(String::as_str).filter(|name| may_read(name))))
}

pub(crate) async fn environment(transaction: &mut Transaction, organization: &str, name: &str) -> Problem {
    match nearest_environments(transaction, organization, name, |_| true).await {
        Ok(nearest) => Problem::not_found(unknown_environment(name, &nearest)),
        Err(error) => error.into(),
    }
}

pub(crate) fn unknown_environment(name: &str, nearest: &str) -> String {
    format!("environment {} not found{nearest}", Escaped(name))
}

/// Returns 404 unless the environment exists.
pub(crate) async fn require_environment(
    transaction: &mut Transaction,
    organization: &str,
    name: &str,
) -> Result<(), Problem> {
    if store::environments::exists(transaction, organization, name).await? {
        return Ok(());
    }
    Err(environment(transaction, organization, name).await)
}

pub(crate) async fn flow(transaction: &mut Transaction, organization: &str, flow: &FlowName) -> Problem {
    unknown_flow(transaction, organization, flow, "", |_| true).await
}

/// 404: the caller needs a flow that exists. It may attest in the suggested ones.
pub(crate) async fn flow_to_attest(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
    caller: &Caller,
) -> Problem {
    let may_attest = |name: &str| caller.may(Operation::Attest(name));
    unknown_flow(transaction, organization, flow, ": create the flow first", may_attest).await
}

async fn unknown_flow(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
    what_to_do: &str,
    may_suggest: impl Fn(&str) -> bool,
) -> Problem {
    match store::flows::names(transaction, organization).await {
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
pub(crate) async fn require_flow(
    transaction: &mut Transaction,
    organization: &str,
    name: &FlowName,
) -> Result<(), Problem> {
    if store::flows::exists(transaction, organization, name.as_str()).await? {
        return Ok(());
    }
    Err(flow(transaction, organization, name).await)
}

/// 404: the trail does not exist, or its flow.
pub(crate) async fn trail(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
    trail: &TrailName,
) -> Result<Problem, Problem> {
    require_flow(transaction, organization, flow).await?;
    Ok(Problem::not_found(format!("trail \"{trail}\" of flow \"{flow}\" not found")))
}

/// `why` explains, after the provider, when a repository exists.
pub(crate) async fn repository(
    transaction: &mut Transaction,
    organization: &str,
    name: &str,
    provider: Option<&Provider>,
    why: &str,
) -> Problem {
    match store::repositories::names(transaction, organization).await {
        Ok(names) => {
            // Another provider may have it.
            let names = names.iter().map(String::as_str).filter(|known| *known != name);
            let (at, nearest) = (at_provider(provider), did_you_mean(name, names));
            Problem::not_found(format!("repository {}{at} not found{why}{nearest}", Escaped(name)))
        }
        Err(error) => error.into(),
    }
}

pub(crate) async fn policy(transaction: &mut Transaction, organization: &str, name: &str) -> Problem {
    match unknown_policy(transaction, organization, name).await {
        Ok(message) => Problem::not_found(message),
        Err(error) => error.into(),
    }
}

pub(crate) async fn unknown_policy(
    transaction: &mut Transaction,
    organization: &str,
    name: &str,
) -> Result<String, store::Error> {
    let names = store::policies::names(transaction, organization).await?;
    let nearest = did_you_mean(name, names.iter().map(String::as_str));
    Ok(format!("policy {} not found{nearest}", Escaped(name)))
}
