//! Names in the file that nobody knows: most likely misspelt, and otherwise silent for ever. They may also come
//! into being later, so they are no error.

use crate::domain::escape::Visible;
use crate::store::bootstrap::{Organization, Plan};
use crate::store::events::EVERY;
use crate::store::{Error, Transaction};

/// What to warn of, once the file is in the database.
pub(super) async fn doubts(transaction: &mut Transaction, plan: &Plan) -> Result<Vec<String>, Error> {
    let mut doubts = Vec::new();
    for organization in &plan.organizations {
        let known = transaction.known_names(organization.name.as_str()).await?;
        for (what, name) in environments(organization) {
            if name != EVERY && !known.environments.contains(name) {
                let name = Visible(name);
                doubts.push(format!(
                    "{what} names the environment \"{name}\", which is neither declared nor was ever reported"
                ));
            }
        }
        for environment in &organization.environments {
            let required = environment.policy.iter().flat_map(|policy| &policy.attestations);
            for flow in required.map(|required| required.flow.as_str()).filter(|f| !known.flows.contains(*f))
            {
                let name = &environment.name;
                doubts.push(format!("the policy of {name} wants attestations of the flow \"{flow}\", in which nothing was ever attested"));
            }
        }
    }
    Ok(doubts)
}

/// The environments that actions and approvals name, and who does.
fn environments(organization: &Organization) -> Vec<(String, &str)> {
    let actions = organization.actions.iter().flat_map(|action| {
        let what = format!("the action {} of {}", action.number, organization.name);
        action.environments.iter().map(move |name| (what.clone(), name.as_str()))
    });
    let approvals = organization.flows.iter().flat_map(|flow| {
        flow.approvals.iter().filter_map(move |approval| {
            let what = format!("the approval {} of the flow {}", approval.number, flow.name);
            Some((what, approval.environment.as_ref()?.as_str()))
        })
    });
    actions.chain(approvals).collect()
}
