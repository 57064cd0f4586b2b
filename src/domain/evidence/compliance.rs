//! Evaluates the compliance of artifacts and environments.
//!
//! Called by `environment_status` whenever a snapshot, an attestation, an approval, the allow-list, a policy or the
//! time changes a verdict. Pure: evidence in, verdict with reasons out; time is an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::domain::model::{EnvironmentName, Timestamp};

/// The compliance of an artifact or environment, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compliance {
    /// All requirements are fulfilled.
    Compliant,
    /// There is no policy, or the environment is silent or runs too few artifacts.
    Unknown,
    /// A requirement is not fulfilled.
    NonCompliant,
}

/// The requirements of an environment for each artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
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

/// The latest attestation of a flow and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttestationEvidence {
    /// Whether it passes.
    pub passes: bool,
    /// Number of tests that ran; 0 unless a policy limits the number of tests.
    pub tests: u32,
    /// Number of skipped tests; 0 unless a policy limits the number of tests.
    pub skipped: u32,
}

/// An approval of an artifact, in the state APPROVED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEvidence {
    /// The approved environment; `None` for any.
    pub environment: Option<EnvironmentName>,
}

/// An allow-list entry: the artifact is compliant without attestations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowListEntry {
    /// Expiry time; `None` for never.
    pub until: Option<Timestamp>,
}

/// The evidence for an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The latest attestations by flow and name.
    pub attestations: BTreeMap<String, BTreeMap<String, AttestationEvidence>>,
    /// Approvals in any order.
    pub approvals: Vec<ApprovalEvidence>,
    /// Entries in the environment's allow-list.
    pub allowed: Vec<AllowListEntry>,
}

/// Why an artifact is not compliant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The latest required attestation failed.
    Failed(Requirement),
    /// A required attestation is missing.
    Missing(Requirement),
    /// The latest required attestation has fewer tests that ran than required.
    TooFewTests(Requirement, u32),
    /// The latest required attestation has more skipped tests than permitted.
    TooManySkipped(Requirement, u32),
    /// There is no approval for this environment or any.
    NotApproved,
    /// The environment has no policy.
    NoPolicy,
}

/// Evaluates an artifact in an environment.
///
/// # Errors
///
/// Every [`Reason`] why the artifact is not compliant.
pub fn evaluate_artifact(
    policy: Option<&Policy>,
    environment: &EnvironmentName,
    evidence: &Evidence,
    now: Timestamp,
) -> Result<(), Vec<Reason>> {
    if evidence.is_allowed(now) {
        return Ok(());
    }
    let Some(policy) = policy else { return Err(vec![Reason::NoPolicy]) };
    let reasons = policy.unfulfilled(environment, evidence);
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

impl Requirement {
    /// Whether it limits the number of tests.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.min_tests.is_some() || self.max_skipped.is_some()
    }

    /// Why the latest attestation does not fulfil it.
    fn unfulfilled(&self, evidence: &Evidence) -> Option<Reason> {
        let latest = evidence.attestations.get(&self.flow).and_then(|of_flow| of_flow.get(&self.name));
        match latest {
            None => Some(Reason::Missing(self.clone())),
            Some(latest) if !latest.passes => Some(Reason::Failed(self.clone())),
            Some(latest) if self.min_tests.is_some_and(|min| latest.tests < min) => {
                Some(Reason::TooFewTests(self.clone(), latest.tests))
            }
            Some(latest) if self.max_skipped.is_some_and(|max| latest.skipped > max) => {
                Some(Reason::TooManySkipped(self.clone(), latest.skipped))
            }
            Some(_) => None,
        }
    }
}

impl Policy {
    /// The requirements that an artifact does not fulfil without the allow-list.
    fn unfulfilled(&self, environment: &EnvironmentName, evidence: &Evidence) -> Vec<Reason> {
        let Self { attestations, approval } = self;
        let mut reasons: Vec<_> =
            attestations.iter().filter_map(|required| required.unfulfilled(evidence)).collect();
        let is_applicable = |approval: &ApprovalEvidence| {
            approval.environment.as_ref().is_none_or(|name| name == environment)
        };
        if *approval && !evidence.approvals.iter().any(is_applicable) {
            reasons.push(Reason::NotApproved);
        }
        reasons
    }
}

