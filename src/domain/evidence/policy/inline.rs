//! The short form of a policy in the bootstrap file: attestations of single flows.

use serde::{Deserialize, Serialize};

use super::Policy;
use super::rule::{ANY, ApprovalRule, AttestationRule, Rule};

/// The requirements of an environment for each artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InlinePolicy {
    /// Required attestations by flow and name. The latest of each must pass.
    #[serde(default)]
    pub attestations: Vec<Requirement>,
    /// Whether an approval is required, for this environment or any.
    #[serde(default)]
    pub approval: bool,
}

/// A required attestation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The flow. Attestations of other flows with the same name do not count.
    pub flow: String,
    /// The attestation's name.
    pub name: String,
    /// Minimum number of tests that ran: all except skipped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u32>,
    /// Maximum number of skipped tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skipped: Option<u32>,
}

impl From<InlinePolicy> for Policy {
    fn from(InlinePolicy { attestations, approval }: InlinePolicy) -> Self {
        let attestations = attestations.into_iter().map(|required| {
            Rule::Attestation(AttestationRule {
                name: required.name,
                kind: ANY.to_owned(),
                condition: None,
                must_be_compliant: true,
                for_control: None,
                flow: Some(required.flow),
                max_age: None,
                min_tests: required.min_tests,
                max_skipped: required.max_skipped,
            })
        });
        let approved = approval.then_some(ApprovalRule { required: true, count: 1, not_author: false });
        let rules = attestations.chain(approved.map(Rule::Approval)).collect();
        Self { name: None, rules, is_exact: false }
    }
}
