//! Actions and their targets in the bootstrap file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::notifications::actions::PublicAddress;
use model::{ShortText, TargetKind, Trigger};

/// Reference to a secret: exactly one of the two keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Path of a file with the secret, relative to the bootstrap file.
    pub file: Option<PathBuf>,
    /// Environment variable with the secret.
    pub variable: Option<String>,
}

/// Notification action.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Number of the action; the number of a removed action must not be reused.
    #[schemars(range(min = 1))]
    pub number: i64,
    /// Name of the action.
    #[schemars(with = "String")]
    pub name: ShortText,
    /// Environments to watch; "*" for all.
    pub environments: Vec<String>,
    /// Events that trigger a notification.
    pub triggers: Vec<Trigger>,
    /// Recipients of the notifications.
    pub targets: Vec<Target>,
}

/// Recipient of notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name of the target, unique within the action.
    #[schemars(with = "String")]
    pub name: ShortText,
    /// Type of the target.
    #[serde(rename = "type")]
    pub kind: TargetKind,
    /// URL of a WEBHOOK, SLACK or TEAMS target, as a reference because it is a credential. A PAGERDUTY target needs it
    /// only for another address than that of PagerDuty in the US.
    pub url: Option<Reference>,
    /// Integration key of a PAGERDUTY target.
    #[serde(rename = "routingKey")]
    pub routing_key: Option<Reference>,
    /// Signing secrets of a WEBHOOK: one, or two during a rotation.
    #[serde(default)]
    pub secrets: Vec<Reference>,
    /// Channel of a SLACK target, for display only.
    pub channel: Option<Channel>,
    /// Addresses of an EMAIL target.
    #[serde(default)]
    pub recipients: Vec<String>,
    /// The part of its address that is not secret.
    #[serde(skip)]
    pub address: PublicAddress,
}

/// Chat channel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Identifier of the channel.
    pub id: Option<String>,
    /// Name of the channel.
    pub name: Option<String>,
    /// Identifier of the team.
    pub team: Option<String>,
}
