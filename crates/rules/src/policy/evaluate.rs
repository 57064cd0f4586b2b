//! Evaluates policies for one artifact.
//!
//! A rule about attestations looks at every flow that holds the artifact and to which its condition applies. A passing
//! attestation in one of them satisfies the rule, unless the latest one in another fails: a failure in one flow cannot be
//! hidden by a success in another.
//!
//! An index satisfies a rule if it does so for each platform.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Policy;
use super::authorship::{Author, NamedAuthor, identities};
use super::expression::EvaluationError;
use super::facts::{AttestationEvidence, Evidence, Facts, FlowEvidence};
use super::resolution::{Outcome, PolicyEvaluation, Resolution, RuleEvaluation};
use super::rule::{ApprovalRule, AttestationRule, Exception, FlowRule, Rule};
use model::Timestamp;
use model::reason::Code;

impl Policy {
    #[must_use]
    pub fn evaluate<'a>(&'a self, facts: &Facts<'a>, now: Timestamp) -> PolicyEvaluation<'a> {
        let mut expires_at: Option<Timestamp> = None;
        let all = match facts.evidence.related.as_slice() {
            related @ [_, ..] if !self.is_exact => related,
            _ => std::slice::from_ref(facts.evidence),
        };
        let rules = self.rules.iter().filter_map(|rule| {
            let evaluate = |evidence: &'a Evidence| {
                let facts = &Facts { evidence, ..*facts };
                let evaluated = match rule {
                    Rule::Provenance(provenance) => provenance.evaluate_provenance(facts),
                    Rule::TrailCompliance(compliance) => compliance.evaluate_trails(facts),
                    Rule::Attestation(required) => required.evaluate(facts, now),
                    Rule::Approval(approval) => approval.evaluate(facts),
                };
                (evaluated, evidence.platform.as_deref())
            };
            let (evaluated, platform) = all.iter().map(evaluate).reduce(worse)?;
            if let (Outcome::Satisfied, Some(end)) = (evaluated.outcome, evaluated.expires_at) {
                expires_at = Some(expires_at.map_or(end, |earlier| earlier.min(end)));
            }
            let Evaluated { outcome, resolutions, .. } = evaluated;
            Some(RuleEvaluation { rule, outcome, resolutions, platform })
        });
        let rules = rules.collect();
        PolicyEvaluation { policy: self, rules, expires_at }
    }
}

/// The result of a rule.
struct Evaluated<'a> {
    outcome: Outcome,
    resolutions: Vec<Resolution<'a>>,
    /// When the attestations that satisfy the rule are too old.
    expires_at: Option<Timestamp>,
}

impl<'a> Evaluated<'a> {
    fn new(outcome: Outcome, resolutions: Vec<Resolution<'a>>) -> Self {
        Self { outcome, resolutions, expires_at: None }
    }

    /// A result that concerns no single flow.
    fn single(outcome: Outcome, code: Code) -> Self {
        Self::new(outcome, vec![resolution(code, None, None)])
    }
}

/// The worse of two results for platforms, until the first of them expires.
fn worse<'a, P>(one: (Evaluated<'a>, P), other: (Evaluated<'a>, P)) -> (Evaluated<'a>, P) {
    let expires_at = [one.0.expires_at, other.0.expires_at].into_iter().flatten().min();
    let (worst, platform) = if other.0.outcome > one.0.outcome { other } else { one };
    (Evaluated { expires_at, ..worst }, platform)
}

fn resolution<'a>(code: Code, flow: Option<&'a str>, trail: Option<&'a str>) -> Resolution<'a> {
    Resolution { code, flow, trail, attestation: None }
}

impl FlowRule {
    /// Whether an exception holds. An exception that cannot be evaluated does not.
    fn is_exempt(&self, facts: &Facts<'_>, flow: Option<(&str, &FlowEvidence)>) -> bool {
        self.exceptions.iter().any(|Exception(condition)| condition.holds(facts, flow) == Ok(true))
    }

