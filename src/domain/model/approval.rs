//! Approvals: whether an artifact may take another's place (interface, "Approval").

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{EnvironmentName, Fingerprint, Timestamp};

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum ApprovalState {
    /// It was given.
    Approved,
    /// It was refused, or withdrawn.
    Unapproved,
    /// Nobody decided yet.
    Pending,
}

/// An approval. Its commits, `C`, are [`SourceCommit`] in get-approval (operation 6) and [`CommitHash`] in the
/// list of an artifact's approvals (operation 8).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Approval<C> {
    /// Its number in its flow, which no other approval there ever had.
    pub release_number: i64,
    pub base_artifact: Fingerprint,
    pub artifact_name: String,
    pub target_artifact: Fingerprint,
    pub description: String,
    pub src_commit_list: Vec<C>,
    pub created_at: Timestamp,
    pub last_modified_at: Timestamp,
    pub state: ApprovalState,
    pub approvals: Vec<SignOff>,
    /// `null`: it is valid for any.
    pub environment: Option<EnvironmentName>,
    pub user_data: serde_json::Value,
}

/// A commit that comes with what is approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct SourceCommit {
    /// Its hash.
    pub commit_sha: String,
    /// What was attested as built from it.
    pub artifact_fingerprints: Vec<Fingerprint>,
}

/// The hash of a commit, 40 lowercase hex digits (interface, Limits).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CommitHash(pub String);

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct SignOff {
    pub comment: String,
    pub approved_by: String,
    pub approval_url: String,
    pub timestamp: Timestamp,
}

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such state; APPROVED, UNAPPROVED or PENDING was expected")]
pub struct UnknownState;

impl ApprovalState {
    /// The interface's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "APPROVED",
            Self::Unapproved => "UNAPPROVED",
            Self::Pending => "PENDING",
        }
    }
}

impl FromStr for ApprovalState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        let states = [Self::Approved, Self::Unapproved, Self::Pending];
        states.into_iter().find(|state| state.as_str() == word).ok_or(UnknownState)
    }
}
