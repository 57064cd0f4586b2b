//! The short form of a policy in the bootstrap file: attestations of single flows. It becomes a policy file when the bootstrap
//! file is read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::rule::ANY;
use model::EnvironmentName;

/// The format of the policy file.
const SCHEMA: &str = "https://example.com/schemas/policy/environment/v1";

/// The requirements of an environment for each artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InlinePolicy {
    /// Required attestations by flow and name. The latest of each must pass.
    #[serde(default)]
    pub attestations: Vec<Requirement>,
    /// Whether an approval is required, for this environment or any.
    #[serde(default)]
    pub approval: bool,
}

/// A required attestation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The flow. Attestations of other flows with the same name do not count.
    pub flow: String,
    /// The attestation's name.
    pub name: String,
    /// Minimum number of tests that ran: all except skipped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u32>,
    /// Maximum number of skipped tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skipped: Option<u32>,
}

impl InlinePolicy {
    /// The name of the policy that an environment gets from the short form.
    #[must_use]
    pub fn name(environment: &EnvironmentName) -> String {
        format!("environment:{environment}")
    }

    /// The policy file with the same requirements.
    ///
    /// # Errors
    ///
    /// [`serde_saphyr::ser::Error`] if it cannot be written.
    pub fn file(&self) -> Result<String, serde_saphyr::ser::Error> {
        let attestations = self.attestations.iter().map(|required| {
            let mut rule = json!(required);
            if let Some(rule) = rule.as_object_mut() {
                rule.insert("type".to_owned(), json!(ANY));
            }
            rule
        });
        let mut artifacts = Map::new();
        artifacts.insert("attestations".to_owned(), attestations.collect());
        if self.approval {
            artifacts.insert("approval".to_owned(), json!({ "required": true }));
        }
        serde_saphyr::to_string(&json!({ "_schema": SCHEMA, "artifacts": artifacts }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, PolicyVersion, Rule};

    #[test]
    fn short_form_and_its_policy_file_have_the_same_rules() {
        let names = [
            "unit",
            "yes",
            "1.0",
            "~",
            "- a",
            "a: b",
            "a #b",
            "\"'\\",
            "é\u{2764}\u{fe0f}",
            " x ",
            "&a",
            "%",
            "@",
            "{}",
        ];
        let required = names.map(|name| Requirement {
            flow: "1e3".to_owned(),
            name: name.to_owned(),
            min_tests: Some(5),
            max_skipped: None,
        });
        let inline = InlinePolicy { attestations: required.to_vec(), approval: true };
        let name = InlinePolicy::name(&"prod".parse().unwrap());
        let file = inline.file().unwrap();
        let policy = Policy::parse(PolicyVersion { name, version: 1 }, &file).unwrap();
        let expected = required.map(|required| (Some(required.flow), required.name, Some(5), true));
        let found = policy.rules.iter().filter_map(|rule| match rule {
            Rule::Attestation(rule) => Some((
                rule.flow.as_ref().map(ToString::to_string),
                rule.name.clone(),
                rule.min_tests,
                rule.must_be_compliant,
            )),
            _ => None,
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{file}");
        assert_eq!(policy.rules.last().unwrap().to_string(), "1 person must approve the artifact", "{file}");
    }
}
