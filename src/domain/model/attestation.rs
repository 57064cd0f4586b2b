//! Attestations: what a client sends (operation 5) and what a list shows (operation 2).

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Fingerprint, FreeForm, RepositoryInfo, ShortText, Text, Timestamp, UrlText};

/// `data_json` of operation 5 (interface, "JUnit attestation input"). Fields that the interface does
/// not know are refused by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JunitAttestation {
    /// What was attested, as `unit-tests`.
    pub attestation_name: ShortText,
    /// The results, one a suite or file.
    pub junit_results: Vec<JunitResult>,
    /// Where it came from, as a pipeline's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_url: Option<UrlText>,
    /// What a person wrote about it.
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
    /// The repository that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_info: Option<RepositoryInfo>,
    /// Addresses by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_urls: Option<FreeForm>,
    /// Anything by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<FreeForm>,
    /// Anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<FreeForm>,
}

/// One result of `junit_results`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JunitResult {
    /// The suite.
    #[serde(default)]
    pub name: Text,
    /// Tests that failed.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub failures: u32,
    /// Tests that could not be run to their end.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub errors: u32,
    /// Tests that were not run.
    #[serde(default, deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub skipped: u32,
    /// All tests.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "service", schema(maximum = 1_000_000_000))]
    pub total: u32,
    /// How long they took, in seconds.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(feature = "service", schema(minimum = 0, maximum = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// When they began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// `git_commit_info` as a client sends it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GitCommit {
    /// The commit's hash: 40 hex digits, or 64 in a SHA-256 repository.
    #[serde(default, deserialize_with = "commit_hash")]
    #[cfg_attr(feature = "service", schema(pattern = "^([a-f0-9]{40}|[a-f0-9]{64})$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha1: Option<String>,
    /// The commit's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Text>,
    /// The author's name at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_username: Option<Text>,
    /// The branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<Text>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlText>,
    /// The hashes of its parents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<Text>>,
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
    /// Several as one.
    #[must_use]
    pub fn of_all(results: &[Self]) -> Self {
        let mut all = Self::default();
        for result in results {
            all.include(result);
        }
        all
    }

    /// Counts another's tests with its own, and adds its time.
    pub fn include(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.failures = self.failures.saturating_add(other.failures);
        self.errors = self.errors.saturating_add(other.errors);
        self.skipped = self.skipped.saturating_add(other.skipped);
        let durations = [self.duration, other.duration].into_iter().flatten();
        self.duration = durations.reduce(|one, other| (one + other).min(LONGEST_DURATION));
        self.timestamp = [self.timestamp, other.timestamp].into_iter().flatten().min();
    }

    /// How many went wrong.
    #[must_use]
    pub fn wrong(&self) -> u32 {
        self.failures.saturating_add(self.errors)
    }

    /// How many passed.
    #[must_use]
    pub fn passed(&self) -> u32 {
        self.total.saturating_sub(self.wrong().saturating_add(self.skipped))
    }
}

impl JunitAttestation {
    /// Every artifact that it is about: `artifact_fingerprint`, and those of `target_artifacts`.
    #[must_use]
    pub fn fingerprints(&self) -> BTreeSet<Fingerprint> {
        let targets =
            self.target_artifacts.iter().flatten().filter_map(|target| target.as_str().parse().ok());
        self.artifact_fingerprint.into_iter().chain(targets).collect()
    }

    /// The artifacts of the flow's template that it is about, in order and each once.
    #[must_use]
    pub fn template_targets(&self) -> BTreeSet<&str> {
        let names = self.target_artifacts.iter().flatten().map(ShortText::as_str);
        names.filter(|name| name.parse::<Fingerprint>().is_err()).collect()
    }
}

/// As many artifacts an attestation may name: each is told again wherever its trail is.
const MOST_TARGETS: usize = 1_000;

fn targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ShortText>>, D::Error> {
    let targets = Option::<Vec<ShortText>>::deserialize(deserializer)?;
    match targets.as_ref().map_or(0, Vec::len) {
        many if many > MOST_TARGETS => Err(serde::de::Error::custom(format!(
            "it names {many} artifacts; at most {MOST_TARGETS} were expected"
        ))),
        _ => Ok(targets),
    }
}

/// The longest duration that is taken, in seconds.
const LONGEST_DURATION: f64 = 1e9;

/// A whole number of tests, written with or without a fraction of zero.
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
    let expected = "a whole number from 0 to 1000000000 was expected";
    Err(serde::de::Error::custom(format!("{number:?} is no number of tests; {expected}")))
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(seconds) if !(0.0..=LONGEST_DURATION).contains(&seconds) => {
            let expected = "seconds from 0 to 1000000000 were expected";
            Err(serde::de::Error::custom(format!("{seconds:?} is no duration; {expected}")))
        }
        duration => Ok(duration),
    }
}

/// Whether a text is the whole hash of a commit: 40 lowercase hex digits, or 64 in a SHA-256 repository.
#[must_use]
pub fn is_commit_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn commit_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let hash = Option::<String>::deserialize(deserializer)?;
    if hash.as_deref().is_some_and(|hash| !is_commit_hash(hash)) {
        return Err(serde::de::Error::custom(
            "it is no commit hash; 40 lowercase hex digits were expected, or 64 in a SHA-256 repository",
        ));
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_fingerprints_or_names_in_the_template() {
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
    fn an_attestation_names_a_thousand_targets_and_no_more() {
        let sent = |targets: serde_json::Value| json!({"attestation_name": "unit", "junit_results": [], "target_artifacts": targets});
        let read = |targets| serde_json::from_value::<JunitAttestation>(sent(targets));
        assert_eq!(read(json!(vec!["web"; 1_000])).unwrap().template_targets().len(), 1);
        assert_eq!(read(json!(null)).unwrap().target_artifacts, None);
        assert!(read(json!(vec!["web"; 1_001])).is_err());
    }

    #[test]
    fn counts_are_whole_and_durations_finite() {
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
