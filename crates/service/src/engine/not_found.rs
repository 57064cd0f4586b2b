//! 404 for environments, flows and trails.

use crate::http::problem::Problem;
use model::{FlowName, TrailName};
use store::Transaction;

/// 404: the environment does not exist.
pub(crate) fn environment(name: &str) -> Problem {
    Problem::not_found(format!("environment \"{name}\" not found"))
}

/// Returns 404 unless the flow exists.
pub(crate) async fn require_flow(
    transaction: &mut Transaction,
    organization: &str,
    flow: &FlowName,
) -> Result<(), Problem> {
    if store::flows::exists(transaction, organization, flow.as_str()).await? {
        Ok(())
    } else {
        Err(Problem::not_found(format!("flow \"{flow}\" not found")))
    }
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
