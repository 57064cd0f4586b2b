//! The report of an artifact that a pipeline built.

use serde::{Deserialize, Serialize};

use crate::{
    ArtifactName, Fingerprint, FreeForm, GitCommit, RepositoryInfo, ShortText, Text, TrailName,
    UnknownFields, UrlText, is_commit_hash, unknown_fields,
};

/// An artifact that a pipeline built. Older clients send no trail and no name in the template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportedArtifact {
    /// The artifact.
    pub fingerprint: Fingerprint,
    /// The name of the file or the image.
    pub filename: ArtifactName,
    /// The hash of the commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<Text>,
    /// The commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit_info: Option<GitCommit>,
    /// The repository of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_info: Option<RepositoryInfo>,
    /// The page of the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_url: Option<UrlText>,
    /// The page of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<UrlText>,
    /// The page of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_url: Option<UrlText>,
    /// Its name in the template of the trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_reference_name: Option<ShortText>,
    /// The trail of the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trail_name: Option<TrailName>,
    /// URLs by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_urls: Option<FreeForm>,
    /// Free-form annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<FreeForm>,
    /// Fields of newer or older clients.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub unknown: UnknownFields,
}

impl ReportedArtifact {
    /// The commit, with the hash and the page that the report names apart from it.
    #[must_use]
    pub fn commit(&self) -> GitCommit {
        let mut commit = self.git_commit_info.clone().unwrap_or_default();
        let named = self.git_commit.as_ref().map(Text::as_str).filter(|hash| is_commit_hash(hash));
        commit.sha1 = commit.sha1.or_else(|| named.map(str::to_owned));
        commit.url = commit.url.or_else(|| self.commit_url.clone());
        commit
    }

    /// Paths of the fields that this version does not know.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<String> {
        unknown_fields(&self.unknown, self.git_commit_info.as_ref(), self.repo_info.as_ref())
    }
}
