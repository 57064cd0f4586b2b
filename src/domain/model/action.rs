//! Actions: what is sent where when something happens (interface, "Action / environment notification").
//!
//! The list of an organization's actions and get-action each have a variant of their own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// What may happen (interface, "Events").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
pub enum Trigger {
    /// An artifact runs that did not.
    #[serde(rename = "ON_STARTED_ARTIFACT")]
    StartedArtifact,
    /// An artifact runs no longer.
    #[serde(rename = "ON_EXITED_ARTIFACT")]
    ExitedArtifact,
    /// An artifact runs in more pods, or in fewer.
    #[serde(rename = "ON_SCALED_ARTIFACT")]
    ScaledArtifact,
    /// An artifact of the allow-list starts, or one that runs is put on it.
    #[serde(rename = "ON_ALLOWED_ARTIFACT")]
    AllowedArtifact,
    /// An environment is no longer as its policy wants it, or never was.
    #[serde(rename = "ON_NON_COMPLIANT_ENV")]
    NonCompliantEnvironment,
    /// It is now.
    #[serde(rename = "ON_COMPLIANT_ENV")]
    CompliantEnvironment,
}

/// What kind of place something is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum TargetKind {
    /// An address that takes JSON with a signature.
    Webhook,
    /// A chat's incoming webhook.
    Slack,
    /// Mail boxes.
    Email,
}

/// Where something is sent, as an answer shows it. `webhook` and `context` are the interface's; `name` and
/// `recipients` are not.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum Target {
    /// An address that takes JSON with a signature.
    Webhook {
        /// Its name within its action.
        name: String,
        /// The address; for who is not admin its scheme and host.
        webhook: String,
        /// When something was last sent there, and failed to be.
        #[serde(flatten)]
        sent: Sent,
    },
    /// A chat's incoming webhook.
    Slack {
        /// Its name within its action.
        name: String,
        /// The address; for who is not admin its scheme and host.
        webhook: String,
        /// The channel behind it, as far as that was declared.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<Channel>,
        /// When something was last sent there, and failed to be.
        #[serde(flatten)]
        sent: Sent,
    },
    /// Mail boxes.
    Email {
        /// Its name within its action.
        name: String,
        /// Their addresses.
        recipients: Vec<String>,
        /// When something was last sent there, and failed to be.
        #[serde(flatten)]
        sent: Sent,
    },
}

/// When something was last sent to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Sent {
    /// When something last arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// When something last did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Timestamp>,
}

/// A channel of a chat (interface, "Targets": `context`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Channel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
}

/// An action in the list of operation 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct ListedAction {
    pub name: String,
    /// `env`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub number: i64,
    /// `*` is all of them.
    pub environments: Vec<String>,
    pub triggers: Vec<Trigger>,
    pub targets: Vec<Target>,
    pub created_by: String,
    pub is_created_from_chat_app: bool,
    pub last_modified_at: Timestamp,
    /// Whether what was last sent to one of its targets did not arrive; `null` before anything was sent.
    pub is_failing: Option<bool>,
    pub last_success_timestamp: Option<Timestamp>,
    pub last_failure_timestamp: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// An action as operation 9 gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Action {
    /// What the list shows of it.
    #[serde(flatten)]
    pub listed: ListedAction,
    /// `null`: actions are for environments.
    pub flows: Option<Vec<String>>,
}

/// A word that names nothing of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such word")]
pub struct UnknownWord;

impl Trigger {
    /// All of them, in the interface's order.
    pub const ALL: [Self; 6] = [
        Self::StartedArtifact,
        Self::ExitedArtifact,
        Self::ScaledArtifact,
        Self::AllowedArtifact,
        Self::NonCompliantEnvironment,
        Self::CompliantEnvironment,
    ];

    /// The interface's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartedArtifact => "ON_STARTED_ARTIFACT",
            Self::ExitedArtifact => "ON_EXITED_ARTIFACT",
            Self::ScaledArtifact => "ON_SCALED_ARTIFACT",
            Self::AllowedArtifact => "ON_ALLOWED_ARTIFACT",
            Self::NonCompliantEnvironment => "ON_NON_COMPLIANT_ENV",
            Self::CompliantEnvironment => "ON_COMPLIANT_ENV",
        }
    }
}

impl TargetKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Webhook, Self::Slack, Self::Email];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "WEBHOOK",
            Self::Slack => "SLACK",
            Self::Email => "EMAIL",
        }
    }
}

impl FromStr for Trigger {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|trigger| trigger.as_str() == word).ok_or(UnknownWord)
    }
}

impl FromStr for TargetKind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or(UnknownWord)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Sent {
    /// Whether what was last sent did not arrive; `None` before anything was sent.
    #[must_use]
    pub fn is_failing(self) -> Option<bool> {
        match (self.last_success_at, self.last_failure_at) {
            (None, None) => None,
            (success, failure) => Some(failure > success),
        }
    }
}

impl Target {
    /// When something was last sent there.
    #[must_use]
    pub fn sent(&self) -> Sent {
        match self {
            Self::Webhook { sent, .. } | Self::Slack { sent, .. } | Self::Email { sent, .. } => *sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_the_interface_writes() {
        for trigger in Trigger::ALL {
            assert_eq!(serde_json::to_string(&trigger).unwrap(), format!("\"{trigger}\""));
            assert_eq!(trigger.as_str().parse(), Ok(trigger));
        }
        for kind in TargetKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.as_str()));
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert!("ON_A_FULL_MOON".parse::<Trigger>().is_err());
    }

    #[test]
    fn a_target_fails_while_what_was_last_sent_did_not_arrive() {
        let at = |seconds: i64| Some(Timestamp::from_micros(seconds * 1_000_000));
        for (last_success_at, last_failure_at, expected) in [
            (None, None, None),
            (at(1), None, Some(false)),
            (None, at(1), Some(true)),
            (at(1), at(2), Some(true)),
            (at(2), at(1), Some(false)),
        ] {
            assert_eq!(Sent { last_success_at, last_failure_at }.is_failing(), expected);
        }
    }

    #[test]
    fn a_target_is_told_apart_by_its_type() {
        let sent = Sent { last_success_at: Some(Timestamp::from_micros(1_500_000)), last_failure_at: None };
        let target =
            Target::Webhook { name: "ops".into(), webhook: "https://hooks.example.com".into(), sent };
        assert_eq!(
            serde_json::to_string(&target).unwrap(),
            r#"{"type":"WEBHOOK","name":"ops","webhook":"https://hooks.example.com","last_success_at":1.5}"#
        );
    }
}
