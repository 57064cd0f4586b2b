//! Approvals of artifacts for release (interface, "Approval").

use serde::{Deserialize, Deserializer, Serialize};

use super::{EnvironmentName, Fingerprint, Timestamp, is_commit_hash, words};

words! {
    /// The state of an approval.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
    ApprovalState {
        /// The approval was given.
        Approved "APPROVED",
        /// The approval was denied or withdrawn.
        Unapproved "UNAPPROVED",
        /// The decision is pending.
        Pending "PENDING",
    }
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Approval {
    #[serde(skip)]
    pub flow: String,
    /// Number of the approval, unique in its flow.
    pub release_number: i64,
    pub base_artifact: Fingerprint,
    pub artifact_name: String,
    pub target_artifact: Fingerprint,
    pub description: String,
    pub src_commit_list: Vec<SourceCommit>,
    pub created_at: Timestamp,
    pub last_modified_at: Timestamp,
    /// An approval that was withdrawn, or removed from the bootstrap file, is unapproved.
    pub state: ApprovalState,
    pub approvals: Vec<ApprovalItem>,
    /// `null`: valid for any environment.
    pub environment: Option<EnvironmentName>,
    pub user_data: serde_json::Value,
    /// Name of the token that made the approval; `null`: the bootstrap file declares it.
    pub created_by: Option<String>,
    /// `null` unless a token withdrew the approval.
    pub withdrawal: Option<Withdrawal>,
}

/// The withdrawal of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Withdrawal {
    /// The name of the token.
    pub withdrawn_by: String,
    /// The reason.
    pub comment: String,
    /// The time.
    pub timestamp: Timestamp,
}

/// The decision of one person, as responses contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalItem {
    /// `APPROVED`: older clients require it.
    pub state: ApprovalState,
    /// The decision.
    #[serde(flatten)]
    pub decision: SignOff,
}

impl From<SignOff> for ApprovalItem {
    fn from(decision: SignOff) -> Self {
        Self { state: ApprovalState::Approved, decision }
    }
}

/// A commit of an approved artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum SourceCommit {
    /// In the list of an artifact's approvals (operation 8).
    Hash(CommitHash),
    /// In get-approval (operation 6).
    Built {
        /// The commit's hash.
        commit_sha: String,
        /// The artifacts that are attested as built from the commit.
        artifact_fingerprints: Vec<Fingerprint>,
    },
}

/// The hash of a commit, 40 lowercase hex digits (interface, Limits).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CommitHash(pub String);

impl<'de> Deserialize<'de> for CommitHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hash = String::deserialize(deserializer)?;
        if hash.len() == 40 && is_commit_hash(&hash) {
            return Ok(Self(hash));
        }
        Err(serde::de::Error::custom("expected a commit hash of 40 lowercase hex digits"))
    }
}

/// The decision of one person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignOff {
    pub comment: String,
    pub approved_by: String,
    pub approval_url: String,
    pub timestamp: Timestamp,
}
