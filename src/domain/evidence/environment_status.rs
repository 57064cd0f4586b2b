//! The status of an environment: its artifacts and their verdicts.
//!
//! Called by the service's evaluation, which stores the differences and derives events with `event`. Pure: time is
//! an argument.

use std::collections::BTreeMap;

use super::compliance::{self, Compliance, Evidence, Policy};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};

/// The status of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentStatus {
    /// The running artifacts.
    pub artifacts: BTreeMap<Fingerprint, RunningArtifact>,
    /// The environment's compliance by its last report. Silence is not considered here, see `validity`.
    pub compliance: Compliance,
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

impl EnvironmentStatus {
    /// Evaluates an environment by its policy and the evidence for its artifacts. Artifacts without evidence have no
    /// entry in `evidence`.
    #[must_use]
    pub fn evaluate(
        environment: &EnvironmentName,
        policy: Option<&Policy>,
        reported: ReportedArtifacts,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        now: Timestamp,
    ) -> Self {
        let no_evidence = Evidence::default();
        let running = |(artifact, (name, pods))| {
            let evidence = evidence.get(&artifact).unwrap_or(&no_evidence);
            let verdict = Verdict::new(environment, policy, evidence, now);
            (artifact, RunningArtifact { name, pods, verdict })
        };
        let artifacts: BTreeMap<_, _> = reported.into_iter().map(running).collect();
        let compliances = artifacts.values().map(|running| running.verdict.compliance);
        let compliance = compliance::evaluate_environment(policy, compliances);
        Self { artifacts, compliance }
    }
}

impl Verdict {
    fn new(
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

/// The first expiry of a valid allow-list entry. Verdicts change at that time without another trigger.
#[must_use]
pub fn next_expiry(evidence: &BTreeMap<Fingerprint, Evidence>, now: Timestamp) -> Option<Timestamp> {
    let entries = evidence.values().flat_map(|evidence| &evidence.allowed);
    entries.filter_map(|allowed| allowed.until).filter(|until| *until > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::compliance::AllowListEntry;

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
        let prod = "prod".parse().unwrap();
        let status = EnvironmentStatus::evaluate(
            &prod,
            Some(&policy),
            reported(),
            &[(one, allowed(&[None]))].into(),
            at(1),
        );
        assert_eq!(status.compliance, Compliance::NonCompliant);
        assert!(status.artifacts[&one].verdict.is_allowed);
        assert_eq!(status.artifacts[&two].verdict.reasons, ["not approved"]);
        let status = EnvironmentStatus::evaluate(&prod, None, reported(), &BTreeMap::new(), at(1));
        assert_eq!(
            (status.compliance, &status.artifacts[&two].verdict),
            (Compliance::Unknown, &Verdict::UNKNOWN)
        );
    }

    #[test]
    fn next_expiry_is_the_first_in_the_future() {
        let (one, two) = (Fingerprint::from_content(b"1"), Fingerprint::from_content(b"2"));
        let evidence =
            BTreeMap::from([(one, allowed(&[Some(5), None])), (two, allowed(&[Some(3), Some(9)]))]);
        for (now, expected) in [(1, Some(3)), (3, Some(5)), (5, Some(9)), (9, None)] {
            assert_eq!(next_expiry(&evidence, at(now)), expected.map(at), "{now}");
        }
    }
}
