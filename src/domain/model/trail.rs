//! Trails in a list (interface, "Trail").

use std::collections::BTreeMap;

use serde::Serialize;

use super::{AnyJson, Fingerprint, FreeForm, TemplateBody, Timestamp};

/// One trail of operation 1. No operation sets `events`.
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
    /// The trail's page.
    pub html_url: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit_info: Option<TrailCommit>,
    pub origin_url: String,
    pub user_data: AnyJson,
    pub repo_ids: Vec<String>,
    pub events: Vec<FreeForm>,
    pub external_urls: FreeForm,
}

/// The flow of a trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Flow {
    pub name: String,
    pub tags: BTreeMap<String, String>,
}

/// `git_commit_info` of a trail: from its latest attestation that has one.
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

/// The template that a trail is evaluated against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct TrailTemplate {
    /// The requirements.
    pub trail: TemplateBody,
    /// Number of the version, from 1.
    pub version: i64,
    /// The requirements as JSON text.
    pub content: String,
}

/// Whether a trail fulfils its flow's template, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct ComplianceStatus {
    /// The verdict.
    pub is_compliant: bool,
    /// Attestations of the trail itself: required ones first, then unexpected ones.
    pub attestations_statuses: Vec<AttestationStatus>,
    /// Attestations of the template's artifacts, by the artifact's name.
    pub artifacts_statuses: BTreeMap<String, ArtifactStatus>,
    /// Time of the evaluation.
    pub evaluated_at: Timestamp,
    /// The template of the evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_template_id: Option<String>,
}

/// The part of a verdict that concerns one artifact of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct ArtifactStatus {
    /// The artifact, if it was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_fingerprint: Option<Fingerprint>,
    /// Whether all required attestations exist and pass.
    pub is_compliant: bool,
    /// Required attestations first, then unexpected ones.
    pub attestations_statuses: Vec<AttestationStatus>,
}

/// An artifact without attestations, of which none is required.
impl Default for ArtifactStatus {
    fn default() -> Self {
        Self { artifact_fingerprint: None, is_compliant: true, attestations_statuses: Vec::new() }
    }
}

/// The part of a verdict that concerns one attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct AttestationStatus {
    /// The attestation's name.
    pub attestation_name: String,
    /// The attestation's type, or the required type if the attestation is missing.
    pub attestation_type: String,
    /// The latest attestation with this name; absent if the attestation is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation_id: Option<String>,
    /// The previous attestation, which no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden_attestation_id: Option<String>,
    /// Whether the attestation exists.
    pub status: AttestationPresence,
    /// Whether the attestation exists and passes; null if its type has no verdict.
    pub is_compliant: Option<bool>,
    /// Whether the template does not require the attestation.
    pub unexpected: bool,
}

/// Whether an attestation exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum AttestationPresence {
    /// The attestation exists, whether or not it passes.
    Complete,
    /// The template requires the attestation, which does not exist.
    Missing,
}
