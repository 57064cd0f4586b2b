//! Actions: the targets that are notified of events (interface, "Action / environment notification").
//!
//! [`ListedAction`] is an action in the list of an organization, [`Action`] the response of get-action.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// An event (interface, "Events").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
pub enum Trigger {
    /// An artifact started.
    #[serde(rename = "ON_STARTED_ARTIFACT")]
    StartedArtifact,
    /// An artifact stopped.
    #[serde(rename = "ON_EXITED_ARTIFACT")]
    ExitedArtifact,
    /// The number of an artifact's pods changed.
    #[serde(rename = "ON_SCALED_ARTIFACT")]
    ScaledArtifact,
    /// An allow-listed artifact started, or a running artifact was allow-listed.
    #[serde(rename = "ON_ALLOWED_ARTIFACT")]
    AllowedArtifact,
    /// An environment became non-compliant, or is non-compliant from the start.
    #[serde(rename = "ON_NON_COMPLIANT_ENV")]
    NonCompliantEnvironment,
    /// An environment became compliant.
    #[serde(rename = "ON_COMPLIANT_ENV")]
    CompliantEnvironment,
    /// A checkpoint of the organization's log was written. Not in the interface.
    #[serde(rename = "ON_CHECKPOINT")]
    Checkpoint,
    /// An environment became silent. Not in the interface.
    #[serde(rename = "ON_SILENT_ENV")]
    SilentEnvironment,
    /// A silent environment is reported again. Not in the interface.
    #[serde(rename = "ON_REPORTING_ENV")]
    ReportingEnvironment,
}

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum TargetKind {
    /// An address that receives signed JSON.
    Webhook,
    /// A chat's incoming webhook.
    Slack,
    /// Email addresses.
    Email,
    /// A webhook of a workflow of Teams. Not in the interface.
    Teams,
    /// PagerDuty's Events API v2. Not in the interface.
    PagerDuty,
}

/// A target in a response. The interface defines `webhook` and `context`, but not `name` and `recipients`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum Target {
    /// An address that receives signed JSON.
    Webhook {
        /// The target's name, unique in its action.
        name: String,
        /// The address; only scheme and host unless the caller is an admin.
        webhook: String,
        /// The last deliveries.
        #[serde(flatten)]
        deliveries: DeliveryTimes,
    },
    /// A chat's incoming webhook.
    Slack {
        /// The target's name, unique in its action.
        name: String,
        /// The address; only scheme and host unless the caller is an admin.
        webhook: String,
        /// The channel, if declared.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<Channel>,
        /// The last deliveries.
        #[serde(flatten)]
        deliveries: DeliveryTimes,
    },
    /// Email addresses.
    Email {
        /// The target's name, unique in its action.
        name: String,
        /// The addresses.
        recipients: Vec<String>,
        /// The last deliveries.
        #[serde(flatten)]
        deliveries: DeliveryTimes,
    },
    /// A webhook of a workflow of Teams. Not in the interface.
    Teams {
        /// The target's name, unique in its action.
        name: String,
        /// The address; only scheme and host unless the caller is an admin.
        webhook: String,
        /// The last deliveries.
        #[serde(flatten)]
        deliveries: DeliveryTimes,
    },
    /// PagerDuty's Events API v2. Not in the interface.
    PagerDuty {
        /// The target's name, unique in its action.
        name: String,
        /// The address; only scheme and host unless the caller is an admin.
        webhook: String,
        /// The last deliveries.
        #[serde(flatten)]
        deliveries: DeliveryTimes,
    },
}

/// The last deliveries to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct DeliveryTimes {
    /// Time of the last successful delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// Time of the last failed delivery.
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
    /// Environment names; `*` is all environments.
    pub environments: Vec<String>,
    pub triggers: Vec<Trigger>,
    pub targets: Vec<Target>,
    pub created_by: String,
    pub is_created_from_chat_app: bool,
    pub last_modified_at: Timestamp,
    /// Whether the last delivery to a target failed; `null` before the first delivery.
    pub is_failing: Option<bool>,
    pub last_success_timestamp: Option<Timestamp>,
    pub last_failure_timestamp: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// The response of operation 9.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Action {
    /// The fields of the list.
    #[serde(flatten)]
    pub listed: ListedAction,
    /// Always `null`: actions are for environments.
    pub flows: Option<Vec<String>>,
}

