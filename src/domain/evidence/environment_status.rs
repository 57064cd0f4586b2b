//! How an environment stands: what runs there, and whether it may.
//!
//! The service makes one of what it holds whenever something changes that a verdict rests on, keeps what is
//! different, and asks `event` what happened. Pure; time is an argument.

use std::collections::BTreeMap;

use super::compliance::{self, Compliance, Evidence, Policy};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};

/// How an environment stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What runs.
    pub artifacts: BTreeMap<Fingerprint, Running>,
    /// Whether that is as its policy wants it. Silence does not matter here: it changes what is known, and
    /// not what was last seen.
    pub compliance: Compliance,
}

/// An artifact that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The image's name.
    pub name: String,
    /// In how many pods; `None` where that was not counted.
    pub pods: Option<i64>,
    /// Whether it may.
    pub verdict: Verdict,
}

/// Whether an artifact may run, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The word.
    pub compliance: Compliance,
    /// Whether it is on the allow-list.
    pub is_allowed: bool,
    /// What keeps it from being compliant; on pages also who put it on the allow-list.
    pub reasons: Vec<String>,
}

/// What runs, as it was reported: the name and, where it was counted, the number of pods.
pub type Seen = BTreeMap<Fingerprint, (String, Option<i64>)>;

impl Verdict {
    /// What is said of an artifact that nothing was decided about.
    pub const UNKNOWN: Self =
        Self { compliance: Compliance::Unknown, is_allowed: false, reasons: Vec::new() };
}

impl Standing {
    /// How an environment stands by its policy and by what is known of what runs there. What nothing is known
    /// of has no entry in `evidence`.
    #[must_use]
    pub fn judged(
        environment: &EnvironmentName,
        policy: Option<&Policy>,
        seen: Seen,
        evidence: &BTreeMap<Fingerprint, Evidence>,
        now: Timestamp,
    ) -> Self {
        let nothing = Evidence::default();
        let running = |(artifact, (name, pods))| {
            let evidence = evidence.get(&artifact).unwrap_or(&nothing);
            let verdict = Verdict::of(environment, policy, evidence, now);
            (artifact, Running { name, pods, verdict })
        };
        let artifacts: BTreeMap<_, _> = seen.into_iter().map(running).collect();
        let words = artifacts.values().map(|running| running.verdict.compliance);
        let compliance = compliance::environment(policy, words);
        Self { artifacts, compliance }
    }
}

impl Verdict {
    fn of(
        environment: &EnvironmentName,
        policy: Option<&Policy>,
        evidence: &Evidence,
        now: Timestamp,
    ) -> Self {
        let verdict = compliance::artifact(policy, environment, evidence, now);
        Self {
            compliance: Compliance::of(&verdict),
            is_allowed: evidence.is_allowed(now),
            // That there is no policy is what UNKNOWN says.
            reasons: match verdict {
                Err(reasons) if policy.is_some() => reasons.iter().map(ToString::to_string).collect(),
                _ => Vec::new(),
            },
        }
    }
}

/// When the first of these allow-list entries ends that still holds: nobody but the time changes a verdict
/// then.
#[must_use]
pub fn until(evidence: &BTreeMap<Fingerprint, Evidence>, now: Timestamp) -> Option<Timestamp> {
    let entries = evidence.values().flat_map(|evidence| &evidence.allowed);
    entries.filter_map(|allowed| allowed.until).filter(|until| *until > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::compliance::Allowed;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn allowed(until: &[Option<i64>]) -> Evidence {
        let allowed = until.iter().map(|until| Allowed { until: until.map(at) }).collect();
        Evidence { allowed, ..Evidence::default() }
    }

    #[test]
    fn an_environment_stands_as_its_worst_artifact_and_each_says_why() {
        let (one, two) = (Fingerprint::of(b"1"), Fingerprint::of(b"2"));
        let seen = || Seen::from([(one, ("one".into(), Some(1))), (two, ("two".into(), None))]);
        let policy = Policy { approval: true, ..Policy::default() };
        let prod = "prod".parse().unwrap();
        let standing =
            Standing::judged(&prod, Some(&policy), seen(), &[(one, allowed(&[None]))].into(), at(1));
        assert_eq!(standing.compliance, Compliance::NonCompliant);
        assert!(standing.artifacts[&one].verdict.is_allowed);
        assert_eq!(standing.artifacts[&two].verdict.reasons, ["it is not approved"]);
        let standing = Standing::judged(&prod, None, seen(), &BTreeMap::new(), at(1));
        assert_eq!(
            (standing.compliance, &standing.artifacts[&two].verdict),
            (Compliance::Unknown, &Verdict::UNKNOWN)
        );
    }

    #[test]
    fn the_next_change_that_only_time_brings_is_the_first_end_to_come() {
        let (one, two) = (Fingerprint::of(b"1"), Fingerprint::of(b"2"));
        let evidence =
            BTreeMap::from([(one, allowed(&[Some(5), None])), (two, allowed(&[Some(3), Some(9)]))]);
        for (now, expected) in [(1, Some(3)), (3, Some(5)), (5, Some(9)), (9, None)] {
            assert_eq!(until(&evidence, at(now)), expected.map(at), "{now}");
        }
    }
}
