//! The short form of a policy in the bootstrap file: attestations of single flows. It becomes a policy file when the bootstrap
//! file is read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::rule::any;
use crate::trust::{OwnerPattern, SignerRule};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The flow. Attestations of other flows with the same name do not count.
    pub flow: String,
    /// The attestation's name.
    pub name: String,
    /// The attestation's type (default: any).
    #[serde(rename = "type", default = "any")]
    pub kind: String,
    /// Minimum number of tests that ran: all except skipped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_tests: Option<u32>,
    /// Maximum number of skipped tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skipped: Option<u32>,
    /// Who must have signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SignerRule>,
    /// What must have built the artifact, as signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub builder: Option<OwnerPattern>,
    /// The repository that it must have been built from, as signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub source: Option<OwnerPattern>,
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
        let mut artifacts = Map::new();
        artifacts.insert("attestations".to_owned(), json!(self.attestations));
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
            kind: any(),
            min_tests: Some(5),
            max_skipped: None,
            signer: None,
            builder: None,
            source: None,
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

    #[test]
    fn short_form_requires_signer_builder_and_source_as_a_policy_file_does() {
        const RULE: &str = r#"{"flow": "cart", "name": "provenance", "type": "slsa-provenance",
            "signer": {"trust": "github", "issuer": "https://i", "subject": "https://h/acme/*"},
            "builder": "https://h/acme/*", "source": "https://h/acme/cart"}"#;
        let inline: InlinePolicy = serde_json::from_str(&format!("{{\"attestations\": [{RULE}]}}")).unwrap();
        let schema = format!("{{\"_schema\": \"{SCHEMA}\", \"artifacts\": {{\"attestations\": [{RULE}]}}}}");
        let rules = |text: &str| {
            let name = PolicyVersion { name: "environment:prod".to_owned(), version: 1 };
            Policy::parse(name, text).unwrap().rules
        };
        assert_eq!(rules(&inline.file().unwrap()), rules(&schema));
        for (key, value) in [("builder", "https://h/*"), ("signer", "x")] {
            let invalid =
                format!(r#"{{"attestations": [{{"flow": "cart", "name": "x", "{key}": "{value}"}}]}}"#);
            assert!(serde_json::from_str::<InlinePolicy>(&invalid).is_err(), "{key}");
        }
    }
}
