//! Trails in a list (interface, "Trail").

use std::collections::BTreeMap;

use serde::Serialize;

use super::{FreeForm, TemplateBody, Timestamp};

/// One trail of operation 1. What no operation of the interface can tell about a trail
/// (`description`, `origin_url`, `user_data`, `external_urls`, `events`) is empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Trail {
    pub name: String,
    pub last_modified_at: Timestamp,
    pub created_at: Timestamp,
    pub compliance_status: ComplianceStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<TrailTemplate>,
    pub is_compliant: bool,
    pub created_by: String,
    pub flow: Flow,
    /// Its page.
    pub html_url: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit_info: Option<TrailCommit>,
    pub origin_url: String,
    pub user_data: FreeForm,
    pub repo_ids: Vec<String>,
    pub events: Vec<FreeForm>,
    pub external_urls: FreeForm,
}

/// The flow that a trail is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Flow {
    pub name: String,
    pub tags: BTreeMap<String, String>,
}

/// `git_commit_info` as a trail shows it: that of its latest attestation that has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct TrailCommit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha1: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The template that a trail is held to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct TrailTemplate {
    /// What it expects.
    pub trail: TemplateBody,
    /// Counts the changes, from 1.
    pub version: i64,
    /// The same as text: JSON.
    pub content: String,
}

/// Whether a trail is as its flow expects, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct ComplianceStatus {
    /// The verdict.
    pub is_compliant: bool,
    /// Attestations of the trail itself: required ones, then unexpected ones.
    pub attestations_statuses: Vec<AttestationStatus>,
    /// Attestations of the template's artifacts, by the artifact's name.
    pub artifacts_statuses: BTreeMap<String, ArtifactStatus>,
    /// When the verdict was reached.
    pub evaluated_at: Timestamp,
    /// The template that it was reached by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_template_id: Option<String>,
}

/// The part of a verdict that concerns one artifact of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct ArtifactStatus {
    /// Whether all that is required of it is there and passes.
    pub is_compliant: bool,
    /// Its attestations: required ones, then unexpected ones.
    pub attestations_statuses: Vec<AttestationStatus>,
}

/// The part of a verdict that concerns one attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct AttestationStatus {
    /// Its name.
    pub attestation_name: String,
    /// Its type, or the required one where it is missing.
    pub attestation_type: String,
    /// The latest attestation of that name; absent where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation_id: Option<String>,
    /// The one before, which no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden_attestation_id: Option<String>,
    /// Whether it is there and passes.
    pub is_compliant: bool,
    /// Whether the template does not ask for it.
    pub unexpected: bool,
}