    fn evaluate_provenance<'a>(&self, facts: &Facts<'a>) -> Evaluated<'a> {
        let flows = &facts.evidence.flows;
        if !self.required || (flows.is_empty() && self.is_exempt(facts, None)) {
            return Evaluated::single(Outcome::Ignored, Code::RuleNotApplicable);
        }
        if flows.is_empty() {
            return Evaluated::single(Outcome::NotSatisfied, Code::MissingProvenance);
        }
        let satisfied = flows.keys().map(|flow| resolution(Code::RuleSatisfied, Some(flow), None));
        Evaluated::new(Outcome::Satisfied, satisfied.collect())
    }

    fn evaluate_trails<'a>(&self, facts: &Facts<'a>) -> Evaluated<'a> {
        let flows = &facts.evidence.flows;
        if !self.required || (flows.is_empty() && self.is_exempt(facts, None)) {
            return Evaluated::single(Outcome::Ignored, Code::RuleNotApplicable);
        }
        let mut resolutions = Vec::new();
        for (flow, evidence) in flows {
            let is_exempt = self.is_exempt(facts, Some((flow, evidence)));
            for trail in evidence.all_trails() {
                let code = match trail.is_compliant {
                    _ if is_exempt => Code::RuleNotApplicable,
                    true => Code::RuleSatisfied,
                    false => Code::NonCompliantInTrail,
                };
                resolutions.push(resolution(code, Some(flow), Some(&trail.name)));
            }
        }
        if resolutions.is_empty() {
            return Evaluated::single(Outcome::NotSatisfied, Code::MissingTrail);
        }
        Evaluated::new(outcome(&resolutions), resolutions)
    }
}

/// The result of a rule that holds for each flow and trail to which it applies.
fn outcome(resolutions: &[Resolution<'_>]) -> Outcome {
    let mut codes = resolutions.iter().map(|found| &found.code);
    if codes.clone().all(|code| *code == Code::RuleNotApplicable) {
        Outcome::Ignored
    } else if !codes.any(Code::is_reason) {
        Outcome::Satisfied
    } else {
        Outcome::NotSatisfied
    }
}

impl AttestationRule {
    fn evaluate<'a>(&'a self, facts: &Facts<'a>, now: Timestamp) -> Evaluated<'a> {
        let flows = &facts.evidence.flows;
        let looked_at: Vec<(Option<&str>, Option<&FlowEvidence>)> = match &self.flow {
            Some(flow) => vec![(Some(flow.as_str()), flows.get(flow.as_str()))],
            None if flows.is_empty() => vec![(None, None)],
            None => flows.iter().map(|(flow, evidence)| (Some(flow.as_str()), Some(evidence))).collect(),
        };
        let mut resolutions = Vec::new();
        let (mut is_satisfied, mut is_failed, mut applies) = (false, false, false);
        let mut expires_at: Option<Timestamp> = None;
        for (flow, evidence) in looked_at {
            match self.applies(facts, flow.zip(evidence)) {
                Ok(true) => {}
                Ok(false) => {
                    resolutions.push(resolution(Code::RuleNotApplicable, flow, None));
                    continue;
                }
                Err(error) => {
                    let code = Code::FailedCondition { problem: error.to_string() };
                    resolutions.push(resolution(code, flow, None));
                }
            }
            applies = true;
            let (code, attestation, end) =
                evidence.map_or(NO_ATTESTATION, |evidence| self.in_flow(evidence, now));
            is_failed |= code == Code::NonCompliantAttestation;
            if code == Code::RuleSatisfied {
                // Unlimited if one of the attestations is.
                expires_at = if is_satisfied { expires_at.zip(end).map(|(a, b)| a.max(b)) } else { end };
                is_satisfied = true;
            }
            let trail = evidence.and_then(|evidence| evidence.all_trails().pop());
            let trail = trail.map(|trail| trail.name.as_str());
            resolutions.push(Resolution { attestation, ..resolution(code, flow, trail) });
        }
        let outcome = match (applies, is_satisfied && !is_failed) {
            (false, _) => Outcome::Ignored,
            (true, true) => Outcome::Satisfied,
            (true, false) => Outcome::NotSatisfied,
        };
        Evaluated { outcome, resolutions, expires_at }
    }

    /// Whether the rule applies. It does if its condition cannot be evaluated.
    fn applies(
        &self,
        facts: &Facts<'_>,
        flow: Option<(&str, &FlowEvidence)>,
    ) -> Result<bool, EvaluationError> {
        self.condition.as_ref().map_or(Ok(true), |condition| condition.holds(facts, flow))
    }

    /// The result for the attestations of one flow: one that fails, else the best.
    fn in_flow<'a>(&self, evidence: &'a FlowEvidence, now: Timestamp) -> Found<'a> {
        let matching = evidence.attestations.iter().filter(|(name, latest)| self.matches(name, &latest.kind));
        let found = matching.map(|(name, latest)| {
            let (code, end) = self.check(latest, now);
            (code, Some(name.as_str()), end)
        });
        let best = found.min_by_key(|(code, _, end)| match code {
            Code::NonCompliantAttestation => (0, None),
            // The one that expires last; first of all one that does not.
            Code::RuleSatisfied => (1, end.map(Reverse)),
            _ => (2, None),
        });
        best.unwrap_or(NO_ATTESTATION)
    }

    /// The result for one attestation, and when it is too old.
    fn check(&self, latest: &AttestationEvidence, now: Timestamp) -> (Code, Option<Timestamp>) {
        // Evidence may be attested again, long after it was signed.
        let signed_at = latest.signed.as_ref().and_then(|signed| signed.signed_at);
        let since = signed_at.map_or(latest.created_at, |at| at.min(latest.created_at));
        let end = self.max_age.map(|age| since.later(age));
        let (tests, skipped) = (latest.tests, latest.skipped);
        let code = match (end, self.min_tests, self.max_skipped) {
            _ if self.must_be_compliant && !latest.passes => Code::NonCompliantAttestation,
            _ if let Some(differing) = self.differing(latest.signed.as_ref()) => differing,
            (Some(since), ..) if since <= now => Code::ExpiredAttestation { since },
            (_, Some(min_tests), _) if tests < min_tests => Code::TooFewTests { tests, min_tests },
            (_, _, Some(max_skipped)) if skipped > max_skipped => {
                Code::TooManySkippedTests { skipped, max_skipped }
            }
            _ => Code::RuleSatisfied,
        };
        (code, end)
    }
}

