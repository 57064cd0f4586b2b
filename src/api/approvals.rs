//! Operations 6 and 8: get an approval, and list those of an artifact. The two write the commits of an
//! approval differently.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Kept, null_is_default, time, whole};
use crate::domain::model::{Fingerprint, FlowName, Timestamp};

/// An approval: whether an artifact may follow another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Approval {
    /// Its number in its flow.
    #[serde(deserialize_with = "whole")]
    pub release_number: u64,
    /// The fingerprint of what was there.
    pub base_artifact: String,
    /// The name of what is to come.
    pub artifact_name: String,
    /// Its fingerprint.
    pub target_artifact: String,
    /// What it is about.
    pub description: String,
    /// The commits that come with it.
    pub src_commit_list: Vec<SourceCommit>,
    /// When it was asked for.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    #[serde(default, deserialize_with = "time")]
    pub last_modified_at: Option<Timestamp>,
    /// `APPROVED`, `UNAPPROVED`, `PENDING`, or a word that is not known here.
    pub state: String,
    /// Who said what.
    pub approvals: Vec<SignOff>,
    /// The environment that it is valid for; any, where there is none.
    #[serde(default)]
    pub environment: Option<String>,
}

/// A commit of an approval: with the artifacts built from it in one approval, its hash alone in a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "they are the interface's words")]
pub enum SourceCommit {
    Sha(String),
    Commit {
        commit_sha: String,
        #[serde(default, deserialize_with = "null_is_default")]
        artifact_fingerprints: Vec<String>,
    },
}

/// What one person said of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SignOff {
    /// Who.
    #[serde(default)]
    pub approved_by: Option<String>,
    /// Why.
    #[serde(default)]
    pub comment: Option<String>,
    /// When.
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
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn approval(&self, flow: &FlowName, number: u64) -> Result<Kept<Approval>, Error> {
        let path = ["approvals", self.organization().as_str(), flow.as_str(), &number.to_string()];
        self.get(self.request(Method::GET, &path)).await
    }

    /// GETs the approvals of an artifact: `/artifacts/{org}/{flow_name}/{fingerprint}/approvals`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn approvals(
        &self,
        flow: &FlowName,
        artifact: Fingerprint,
    ) -> Result<Vec<Kept<Approval>>, Error> {
        let organization = self.organization().as_str();
        let path = ["artifacts", organization, flow.as_str(), &artifact.to_string(), "approvals"];
        self.get(self.request(Method::GET, &path)).await
    }
}
