//! Whether what runs may run: verdicts of artifacts and environments.
//!
//! `standing` asks, whenever something changes that a verdict rests on (a snapshot, an attestation, an
//! approval, the allow-list, a policy, or the time). Evidence in, a verdict with its reasons out; time is an
//! argument.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::domain::model::{EnvironmentName, Timestamp};

/// What may be said of an artifact or an environment. The order is from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compliance {
    /// It may run.
    Compliant,
    /// Nothing says what it would have to fulfil, or nobody knows what runs.
    Unknown,
    /// It may not.
    NonCompliant,
}

/// What an environment requires of each artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Attestations, each by its flow and name, of which the latest has to pass.
    #[serde(default)]
    pub attestations: Vec<Requirement>,
    /// Whether an approval is required, for this environment or for any.
    #[serde(default)]
    pub approval: bool,
}

/// An attestation that is required.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The flow: another flow's attestation of the same name is another.
    pub flow: String,
    /// The attestation's name.
    pub name: String,
}

/// An attestation of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attested {
    /// Its flow and name.
    pub what: Requirement,
    /// Whether it passes.
    pub passes: bool,
}

/// An approval of an artifact, in the state APPROVED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// The environment that it is for; `None` for any.
    pub environment: Option<EnvironmentName>,
}

/// An artifact that may run whatever is attested of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The moment from which that no longer holds; `None` for never.
    pub until: Option<Timestamp>,
}

/// What is known of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// In the order in which the service received them.
    pub attestations: Vec<Attested>,
    /// In any order.
    pub approvals: Vec<Approved>,
    /// Its entries in the environment's allow-list.
    pub allowed: Vec<Allowed>,
}

/// What keeps an artifact from being compliant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The latest attestation that is required fails.
    Fails(Requirement),
    /// There is none.
    IsMissing(Requirement),
    /// Nobody approved it, for this environment or for any.
    IsNotApproved,
    /// The environment has no policy.
    NoPolicy,
}

/// Whether an artifact may run in an environment.
///
/// # Errors
///
/// Every reason for which it may not, or for which nobody can say.
pub fn artifact(
    policy: Option<&Policy>,
    environment: &EnvironmentName,
    evidence: &Evidence,
    now: Timestamp,
) -> Result<(), Vec<Reason>> {
    if evidence.is_allowed(now) {
        return Ok(());
    }
    let Some(Policy { attestations, approval }) = policy else { return Err(vec![Reason::NoPolicy]) };
    let latest: BTreeMap<&Requirement, bool> =
        evidence.attestations.iter().map(|attested| (&attested.what, attested.passes)).collect();
    let mut reasons: Vec<_> = attestations
        .iter()
        .filter_map(|required| match latest.get(required) {
            Some(true) => None,
            Some(false) => Some(Reason::Fails(required.clone())),
            None => Some(Reason::IsMissing(required.clone())),
        })
        .collect();
    let is_for_it =
        |approved: &Approved| approved.environment.as_ref().is_none_or(|name| name == environment);
    if *approval && !evidence.approvals.iter().any(is_for_it) {
        reasons.push(Reason::IsNotApproved);
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// Whether an environment is as its policy wants it: as its worst artifact. Without an artifact it fulfils
/// any policy that there is.
#[must_use]
pub fn environment(policy: Option<&Policy>, artifacts: impl IntoIterator<Item = Compliance>) -> Compliance {
    let mut artifacts = artifacts.into_iter().peekable();
    let nobody_can_say = policy.is_none() && artifacts.peek().is_none();
    let least = if nobody_can_say { Compliance::Unknown } else { Compliance::Compliant };
    artifacts.fold(least, Compliance::max)
}

impl Evidence {
    /// Whether an entry of the allow-list still holds.
    #[must_use]
    pub fn is_allowed(&self, now: Timestamp) -> bool {
        self.allowed.iter().any(|allowed| allowed.until.is_none_or(|until| now < until))
    }
}

impl Compliance {
    /// What can be said of it now: what may run is only shown as such while somebody says that it runs there, and
    /// while everything still holds by which it may.
    #[must_use]
    pub fn confirmed(self, is_confirmed: bool) -> Self {
        if is_confirmed { self } else { self.max(Self::Unknown) }
    }

    /// The verdict that reasons add up to.
    #[must_use]
    pub fn of(verdict: &Result<(), Vec<Reason>>) -> Self {
        match verdict {
            Ok(()) => Self::Compliant,
            Err(reasons) if reasons.contains(&Reason::NoPolicy) => Self::Unknown,
            Err(_) => Self::NonCompliant,
        }
    }

    /// The interface's word, which `live_artifacts` have in `compliance`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compliant => "COMPLIANT",
            Self::Unknown => "UNKNOWN",
            Self::NonCompliant => "NON-COMPLIANT",
        }
    }
}

