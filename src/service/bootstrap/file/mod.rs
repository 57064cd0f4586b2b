//! The file, key by key. Its types say what may stand where, and their documentation is that of the JSON
//! Schema; `resolve` follows references and finds contradictions, and nobody else sees them.

mod action;
mod approval;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::domain::evidence::access::Role;
use crate::domain::evidence::compliance::Policy;
use crate::domain::model::{
    EnvironmentName, Fingerprint, FlowName, OrganizationName, ShortText, TemplateBody, Text, Timestamp,
};

pub(super) use action::{Action, Reference, Smtp, Target};
pub(super) use approval::Approval;

/// Organizations, tokens, flows and environments of `supercargo serve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "supercargo bootstrap file")]
pub(super) struct File {
    /// Grows with each change of the file: a lower one than the database has seen is refused.
    #[schemars(range(min = 0))]
    pub(super) generation: i64,
    /// A PEM bundle of authorities that receivers of notifications may have their certificates from, beside
    /// the system's; a relative one lies beside this file.
    #[serde(default)]
    pub(super) authorities: Option<PathBuf>,
    /// The mail server, for targets of type EMAIL.
    #[serde(default)]
    pub(super) smtp: Option<Smtp>,
    /// The organizations, one at least. One that is taken out is closed with its tokens; what it recorded stays.
    pub(super) organizations: Vec<Organization>,
}

/// An organization.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Organization {
    /// Its name, {org} in paths.
    #[schemars(with = "String")]
    pub(super) name: OrganizationName,
    /// How long the history of its environments is kept after it ended, as 400d; without it, for ever.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) retention: Option<Span>,
    /// Its tokens.
    #[serde(default)]
    pub(super) tokens: Vec<Token>,
    /// Flows that have tags or a template.
    #[serde(default)]
    pub(super) flows: Vec<Flow>,
    /// Environments of which more than the name is to be known.
    #[serde(default)]
    pub(super) environments: Vec<Environment>,
    /// What is sent where when something happens.
    #[serde(default)]
    pub(super) actions: Vec<Action>,
}

/// A token; exactly one of sha256, file and variable says what it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Token {
    /// Its name: reports and attestations say that they came from it.
    pub(super) name: String,
    /// What it may do: report the environments that it lists, attest in the flows that it lists, read
    /// everything, or all of that.
    pub(super) role: Role,
    /// The environments that a token of role report is for; "*" is all.
    #[serde(default)]
    pub(super) environments: Vec<String>,
    /// The flows that a token of role attest is for; "*" is all.
    #[serde(default)]
    pub(super) flows: Vec<String>,
    /// The SHA-256 of the token, 64 lowercase hex digits.
    #[serde(default, deserialize_with = "hash")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(super) sha256: Option<Fingerprint>,
    /// A file that holds the token.
    #[serde(default)]
    pub(super) file: Option<PathBuf>,
    /// An environment variable that holds the token.
    #[serde(default)]
    pub(super) variable: Option<String>,
    /// When it ends, as 2027-01-31T00:00:00Z; without it, never.
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub(super) expires: Option<Timestamp>,
}

/// A flow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Flow {
    /// Its name.
    #[schemars(with = "String", regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub(super) name: FlowName,
    /// Tags that trails are listed by.
    #[serde(default)]
    pub(super) tags: BTreeMap<String, String>,
    /// What its trails have to hold to be compliant.
    #[serde(default)]
    pub(super) template: Option<TemplateBody>,
    /// Its approvals. One that is taken out is withdrawn; its number is never given again.
    #[serde(default)]
    pub(super) approvals: Vec<Approval>,
}

/// An environment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Environment {
    /// Its name.
    #[schemars(with = "String")]
    pub(super) name: EnvironmentName,
    /// The silence after which nobody knows what it runs, as 15m; without it, 3m.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) silent_after: Option<Span>,
    /// What it requires of each artifact that runs there.
    #[serde(default)]
    pub(super) policy: Option<Policy>,
    /// Artifacts that may run there whatever is attested of them.
    #[serde(default)]
    pub(super) allowed: Vec<Allowance>,
}

/// An artifact that may run whatever is attested of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowance {
    /// Which, 64 lowercase hex digits.
    #[schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(super) artifact: Fingerprint,
    /// Why.
    #[schemars(with = "String")]
    pub(super) reason: Text,
    /// Who says so.
    #[schemars(with = "String")]
    pub(super) author: ShortText,
    /// Until when, as 2027-01-31T00:00:00Z; without it, for ever.
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
        let wrong = || {
            serde::de::Error::custom(format!("{text:?} is no span of time; 90s, 15m or 400d was expected"))
        };
        let span: jiff::Span = text.parse().map_err(|_| wrong())?;
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(wrong());
        }
        let days = jiff::SpanRelativeTo::days_are_24_hours();
        let duration = span.to_duration(days).map_err(|_| wrong())?;
        Duration::try_from(duration).ok().filter(|span| !span.is_zero()).map(Self).ok_or_else(wrong)
    }
}

/// Where it is none, it may be the token itself: it is not quoted.
fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Fingerprint>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let expected = "64 lowercase hex digits were expected: the SHA-256 of the token, and not itself";
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
    let wrong = || {
        E::custom(format!(
            "{text:?} is no time; RFC 3339 as 2027-01-31T00:00:00Z, before 9999-12-30, was expected"
        ))
    };
    let time: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    Ok(Timestamp::from_micros(time.as_microsecond()))
}

/// The JSON Schema of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}
