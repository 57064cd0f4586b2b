//! Attestations, as clients send them (operation 5 and the other types).
//!
//! All types share [`AttestationFields`]. `junit` has the fields of test results, and `own_fields` those of the other types.

mod junit;
mod own_fields;

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

pub use self::junit::{JunitFields, JunitResult};
pub use self::own_fields::{
    BundleFields, CustomFields, GenericFields, JiraFields, PullRequestFields, SnykFields, SonarFields,
    SystemFields, SystemType,
};
use super::{
    AnyJson, Fingerprint, FreeForm, GitCommit, RepositoryInfo, ShortText, Text, UnknownFields, UrlText,
};

/// The fields of `data_json` that every type of attestation has (interface, "JUnit attestation input").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttestationFields {
    /// The attestation's name, for example `unit-tests`.
    pub attestation_name: ShortText,
    /// The origin, for example the page of a pipeline. Some pipelines send a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_url: Option<UrlText>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// The artifact that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_fingerprint: Option<Fingerprint>,
    /// More artifacts: fingerprints, or names in the flow's template.
    #[serde(default, deserialize_with = "targets", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1_000))]
    pub target_artifacts: Option<Vec<ShortText>>,
    /// The commit that it is about.
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
    #[cfg_attr(feature = "openapi", schema(value_type = AnyJson, required = false))]
    pub user_data: Option<AnyJson>,
}

/// An attestation: the common fields, and those of its type.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SentAttestation<T> {
    /// The common fields.
    #[serde(flatten)]
    pub fields: AttestationFields,
    /// The fields of its type.
    #[serde(flatten)]
    pub own: T,
}

/// A JUnit attestation (operation 5).
pub type JunitAttestation = SentAttestation<JunitFields>;

impl AttestationFields {
    pub const NAMES: [&str; 10] = [
        "attestation_name",
        "origin_url",
        "description",
        "artifact_fingerprint",
        "target_artifacts",
        "git_commit_info",
        "repo_info",
        "external_urls",
        "annotations",
        "user_data",
    ];

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

/// Paths of the fields that this version does not know: at the top, of the commit and of the repository.
#[must_use]
pub fn unknown_fields(
    top: &UnknownFields,
    commit: Option<&GitCommit>,
    repository: Option<&RepositoryInfo>,
) -> Vec<String> {
    let commit = commit.map(|commit| ("git_commit_info.", &commit.unknown));
    let repository = repository.map(|repository| ("repo_info.", &repository.unknown));
    let all = [Some(("", top)), commit, repository].into_iter().flatten();
    all.flat_map(|(parent, unknown)| unknown.names().map(move |name| format!("{parent}{name}"))).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_split_into_fingerprints_and_template_names() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let sent = json!({
            "attestation_name": "unit",
            "artifact_fingerprint": one, "target_artifacts": ["web", two, one, "web", "api"],
        });
        let read: AttestationFields = serde_json::from_value(sent).unwrap();
        let fingerprints: Vec<String> = read.fingerprints().iter().map(ToString::to_string).collect();
        assert_eq!(fingerprints, [one, two]);
        assert_eq!(read.template_targets().into_iter().collect::<Vec<_>>(), ["api", "web"]);
    }

    #[test]
    fn more_than_1000_targets_are_rejected() {
        let sent =
            |targets: serde_json::Value| json!({"attestation_name": "unit", "target_artifacts": targets});
        let read = |targets| serde_json::from_value::<AttestationFields>(sent(targets));
        assert_eq!(read(json!(vec!["web"; 1_000])).unwrap().template_targets().len(), 1);
        assert_eq!(read(json!(null)).unwrap().target_artifacts, None);
        assert!(read(json!(vec!["web"; 1_001])).is_err());
    }
}
