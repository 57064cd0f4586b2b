//! The commit of an attestation.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Text, Timestamp, UnknownFields, UrlText};

/// `git_commit_info` as a client sends it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitCommit {
    /// The commit's hash: 40 hex digits, or 64 in a SHA-256 repository.
    #[serde(default, deserialize_with = "commit_hash")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([a-f0-9]{40}|[a-f0-9]{64})$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha1: Option<String>,
    /// The commit's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// The author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Text>,
    /// The author's name at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author_username: Option<Text>,
    /// The branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<Text>,
    /// Time of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlText>,
    /// The hashes of its parents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<Text>>,
    /// Fields of newer clients.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub unknown: UnknownFields,
}

/// Whether a text is a full commit hash: 40 lowercase hex digits, or 64 in a SHA-256 repository.
#[must_use]
pub fn is_commit_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn commit_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let hash = Option::<String>::deserialize(deserializer)?;
    if hash.as_deref().is_some_and(|hash| !is_commit_hash(hash)) {
        return Err(serde::de::Error::custom(
            "expected a commit hash of 40 lowercase hex digits, or 64 in a SHA-256 repository",
        ));
    }
    Ok(hash)
}