/// Numbers of running artifacts of an environment by compliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComplianceCounts {
    /// Compliant artifacts.
    pub compliant: i64,
    /// Artifacts without a verdict.
    pub unknown: i64,
    /// Non-compliant artifacts.
    pub non_compliant: i64,
}

impl ComplianceCounts {
    /// Adds a number of artifacts of this compliance, which may be negative.
    pub fn add(&mut self, compliance: Compliance, artifacts: i64) {
        match compliance {
            Compliance::Compliant => self.compliant += artifacts,
            Compliance::Unknown => self.unknown += artifacts,
            Compliance::NonCompliant => self.non_compliant += artifacts,
        }
    }

    /// The compliance of the environment: that of its worst artifact. An empty environment fulfils any policy.
    #[must_use]
    pub fn environment(self, policy: Option<&Policy>) -> Compliance {
        match self {
            Self { non_compliant: 1.., .. } => Compliance::NonCompliant,
            Self { unknown: 1.., .. } => Compliance::Unknown,
            Self { compliant: 1.., .. } => Compliance::Compliant,
            _ if policy.is_none() => Compliance::Unknown,
            _ => Compliance::Compliant,
        }
    }
}

impl FromIterator<Compliance> for ComplianceCounts {
    fn from_iter<I: IntoIterator<Item = Compliance>>(artifacts: I) -> Self {
        artifacts.into_iter().fold(Self::default(), |mut counts, compliance| {
            counts.add(compliance, 1);
            counts
        })
    }
}

impl Evidence {
    /// Whether an entry of the allow-list is still valid.
    #[must_use]
    pub fn is_allowed(&self, now: Timestamp) -> bool {
        self.allowed.iter().any(|allowed| allowed.until.is_none_or(|until| now < until))
    }

    /// When the verdict changes by time alone: the next expiry of a valid entry of the allow-list.
    #[must_use]
    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        self.allowed.iter().filter_map(|allowed| allowed.until).filter(|until| now < *until).min()
    }

    /// Whether the artifact is compliant only because it is allow-listed.
    #[must_use]
    pub fn relies_on_allow_list(
        &self,
        policy: Option<&Policy>,
        environment: &EnvironmentName,
        now: Timestamp,
    ) -> bool {
        let is_fulfilled = || policy.is_some_and(|policy| policy.unfulfilled(environment, self).is_empty());
        self.is_allowed(now) && !is_fulfilled()
    }
}

impl Compliance {
    /// Downgrades `Compliant` to `Unknown` unless it is confirmed: the environment is reported, runs enough artifacts, and
    /// its verdict is still valid.
    #[must_use]
    pub fn confirmed(self, is_confirmed: bool) -> Self {
        if is_confirmed { self } else { self.max(Self::Unknown) }
    }

    /// The compliance of an evaluated artifact.
    #[must_use]
    pub fn from_reasons(verdict: &Result<(), Vec<Reason>>) -> Self {
        match verdict {
            Ok(()) => Self::Compliant,
            Err(reasons) if reasons.contains(&Reason::NoPolicy) => Self::Unknown,
            Err(_) => Self::NonCompliant,
        }
    }

    /// The interface's spelling, as in `compliance` of `live_artifacts`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compliant => "COMPLIANT",
            Self::Unknown => "UNKNOWN",
            Self::NonCompliant => "NON-COMPLIANT",
        }
    }
}

/// Text that is not a compliance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown compliance: expected COMPLIANT, UNKNOWN or NON-COMPLIANT")]
pub struct UnknownCompliance;

impl FromStr for Compliance {
    type Err = UnknownCompliance;

