//! The status of an environment: its artifacts and their verdicts.
//!
//! Called by the service's evaluation, which stores the differences and derives events with `event`. Pure: time is
//! an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::absence::ExpectedArtifacts;
use super::compliance::{Compliance, ComplianceCounts};
use super::policy::Policy;
use super::policy::facts::{AllowList, AllowListEntry, Evidence, Facts};
use super::policy::resolution::PolicyEvaluation;
use model::reason::Reason;
use model::{EnvironmentName, Fingerprint, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentStatus {
    pub artifacts: BTreeMap<Fingerprint, RunningArtifact>,
    /// The environment's compliance by its last report. Silence is not considered here, see `validity`.
    pub compliance: Compliance,
    /// Why the environment runs too few artifacts, if it does. It is not compliant then.
    pub absence: Option<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningArtifact {
    pub reported: ReportedArtifact,
    pub verdict: Verdict,
}

/// The compliance of an artifact, with reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub compliance: Compliance,
    pub is_allowed: bool,
    /// Why the artifact is not compliant, or who allow-listed it.
    pub reasons: Vec<Reason>,
}

/// The artifacts of an environment, without verdicts.
pub type ReportedArtifacts = BTreeMap<Fingerprint, ReportedArtifact>;

/// An artifact without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedArtifact {
    pub name: String,
    /// Number of pods; 0 if they were not counted.
    pub pods: i64,
    /// The namespaces in which it runs, in order; none if it does not run there.
    pub namespaces: Vec<String>,
}

/// The artifacts that run somewhere, each under the first of its names: their names, fingerprints and namespaces.
#[must_use]
pub fn running_artifacts<'a>(
    runs: impl IntoIterator<Item = (&'a str, Fingerprint, &'a str)>,
) -> ReportedArtifacts {
    let mut artifacts = ReportedArtifacts::new();
    for (name, fingerprint, namespace) in runs {
        let new = || ReportedArtifact { name: name.to_owned(), ..ReportedArtifact::default() };
        let namespaces = &mut artifacts.entry(fingerprint).or_insert_with(new).namespaces;
        if let Err(place) = namespaces.binary_search_by(|known| known.as_str().cmp(namespace)) {
            namespaces.insert(place, namespace.to_owned());
        }
    }
    artifacts
}

impl Verdict {
    /// The verdict of an artifact that was not evaluated.
    pub const UNKNOWN: Self =
        Self { compliance: Compliance::Unknown, is_allowed: false, reasons: Vec::new() };
}

/// The result of an evaluation of all artifacts of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub status: EnvironmentStatus,
    pub counts: ComplianceCounts,
    pub expiry: Expiry,
    /// The number that the next drop of the number of artifacts is compared with.
    pub reference: Option<u32>,
}

/// Expiry of allow-list entries and attestations of running artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct Expiry {
    /// The first expiry of an entry or attestation that an artifact relies on: the compliance is unknown from then on.
    pub compliant_until: Option<Timestamp>,
    /// The first expiry of any: the evaluation is repeated then.
    pub evaluate_at: Option<Timestamp>,
}

/// Requirements of an environment for its artifacts.
#[derive(Debug, Clone, Copy)]
pub struct Requirements<'a> {
    /// The environment; `None` if the policies are evaluated for none.
    pub environment: Option<&'a EnvironmentName>,
    /// Its policies. An artifact must fulfill all of them.
    pub policies: &'a [Arc<Policy>],
    pub allowed: &'a AllowList,
}

impl Expiry {
    /// The earlier of each.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        let min = |one: Option<Timestamp>, other: Option<Timestamp>| one.into_iter().chain(other).min();
        Self {
            compliant_until: min(self.compliant_until, other.compliant_until),
            evaluate_at: min(self.evaluate_at, other.evaluate_at),
        }
    }
}

/// The result of each requirement for one artifact.
#[derive(Debug)]
pub struct Assessment<'a> {
    pub policies: Vec<PolicyEvaluation<'a>>,
    /// The valid entries of the allow-list.
    pub allowed: Vec<&'a AllowListEntry>,
}

