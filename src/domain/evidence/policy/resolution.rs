//! The results of rules, with the names of the interface and in words.

use std::fmt;

use super::rule::{ANY, AttestationRule, Rule};
use super::{Policy, PolicyVersion};
use crate::domain::model::Timestamp;

/// The result of a policy for one artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEvaluation<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The results of its rules, in the order of the policy.
    pub rules: Vec<RuleEvaluation<'a>>,
    /// When the result may change by time alone: an attestation that a rule relies on becomes too old.
    pub expires_at: Option<Timestamp>,
}

/// The result of a rule for one artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEvaluation<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The result.
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
    /// The artifact satisfies the rule.
    Satisfied,
    /// The artifact does not satisfy the rule.
    NotSatisfied,
}

/// The result of a rule in one flow and trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution<'a> {
    /// The result.
    pub kind: ResolutionKind,
    /// The flow; `None` if no flow holds the artifact, or the rule is not about a flow.
    pub flow: Option<&'a str>,
    /// The trail; `None` if it is unknown, or the rule is not about a trail.
    pub trail: Option<&'a str>,
    /// The attestation's name, if the rule is about any.
    pub attestation: Option<&'a str>,
}

/// The result of a rule in one flow and trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolutionKind {
    /// Satisfied.
    Satisfied,
    /// Does not apply.
    NotApplicable,
    /// No flow holds the artifact.
    MissingProvenance,
    /// No trail holds the artifact.
    MissingTrail,
    /// The trail does not comply with the flow's template.
    NonCompliantTrail,
    /// The attestation is missing.
    MissingAttestation,
    /// The latest attestation does not pass.
    NonCompliantAttestation,
    /// The latest attestation is too old since this time.
    ExpiredAttestation(Timestamp),
    /// The latest attestation has too few tests: the number that ran.
    TooFewTests(u32),
    /// The latest attestation has too many skipped tests: their number.
    TooManySkipped(u32),
    /// Fewer persons approved the artifact than required: their number.
    MissingApproval(usize),
    /// Approvals by authors do not count, but no commit of the artifact is known.
    UnknownAuthor,
    /// The condition of the rule cannot be evaluated: the rule applies.
    FailedCondition(String),
}

impl Outcome {
    /// Whether the artifact fulfils the policy as far as this rule is concerned.
    #[must_use]
    pub fn is_fulfilled(self) -> bool {
        self != Self::NotSatisfied
    }
}

impl ResolutionKind {
    /// The name of the interface.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Satisfied => "rule_satisfied",
            Self::NotApplicable => "rule_not_applicable",
            Self::MissingProvenance => "missing_provenance",
            Self::MissingTrail => "missing_trail",
            Self::NonCompliantTrail => "non_compliant_in_trail",
            Self::MissingAttestation => "missing_attestation",
            Self::NonCompliantAttestation => "non_compliant_attestation",
            Self::ExpiredAttestation(_) => "expired_attestation",
            Self::TooFewTests(_) => "too_few_tests",
            Self::TooManySkipped(_) => "too_many_skipped_tests",
            Self::MissingApproval(_) => "missing_approval",
            Self::UnknownAuthor => "unknown_author",
            Self::FailedCondition(_) => "failed_condition",
        }
    }

    /// Whether it is a reason against the artifact, if the rule is not satisfied.
    fn is_reason(&self) -> bool {
        !matches!(self, Self::Satisfied | Self::NotApplicable)
    }
}

impl PolicyEvaluation<'_> {
    /// Whether the artifact fulfils the policy.
    #[must_use]
    pub fn is_fulfilled(&self) -> bool {
        self.rules.iter().all(|rule| rule.outcome.is_fulfilled())
    }

    /// Why the artifact does not fulfil the policy: policy, version, rule and reason in words.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        let name = self.policy.name.as_ref();
        self.rules.iter().flat_map(move |rule| rule.reasons(name))
    }
}

impl RuleEvaluation<'_> {
    /// Why the artifact does not satisfy the rule, after the name and version of the policy if these are given.
    pub fn reasons(&self, name: Option<&PolicyVersion>) -> impl Iterator<Item = String> {
        let is_failed = self.outcome == Outcome::NotSatisfied;
        let reasons = self.resolutions.iter().filter(move |found| is_failed && found.kind.is_reason());
        reasons.map(move |found| {
            let version = name.map(|version| format!("{version}: ")).unwrap_or_default();
            let platform = self.platform.map(|platform| format!(" for {platform}")).unwrap_or_default();
            format!("{version}{}{platform}", Reason { rule: self.rule, found })
        })
    }
}