    fn from_str(word: &str) -> Result<Self, UnknownCompliance> {
        let all = [Self::Compliant, Self::Unknown, Self::NonCompliant];
        all.into_iter().find(|compliance| compliance.as_str() == word).ok_or(UnknownCompliance)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(Requirement { flow, name, .. }) => write!(f, "{name} of the flow {flow} fails"),
            Self::Missing(Requirement { flow, name, .. }) => {
                write!(f, "{name} of the flow {flow} is missing")
            }
            Self::TooFewTests(Requirement { flow, name, min_tests, .. }, tests) => {
                let min = min_tests.unwrap_or_default();
                write!(f, "{name} of the flow {flow} has too few tests: {tests}, expected at least {min}")
            }
            Self::TooManySkipped(Requirement { flow, name, max_skipped, .. }, skipped) => {
                let max = max_skipped.unwrap_or_default();
                write!(
                    f,
                    "{name} of the flow {flow} has too many skipped tests: {skipped}, expected at most {max}"
                )
            }
            Self::NotApproved => f.write_str("not approved"),
            Self::NoPolicy => f.write_str("the environment has no policy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(flow: &str, name: &str) -> Requirement {
        Requirement { flow: flow.to_owned(), name: name.to_owned(), min_tests: None, max_skipped: None }
    }

    fn attested<'a>(flow: &'a str, name: &'a str, passes: bool) -> (&'a str, &'a str, AttestationEvidence) {
        (flow, name, AttestationEvidence { passes, tests: 0, skipped: 0 })
    }

    fn evidence(attested: Vec<(&str, &str, AttestationEvidence)>) -> Evidence {
        let mut evidence = Evidence::default();
        for (flow, name, latest) in attested {
            evidence.attestations.entry(flow.to_owned()).or_default().insert(name.to_owned(), latest);
        }
        evidence
    }

    fn prod() -> EnvironmentName {
        "prod".parse().unwrap()
    }

    const NOW: i64 = 1_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn verdict(policy: Option<&Policy>, evidence: &Evidence) -> Result<(), Vec<Reason>> {
        evaluate_artifact(policy, &prod(), evidence, at(NOW))
    }

