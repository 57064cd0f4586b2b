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
use super::snapshot::report::PodArtifact;
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};

/// The status of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentStatus {
    /// The running artifacts.
    pub artifacts: BTreeMap<Fingerprint, RunningArtifact>,
    /// The environment's compliance by its last report. Silence is not considered here, see `validity`.
    pub compliance: Compliance,
    /// Why the environment runs too few artifacts, if it does. It is not compliant then.
    pub absence: Option<String>,
}

/// A running artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningArtifact {
    /// The image's name.
    pub name: String,
    /// Number of pods; `None` if not counted.
    pub pods: Option<i64>,
    /// The namespaces in which it runs, in order; `None` if a previous version recorded it.
    pub namespaces: Option<Vec<String>>,
    /// The artifact's verdict.
    pub verdict: Verdict,
}

/// The compliance of an artifact, with reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The compliance.
    pub compliance: Compliance,
    /// Whether the artifact is allow-listed.
    pub is_allowed: bool,
    /// Why the artifact is not compliant, or who allow-listed it.
    pub reasons: Vec<String>,
}

/// The artifacts of an environment, without verdicts.
pub type ReportedArtifacts = BTreeMap<Fingerprint, ReportedArtifact>;

/// An artifact without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedArtifact {
    /// The image's name.
    pub name: String,
    /// Number of pods; `None` if not counted.
    pub pods: Option<i64>,
    /// The namespaces in which it runs, in order; `None` if unknown.
    pub namespaces: Option<Vec<String>>,
}

impl From<&RunningArtifact> for ReportedArtifact {
    fn from(running: &RunningArtifact) -> Self {
        let RunningArtifact { name, pods, namespaces, .. } = running;
        Self { name: name.clone(), pods: *pods, namespaces: namespaces.clone() }
    }
}

impl From<PodArtifact<'_>> for ReportedArtifact {
    fn from(artifact: PodArtifact<'_>) -> Self {
        let namespaces = artifact.namespaces.into_iter().map(str::to_owned).collect();
        Self { name: artifact.name.to_owned(), pods: Some(artifact.pods), namespaces: Some(namespaces) }
    }
}

impl Verdict {
    /// The verdict of an artifact that was not evaluated.
    pub const UNKNOWN: Self =
        Self { compliance: Compliance::Unknown, is_allowed: false, reasons: Vec::new() };
}

/// The result of an evaluation of all artifacts of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The status.
    pub status: EnvironmentStatus,
    /// The artifacts by compliance.
    pub counts: ComplianceCounts,
    /// When the status expires.
    pub expiry: Expiry,
    /// The number that the next drop of the number of artifacts is compared with.
    pub reference: Option<u32>,
}

/// Expiry of allow-list entries and attestations of running artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Its policies. An artifact must fulfil all of them.
    pub policies: &'a [Arc<Policy>],
    /// Its allow-list.
    pub allowed: &'a AllowList,
}

impl Expiry {
    /// The earlier of each.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        let min = |one: Option<Timestamp>, other: Option<Timestamp>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            compliant_until: min(self.compliant_until, other.compliant_until),
            evaluate_at: min(self.evaluate_at, other.evaluate_at),
        }
    }
}

/// The result of each requirement for one artifact.
#[derive(Debug)]
pub struct Assessment<'a> {
    /// The results of the policies.
    pub policies: Vec<PolicyEvaluation<'a>>,
    /// The valid entries of the allow-list.
    pub allowed: Vec<&'a AllowListEntry>,
}

impl<'a> Requirements<'a> {
    /// The verdict on an artifact, and its expiry.
    #[must_use]
    pub fn evaluate(
        &self,
        fingerprint: &Fingerprint,
        artifact: &ReportedArtifact,
        evidence: &Evidence,
        now: Timestamp,
    ) -> (Verdict, Expiry) {
        self.assess(fingerprint, artifact, evidence, now).verdict()
    }

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
            namespaces: artifact.namespaces.as_deref().unwrap_or_default(),
            evidence,
        };
        Assessment {
            policies: self.policies.iter().map(|policy| policy.evaluate(&facts, now)).collect(),
            allowed: self.allowed.valid(&facts, now).collect(),
        }
    }
}

impl Assessment<'_> {
    /// The verdict, and its expiry.
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
            (Compliance::Compliant, allowed.iter().map(ToString::to_string).collect())
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
const MAX_REASONS: usize = 100;

