//! Operations 6 and 8: get an approval, and list the approvals of an artifact. Their commits have different forms. Extensions
//! of the interface: approve, and withdraw an approval.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Parsed, integer, null_is_default, time};
use crate::domain::model::{EnvironmentName, Fingerprint, FlowName, Timestamp};

/// An approval: whether an artifact may replace another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Approval {
    /// Its number in its flow.
    #[serde(deserialize_with = "integer")]
    pub release_number: u64,
    /// The fingerprint of the artifact to be replaced.
    pub base_artifact: String,
    /// The name of the new artifact.
    pub artifact_name: String,
    /// The fingerprint of the new artifact.
    pub target_artifact: String,
    /// Its description.
    pub description: String,
    /// The commits between the two artifacts.
    pub src_commit_list: Vec<SourceCommit>,
    /// When it was requested.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    #[serde(default, deserialize_with = "time")]
    pub last_modified_at: Option<Timestamp>,
    /// `APPROVED`, `UNAPPROVED`, `PENDING`, or an unknown state.
    pub state: String,
    /// The sign-offs.
    pub approvals: Vec<SignOff>,
    /// The environment that it applies to; `None` for any.
    pub environment: Option<String>,
    /// The name of the token that made it; `None` if it is declared in the bootstrap file, or unknown.
    pub created_by: Option<String>,
    /// Its withdrawal.
    pub withdrawal: Option<Withdrawal>,
}

/// The withdrawal of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Withdrawal {
    /// The name of the token.
    pub withdrawn_by: String,
    /// The reason.
    pub comment: Option<String>,
    /// The time.
    #[serde(default, deserialize_with = "time")]
    pub timestamp: Option<Timestamp>,
}

/// A commit of an approval: a hash in a list; with the artifacts built from it in a single approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the interface describes them")]
pub enum SourceCommit {
    Sha(String),
    Commit {
        commit_sha: String,
        #[serde(default, deserialize_with = "null_is_default")]
        artifact_fingerprints: Vec<String>,
    },
}

/// One person's decision on an approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SignOff {
    /// The person.
    pub approved_by: Option<String>,
    /// The reason.
    pub comment: Option<String>,
    /// The time.
    #[serde(default, deserialize_with = "time")]
    pub timestamp: Option<Timestamp>,
}

impl SourceCommit {
    /// Its hash.
    #[must_use]
    pub fn sha(&self) -> &str {
        match self {
            Self::Sha(sha) | Self::Commit { commit_sha: sha, .. } => sha,
        }
    }
}

impl Client {
    /// GETs an approval: `/approvals/{org}/{flow_name}/{approval_number}`.
    pub async fn approval(&self, flow: &FlowName, number: u64) -> Result<Parsed<Approval>, Error> {
        let path = ["approvals", self.organization().as_str(), flow.as_str(), &number.to_string()];
        self.send(self.request(Method::GET, &path)).await
    }

    /// POSTs an approval: `/approvals/{org}/{flow_name}`. Returns the same approval for a repeated request.
    pub async fn approve(
        &self,
        flow: &FlowName,
        artifact: Fingerprint,
        environment: &EnvironmentName,
        comment: &str,
    ) -> Result<Parsed<Approval>, Error> {
        let path = ["approvals", self.organization().as_str(), flow.as_str()];
        let decision = json!({"state": "APPROVED", "comment": comment});
        let body = json!({
            "artifact_fingerprint": artifact, "environment": environment, "approvals": [decision],
        });
        self.send_json(self.request(Method::POST, &path), &body).await
    }

    /// PUTs the withdrawal of an approval: `/approvals/{org}/{flow_name}/{approval_number}/withdraw`.
    pub async fn withdraw_approval(
        &self,
        flow: &FlowName,
        number: u64,
        comment: &str,
    ) -> Result<Parsed<Approval>, Error> {
        let number = number.to_string();
        let path = ["approvals", self.organization().as_str(), flow.as_str(), &number, "withdraw"];
        self.send_json(self.request(Method::PUT, &path), &json!({ "comment": comment })).await
    }

    /// GETs the approvals of an artifact: `/artifacts/{org}/{flow_name}/{fingerprint}/approvals`.
    pub async fn approvals(
        &self,
        flow: &FlowName,
        artifact: Fingerprint,
    ) -> Result<Vec<Parsed<Approval>>, Error> {
        let organization = self.organization().as_str();
        let path = ["artifacts", organization, flow.as_str(), &artifact.to_string(), "approvals"];
        self.send(self.request(Method::GET, &path)).await
    }
}
