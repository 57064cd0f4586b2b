//! Actions, their targets and the mail server in the bootstrap file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::model::{ShortText, TargetKind, Trigger};
use crate::service::notify::SmtpTls;

/// Reference to a secret: exactly one of the two keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Reference {
    /// Path of a file with the secret, relative to the bootstrap file.
    pub(in crate::service::bootstrap) file: Option<PathBuf>,
    /// Environment variable with the secret.
    pub(in crate::service::bootstrap) variable: Option<String>,
}

/// Mail server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Smtp {
    /// Host name, which must match the server's certificate.
    pub(in crate::service::bootstrap) host: String,
    /// Port (default: 587 for starttls, 465 for implicit, 25 for none).
    #[schemars(range(min = 1))]
    pub(in crate::service::bootstrap) port: Option<u16>,
    /// Encryption of the connection (default: starttls).
    #[serde(default)]
    pub(in crate::service::bootstrap) tls: SmtpTls,
    /// Sender address, such as supercargo@example.com.
    pub(in crate::service::bootstrap) from: String,
    /// Username; without one, mail is sent without authentication.
    pub(in crate::service::bootstrap) username: Option<String>,
    /// Password of the user.
    pub(in crate::service::bootstrap) password: Option<Reference>,
}

/// Notification action.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Action {
    /// Number of the action; the number of a removed action must not be reused.
    #[schemars(range(min = 1))]
    pub(in crate::service::bootstrap) number: i64,
    /// Name of the action.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: ShortText,
    /// Environments to watch; "*" for all.
    pub(in crate::service::bootstrap) environments: Vec<String>,
    /// Events that trigger a notification.
    pub(in crate::service::bootstrap) triggers: Vec<Trigger>,
    /// Recipients of the notifications.
    pub(in crate::service::bootstrap) targets: Vec<Target>,
}

/// Recipient of notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Target {
    /// Name of the target, unique within the action.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: ShortText,
    /// Type of the target.
    #[serde(rename = "type")]
    pub(in crate::service::bootstrap) kind: TargetKind,
    /// URL of a WEBHOOK, SLACK or TEAMS target, as a reference because it is a credential. A PAGERDUTY target needs it
    /// only for another address than that of PagerDuty in the US.
    pub(in crate::service::bootstrap) url: Option<Reference>,
    /// Integration key of a PAGERDUTY target.
    #[serde(rename = "routingKey")]
    pub(in crate::service::bootstrap) routing_key: Option<Reference>,
    /// Signing secrets of a WEBHOOK: one, or two during a rotation.
    #[serde(default)]
    pub(in crate::service::bootstrap) secrets: Vec<Reference>,
    /// Channel of a SLACK target, for display only.
    pub(in crate::service::bootstrap) channel: Option<Channel>,
    /// Addresses of an EMAIL target.
    #[serde(default)]
    pub(in crate::service::bootstrap) recipients: Vec<String>,
}

/// Chat channel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Channel {
    /// Identifier of the channel.
    pub(in crate::service::bootstrap) id: Option<String>,
    /// Name of the channel.
    pub(in crate::service::bootstrap) name: Option<String>,
    /// Identifier of the team.
    pub(in crate::service::bootstrap) team: Option<String>,
}
