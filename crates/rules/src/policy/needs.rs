//! The facts that policies need, so that an evaluation reads no others.

use std::collections::BTreeSet;

use super::Policy;
use super::rule::{AttestationRule, Rule};
use model::FlowName;

#[expect(clippy::struct_excessive_bools, reason = "each kind of fact is read or not")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs<'a> {
    pub latest: LatestNeeded<'a>,
    pub tags: bool,
    pub trails: bool,
    /// The numbers of tests of attestations with these flows (`None`: any) and names (`None`: any).
    pub test_counts: BTreeSet<(Option<&'a str>, Option<&'a str>)>,
    /// The signatures of attestations with these flows and names, each `None` for any.
    pub signatures: BTreeSet<(Option<&'a str>, Option<&'a str>)>,
    pub approvals: bool,
    pub authors: bool,
    /// The namespaces in which artifacts run.
    pub namespaces: bool,
    /// The evidence for other digests of the image.
    pub related: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LatestNeeded<'a> {
    /// Only those with one of these flows and one of these names.
    Of {
        flows: BTreeSet<&'a str>,
        names: BTreeSet<&'a str>,
    },
    All,
}

impl Default for LatestNeeded<'_> {
    fn default() -> Self {
        Self::Of { flows: BTreeSet::new(), names: BTreeSet::new() }
    }
}

impl LatestNeeded<'_> {
    /// Whether no attestation is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Of { flows, .. } if flows.is_empty())
    }
}

impl<'a> Needs<'a> {
    /// The facts that any of these policies needs.
    #[must_use]
    pub fn new(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let mut needs = Self::default();
        let rules =
            policies.into_iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        for (policy, rule) in rules {
            needs.related |= !policy.is_exact;
            for condition in rule.conditions() {
                needs.tags |= condition.uses_flow();
                needs.namespaces |= condition.uses_namespaces();
            }
            match rule {
                Rule::Attestation(rule) => needs.add_attestation(rule),
                Rule::Provenance(_) => needs.latest = LatestNeeded::All,
                Rule::TrailCompliance(rule) => {
                    needs.latest = LatestNeeded::All;
                    needs.trails |= rule.required;
                }
                Rule::Approval(rule) => {
                    needs.approvals |= rule.required;
                    needs.authors |= rule.required && rule.not_author;
                }
            }
        }
        needs
    }

    fn add_attestation(&mut self, rule: &'a AttestationRule) {
        let (flow, name) = (rule.flow.as_ref().map(FlowName::as_str), rule.named());
        if rule.min_tests.is_some() || rule.max_skipped.is_some() {
            self.test_counts.insert((flow, name));
        }
        if rule.is_signed() || rule.max_age.is_some() {
            self.signatures.insert((flow, name));
        }
        match (&mut self.latest, flow, name) {
            (LatestNeeded::Of { flows, names }, Some(flow), Some(name)) => {
                flows.insert(flow);
                names.insert(name);
            }
            // The flows that hold the artifact are those with an attestation.
            (latest, ..) => *latest = LatestNeeded::All,
        }
    }

    /// Whether the numbers of tests of this attestation are needed.
    #[must_use]
    pub fn counts_tests(&self, flow: &str, name: &str) -> bool {
        contains(&self.test_counts, flow, name)
    }

    /// Whether the signature of this attestation is needed.
    #[must_use]
    pub fn reads_signature(&self, flow: &str, name: &str) -> bool {
        contains(&self.signatures, flow, name)
    }
}

fn contains(needed: &BTreeSet<(Option<&str>, Option<&str>)>, flow: &str, name: &str) -> bool {
    let any = |own: Option<&str>, given: &str| own.is_none_or(|own| own == given);
    needed.iter().any(|(of, named)| any(*of, flow) && any(*named, name))
}
