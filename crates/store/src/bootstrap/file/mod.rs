//! What the bootstrap file declares for an organization.
//!
//! The JSON Schema and docs/reference/configuration.md are generated from the doc comments. The values are unresolved until
//! `service::bootstrap::resolve` has checked them and filled in what they refer to or imply: `sha256` of a token; `text`,
//! `needs_trails` and `flows` of a policy, and a policy for `policy` of an environment; `audience` of an issuer with
//! sign-in, and the `keys` of its file; `resolved` of trusted signers; and the `address` of a target.

mod action;
mod approval;
mod issuer;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::Error;
use crate::database::columns::{duration, micros};
use model::access::{Role, Scope};
use model::{
    EnvironmentName, Fingerprint, FlowName, OrganizationName, PolicyName, ShortText, TemplateBody, Text,
    Timestamp, TokenName, column_type,
};
use rules::ownership::Pattern;
use rules::policy::InlinePolicy;

pub use action::{Action, Channel, Reference, Target};
pub use approval::{Approval, SignOff};
pub use issuer::{Issuer, Jwks, SignIn};
pub use trust::{Trust, TrustedKey, TrustedRoot};

/// Organization.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Organization {
    /// Name of the organization, {org} in paths.
    #[schemars(with = "String")]
    pub name: OrganizationName,
    /// Retention of ended history, such as 400d (default: unlimited).
    #[schemars(with = "Option<String>")]
    pub retention: Option<Span>,
    /// Retention of attached files after their latest attestation, such as 400d (default: unlimited). Their SHA-256, size and
    /// name are kept.
    #[schemars(with = "Option<String>")]
    pub attachment_retention: Option<Span>,
    /// Retention of the audit log, such as 400d (default: unlimited).
    #[schemars(with = "Option<String>")]
    pub audit_retention: Option<Span>,
    /// Tokens of the organization.
    #[serde(default)]
    pub tokens: Vec<Token>,
    /// Issuers whose tokens the organization accepts, in place of static tokens.
    #[serde(default)]
    pub issuers: Vec<Issuer>,
    /// Signers whose evidence the organization accepts, at most 20 entries.
    #[serde(default)]
    pub trust: Vec<Trust>,
    /// Flows with settings or approvals.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Policies that environments name. Removing one detaches it everywhere.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// Environments with settings. They precede others on pages, and do not count as new environments of a token.
    #[serde(default)]
    pub environments: Vec<Environment>,
    /// Notification actions.
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// API token; requires exactly one of sha256, file and variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Token {
    /// Name of the token. It is the author of its reports, attestations and approvals.
    #[schemars(with = "String")]
    pub name: TokenName,
    /// Permissions of the token. They are to report to the listed environments, attest to the listed flows, approve in the
    /// listed flows for the listed environments (and read), read everything, or all of these.
    pub role: Role,
    /// Environments of a token with the role report or approve; "*" for all.
    #[serde(default)]
    pub environments: Vec<String>,
    /// Whether its reports create environments that this file does not list. Only for the role report.
    #[serde(default)]
    pub create: bool,
    /// Flows of a token with the role attest or approve; "*" for all.
    #[serde(default)]
    pub flows: Vec<String>,
    /// SHA-256 of the token, 64 lowercase hex digits.
    #[serde(default, deserialize_with = "hash")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub sha256: Option<Fingerprint>,
    /// Path of a file with the token, relative to the bootstrap file.
    pub file: Option<PathBuf>,
    /// Environment variable with the token.
    pub variable: Option<String>,
    /// Expiry of the token, such as 2027-01-31T00:00:00Z (default: never).
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires: Option<Timestamp>,
}

/// Flow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Flow {
    /// Name of the flow.
    #[schemars(with = "String", regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub name: FlowName,
    /// Names of the flow's repositories, such as acme/cart or acme/lib-*. Its attestations must name one of them or none, and
    /// those of flows that do not list the repository are rejected.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub repositories: Vec<Pattern>,
    /// Names of the flow's images without tag and digest, such as registry.example.com/acme/cart*. An artifact that ran only
    /// under other names cannot be attested in the flow.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub images: Vec<Pattern>,
    /// Tags by which trails can be filtered.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub tags: BTreeMap<ShortText, String>,
    /// Attestations that its trails require to be compliant.
    pub template: Option<TemplateBody>,
    /// Approvals of the flow. Removing one withdraws it; its number must not be reused.
    #[serde(default)]
    pub approvals: Vec<Approval>,
}