    #[test]
    fn artifact_is_compliant_if_the_latest_of_each_required_attestation_passes() {
        let policy = Policy {
            attestations: vec![required("cart", "unit"), required("cart", "scan")],
            approval: false,
        };
        let (unit, scan) = (required("cart", "unit"), required("cart", "scan"));
        for (attestations, expected) in [
            (vec![], Err(vec![Reason::Missing(unit.clone()), Reason::Missing(scan.clone())])),
            (vec![attested("cart", "unit", true), attested("cart", "scan", true)], Ok(())),
            // An attestation that is not required does not count.
            (
                vec![
                    attested("cart", "unit", true),
                    attested("cart", "scan", true),
                    attested("cart", "lint", false),
                ],
                Ok(()),
            ),
            (
                vec![attested("cart", "scan", true), attested("cart", "unit", false)],
                Err(vec![Reason::Failed(unit.clone())]),
            ),
            // An attestation of another flow with the same name does not count.
            (
                vec![
                    attested("cart", "scan", true),
                    attested("cart", "unit", false),
                    attested("web", "unit", true),
                ],
                Err(vec![Reason::Failed(unit.clone())]),
            ),
            (
                vec![attested("cart", "scan", true), attested("web", "unit", true)],
                Err(vec![Reason::Missing(unit)]),
            ),
        ] {
            let evidence = evidence(attestations);
            assert_eq!(verdict(Some(&policy), &evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn passing_attestation_with_too_few_or_too_many_skipped_tests_does_not_count() {
        for (min_tests, max_skipped, (passes, tests, skipped), expected) in [
            (Some(10), Some(2), (true, 10, 2), ""),
            (Some(10), None, (true, 10, 99), ""),
            (None, Some(0), (true, 1, 0), ""),
            (
                Some(10),
                Some(2),
                (true, 9, 3),
                "unit of the flow cart has too few tests: 9, expected at least 10",
            ),
            (
                Some(1),
                Some(2),
                (true, 10, 3),
                "unit of the flow cart has too many skipped tests: 3, expected at most 2",
            ),
            (Some(10), Some(2), (false, 9, 3), "unit of the flow cart fails"),
        ] {
            let required = Requirement { min_tests, max_skipped, ..required("cart", "unit") };
            let policy = Policy { attestations: vec![required], approval: false };
            let evidence = evidence(vec![("cart", "unit", AttestationEvidence { passes, tests, skipped })]);
            let reasons = verdict(Some(&policy), &evidence).err().unwrap_or_default();
            let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
            assert_eq!(reasons.concat(), expected, "{policy:?} {evidence:?}");
        }
    }

    #[test]
    fn approval_counts_for_its_environment_or_any() {
        let policy = Policy { approval: true, ..Policy::default() };
        let approved =
            |name: Option<&str>| ApprovalEvidence { environment: name.map(|name| name.parse().unwrap()) };
        for (approvals, expected) in [
            (vec![], Err(vec![Reason::NotApproved])),
            (vec![approved(Some("dev"))], Err(vec![Reason::NotApproved])),
            (vec![approved(Some("dev")), approved(Some("prod"))], Ok(())),
            (vec![approved(None)], Ok(())),
        ] {
            let evidence = Evidence { approvals, ..Evidence::default() };
            assert_eq!(verdict(Some(&policy), &evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn allow_listed_artifact_is_compliant_until_the_entry_expires() {
        let policy = Policy { approval: true, ..Policy::default() };
        let allowed = |until: Option<i64>| Evidence {
            allowed: vec![AllowListEntry { until: until.map(at) }],
            ..Evidence::default()
        };
        for (policy, evidence, expected) in [
            (Some(&policy), allowed(None), Compliance::Compliant),
            (Some(&policy), allowed(Some(NOW + 1)), Compliance::Compliant),
            (Some(&policy), allowed(Some(NOW)), Compliance::NonCompliant),
            (None, allowed(None), Compliance::Compliant),
            (None, allowed(Some(NOW)), Compliance::Unknown),
            (None, Evidence::default(), Compliance::Unknown),
            (Some(&Policy::default()), Evidence::default(), Compliance::Compliant),
        ] {
            assert_eq!(
                Compliance::from_reasons(&verdict(policy, &evidence)),
                expected,
                "{policy:?} {evidence:?}"
            );
        }
    }

    #[test]
    fn environment_has_the_compliance_of_its_worst_artifact() {
        use Compliance::{Compliant, NonCompliant, Unknown};
        let policy = Policy::default();
        for (policy, artifacts, expected) in [
            (Some(&policy), vec![], Compliant),
            (Some(&policy), vec![Compliant, Compliant], Compliant),
            (Some(&policy), vec![Compliant, NonCompliant], NonCompliant),
            (None, vec![], Unknown),
            (None, vec![Unknown, Compliant], Unknown),
            (None, vec![Compliant], Compliant),
        ] {
            let counts: ComplianceCounts = artifacts.iter().copied().collect();
            assert_eq!(counts.environment(policy), expected, "{artifacts:?}");
        }
    }

    #[test]
    fn artifact_relies_on_a_valid_entry_only_if_it_does_not_fulfil_the_policy() {
        let policy = Policy { approval: true, ..Policy::default() };
        let approvals = vec![ApprovalEvidence { environment: None }];
        for (policy, approvals, until, expected) in [
            (Some(&policy), vec![], NOW + 1, true),
            (None, vec![], NOW + 1, true),
            (Some(&policy), approvals, NOW + 1, false),
            (Some(&policy), vec![], NOW, false),
        ] {
            let allowed = vec![AllowListEntry { until: Some(at(until)) }];
            let evidence = Evidence { approvals, allowed, ..Evidence::default() };
            assert_eq!(evidence.relies_on_allow_list(policy, &prod(), at(NOW)), expected, "{evidence:?}");
        }
    }

    #[test]
    fn unconfirmed_environment_is_never_compliant() {
        use Compliance::{Compliant, NonCompliant, Unknown};
        for (decided, expected) in [(Compliant, Unknown), (Unknown, Unknown), (NonCompliant, NonCompliant)] {
            assert_eq!((decided.confirmed(true), decided.confirmed(false)), (decided, expected));
        }
    }
}
