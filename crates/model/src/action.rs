//! Events that are notified, and the kinds of targets (interface, "Action / environment notification").

use serde::{Deserialize, Serialize};

use super::words;

words! {
    /// An event (interface, "Events"): first those of the interface, in its order.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
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
        /// A checkpoint of the organization's log was written. Not in Kosli's API.
        Checkpoint "ON_CHECKPOINT",
        /// An environment became silent. Not in Kosli's API.
        SilentEnvironment "ON_SILENT_ENV",
        /// A silent environment is reported again. Not in Kosli's API.
        ReportingEnvironment "ON_REPORTING_ENV",
        /// An artifact started that is not compliant, or a running one is no longer compliant. Not in Kosli's API.
        NonCompliantArtifact "ON_NON_COMPLIANT_ARTIFACT",
        /// A test of an action, which is sent only when it is asked for. Not in Kosli's API.
        #[cfg_attr(feature = "openapi", schemars(skip))]
        Test "ON_TEST",
    }
}

words! {
    /// The kind of a target.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
    TargetKind {
        /// An address that receives signed JSON.
        Webhook "WEBHOOK",
        /// A chat's incoming webhook.
        Slack "SLACK",
        /// Email addresses.
        Email "EMAIL",
        /// A webhook of a workflow of Teams. Not in Kosli's API.
        Teams "TEAMS",
        /// PagerDuty's Events API v2. Not in Kosli's API.
        PagerDuty "PAGERDUTY",
    }
}

/// A channel of a chat (interface, "Targets": `context`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Channel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
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
    fn unknown_word_is_quoted_escaped_and_shortened() {
        for (word, shown) in [("FAX\n", "FAX\\n".to_owned()), (&*"x".repeat(65), "x".repeat(64) + "…")] {
            let expected =
                format!("unknown value \"{shown}\": expected one of WEBHOOK, SLACK, EMAIL, TEAMS, PAGERDUTY");
            assert_eq!(word.parse::<TargetKind>().unwrap_err().to_string(), expected);
        }
    }
}
