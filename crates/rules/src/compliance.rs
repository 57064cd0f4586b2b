//! The compliance of artifacts and environments.
//!
//! `environment_status` determines it, with the policies of `policy`. Pure.

use serde::Deserialize;

use model::words;

words! {
    /// The compliance of an artifact or environment, from best to worst.
    Compliance {
        /// All requirements are fulfilled.
        Compliant "COMPLIANT",
        /// There is no policy, or the environment is silent or runs too few artifacts.
        Unknown "UNKNOWN",
        /// A requirement is not fulfilled.
        NonCompliant "NON-COMPLIANT",
    }
}

/// Numbers of running artifacts of an environment by compliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct ComplianceCounts {
    pub compliant: i64,
    /// Artifacts without a verdict.
    pub unknown: i64,
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

    /// The compliance of the environment: that of its worst artifact. An empty environment fulfills any policy.
    #[must_use]
    pub fn environment(self, has_policy: bool) -> Compliance {
        match self {
            Self { non_compliant: 1.., .. } => Compliance::NonCompliant,
            Self { unknown: 1.., .. } => Compliance::Unknown,
            Self { compliant: 1.., .. } => Compliance::Compliant,
            _ if !has_policy => Compliance::Unknown,
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

impl Compliance {
    /// Downgrades `Compliant` to `Unknown` unless it is confirmed: the environment is reported, runs enough artifacts, and
    /// its verdict is still valid.
    #[must_use]
    pub fn confirmed(self, is_confirmed: bool) -> Self {
        if is_confirmed { self } else { self.max(Self::Unknown) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_has_the_compliance_of_its_worst_artifact() {
        use Compliance::{Compliant, NonCompliant, Unknown};
        for (has_policy, artifacts, expected) in [
            (true, vec![], Compliant),
            (true, vec![Compliant, Compliant], Compliant),
            (true, vec![Compliant, NonCompliant], NonCompliant),
            (false, vec![], Unknown),
            (false, vec![Unknown, Compliant], Unknown),
            (false, vec![Compliant], Compliant),
        ] {
            let counts: ComplianceCounts = artifacts.iter().copied().collect();
            assert_eq!(counts.environment(has_policy), expected, "{artifacts:?}");
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