impl Evaluation {
    /// Evaluates an environment by its requirements and the evidence for its artifacts. Artifacts without evidence have no
    /// entry in `evidence`.
    #[must_use]
    pub fn new(
        requirements: Requirements<'_>,
        reported: ReportedArtifacts,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        expected: ExpectedArtifacts,
        now: Timestamp,
    ) -> Self {
        let no_evidence = Evidence::default();
        let mut expiry = Expiry::default();
        let running = |(fingerprint, artifact): (Fingerprint, ReportedArtifact)| {
            let evidence = evidence.get(&fingerprint).unwrap_or(&no_evidence);
            let (verdict, own) = requirements.evaluate(&fingerprint, &artifact, evidence, now);
            expiry = expiry.earlier(own);
            let ReportedArtifact { name, pods, namespaces } = artifact;
            (fingerprint, RunningArtifact { name, pods, namespaces, verdict })
        };
        let artifacts: BTreeMap<_, _> = reported.into_iter().map(running).collect();
        let counts: ComplianceCounts = artifacts.values().map(|running| running.verdict.compliance).collect();
        let number = u32::try_from(artifacts.len()).unwrap_or(u32::MAX);
        let absence = expected.absence(number).map(|absence| absence.to_string());
        let has_policy = !requirements.policies.is_empty();
        let compliance = counts.environment(has_policy).confirmed(absence.is_none());
        let status = EnvironmentStatus { artifacts, compliance, absence };
        Self { status, counts, expiry, reference: expected.next_reference(number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::policy::facts::{AllowListEntry, AllowListSubject, ApprovalEvidence};
    use crate::domain::evidence::policy::{InlinePolicy, PolicyVersion};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn allowed(subject: AllowListSubject, until: Option<i64>) -> AllowListEntry {
        let (reason, author) = ("audit".to_owned(), "kim".to_owned());
        AllowListEntry { subject, reason, author, until: until.map(at) }
    }

    fn reported(names: &[&str]) -> ReportedArtifacts {
        let reported = |&name: &&str| {
            let artifact = ReportedArtifact { name: name.into(), pods: Some(1), namespaces: None };
            (Fingerprint::from_content(name.as_bytes()), artifact)
        };
        names.iter().map(reported).collect()
    }

    fn artifact(name: &str) -> Fingerprint {
        Fingerprint::from_content(name.as_bytes())
    }

    /// A policy without requirements, or one that requires an approval.
    fn policy(approval: bool) -> Vec<Arc<Policy>> {
        vec![Arc::new(InlinePolicy { approval, ..InlinePolicy::default() }.into())]
    }

    fn approved() -> Evidence {
        let approvals = vec![ApprovalEvidence { environment: None, created_by: None, approvers: vec![] }];
        Evidence { approvals, ..Evidence::default() }
    }

    /// The evaluation of `prod` at a time.
    fn evaluate(
        policies: &[Arc<Policy>],
        allowed: Vec<AllowListEntry>,
        names: &[&str],
        evidence: &[(Fingerprint, Evidence)],
        now: i64,
    ) -> Evaluation {
        let (environment, allowed) = ("prod".parse().unwrap(), AllowList(allowed));
        let requirements = Requirements { environment: Some(&environment), policies, allowed: &allowed };
        let evidence = evidence.iter().cloned().collect();
        let none = ExpectedArtifacts::default();
        Evaluation::new(requirements, reported(names), &evidence, none, at(now))
    }

    #[test]
    fn environment_is_evaluated_with_a_reason_for_each_artifact() {
        let allowed = vec![allowed(AllowListSubject::Artifact(artifact("one")), None)];
        let Evaluation { status, counts, expiry, .. } =
            evaluate(&policy(true), allowed, &["one", "two"], &[], 1);
        assert_eq!(status.compliance, Compliance::NonCompliant);
        let one = &status.artifacts[&artifact("one")].verdict;
        assert!(one.is_allowed);
        assert_eq!(one.reasons, ["allowed by kim: audit"]);
        assert_eq!(status.artifacts[&artifact("two")].verdict.reasons, ["not approved"]);
        assert_eq!(counts, ComplianceCounts { compliant: 1, unknown: 0, non_compliant: 1 });
        assert_eq!(expiry, Expiry::default());
        let Evaluation { status, counts, .. } = evaluate(&[], vec![], &["one", "two"], &[], 1);
        let two = &status.artifacts[&artifact("two")].verdict;
        assert_eq!((status.compliance, two), (Compliance::Unknown, &Verdict::UNKNOWN));
        assert_eq!(counts.unknown, 2);
    }

    #[test]
    fn artifact_must_fulfil_all_policies() {
        let name = PolicyVersion { name: "rules".to_owned(), version: 2 };
        let named =
            Policy::parse(name, "{_schema: x/v1, artifacts: {provenance: {required: true}}}").unwrap();
        let both = [policy(true), vec![Arc::new(named)]].concat();
        let evaluated = evaluate(&both, vec![], &["one"], &[], 1).status;
        let reasons = &evaluated.artifacts[&artifact("one")].verdict.reasons;
        assert_eq!(*reasons, ["not approved", "rules v2: no flow holds the artifact"]);
        let evaluated = evaluate(&both, vec![], &["one"], &[(artifact("one"), approved())], 1).status;
        assert_eq!(evaluated.compliance, Compliance::NonCompliant);
    }

    #[test]
    fn allow_listed_artifact_is_compliant_until_the_entry_expires() {
        let image = || AllowListSubject::Image("registry.k8s.io/**".parse().unwrap());
        let name = "registry.k8s.io/coredns/coredns:v1.11.1";
        for (policies, subject, until, expected) in [
            (policy(true), image(), None, Compliance::Compliant),
            (policy(true), image(), Some(11), Compliance::Compliant),
            (policy(true), image(), Some(10), Compliance::NonCompliant),
            (policy(true), AllowListSubject::Artifact(artifact(name)), Some(11), Compliance::Compliant),
            (policy(true), AllowListSubject::Artifact(artifact("x")), None, Compliance::NonCompliant),
            (
                policy(true),
                AllowListSubject::Image("registry.k8s.io/pause".parse().unwrap()),
                None,
                Compliance::NonCompliant,
            ),
            (vec![], image(), None, Compliance::Compliant),
            (vec![], image(), Some(10), Compliance::Unknown),
            (policy(false), image(), Some(10), Compliance::Compliant),
        ] {
            let entry = allowed(subject, until);
            let status = evaluate(&policies, vec![entry.clone()], &[name], &[], 10).status;
            assert_eq!(status.compliance, expected, "{policies:?} {entry:?}");
        }
    }

    #[test]
    fn environment_with_too_few_artifacts_is_not_compliant() {
        let prod = "prod".parse().unwrap();
        for (policies, min_artifacts, expected) in [
            (policy(false), None, Compliance::Compliant),
            (policy(false), Some(1), Compliance::Compliant),
            (policy(false), Some(2), Compliance::Unknown),
            (policy(true), Some(2), Compliance::NonCompliant),
        ] {
            let limits = ExpectedArtifacts { min_artifacts, ..ExpectedArtifacts::default() };
            let allowed = AllowList::default();
            let requirements =
                Requirements { environment: Some(&prod), policies: &policies, allowed: &allowed };
            let evaluated =
                Evaluation::new(requirements, reported(&["one"]), &BTreeMap::new(), limits, at(1)).status;
            let is_absent = min_artifacts == Some(2);
            assert_eq!((evaluated.compliance, evaluated.absence.is_some()), (expected, is_absent));
        }
    }

    #[test]
    fn status_expires_with_the_first_entry_or_attestation_that_a_running_artifact_relies_on() {
        let entry = |name, until| allowed(AllowListSubject::Artifact(artifact(name)), until);
        let entries = || {
            vec![
                entry("one", Some(3)),
                entry("one", None),
                entry("two", Some(5)),
                entry("two", Some(9)),
                entry("gone", Some(2)),
            ]
        };
        let evidence = [(artifact("one"), approved())];
        for (now, compliant_until, evaluate_at) in
            [(1, Some(5), Some(3)), (3, Some(5), Some(5)), (5, Some(9), Some(9)), (9, None, None)]
        {
            let evaluated = evaluate(&policy(true), entries(), &["one", "two"], &evidence, now);
            let expected =
                Expiry { compliant_until: compliant_until.map(at), evaluate_at: evaluate_at.map(at) };
            assert_eq!(evaluated.expiry, expected, "{now}");
        }
        let name = PolicyVersion { name: "rules".to_owned(), version: 1 };
        let text = "{_schema: x/v1, artifacts: {attestations: [{name: unit, type: junit, max_age: 10s}]}}";
        let fresh = vec![Arc::new(Policy::parse(name, text).unwrap())];
        let mut evidence = Evidence::default();
        let flow = evidence.flows.entry("cart".to_owned()).or_default();
        let latest = crate::domain::evidence::policy::facts::AttestationEvidence {
            kind: "junit".to_owned(),
            passes: true,
            created_at: at(2),
            tests: 0,
            skipped: 0,
            trail: None,
        };
        flow.attestations.insert("unit".to_owned(), latest);
        let evidence = [(artifact("one"), evidence)];
        for (entries, now, compliant_until, evaluate_at) in [
            (vec![], 11, Some(12), Some(12)),
            (vec![], 12, None, None),
            // The artifact relies on neither alone.
            (vec![entry("one", Some(20))], 11, None, Some(12)),
            (vec![entry("one", Some(20))], 12, Some(20), Some(20)),
        ] {
            let evaluated = evaluate(&fresh, entries, &["one"], &evidence, now);
            let expected =
                Expiry { compliant_until: compliant_until.map(at), evaluate_at: evaluate_at.map(at) };
            assert_eq!(evaluated.expiry, expected, "{now}");
        }
    }
}
