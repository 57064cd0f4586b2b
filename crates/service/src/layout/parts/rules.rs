//! The rules of an environment's policies, with their results for artifacts.

use maud::{Markup, html};

use crate::engine::inputs::Inputs;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::badge;
use crate::site::Site;
use model::EnvironmentName;
use rules::environment_status::ReportedArtifacts;
use rules::policy::PolicyVersion;
use rules::policy::facts::Evidence;
use rules::policy::resolution::Outcome;
use store::Tenant;

pub(crate) struct RuleResults {
    policy: PolicyVersion,
    rule: String,
    /// The result and the reasons for each artifact, in their order.
    pub(crate) artifacts: Vec<(Outcome, Vec<String>)>,
}

impl RuleResults {
    /// The cells of the policy and the rule.
    pub(crate) fn heading(&self, site: &Site, organization: &str) -> Markup {
        html! {
            th scope="row" {
                a href=(site.links.page(&[organization, "policies", &self.policy.name])) { (text(&self.policy.to_string())) }
            }
            td { (text(&self.rule)) }
        }
    }
}

/// Evaluates each rule of an environment's policies for artifacts.
pub(crate) async fn evaluate(
    site: &Site,
    tenant: &mut Tenant<'_>,
    environment: &str,
    artifacts: &ReportedArtifacts,
) -> Result<Vec<RuleResults>, store::Error> {
    let environment: EnvironmentName =
        environment.parse().map_err(|_| store::Error::Unreadable("an environment's name"))?;
    let wanted = artifacts.keys().copied().collect();
    let inputs = Inputs::read(site, tenant, [environment.as_str()], &wanted).await?;
    let policies = inputs.requirements(&environment).policies;
    let rules = policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    let results = rules.map(|(policy, rule)| RuleResults {
        policy: policy.name.clone(),
        rule: rule.to_string(),
        artifacts: Vec::with_capacity(artifacts.len()),
    });
    let mut results: Vec<RuleResults> = results.collect();
    let (none, requirements) = (Evidence::default(), inputs.requirements(&environment));
    for (fingerprint, artifact) in artifacts {
        let evidence = inputs.evidence.get(fingerprint).unwrap_or(&none);
        let assessment = requirements.assess(fingerprint, artifact, evidence, site.now());
        let evaluated = assessment.policies.into_iter().flat_map(|policy| policy.rules);
        for (result, evaluated) in results.iter_mut().zip(evaluated) {
            let reasons = evaluated.reasons().map(|reason| reason.finding());
            result.artifacts.push((evaluated.outcome, reasons.collect()));
        }
    }
    Ok(results)
}

/// The result of a rule for one artifact, with the reasons.
pub(crate) fn outcome(outcome: Outcome, reasons: &[String]) -> Markup {
    let (class, word) = match outcome {
        Outcome::Satisfied => ("good", "fulfilled"),
        Outcome::Ignored => ("open", "does not apply"),
        Outcome::NotSatisfied => ("bad", "not fulfilled"),
    };
    html! { (badge(class, word)) @for reason in reasons { span.reason { (text(reason)) } } }
}
