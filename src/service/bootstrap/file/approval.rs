//! Approvals in the file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::moment;
use crate::domain::model::{ApprovalState, EnvironmentName, Fingerprint, ShortText, Text, Timestamp};

/// An approval of an artifact.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in crate::service::bootstrap) struct Approval {
    /// Its number in its flow.
    #[schemars(range(min = 1))]
    pub(in crate::service::bootstrap) number: i64,
    /// The artifact that is approved, 64 lowercase hex digits.
    #[schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(in crate::service::bootstrap) artifact: Fingerprint,
    /// The artifact that it takes the place of.
    #[schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub(in crate::service::bootstrap) base: Fingerprint,
    /// The artifact's name.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: Text,
    /// What it is about.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) description: Text,
    /// The environment that it is for; without it, any.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(in crate::service::bootstrap) environment: Option<EnvironmentName>,
    /// The commits that come with it, 40 lowercase hex digits each.
    #[serde(default)]
    pub(in crate::service::bootstrap) commits: Vec<String>,
    /// Where it stands. One that is APPROVED has somebody who signed it off.
    pub(in crate::service::bootstrap) state: ApprovalState,
    /// Who said what.
    #[serde(default)]
    pub(in crate::service::bootstrap) approvals: Vec<SignOff>,
    /// Whatever else is to be kept with it.
    #[serde(default)]
    pub(in crate::service::bootstrap) user_data: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What one person said of an approval.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct SignOff {
    /// Who.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) by: ShortText,
    /// When, as 2026-09-01T12:00:00Z.
    #[serde(deserialize_with = "moment")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub(in crate::service::bootstrap) at: Timestamp,
    /// Why.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) comment: Text,
    /// Where that can be seen, as a ticket.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) url: Text,
}
