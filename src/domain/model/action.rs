//! Actions: the targets that are notified of events (interface, "Action / environment notification").
//!
//! [`ListedAction`] is an action in the list of an organization, [`Action`] the response of get-action.

use serde::{Deserialize, Serialize};

use super::{Timestamp, words};

words! {
    /// An event (interface, "Events"): first those of the interface, in its order.
    #[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
    Trigger {
        /// An artifact started.
        StartedArtifact "ON_STARTED_ARTIFACT",
        /// An artifact stopped.
        ExitedArtifact "ON_EXITED_ARTIFACT",
        /// The number of an artifact's pods changed.
        ScaledArtifact "ON_SCALED_ARTIFACT",
        /// An allow-listed artifact started, or a running artifact was allow-listed.
        AllowedArtifact "ON_ALLOWED_ARTIFACT",
        /// An environment became non-compliant, or is non-compliant from the start.
        NonCompliantEnvironment "ON_NON_COMPLIANT_ENV",
        /// An environment became compliant.
        CompliantEnvironment "ON_COMPLIANT_ENV",
        /// A checkpoint of the organization's log was written. Not in the interface.
        Checkpoint "ON_CHECKPOINT",
        /// An environment became silent. Not in the interface.
        SilentEnvironment "ON_SILENT_ENV",
        /// A silent environment is reported again. Not in the interface.
        ReportingEnvironment "ON_REPORTING_ENV",
    }
}

words! {
    /// The kind of a target.
    #[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
    TargetKind {
        /// An address that receives signed JSON.
        Webhook "WEBHOOK",
        /// A chat's incoming webhook.
        Slack "SLACK",
        /// Email addresses.
        Email "EMAIL",
        /// A webhook of a workflow of Teams. Not in the interface.
        Teams "TEAMS",
        /// PagerDuty's Events API v2. Not in the interface.
        PagerDuty "PAGERDUTY",
    }
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

impl Trigger {
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
