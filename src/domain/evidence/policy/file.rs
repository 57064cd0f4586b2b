//! The public policy file.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::expression::{self, Condition};
use super::rule::{ANY, ApprovalRule, AttestationRule, FlowRule, Rule, yes};
use super::{Policy, PolicyVersion};
use crate::domain::escape::Escaped;
use crate::domain::model::FlowName;
use crate::domain::yaml::{self, YamlError};

/// Maximum size of a policy file, in bytes.
pub const MAX_FILE: usize = 128 * 1024;

/// Maximum number of attestations, and of exceptions, of a policy.
pub const MAX_RULES: usize = 100;

/// The end of `_schema`: the version of the format.
const SCHEMA_END: &str = "/v1";

/// The types of attestations without a name of their own.
const TYPES: [&str; 9] =
    ["generic", "junit", "snyk", "pull_request", "jira", "sonar", "decision", "sbom", ANY];

/// The start of a type with a name of its own.
const CUSTOM: &str = "custom:";

/// An invalid policy file.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPolicy {
    /// The file is too large.
    #[error("the policy file is too large: expected at most {MAX_FILE} bytes, got {0}")]
    TooLarge(usize),
    /// A syntax error, or a key with an unexpected type.
    #[error("invalid policy file at {}: {}", Escaped(key), Escaped(&source.to_string()))]
    Yaml {
        /// Path of the key.
        key: String,
        /// The problem, with its line.
        source: Box<serde_saphyr::Error>,
    },
    /// An invalid value.
    #[error("invalid policy file at {}: {}", Escaped(key), Escaped(problem))]
    Value {
        /// Path of the key.
        key: String,
        /// The problem.
        problem: String,
    },
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
    attestations: Option<Vec<Attestation>>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attestation {
    #[serde(default = "any")]
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "if", default)]
    expression: Option<Condition>,
    #[serde(default, deserialize_with = "expression::deserialize_cel")]
    when: Option<Condition>,
    #[serde(default = "yes")]
    must_be_compliant: bool,
    for_control: Option<String>,
    flow: Option<FlowName>,
    #[serde(default, deserialize_with = "age")]
    max_age: Option<Duration>,
    min_tests: Option<u32>,
    max_skipped: Option<u32>,
}

fn any() -> String {
    ANY.to_owned()
}

/// A duration such as `12h`, `30d` or `4w`.
fn age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let parse = || {
        let unit = text.chars().next_back()?;
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            _ => return None,
        };
        // A longer age would exceed the range of time.
        let age = number.checked_mul(seconds).filter(|age| (1..=36_500 * 86_400).contains(age))?;
        Some(Duration::from_secs(age))
    };
    parse().map(Some).ok_or_else(|| {
        let text = Escaped(&text);
        serde::de::Error::custom(format!("invalid age \"{text}\": expected an age such as 12h, 30d or 4w"))
    })
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
        for (number, attestation) in attestations.into_iter().enumerate() {
            match attestation.rule() {
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

impl Attestation {
    fn rule(self) -> Result<AttestationRule, String> {
        let Self { name, kind, expression, when, .. } = self;
        if name == ANY && kind == ANY {
            return Err("name and type must not both be *".to_owned());
        }
        let fits = |text: &str| !text.is_empty() && text.len() <= 255 && !text.chars().any(char::is_control);
        if !fits(&name) {
            return Err("name: expected 1 to 255 bytes without control characters".to_owned());
        }
        let is_custom = kind.strip_prefix(CUSTOM).is_some_and(fits);
        if !is_custom && !TYPES.contains(&kind.as_str()) {
            let types = TYPES.join(", ");
            return Err(format!("unknown type \"{}\": expected {types} or {CUSTOM}NAME", Escaped(&kind)));
        }
        if expression.is_some() && when.is_some() {
            return Err("expected at most one of if and when".to_owned());
        }
        Ok(AttestationRule {
            name,
            kind,
            condition: expression.or(when),
            must_be_compliant: self.must_be_compliant,
            for_control: self.for_control,
            flow: self.flow.map(|flow| flow.as_str().to_owned()),
            max_age: self.max_age,
            min_tests: self.min_tests,
            max_skipped: self.max_skipped,
        })
    }
}

#[cfg(test)]
mod tests;
