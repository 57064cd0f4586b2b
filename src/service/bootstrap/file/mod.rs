//! Types of the bootstrap file, used only by `resolve`.
//!
//! The JSON Schema and docs/configuration.md are generated from their doc comments. `resolve` follows references and
//! finds contradictions.

mod action;
mod approval;
mod issuer;
mod policy;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::domain::evidence::access::Role;
use crate::domain::evidence::ownership::Pattern;
use crate::domain::evidence::policy::InlinePolicy;
use crate::domain::model::{
    EnvironmentName, Fingerprint, FlowName, OrganizationName, PolicyName, ShortText, TemplateBody, Text,
    Timestamp,
};

pub(super) use action::{Action, Reference, Smtp, Target};
pub(super) use approval::Approval;
pub(super) use issuer::{Issuer, Rule, SignIn};
pub(super) use policy::Policy;

/// Organizations, tokens, flows and environments of `supercargo serve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "supercargo bootstrap file")]
pub(super) struct File {
    /// Generation of the file. Increment it with each change; the service never applies a lower one than before.
    #[schemars(range(min = 0))]
    pub(super) generation: i64,
    /// Path of a PEM file with certificate authorities for notification targets, in addition to those of the system.
    /// Relative to the bootstrap file.
    pub(super) authorities: Option<PathBuf>,
    /// Mail server for targets of type EMAIL.
    pub(super) smtp: Option<Smtp>,
    /// Whether people can sign in to pages with a token (default: true).
    pub(super) token_sign_in: Option<bool>,
    /// Organizations, at least one. Removing one disables it and its tokens; its data stays, and its last retention still applies.
    pub(super) organizations: Vec<Organization>,
}

/// Organization.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Organization {
    /// Name of the organization, {org} in paths.
    #[schemars(with = "String")]
    pub(super) name: OrganizationName,
    /// Retention of ended history, such as 400d (default: unlimited).
    #[schemars(with = "Option<String>")]
    pub(super) retention: Option<Span>,
    /// Retention of attached files after their latest attestation, such as 400d (default: unlimited). Their SHA-256, size and
    /// name are kept.
    #[schemars(with = "Option<String>")]
    pub(super) attachment_retention: Option<Span>,
    /// Retention of the audit log, such as 400d (default: unlimited).
    #[schemars(with = "Option<String>")]
    pub(super) audit_retention: Option<Span>,
    /// Tokens of the organization.
    #[serde(default)]
    pub(super) tokens: Vec<Token>,
    /// Issuers whose tokens the organization accepts, in place of static tokens.
    #[serde(default)]
    pub(super) issuers: Vec<Issuer>,
    /// Flows with settings or approvals.
    #[serde(default)]
    pub(super) flows: Vec<Flow>,
    /// Policies that environments name. Removing one detaches it everywhere.
    #[serde(default)]
    pub(super) policies: Vec<Policy>,
    /// Environments with settings. They precede others on pages, and do not count as new environments of a token.
    #[serde(default)]
    pub(super) environments: Vec<Environment>,
    /// Notification actions.
    #[serde(default)]
    pub(super) actions: Vec<Action>,
}

/// API token; requires exactly one of sha256, file and variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Token {
    /// Name of the token, shown as the author of its reports, attestations and approvals.
    pub(super) name: String,
    /// Permissions: report to the listed environments, attest to the listed flows, approve in the listed flows for the listed
    /// environments (and read), read everything, or all of these.
    pub(super) role: Role,
    /// Environments of a token with the role report or approve; "*" for all.
    #[serde(default)]
    pub(super) environments: Vec<String>,
    /// Whether reports of a token with the role report create environments that this file does not list.
    #[serde(default)]
    pub(super) create: bool,
    /// Flows of a token with the role attest or approve; "*" for all.
    #[serde(default)]
    pub(super) flows: Vec<String>,
    /// SHA-256 of the token, 64 lowercase hex digits.
    #[serde(default, deserialize_with = "hash")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(super) sha256: Option<Fingerprint>,
    /// Path of a file with the token, relative to the bootstrap file.
    pub(super) file: Option<PathBuf>,
    /// Environment variable with the token.
    pub(super) variable: Option<String>,
    /// Expiry of the token, such as 2027-01-31T00:00:00Z (default: never).
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub(super) expires: Option<Timestamp>,
}

/// Flow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Flow {
    /// Name of the flow.
    #[schemars(with = "String", regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub(super) name: FlowName,
    /// Names of the flow's repositories, such as acme/cart or acme/lib-*. Its attestations must name one of them or none, and
    /// those of flows that do not list the repository are rejected.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) repositories: Vec<Pattern>,
    /// Names of the flow's images without tag and digest, such as registry.example.com/acme/cart*. An artifact that ran only
    /// under other names cannot be attested in the flow.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) images: Vec<Pattern>,
    /// Tags by which trails can be filtered.
    #[serde(default)]
    pub(super) tags: BTreeMap<String, String>,
    /// Attestations that its trails require to be compliant.
    pub(super) template: Option<TemplateBody>,
    /// Approvals of the flow. Removing one withdraws it; its number must not be reused.
    #[serde(default)]
    pub(super) approvals: Vec<Approval>,
}

/// Environment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Environment {
    /// Name of the environment.
    #[schemars(with = "String")]
    pub(super) name: EnvironmentName,
    /// Time without a report after which the environment is silent, such as 15m (default: 3m).
    #[schemars(with = "Option<String>")]
    pub(super) silent_after: Option<Span>,
    /// Minimum number of running artifacts. Below it, the environment is not compliant.
    #[schemars(range(min = 1))]
    pub(super) min_artifacts: Option<u32>,
    /// Maximum drop of the number of running artifacts, in percent. After a larger one, the environment is not compliant until
    /// enough artifacts run again, or this value changes.
    #[schemars(range(max = 99))]
    pub(super) max_drop: Option<u32>,
    /// Requirements for each running artifact.
    pub(super) policy: Option<InlinePolicy>,
    /// Names of policies of this file, at most 10, in addition to the requirements of policy.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) policies: Vec<PolicyName>,
    /// Artifacts and images that are compliant without attestations.
    #[serde(default)]
    pub(super) allowed: Vec<Allowance>,
}

/// Exception; requires exactly one of artifact and image.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowance {
    /// Digest of the artifact, 64 lowercase hex digits.
    #[schemars(with = "Option<String>", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(super) artifact: Option<Fingerprint>,
    /// Name of images without tag and digest, such as registry.k8s.io/**, in which * stands for any characters.
    #[schemars(with = "Option<String>")]
    pub(super) image: Option<Pattern>,
    /// Reason for the exception.
    #[schemars(with = "String")]
    pub(super) reason: Text,
    /// Author of the exception.
    #[schemars(with = "String")]
    pub(super) author: ShortText,
    /// Expiry of the exception, such as 2027-01-31T00:00:00Z (default: never).
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub(super) expires: Option<Timestamp>,
}

/// A span of time, as `90s`, `15m` or `400d`; a day has 24 hours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span(pub(super) Duration);

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

pub(super) fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
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

/// The JSON Schema of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}