/// Policy; requires exactly one of text and file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Name of the policy.
    #[schemars(with = "String")]
    pub name: PolicyName,
    /// Description of the policy.
    #[serde(default)]
    #[schemars(with = "String")]
    pub description: Text,
    /// Content of the policy file, as text.
    pub text: Option<String>,
    /// Path of the policy file, relative to the bootstrap file.
    pub file: Option<PathBuf>,
    /// Whether it requires that trails comply with their templates.
    #[serde(skip)]
    pub needs_trails: bool,
    /// The flows that its rules name.
    #[serde(skip)]
    pub flows: BTreeSet<String>,
}

/// Environment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Environment {
    /// Name of the environment.
    #[schemars(with = "String", regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub name: EnvironmentName,
    /// Time without a report after which the environment is silent, such as 15m (default: 3m).
    #[schemars(with = "Option<String>")]
    pub silent_after: Option<Span>,
    /// Minimum number of running artifacts. Below it, the environment is not compliant.
    #[schemars(range(min = 1))]
    pub min_artifacts: Option<u32>,
    /// Maximum drop of the number of running artifacts, in percent. After a larger one, the environment is not compliant until
    /// enough artifacts run again, or this value changes.
    #[schemars(range(max = 99))]
    pub max_drop: Option<u32>,
    /// Whether reports that exclude pods by an annotation are rejected.
    #[serde(default)]
    pub forbid_exclusion: bool,
    /// Requirements for each running artifact.
    pub policy: Option<InlinePolicy>,
    /// Names of policies of this file, at most 10, in addition to the requirements of policy.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub policies: Vec<PolicyName>,
    /// Artifacts and images that are compliant without attestations.
    #[serde(default)]
    pub allowed: Vec<Allowance>,
}

/// Exception; requires exactly one of artifact and image.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// Digest of the artifact, 64 lowercase hex digits.
    #[schemars(with = "Option<String>", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub artifact: Option<Fingerprint>,
    /// Name of images without tag and digest, such as registry.k8s.io/**, in which * stands for any characters.
    #[schemars(with = "Option<String>")]
    pub image: Option<Pattern>,
    /// Reason for the exception.
    #[schemars(with = "String")]
    pub reason: Text,
    /// Author of the exception.
    #[schemars(with = "String")]
    pub author: ShortText,
    /// Expiry of the exception, such as 2027-01-31T00:00:00Z (default: never).
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub expires: Option<Timestamp>,
}

/// A value that was not filled in: a defect.
pub(crate) fn unresolved(value: &'static str) -> Error {
    Error::Serialize(serde::ser::Error::custom(format_args!("{value} is missing")))
}

impl Token {
    /// Its hash, which fails for an unresolved token.
    pub fn hash(&self) -> Result<Fingerprint, Error> {
        self.sha256.ok_or_else(|| unresolved("the hash of a token"))
    }

    /// The environments and flows that the role applies to.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { environments: self.environments.clone(), flows: self.flows.clone() }
    }
}

impl Allowance {
    /// The artifact; for images, the hash of the pattern. `None` unless it is exactly one of both.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match (self.artifact, &self.image) {
            (Some(artifact), None) => Some(artifact),
            (None, Some(image)) => {
                Some(Fingerprint::from_content(format!("image:{}", image.as_str()).as_bytes()))
            }
            _ => None,
        }
    }

    /// What it allows, as text.
    #[must_use]
    pub fn subject(&self) -> String {
        let image = self.image.as_ref().map(|image| image.as_str().to_owned());
        image.or(self.artifact.map(|artifact| artifact.to_string())).unwrap_or_default()
    }
}

/// A span of time, as `90s`, `15m` or `400d`; a day has 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let invalid = || {
            let message = format!("invalid duration {text:?}: expected a duration such as 90s, 15m or 400d");
            serde::de::Error::custom(message)
        };
        let span: jiff::Span = text.parse().map_err(|_| invalid())?;
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(invalid());
        }
        let days = jiff::SpanRelativeTo::days_are_24_hours();
        let duration = span.to_duration(days).map_err(|_| invalid())?;
        Duration::try_from(duration).ok().filter(|span| !span.is_zero()).map(Self).ok_or_else(invalid)
    }
}

column_type!(Span, i64, |span| micros(span.0), |micros| Ok(Span(duration(micros))));

/// Does not quote an invalid value, because it may be the token itself.
fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Fingerprint>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let expected = "expected 64 lowercase hex digits: the SHA-256 of the token, not the token itself";
    text.parse().map(Some).map_err(|_| serde::de::Error::custom(expected))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    read_time(&text).map(Some)
}

fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    read_time(&String::deserialize(deserializer)?)
}

fn read_time<E: serde::de::Error>(text: &str) -> Result<Timestamp, E> {
    let invalid = || {
        E::custom(format!(
            "invalid time {text:?}: expected RFC 3339 such as 2027-01-31T00:00:00Z, before 9999-12-30"
        ))
    };
    let time: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
    Ok(Timestamp::from_micros(time.as_microsecond()))
}
