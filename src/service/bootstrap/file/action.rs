//! Actions, their targets and the mail server in the file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::model::{ShortText, TargetKind, Trigger};
use crate::service::notify::SmtpTls;

/// Where a secret stands: exactly one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Reference {
    /// A file that holds it; a relative one lies beside this file.
    #[serde(default)]
    pub(in crate::service::bootstrap) file: Option<PathBuf>,
    /// An environment variable that holds it.
    #[serde(default)]
    pub(in crate::service::bootstrap) variable: Option<String>,
}

/// A mail server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Smtp {
    /// Its name, which its certificate has to bear.
    pub(in crate::service::bootstrap) host: String,
    /// Its port; without it, 587 for starttls, 465 for implicit and 25 for none.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(in crate::service::bootstrap) port: Option<u16>,
    /// How the connection is encrypted; without it, by STARTTLS.
    #[serde(default)]
    pub(in crate::service::bootstrap) tls: SmtpTls,
    /// Who sends, as supercargo@example.com.
    pub(in crate::service::bootstrap) from: String,
    /// Who signs in; without it, nobody does.
    #[serde(default)]
    pub(in crate::service::bootstrap) username: Option<String>,
    /// The password.
    #[serde(default)]
    pub(in crate::service::bootstrap) password: Option<Reference>,
}

/// What is sent where when something happens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Action {
    /// Its number, which is never given again once it was taken out.
    #[schemars(range(min = 1))]
    pub(in crate::service::bootstrap) number: i64,
    /// Its name.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: ShortText,
    /// The environments that it is for; "*" is all.
    pub(in crate::service::bootstrap) environments: Vec<String>,
    /// What has to happen.
    pub(in crate::service::bootstrap) triggers: Vec<Trigger>,
    /// Where it is sent.
    pub(in crate::service::bootstrap) targets: Vec<Target>,
}

/// Where something is sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Target {
    /// Its name within the action.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: ShortText,
    /// What kind of place it is.
    #[serde(rename = "type")]
    pub(in crate::service::bootstrap) kind: TargetKind,
    /// The address of a WEBHOOK or SLACK, which is a credential.
    #[serde(default)]
    pub(in crate::service::bootstrap) url: Option<Reference>,
    /// What a WEBHOOK's messages are signed with: one secret, or two during a rotation.
    #[serde(default)]
    pub(in crate::service::bootstrap) secrets: Vec<Reference>,
    /// The channel behind a SLACK's address, for who reads the list of actions.
    #[serde(default)]
    pub(in crate::service::bootstrap) channel: Option<Channel>,
    /// Who gets an EMAIL.
    #[serde(default)]
    pub(in crate::service::bootstrap) recipients: Vec<String>,
}

/// A channel of a chat.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Channel {
    /// Its identifier.
    #[serde(default)]
    pub(in crate::service::bootstrap) id: Option<String>,
    /// Its name.
    #[serde(default)]
    pub(in crate::service::bootstrap) name: Option<String>,
    /// The identifier of its team.
    #[serde(default)]
    pub(in crate::service::bootstrap) team: Option<String>,
}
