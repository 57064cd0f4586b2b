//! Checks whether an environment runs fewer artifacts than its declaration expects.
//!
//! An incomplete report would otherwise hide artifacts that are not compliant: an empty environment fulfills any policy.
//! Called by `environment_status`. Pure.

use model::reason::Code;

/// The declared limits of an environment, and the number that a drop is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedArtifacts {
    pub min_artifacts: Option<u32>,
    /// Maximum drop from `reference`, in percent.
    pub max_drop: Option<u32>,
    /// Number of artifacts of the latest evaluation within the limits; `None` if there was none since `max_drop` was
    /// declared or changed.
    pub reference: Option<u32>,
}

impl ExpectedArtifacts {
    /// Why the environment runs too few artifacts, if it does.
    #[must_use]
    pub fn absence(self, artifacts: u32) -> Option<Code> {
        let Self { min_artifacts, max_drop, reference } = self;
        let below = min_artifacts.filter(|min| artifacts < *min);
        let below = below.map(|min_artifacts| Code::TooFewArtifacts { artifacts, min_artifacts });
        let dropped = max_drop.zip(reference).filter(|(max, reference)| {
            let drop = u64::from(reference.saturating_sub(artifacts));
            drop * 100 > u64::from(*reference) * u64::from(*max)
        });
        below.or_else(|| dropped.map(|(max_drop, before)| Code::TooLargeDrop { artifacts, before, max_drop }))
    }

    /// The number that the next drop is compared with. It does not change while the environment runs too few artifacts, so
    /// that a report cannot confirm its own drop.
    #[must_use]
    pub fn next_reference(self, artifacts: u32) -> Option<u32> {
        self.max_drop?;
        if self.absence(artifacts).is_some() { self.reference } else { Some(artifacts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::reason::Reason;

    #[test]
    fn drop_is_compared_with_the_latest_number_within_the_limits() {
        let expected = ExpectedArtifacts { max_drop: Some(50), ..ExpectedArtifacts::default() };
        let mut reference = None;
        for (artifacts, next) in
            [(100, 100), (50, 50), (24, 50), (0, 50), (25, 25), (12, 25), (13, 13), (1000, 1000)]
        {
            let expected = ExpectedArtifacts { reference, ..expected };
            let has_dropped = expected.absence(artifacts).is_some();
            reference = expected.next_reference(artifacts);
            assert_eq!((reference, has_dropped), (Some(next), next != artifacts), "{artifacts}");
        }
    }

    #[test]
    fn absence_names_the_numbers_and_the_limit() {
        let expected = |min_artifacts, max_drop| ExpectedArtifacts {
            min_artifacts,
            max_drop,
            reference: max_drop.map(|_| 100),
        };
        for (expected, artifacts, text) in [
            (expected(None, None), 0, ""),
            (expected(Some(1), None), 1, ""),
            (expected(Some(1), None), 0, "too few running artifacts: 0, expected at least 1"),
            (expected(None, Some(0)), 100, ""),
            (
                expected(Some(1), Some(50)),
                49,
                "too few running artifacts: 49 after 100, expected a drop of at most 50%",
            ),
            (expected(Some(60), Some(50)), 49, "too few running artifacts: 49, expected at least 60"),
        ] {
            let absence = expected.absence(artifacts).map(Reason::from);
            assert_eq!(absence.as_ref().map(Reason::to_string).unwrap_or_default(), text, "{expected:?}");
            let reference = expected.max_drop.map(|_| if absence.is_some() { 100 } else { artifacts });
            assert_eq!(expected.next_reference(artifacts), reference, "{expected:?}");
        }
    }
}