/// Text that is not a trigger or a kind of target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value")]
pub struct UnknownVariant;

impl Trigger {
    /// All triggers, in the interface's order, then ours.
    pub const ALL: [Self; 9] = [
        Self::StartedArtifact,
        Self::ExitedArtifact,
        Self::ScaledArtifact,
        Self::AllowedArtifact,
        Self::NonCompliantEnvironment,
        Self::CompliantEnvironment,
        Self::Checkpoint,
        Self::SilentEnvironment,
        Self::ReportingEnvironment,
    ];

    /// The interface's spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartedArtifact => "ON_STARTED_ARTIFACT",
            Self::ExitedArtifact => "ON_EXITED_ARTIFACT",
            Self::ScaledArtifact => "ON_SCALED_ARTIFACT",
            Self::AllowedArtifact => "ON_ALLOWED_ARTIFACT",
            Self::NonCompliantEnvironment => "ON_NON_COMPLIANT_ENV",
            Self::CompliantEnvironment => "ON_COMPLIANT_ENV",
            Self::Checkpoint => "ON_CHECKPOINT",
            Self::SilentEnvironment => "ON_SILENT_ENV",
            Self::ReportingEnvironment => "ON_REPORTING_ENV",
        }
    }

    /// The triggers of the beginning and of the end of the condition that the event is about; `None` if it is about none.
    #[must_use]
    pub fn condition(self) -> Option<[Self; 2]> {
        let conditions = [
            [Self::NonCompliantEnvironment, Self::CompliantEnvironment],
            [Self::SilentEnvironment, Self::ReportingEnvironment],
        ];
        conditions.into_iter().find(|condition| condition.contains(&self))
    }
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Webhook, Self::Slack, Self::Email, Self::Teams, Self::PagerDuty];

    /// The interface's spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "WEBHOOK",
            Self::Slack => "SLACK",
            Self::Email => "EMAIL",
            Self::Teams => "TEAMS",
            Self::PagerDuty => "PAGERDUTY",
        }
    }
}

impl FromStr for Trigger {
    type Err = UnknownVariant;

    fn from_str(word: &str) -> Result<Self, UnknownVariant> {
        Self::ALL.into_iter().find(|trigger| trigger.as_str() == word).ok_or(UnknownVariant)
    }
}

impl FromStr for TargetKind {
    type Err = UnknownVariant;

    fn from_str(word: &str) -> Result<Self, UnknownVariant> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or(UnknownVariant)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DeliveryTimes {
    /// Whether the last delivery failed; `None` before the first delivery.
    #[must_use]
    pub fn is_failing(self) -> Option<bool> {
        match (self.last_success_at, self.last_failure_at) {
            (None, None) => None,
            (success, failure) => Some(failure > success),
        }
    }
}

impl Target {
    /// The last deliveries.
    #[must_use]
    pub fn deliveries(&self) -> DeliveryTimes {
        match self {
            Self::Webhook { deliveries, .. }
            | Self::Slack { deliveries, .. }
            | Self::Email { deliveries, .. }
            | Self::Teams { deliveries, .. }
            | Self::PagerDuty { deliveries, .. } => *deliveries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigger_and_target_kind_round_trip_through_the_interface_spelling() {
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
    fn target_is_failing_if_its_last_delivery_failed() {
        let at = |seconds: i64| Some(Timestamp::from_micros(seconds * 1_000_000));
        for (last_success_at, last_failure_at, expected) in [
            (None, None, None),
            (at(1), None, Some(false)),
            (None, at(1), Some(true)),
            (at(1), at(2), Some(true)),
            (at(2), at(1), Some(false)),
        ] {
            assert_eq!(DeliveryTimes { last_success_at, last_failure_at }.is_failing(), expected);
        }
    }

    #[test]
    fn target_is_tagged_with_its_type() {
        let deliveries =
            DeliveryTimes { last_success_at: Some(Timestamp::from_micros(1_500_000)), last_failure_at: None };
        let target =
            Target::Webhook { name: "ops".into(), webhook: "https://hooks.example.com".into(), deliveries };
        assert_eq!(
            serde_json::to_string(&target).unwrap(),
            r#"{"type":"WEBHOOK","name":"ops","webhook":"https://hooks.example.com","last_success_at":1.5}"#
        );
    }
}