impl Rule {
    /// Whether it gave this reason, which [`RuleEvaluation::reasons`] returned without the name of a policy.
    #[must_use]
    pub fn gave(&self, reason: &str) -> bool {
        if let Some(rest) = reason.strip_prefix("the ").and_then(|rest| rest.strip_prefix(self.kind()))
            && rest.starts_with(" rule applies: ")
        {
            return self.conditions().next().is_some();
        }
        // A parenthesis begins the type that another rule requires.
        let begins_with = |subject: &str| {
            let rest = reason.strip_prefix(subject);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ') && !rest.starts_with(" ("))
        };
        match self {
            Self::Provenance(_) => begins_with("no flow"),
            Self::TrailCompliance(_) => begins_with("no trail") || begins_with("the trail"),
            Self::Attestation(rule) if rule.name == ANY => {
                let name = reason.split(' ').next().unwrap_or_default();
                begins_with(&rule.to_string()) || begins_with(&format!("{name} ({})", rule.kind))
            }
            Self::Attestation(rule) => begins_with(&rule.to_string()),
            Self::Approval(_) => reason.starts_with("not approved") || begins_with("approved by"),
        }
    }
}

/// A reason in words.
struct Reason<'a> {
    rule: &'a Rule,
    found: &'a Resolution<'a>,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, found } = self;
        let flow = |f: &mut fmt::Formatter<'_>| match found.flow {
            Some(flow) => write!(f, " of the flow {flow}"),
            None => Ok(()),
        };
        match (*rule, &found.kind) {
            (_, ResolutionKind::FailedCondition(problem)) => {
                write!(f, "the {} rule applies: {problem}", rule.kind())?;
                flow(f)
            }
            (Rule::Provenance(_), _) => f.write_str("no flow holds the artifact"),
            (Rule::TrailCompliance(_), ResolutionKind::MissingTrail) => {
                f.write_str("no trail holds the artifact")
            }
            (Rule::TrailCompliance(_), _) => {
                write!(f, "the trail {}", found.trail.unwrap_or_default())?;
                flow(f)?;
                f.write_str(" is not compliant")
            }
            (Rule::Attestation(required), kind) => attestation(f, required, found, kind),
            (Rule::Approval(_), ResolutionKind::UnknownAuthor) => {
                f.write_str("not approved: the author of the commit is unknown")
            }
            (Rule::Approval(required), ResolutionKind::MissingApproval(number)) => {
                let but = if required.not_author { " by others than the author" } else { "" };
                match required.count {
                    1 => write!(f, "not approved{but}"),
                    count => write!(f, "approved by {number} of {count} persons{but}"),
                }
            }
            (Rule::Approval(_), _) => f.write_str("not approved"),
        }
    }
}

fn attestation(
    f: &mut fmt::Formatter<'_>,
    required: &AttestationRule,
    found: &Resolution<'_>,
    kind: &ResolutionKind,
) -> fmt::Result {
    match found.attestation.filter(|_| required.name == ANY) {
        Some(name) => write!(f, "{name} ({})", required.kind)?,
        None => write!(f, "{required}")?,
    }
    if let Some(flow) = found.flow {
        write!(f, " of the flow {flow}")?;
    }
    match kind {
        ResolutionKind::NonCompliantAttestation => f.write_str(" fails"),
        ResolutionKind::ExpiredAttestation(since) => write!(f, " is too old since {since}"),
        ResolutionKind::TooFewTests(tests) => {
            let min = required.min_tests.unwrap_or_default();
            write!(f, " has too few tests: {tests}, expected at least {min}")
        }
        ResolutionKind::TooManySkipped(skipped) => {
            let max = required.max_skipped.unwrap_or_default();
            write!(f, " has too many skipped tests: {skipped}, expected at most {max}")
        }
        _ => f.write_str(" is missing"),
    }?;
    match &required.for_control {
        Some(control) => write!(f, " (control {control})"),
        None => Ok(()),
    }
}
