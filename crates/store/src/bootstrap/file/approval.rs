//! Approvals in the bootstrap file.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bootstrap::file::moment;
use model::{ApprovalState, ArtifactName, EnvironmentName, Fingerprint, ShortText, Text, Timestamp};

/// Approval of an artifact.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Approval {
    /// Number of the approval, unique in the flow.
    #[schemars(range(min = 1))]
    pub number: i64,
    /// Digest of the approved artifact, 64 lowercase hex digits.
    #[schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub artifact: Fingerprint,
    /// Digest of the artifact that it replaces.
    #[schemars(with = "String", regex(pattern = r"^[a-f0-9]{64}$"))]
    pub base: Fingerprint,
    /// Name of the artifact.
    #[schemars(with = "String")]
    pub name: ArtifactName,
    /// Description of the approval.
    #[serde(default)]
    #[schemars(with = "String")]
    pub description: Text,
    /// Environment to which the approval applies (default: all).
    #[schemars(with = "Option<String>")]
    pub environment: Option<EnvironmentName>,
    /// Commits that the artifact adds, 40 lowercase hex digits each.
    #[serde(default)]
    pub commits: Vec<String>,
    /// State of the approval; APPROVED requires a sign-off.
    pub state: ApprovalState,
    /// Sign-offs by persons.
    #[serde(default)]
    pub approvals: Vec<SignOff>,
    /// Additional data to store, in any form.
    pub user_data: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Sign-off by one person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignOff {
    /// Name of the person.
    #[schemars(with = "String")]
    pub by: ShortText,
    /// Time of the sign-off, such as 2026-09-01T12:00:00Z.
    #[serde(deserialize_with = "moment")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Comment of the person.
    #[serde(default)]
    #[schemars(with = "String")]
    pub comment: Text,
    /// URL of the evidence, such as a ticket.
    #[serde(default)]
    #[schemars(with = "String")]
    pub url: Text,
}