impl<'a> Requirements<'a> {
    /// The result of each requirement for an artifact.
    #[must_use]
    pub fn assess<'b>(
        &self,
        fingerprint: &'b Fingerprint,
        artifact: &'b ReportedArtifact,
        evidence: &'b Evidence,
        now: Timestamp,
    ) -> Assessment<'b>
    where
        'a: 'b,
    {
        let facts = Facts {
            environment: self.environment,
            name: &artifact.name,
            fingerprint,
            namespaces: &artifact.namespaces,
            evidence,
        };
        Assessment {
            policies: self.policies.iter().map(|policy| policy.evaluate(&facts, now)).collect(),
            allowed: self.allowed.valid(&facts, now).collect(),
        }
    }
}

impl Assessment<'_> {
    #[must_use]
    pub fn verdict(&self) -> (Verdict, Expiry) {
        let Self { policies: evaluated, allowed } = self;
        let is_fulfilled = !evaluated.is_empty() && evaluated.iter().all(PolicyEvaluation::is_fulfilled);
        let fulfilled_until = evaluated.iter().filter_map(|policy| policy.expires_at).min();
        let allowed_until = allowed.iter().filter_map(|entry| entry.until).min();
        let expiry = Expiry {
            compliant_until: match (allowed.is_empty(), is_fulfilled) {
                (false, false) => allowed_until,
                (true, true) => fulfilled_until,
                _ => None,
            },
            evaluate_at: allowed_until.into_iter().chain(fulfilled_until).min(),
        };
        let (compliance, reasons) = if !allowed.is_empty() {
            (Compliance::Compliant, allowed.iter().map(|&entry| entry.into()).collect())
        } else if is_fulfilled {
            (Compliance::Compliant, Vec::new())
        } else if evaluated.is_empty() {
            // UNKNOWN already says that there is no policy.
            (Compliance::Unknown, Vec::new())
        } else {
            let reasons = evaluated.iter().flat_map(|policy| policy.reasons().take(MAX_REASONS));
            (Compliance::NonCompliant, reasons.collect())
        };
        (Verdict { compliance, is_allowed: !allowed.is_empty(), reasons }, expiry)
    }
}

/// Maximum number of reasons of a verdict for each policy.
const MAX_REASONS: usize = 20;

impl Evaluation {
    /// Evaluates an environment by its requirements and the evidence for its artifacts. Artifacts without evidence have no
    /// entry in `evidence`. Artifacts in `kept` keep their verdicts, which do not expire.
    #[must_use]
    pub fn new(
        requirements: Requirements<'_>,
        reported: ReportedArtifacts,
        kept: &BTreeMap<Fingerprint, Verdict>,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        expected: ExpectedArtifacts,
        now: Timestamp,
    ) -> Self {
        let no_evidence = Evidence::default();
        let mut expiry = Expiry::default();
        let running = |(fingerprint, reported): (Fingerprint, ReportedArtifact)| {
            let verdict = kept.get(&fingerprint).cloned().unwrap_or_else(|| {
                let evidence = evidence.get(&fingerprint).unwrap_or(&no_evidence);
                let (verdict, own) = requirements.assess(&fingerprint, &reported, evidence, now).verdict();
                expiry = expiry.earlier(own);
                verdict
            });
            (fingerprint, RunningArtifact { reported, verdict })
        };
        let artifacts: BTreeMap<_, _> = reported.into_iter().map(running).collect();
        let counts: ComplianceCounts = artifacts.values().map(|running| running.verdict.compliance).collect();
        let number = u32::try_from(artifacts.len()).unwrap_or(u32::MAX);
        let absence = expected.absence(number).map(Reason::from);
        let has_policy = !requirements.policies.is_empty();
        let compliance = counts.environment(has_policy).confirmed(absence.is_none());
        let status = EnvironmentStatus { artifacts, compliance, absence };
        Self { status, counts, expiry, reference: expected.next_reference(number) }
    }
}

#[cfg(test)]
mod tests;
