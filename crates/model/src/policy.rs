//! Policies as the interface answers them.

use serde::Serialize;

use super::Timestamp;

/// A policy with its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicySummary {
    /// The policy's name.
    pub name: String,
    /// The description of the current version.
    pub description: String,
    /// Time of the first version.
    pub created_at: Timestamp,
    /// Names of the environments to which it is attached.
    pub consuming_envs: Vec<String>,
    /// The versions, oldest first. At most the latest 50.
    pub versions: Vec<PolicyVersionSummary>,
}

/// A version of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct PolicyVersionSummary {
    /// Number of the version, from 1.
    pub version: i64,
    /// The policy file as received. A list of policies has it for the current versions only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_yaml: Option<String>,
    /// Comment on the version.
    pub comment: String,
    /// Time of the version.
    pub timestamp: Timestamp,
    /// Name of the token, or the bootstrap file.
    pub created_by: String,
}