/// A result, the name of the attestation, and when it is too old.
type Found<'a> = (Code, Option<&'a str>, Option<Timestamp>);

const NO_ATTESTATION: Found<'static> = (Code::MissingAttestation, None, None);

impl ApprovalRule {
    fn evaluate<'a>(self, facts: &Facts<'a>) -> Evaluated<'a> {
        if !self.required {
            return Evaluated::single(Outcome::Ignored, Code::RuleNotApplicable);
        }
        let applicable = facts.evidence.approvals.iter().filter(|approval| {
            approval.environment.as_ref().is_none_or(|name| Some(name) == facts.environment)
        });
        // An approval without names, as earlier clients sent it, counts as one person. A person who signed in may have
        // changed the shown name between two approvals.
        let mut persons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for approval in applicable {
            for approver in &approval.approvers {
                let person = approval.created_by.as_ref().unwrap_or(approver);
                persons.entry(person).or_default().push(approver);
            }
            if approval.approvers.is_empty() {
                persons.entry("").or_default();
            }
        }
        let approved = persons.len();
        if self.not_author {
            let author = facts.evidence.authorship.author();
            let names = match &author {
                Author::Unknown(flow) if approved > 0 => {
                    let flow = flow.map(str::to_owned);
                    return Evaluated::single(
                        Outcome::NotSatisfied,
                        Code::UnknownAuthor { author_flow: flow },
                    );
                }
                Author::Conflicting(one, other) if approved > 0 => {
                    return Evaluated::single(Outcome::NotSatisfied, conflict(one, other));
                }
                Author::Known(names) => names.as_slice(),
                Author::Unknown(_) | Author::Conflicting(..) => &[],
            };
            let author = identities(names.iter().copied());
            persons.retain(|_, names| {
                let person = identities(names.iter().copied());
                !person.is_empty() && person.is_disjoint(&author)
            });
        }
        if persons.len() >= usize::try_from(self.count).unwrap_or(usize::MAX) {
            return Evaluated::single(Outcome::Satisfied, Code::RuleSatisfied);
        }
        let (approved, count, not_author) = (persons.len(), self.count, self.not_author);
        Evaluated::single(Outcome::NotSatisfied, Code::MissingApproval { approved, count, not_author })
    }
}

/// Maximum number of characters of an author in a reason.
const MAX_AUTHOR: usize = 200;

fn conflict(one: &NamedAuthor, other: &NamedAuthor) -> Code {
    let first_name = |named: &NamedAuthor| -> String {
        named.names.first().map(|name| name.chars().take(MAX_AUTHOR).collect()).unwrap_or_default()
    };
    Code::ConflictingAuthors {
        author: first_name(one),
        author_flow: one.flow.clone(),
        other_author: first_name(other),
        other_flow: other.flow.clone(),
    }
}

#[cfg(test)]
mod tests;
