//! The status of an environment: its artifacts and their verdicts.
//!
//! Called by the service's evaluation, which stores the differences and derives events with `event`. Pure: time is
//! an argument.

use std::collections::BTreeMap;

use super::absence::ExpectedArtifacts;
use super::compliance::{self, Compliance, ComplianceCounts, Evidence, Policy};
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
    /// Why the artifact is not compliant; on pages also who allow-listed it.
    pub reasons: Vec<String>,
}

/// Reported artifacts: name and, if counted, number of pods.
pub type ReportedArtifacts = BTreeMap<Fingerprint, (String, Option<i64>)>;

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

/// Expiry of allow-list entries of running artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expiry {
    /// The first expiry of an entry that an artifact relies on: the compliance is unknown from then on.
    pub compliant_until: Option<Timestamp>,
    /// The first expiry of any entry: the evaluation is repeated then.
    pub evaluate_at: Option<Timestamp>,
}

impl Evaluation {
    /// Evaluates an environment by its policy and the evidence for its artifacts. Artifacts without evidence have no
    /// entry in `evidence`.
    #[must_use]
    pub fn new(
        environment: &EnvironmentName,
        policy: Option<&Policy>,
        reported: ReportedArtifacts,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        expected: ExpectedArtifacts,
        now: Timestamp,
    ) -> Self {
        let no_evidence = Evidence::default();
        let mut expiry = Expiry::default();
        let running = |(artifact, (name, pods))| {
            let evidence = evidence.get(&artifact).unwrap_or(&no_evidence);
            if let Some(next) = evidence.next_expiry(now) {
                expiry.evaluate_at = Some(expiry.evaluate_at.map_or(next, |at| at.min(next)));
                if evidence.relies_on_allow_list(policy, environment, now) {
                    expiry.compliant_until = Some(expiry.compliant_until.map_or(next, |at| at.min(next)));
                }
            }
            (
                artifact,
                RunningArtifact { name, pods, verdict: Verdict::new(environment, policy, evidence, now) },
            )
        };
        let artifacts: BTreeMap<_, _> = reported.into_iter().map(running).collect();
        let counts: ComplianceCounts = artifacts.values().map(|running| running.verdict.compliance).collect();
        let number = u32::try_from(artifacts.len()).unwrap_or(u32::MAX);
        let absence = expected.absence(number).map(|absence| absence.to_string());
        let compliance = counts.environment(policy).confirmed(absence.is_none());
        let status = EnvironmentStatus { artifacts, compliance, absence };
        Self { status, counts, expiry, reference: expected.next_reference(number) }
    }
}

impl Verdict {
    /// Evaluates an artifact in an environment.
    #[must_use]
    pub fn new(
        environment: &EnvironmentName,
        policy: Option<&Policy>,
        evidence: &Evidence,
        now: Timestamp,
    ) -> Self {
        let verdict = compliance::evaluate_artifact(policy, environment, evidence, now);
        Self {
            compliance: Compliance::from_reasons(&verdict),
            is_allowed: evidence.is_allowed(now),
            // UNKNOWN already says that there is no policy.
            reasons: match verdict {
                Err(reasons) if policy.is_some() => reasons.iter().map(ToString::to_string).collect(),
                _ => Vec::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::compliance::{AllowListEntry, ApprovalEvidence};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn allowed(until: &[Option<i64>]) -> Evidence {
        let allowed = until.iter().map(|until| AllowListEntry { until: until.map(at) }).collect();
        Evidence { allowed, ..Evidence::default() }
    }

    #[test]
    fn environment_is_evaluated_with_a_reason_for_each_artifact() {
        let (one, two) = (Fingerprint::from_content(b"1"), Fingerprint::from_content(b"2"));
        let reported =
            || ReportedArtifacts::from([(one, ("one".into(), Some(1))), (two, ("two".into(), None))]);
        let policy = Policy { approval: true, ..Policy::default() };
        let evaluate = |policy, evidence: &[(Fingerprint, Evidence)]| {
            let evidence = evidence.iter().cloned().collect();
            let none = ExpectedArtifacts::default();
            Evaluation::new(&"prod".parse().unwrap(), policy, reported(), &evidence, none, at(1))
        };
        let Evaluation { status, counts, expiry, .. } = evaluate(Some(&policy), &[(one, allowed(&[None]))]);
        assert_eq!(status.compliance, Compliance::NonCompliant);
        assert!(status.artifacts[&one].verdict.is_allowed);
        assert_eq!(status.artifacts[&two].verdict.reasons, ["not approved"]);
        assert_eq!(counts, ComplianceCounts { compliant: 1, unknown: 0, non_compliant: 1 });
        assert_eq!(expiry, Expiry::default());
        let Evaluation { status, counts, .. } = evaluate(None, &[]);
        assert_eq!(
            (status.compliance, &status.artifacts[&two].verdict),
            (Compliance::Unknown, &Verdict::UNKNOWN)
        );
        assert_eq!(counts.unknown, 2);
    }

    #[test]
    fn environment_with_too_few_artifacts_is_not_compliant() {
        let prod = "prod".parse().unwrap();
        let (policy, approval) = (Policy::default(), Policy { approval: true, ..Policy::default() });
        let one = Fingerprint::from_content(b"1");
        for (policy, min_artifacts, expected) in [
            (&policy, None, Compliance::Compliant),
            (&policy, Some(1), Compliance::Compliant),
            (&policy, Some(2), Compliance::Unknown),
            (&approval, Some(2), Compliance::NonCompliant),
        ] {
            let reported = ReportedArtifacts::from([(one, ("one".into(), Some(1)))]);
            let limits = ExpectedArtifacts { min_artifacts, ..ExpectedArtifacts::default() };
            let evaluated =
                Evaluation::new(&prod, Some(policy), reported, &BTreeMap::new(), limits, at(1)).status;
            let is_absent = min_artifacts == Some(2);
            assert_eq!((evaluated.compliance, evaluated.absence.is_some()), (expected, is_absent));
        }
    }

    #[test]
    fn status_expires_with_the_first_entry_that_a_running_artifact_relies_on() {
        let [one, two, gone] = [b"1", b"2", b"3"].map(|content| Fingerprint::from_content(content));
        let approved = vec![ApprovalEvidence { environment: None }];
        let evidence = BTreeMap::from([
            (one, Evidence { approvals: approved, ..allowed(&[Some(3), None]) }),
            (two, allowed(&[Some(5), Some(9)])),
            (gone, allowed(&[Some(2)])),
        ]);
        let reported =
            ReportedArtifacts::from([(one, ("one".into(), Some(1))), (two, ("two".into(), Some(1)))]);
        let policy = Policy { approval: true, ..Policy::default() };
        for (now, compliant_until, evaluate_at) in
            [(1, Some(5), Some(3)), (3, Some(5), Some(5)), (5, Some(9), Some(9)), (9, None, None)]
        {
            let prod = "prod".parse().unwrap();
            let (reported, none) = (reported.clone(), ExpectedArtifacts::default());
            let evaluated = Evaluation::new(&prod, Some(&policy), reported, &evidence, none, at(now));
            let expected =
                Expiry { compliant_until: compliant_until.map(at), evaluate_at: evaluate_at.map(at) };
            assert_eq!(evaluated.expiry, expected, "{now}");
        }
    }
}
