//! The public policy file.

use serde::Deserialize;

use super::expression;
use super::rule::{ApprovalRule, AttestationRule, FlowRule, Rule};
use super::{Policy, PolicyVersion};
use model::escape::Escaped;
use model::yaml::{self, YamlError};

/// Maximum size of a policy file, in bytes.
pub const MAX_FILE: usize = 128 * 1024;

/// Maximum number of attestations, and of exceptions, of a policy.
pub const MAX_RULES: usize = 100;

/// The end of `_schema`: the version of the format.
const SCHEMA_END: &str = "/v1";

#[derive(Debug, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("the policy file is too large: expected at most {MAX_FILE} bytes, got {0}")]
    TooLarge(usize),
    /// A syntax error, or a key with an unexpected type.
    #[error("invalid policy file at {}: {}", Escaped(key), Escaped(&source.to_string()))]
    Yaml {
        key: String,
        /// The problem, with its line.
        source: Box<serde_saphyr::Error>,
    },
    #[error("invalid policy file at {}: {}", Escaped(key), Escaped(problem))]
    Value { key: String, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "_schema")]
    schema: String,
    artifacts: Option<Artifacts>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Artifacts {
    provenance: Option<FlowRule>,
    #[serde(rename = "trail-compliance", default)]
    trail_compliance: Option<FlowRule>,
    attestations: Option<Vec<AttestationRule>>,
    approval: Option<ApprovalRule>,
    #[serde(default)]
    digests: Digests,
}

/// The digests of an image whose evidence counts.
#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Digests {
    /// An index and each of its manifests.
    #[default]
    Image,
    /// Only the digest that runs.
    Exact,
}

impl Policy {
    /// Parses a policy file.
    ///
    /// # Errors
    ///
    /// [`InvalidPolicy`] with the key, and with its line if it can be determined.
    pub fn parse(name: PolicyVersion, text: &str) -> Result<Self, InvalidPolicy> {
        if text.len() > MAX_FILE {
            return Err(InvalidPolicy::TooLarge(text.len()));
        }
        let file: File = yaml::read(text.as_bytes())
            .map_err(|YamlError { path: key, source }| InvalidPolicy::Yaml { key, source })?;
        let invalid = |key: &str, problem: String| Err(InvalidPolicy::Value { key: key.to_owned(), problem });
        if !file.schema.ends_with(SCHEMA_END) {
            let schema = Escaped(&file.schema);
            return invalid(
                "_schema",
                format!("expected a text that ends in {SCHEMA_END}, got \"{schema}\""),
            );
        }
        let artifacts = file.artifacts.unwrap_or_default();
        let is_exact = artifacts.digests == Digests::Exact;
        let mut rules = Vec::new();
        for (key, rule) in
            [("provenance", &artifacts.provenance), ("trail-compliance", &artifacts.trail_compliance)]
        {
            let number = rule.as_ref().map_or(0, |rule| rule.exceptions.len());
            if number > MAX_RULES {
                let problem = format!("expected at most {MAX_RULES} exceptions, got {number}");
                return invalid(&format!("artifacts.{key}.exceptions"), problem);
            }
        }
        rules.extend(artifacts.provenance.map(Rule::Provenance));
        rules.extend(artifacts.trail_compliance.map(Rule::TrailCompliance));
        let attestations = artifacts.attestations.unwrap_or_default();
        if attestations.len() > MAX_RULES {
            let problem = format!("expected at most {MAX_RULES} attestations, got {}", attestations.len());
            return invalid("artifacts.attestations", problem);
        }
        for (number, rule) in attestations.into_iter().enumerate() {
            match rule.checked() {
                Ok(rule) => rules.push(Rule::Attestation(rule)),
                Err(problem) => return invalid(&format!("artifacts.attestations[{number}]"), problem),
            }
        }
        if let Some(approval) = artifacts.approval {
            if approval.count == 0 {
                return invalid("artifacts.approval.count", "expected a number from 1, got 0".to_owned());
            }
            rules.push(Rule::Approval(approval));
        }
        match expression::compile_patterns(rules.iter().flat_map(Rule::conditions)) {
            Ok(()) => Ok(Self { name, rules, is_exact }),
            Err(problem) => invalid("artifacts", problem),
        }
    }
}

#[cfg(test)]
mod tests;
