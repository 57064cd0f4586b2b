//! The results of the rules of a policy.

use super::rule::Rule;
use super::{Policy, PolicyVersion};
use model::Timestamp;
use model::reason::{Code, Reason, RuleReference};

/// The result of a policy for one artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEvaluation<'a> {
    pub policy: &'a Policy,
    /// The results of its rules, in the order of the policy.
    pub rules: Vec<RuleEvaluation<'a>>,
    /// When the result may change by time alone: an attestation that a rule relies on becomes too old.
    pub expires_at: Option<Timestamp>,
}

/// The result of a rule for one artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEvaluation<'a> {
    pub rule: &'a Rule,
    pub outcome: Outcome,
    /// The result in each flow and trail.
    pub resolutions: Vec<Resolution<'a>>,
    /// The platform of an index that has this result, if others have a better one or the same.
    pub platform: Option<&'a str>,
}

/// The result of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The rule does not apply to the artifact.
    Ignored,
    Satisfied,
    /// The artifact does not satisfy the rule.
    NotSatisfied,
}

/// The result of a rule in one flow and trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution<'a> {
    pub code: Code,
    /// The flow; `None` if no flow holds the artifact, or the rule is not about a flow.
    pub flow: Option<&'a str>,
    /// The trail; `None` if it is unknown, or the rule is not about a trail.
    pub trail: Option<&'a str>,
    /// The attestation's name, if the rule is about any.
    pub attestation: Option<&'a str>,
}

impl Outcome {
    /// Whether the artifact fulfills the policy as far as this rule is concerned.
    #[must_use]
    pub fn is_fulfilled(self) -> bool {
        self != Self::NotSatisfied
    }
}

impl PolicyEvaluation<'_> {
    #[must_use]
    pub fn is_fulfilled(&self) -> bool {
        self.rules.iter().all(|rule| rule.outcome.is_fulfilled())
    }

    /// Why the artifact does not fulfill the policy.
    pub fn reasons(&self) -> impl Iterator<Item = Reason> {
        let rules = self.rules.iter().enumerate();
        rules.flat_map(|(index, evaluated)| {
            let PolicyVersion { name, version } = self.policy.name.clone();
            let rule = RuleReference { policy_name: name, policy_version: version, number: index + 1 };
            evaluated.reasons().map(move |reason| Reason { rule: Some(rule.clone()), ..reason })
        })
    }
}

impl RuleEvaluation<'_> {
    /// Why the artifact does not satisfy the rule.
    pub fn reasons(&self) -> impl Iterator<Item = Reason> {
        let is_failed = self.outcome == Outcome::NotSatisfied;
        let found = self.resolutions.iter().filter(move |found| is_failed && found.code.is_reason());
        let required = match self.rule {
            Rule::Attestation(required) => Some(required),
            _ => None,
        };
        found.map(move |found| {
            let name = found.attestation.or_else(|| required?.named());
            let trail = found.trail.filter(|_| found.code == Code::NonCompliantInTrail);
            Reason {
                flow_name: found.flow.map(str::to_owned),
                trail_name: trail.map(str::to_owned),
                attestation_name: name.map(str::to_owned),
                attestation_type: required.and_then(|required| required.typed()).map(str::to_owned),
                for_control: required.and_then(|required| required.for_control.clone()),
                platform: self.platform.map(str::to_owned),
                ..found.code.clone().into()
            }
        })
    }
}