/// A word that says nothing of compliance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such word; COMPLIANT, UNKNOWN or NON-COMPLIANT was expected")]
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
            Self::Fails(Requirement { flow, name }) => write!(f, "{name} of the flow {flow} fails"),
            Self::IsMissing(Requirement { flow, name }) => write!(f, "{name} of the flow {flow} is missing"),
            Self::IsNotApproved => f.write_str("it is not approved"),
            Self::NoPolicy => f.write_str("the environment has no policy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(flow: &str, name: &str) -> Requirement {
        Requirement { flow: flow.to_owned(), name: name.to_owned() }
    }

    fn attested(flow: &str, name: &str, passes: bool) -> Attested {
        Attested { what: required(flow, name), passes }
    }

    fn prod() -> EnvironmentName {
        "prod".parse().unwrap()
    }

    const NOW: i64 = 1_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn verdict(policy: Option<&Policy>, evidence: &Evidence) -> Result<(), Vec<Reason>> {
        artifact(policy, &prod(), evidence, at(NOW))
    }

    #[test]
    fn an_artifact_may_run_where_the_latest_of_all_that_is_required_passes() {
        let policy = Policy {
            attestations: vec![required("cart", "unit"), required("cart", "scan")],
            approval: false,
        };
        let (unit, scan) = (required("cart", "unit"), required("cart", "scan"));
        for (attestations, expected) in [
            (vec![], Err(vec![Reason::IsMissing(unit.clone()), Reason::IsMissing(scan.clone())])),
            (vec![attested("cart", "unit", true), attested("cart", "scan", true)], Ok(())),
            // What is not required does not matter, whatever it says.
            (
                vec![
                    attested("cart", "unit", true),
                    attested("cart", "scan", true),
                    attested("cart", "lint", false),
                ],
                Ok(()),
            ),
            // A later failure counts, and so does a later success.
            (
                vec![
                    attested("cart", "scan", true),
                    attested("cart", "unit", true),
                    attested("cart", "unit", false),
                ],
                Err(vec![Reason::Fails(unit.clone())]),
            ),
            (
                vec![
                    attested("cart", "scan", true),
                    attested("cart", "unit", false),
                    attested("cart", "unit", true),
                ],
                Ok(()),
            ),
            // Another flow's attestation of that name neither mends nor hides a failure.
            (
                vec![
                    attested("cart", "scan", true),
                    attested("cart", "unit", false),
                    attested("web", "unit", true),
                ],
                Err(vec![Reason::Fails(unit.clone())]),
            ),
            (
                vec![attested("cart", "scan", true), attested("web", "unit", true)],
                Err(vec![Reason::IsMissing(unit)]),
            ),
        ] {
            let evidence = Evidence { attestations, ..Evidence::default() };
            assert_eq!(verdict(Some(&policy), &evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn an_approval_counts_for_its_environment_or_for_any() {
        let policy = Policy { approval: true, ..Policy::default() };
        let approved = |name: Option<&str>| Approved { environment: name.map(|name| name.parse().unwrap()) };
        for (approvals, expected) in [
            (vec![], Err(vec![Reason::IsNotApproved])),
            (vec![approved(Some("dev"))], Err(vec![Reason::IsNotApproved])),
            (vec![approved(Some("dev")), approved(Some("prod"))], Ok(())),
            (vec![approved(None)], Ok(())),
        ] {
            let evidence = Evidence { approvals, ..Evidence::default() };
            assert_eq!(verdict(Some(&policy), &evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn what_is_allowed_may_run_until_that_ends_and_without_a_policy_nobody_can_say() {
        let policy = Policy { approval: true, ..Policy::default() };
        let allowed = |until: Option<i64>| Evidence {
            allowed: vec![Allowed { until: until.map(at) }],
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
            assert_eq!(Compliance::of(&verdict(policy, &evidence)), expected, "{policy:?} {evidence:?}");
        }
    }

    #[test]
    fn an_environment_is_as_compliant_as_its_worst_artifact() {
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
            assert_eq!(environment(policy, artifacts.clone()), expected, "{artifacts:?}");
        }
    }

    #[test]
    fn what_nobody_confirms_is_never_compliant() {
        use Compliance::{Compliant, NonCompliant, Unknown};
        for (decided, said) in [(Compliant, Unknown), (Unknown, Unknown), (NonCompliant, NonCompliant)] {
            assert_eq!((decided.confirmed(true), decided.confirmed(false)), (decided, said));
        }
    }
}
