//! Attestations, as a client sends them (operation 5) and as a list returns them (operation 2).

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Fingerprint, FreeForm, GitCommit, RepositoryInfo, ShortText, Text, Timestamp, UrlText};

/// `data_json` of operation 5 (interface, "JUnit attestation input"). Unknown fields are rejected by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JunitAttestation {
    /// The attestation's name, for example `unit-tests`.
    pub attestation_name: ShortText,
    /// The results, one for each suite or file.
    #[serde(deserialize_with = "consistent")]
    pub junit_results: Vec<JunitResult>,
    /// The origin, for example the page of a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_url: Option<UrlText>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// The artifact that was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_fingerprint: Option<Fingerprint>,
    /// More artifacts: fingerprints, or names in the flow's template.
    #[serde(default, deserialize_with = "targets", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "service", schema(max_items = 1_000))]
    pub target_artifacts: Option<Vec<ShortText>>,
    /// The commit that was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit_info: Option<GitCommit>,
    /// The repository of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_info: Option<RepositoryInfo>,
    /// URLs by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_urls: Option<FreeForm>,
    /// Free-form annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<FreeForm>,
    /// Free-form data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<FreeForm>,
}

/// One result of `junit_results`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JunitResult {
    /// The suite's name.
    #[serde(default)]
    pub name: Text,
    /// Tests that failed.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub failures: u32,
    /// Tests that ended with an error.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub errors: u32,
    /// Skipped tests.
    #[serde(default, deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub skipped: u32,
    /// All tests.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub total: u32,
    /// Duration in seconds.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "service", schema(minimum = 0, maximum = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Start of the tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// An attestation in a list (interface, "Attestation").
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Attestation {
    pub attestation_id: String,
    pub attestation_name: String,
    pub attestation_type: String,
    pub created_at: Timestamp,
    pub description: String,
    pub has_audit_package: bool,
    /// Its page.
    pub html_url: String,
    pub is_compliant: bool,
    pub origin_url: String,
    pub reported_by: String,
    pub schema_version: i64,
    pub user_data: FreeForm,
}

impl JunitResult {
    /// The sum of several results.
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

    /// Number of passed tests.
    #[must_use]
    pub fn passed(&self) -> u32 {
        self.total.saturating_sub(self.unsuccessful().saturating_add(self.skipped))
    }
}

impl JunitAttestation {
    /// The artifacts by fingerprint: `artifact_fingerprint`, and fingerprints in `target_artifacts`.
    #[must_use]
    pub fn fingerprints(&self) -> BTreeSet<Fingerprint> {
        let targets =
            self.target_artifacts.iter().flatten().filter_map(|target| target.as_str().parse().ok());
        self.artifact_fingerprint.into_iter().chain(targets).collect()
    }

    /// The artifacts by name in the flow's template, sorted, each once.
    #[must_use]
    pub fn template_targets(&self) -> BTreeSet<&str> {
        let names = self.target_artifacts.iter().flatten().map(ShortText::as_str);
        names.filter(|name| name.parse::<Fingerprint>().is_err()).collect()
    }
}

/// Limit for the artifacts of an attestation, because each response about its trail repeats them.
const MAX_TARGETS: usize = 1_000;

fn targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ShortText>>, D::Error> {
    let targets = Option::<Vec<ShortText>>::deserialize(deserializer)?;
    match targets.as_ref().map_or(0, Vec::len) {
        many if many > MAX_TARGETS => {
            Err(serde::de::Error::custom(format!("expected at most {MAX_TARGETS} artifacts, got {many}")))
        }
        _ => Ok(targets),
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

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(seconds) if !(0.0..=MAX_DURATION_SECONDS).contains(&seconds) => {
            Err(serde::de::Error::custom(format!("expected seconds from 0 to 1000000000, got {seconds:?}")))
        }
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_split_into_fingerprints_and_template_names() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let sent = json!({
            "attestation_name": "unit", "junit_results": [],
            "artifact_fingerprint": one, "target_artifacts": ["web", two, one, "web", "api"],
        });
        let read: JunitAttestation = serde_json::from_value(sent).unwrap();
        let fingerprints: Vec<String> = read.fingerprints().iter().map(ToString::to_string).collect();
        assert_eq!(fingerprints, [one, two]);
        assert_eq!(read.template_targets().into_iter().collect::<Vec<_>>(), ["api", "web"]);
    }

    #[test]
    fn more_than_1000_targets_are_rejected() {
        let sent = |targets: serde_json::Value| json!({"attestation_name": "unit", "junit_results": [], "target_artifacts": targets});
        let read = |targets| serde_json::from_value::<JunitAttestation>(sent(targets));
        assert_eq!(read(json!(vec!["web"; 1_000])).unwrap().template_targets().len(), 1);
        assert_eq!(read(json!(null)).unwrap().target_artifacts, None);
        assert!(read(json!(vec!["web"; 1_001])).is_err());
    }

    #[test]
    fn invalid_counts_and_durations_are_rejected() {
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
            ("duration", json!(-0.1)),
            ("timestamp", json!(-1)),
            ("tests", json!(1)),
        ] {
            assert!(result(key, value.clone()).is_err(), "{key}: {value}");
        }
    }
}
