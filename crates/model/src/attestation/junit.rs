//! Test results: the fields of a JUnit attestation.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Text, UnknownFields};
use crate::Timestamp;

/// The fields of `data_json` that only a JUnit attestation has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JunitFields {
    /// The results, one for each suite or file.
    #[serde(deserialize_with = "consistent")]
    pub junit_results: Vec<JunitResult>,
}

/// One result of `junit_results`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JunitResult {
    /// The suite's name.
    #[serde(default)]
    pub name: Text,
    /// Tests that failed.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "openapi", schema(maximum = 1_000_000_000))]
    pub failures: u32,
    /// Tests that ended with an error.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "openapi", schema(maximum = 1_000_000_000))]
    pub errors: u32,
    /// Skipped tests.
    #[serde(default, deserialize_with = "count")]
    #[cfg_attr(feature = "openapi", schema(maximum = 1_000_000_000))]
    pub skipped: u32,
    /// All tests.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "openapi", schema(maximum = 1_000_000_000))]
    pub total: u32,
    /// Duration in seconds.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Start of the tests.
    #[serde(default, deserialize_with = "timestamp")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Fields of newer clients.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub unknown: UnknownFields,
}

impl JunitResult {
    #[must_use]
    pub fn sum(results: &[Self]) -> Self {
        let mut sum = Self::default();
        for result in results {
            sum.add(result);
        }
        sum
    }

    /// Adds the tests and the duration of another result.
    pub fn add(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.failures = self.failures.saturating_add(other.failures);
        self.errors = self.errors.saturating_add(other.errors);
        self.skipped = self.skipped.saturating_add(other.skipped);
        let durations = [self.duration, other.duration].into_iter().flatten();
        self.duration = durations.reduce(|one, other| (one + other).min(MAX_DURATION_SECONDS));
        self.timestamp = [self.timestamp, other.timestamp].into_iter().flatten().min();
    }

    /// Number of failures and errors.
    #[must_use]
    pub fn unsuccessful(&self) -> u32 {
        self.failures.saturating_add(self.errors)
    }

    #[must_use]
    pub fn passed(&self) -> u32 {
        self.total.saturating_sub(self.unsuccessful().saturating_add(self.skipped))
    }
}

/// Reads results whose failures, errors and skipped tests do not exceed their total.
fn consistent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JunitResult>, D::Error> {
    struct Consistent(JunitResult);

    impl<'de> Deserialize<'de> for Consistent {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let result = JunitResult::deserialize(deserializer)?;
            let JunitResult { failures, errors, skipped, total, .. } = result;
            let counted: u64 = [failures, errors, skipped].map(u64::from).iter().sum();
            if counted > u64::from(total) {
                return Err(serde::de::Error::custom(format!(
                    "expected failures, errors and skipped tests up to the total {total}, got {counted}"
                )));
            }
            Ok(Self(result))
        }
    }

    let results = Vec::<Consistent>::deserialize(deserializer)?;
    Ok(results.into_iter().map(|Consistent(result)| result).collect())
}

/// Limit for a duration, in seconds.
const MAX_DURATION_SECONDS: f64 = 1e9;

/// Reads a number of tests, also with a zero fraction (`3.0`).
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.fract() == 0.0 && (0.0..=1e9).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked"
        )]
        return Ok(number as u32);
    }
    Err(serde::de::Error::custom(format!("expected an integer from 0 to 1000000000, got {number:?}")))
}

/// Reads seconds. Clients copy what test runners write, also a duration that no test can have: it is left out.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let seconds = Option::<f64>::deserialize(deserializer)?;
    Ok(seconds.filter(|seconds| (0.0..=MAX_DURATION_SECONDS).contains(seconds)))
}

/// Reads a time. One that the interface does not have, such as the year 1 of Go's zero time, is left out.
fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.and_then(Timestamp::from_seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_counts_are_rejected_and_impossible_times_left_out() {
        let result = |key: &str, value: serde_json::Value| {
            let mut sent = json!({"failures": 0, "errors": 0, "total": 1});
            sent[key] = value;
            serde_json::from_value::<JunitResult>(sent)
        };
        assert_eq!(result("total", json!(3.0)).unwrap().total, 3);
        assert_eq!(result("duration", json!(null)).unwrap().duration, None);
        for (key, value) in [
            ("total", json!(-1)),
            ("total", json!(1.5)),
            ("total", json!(1e300)),
            ("failures", json!("0")),
            ("duration", json!("1")),
            ("timestamp", json!("2026-09-15T12:00:00Z")),
        ] {
            assert!(result(key, value.clone()).is_err(), "{key}: {value}");
        }
        for value in [json!(-0.5), json!(-62_135_596_800_i64), json!(1e300), json!(null)] {
            assert_eq!(result("duration", value.clone()).unwrap().duration, None, "{value}");
            assert_eq!(result("timestamp", value.clone()).unwrap().timestamp, None, "{value}");
        }
        assert_eq!(result("timestamp", json!(0)).unwrap().timestamp, Some(Timestamp::EPOCH));
    }
}
