//! Warnings of names that exist nowhere, which are probably misspelled and would have no effect, and of keys that cannot verify
//! a token. They are no errors, since a later report or attestation may create the name, and other keys work.

use crate::identity::key_set::KeySet;
use model::escape::Escaped;
use store::bootstrap::Plan;
use store::bootstrap::file::{Organization, Policy};
use store::environments::events::ALL_ENVIRONMENTS;
use store::{Error, Transaction};

/// The warnings of an applied file.
pub(crate) async fn check(transaction: &mut Transaction, plan: &Plan) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for organization in &plan.organizations {
        let known = store::bootstrap::known_names(&mut transaction.of(organization.name.as_str())).await?;
        for (what, name) in environments(organization) {
            if name != ALL_ENVIRONMENTS && !known.environments.contains(name) {
                let name = Escaped(name);
                warnings.push(format!(
                    "{what} names environment \"{name}\", which is neither declared nor reported"
                ));
            }
        }
        for issuer in &organization.issuers {
            let keys = issuer.jwks.as_ref().and_then(|jwks| KeySet::parse(jwks.text.as_bytes()).ok());
            let problems = keys.iter().flat_map(KeySet::problems);
            let what = format!("issuer {} of {}", issuer.name, organization.name);
            warnings.extend(problems.map(|problem| format!("{what}: {problem}")));
        }
        for Policy { name, flows, .. } in &organization.policies {
            for flow in flows.iter().filter(|flow| !known.flows.contains(*flow)) {
                warnings.push(format!(
                    "the policy {name} requires attestations of flow \"{flow}\", which has none"
                ));
            }
        }
    }
    Ok(warnings)
}

/// The environments that actions, approvals, and tokens and issuers that cannot create them name, each with a description of its user.
fn environments(organization: &Organization) -> Vec<(String, &str)> {
    let actions = organization.actions.iter().flat_map(|action| {
        let what = format!("action {} of {}", action.number, organization.name);
        action.environments.iter().map(move |name| (what.clone(), name.as_str()))
    });
    let approvals = organization.flows.iter().flat_map(|flow| {
        flow.approvals.iter().filter_map(move |approval| {
            let what = format!("approval {} of flow {}", approval.number, flow.name);
            Some((what, approval.environment.as_ref()?.as_str()))
        })
    });
    let tokens = organization.tokens.iter().filter(|token| !token.create);
    let tokens = tokens.flat_map(|token| {
        let what = format!("token {} of {}", token.name, organization.name);
        token.environments.iter().map(move |name| (what.clone(), name.as_str()))
    });
    let issuers = organization.issuers.iter().flat_map(|issuer| {
        let what = format!("issuer {} of {}", issuer.name, organization.name);
        let rules = issuer.rules.iter().filter(|rule| !rule.create);
        let names = rules.flat_map(|rule| &rule.environments);
        names.map(move |name| (what.clone(), name.as_str()))
    });
    actions.chain(approvals).chain(tokens).chain(issuers).collect()
}
