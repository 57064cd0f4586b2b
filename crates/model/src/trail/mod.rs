//! Parts of trails (interface, "Trail").

pub(crate) mod template;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Fingerprint, Timestamp};

/// `git_commit_info` of a trail: from its latest attestation that has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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

impl TrailCommit {
    /// Sets the fields without which the public client fails to print a commit: empty, or 0 for the time.
    pub fn complete(&mut self) {
        for text in [&mut self.sha1, &mut self.message, &mut self.author] {
            text.get_or_insert_default();
        }
        self.timestamp.get_or_insert(Timestamp::EPOCH);
    }
}

/// An event of a trail. Fields that do not apply are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrailEvent {
    /// `trail_reported`; `artifact_creation_reported`; `trail_attestation_reported`, or for an artifact
    /// `artifact_attestation_reported` (by fingerprint) and `trail_attestation_for_artifact_reported` (by name);
    /// `artifact_started_running`, `artifact_stopped_running`; `older_events_omitted` if there are more
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_compliant: Option<bool>,
    /// Name of the attestation, or of the artifact in the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_reference_name: Option<String>,
    /// Names of the artifacts in the template, or a fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_artifact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_fingerprint: Option<Fingerprint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_index: Option<i64>,
}

impl TrailEvent {
    /// An event without other fields.
    #[must_use]
    pub fn new(kind: &'static str, timestamp: Timestamp) -> Self {
        Self { kind, timestamp, ..Self::default() }
    }
}

/// Whether a trail, or an artifact in its flow, fulfills the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum ComplianceState {
    /// All requirements are met.
    Compliant,
    /// An attestation failed.
    NonCompliant,
    /// No attestation failed, and one is missing or has no verdict.
    #[default]
    Incomplete,
}

/// Whether a trail fulfills its flow's template, and why.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComplianceStatus {
    /// The verdict.
    pub is_compliant: bool,
    /// The verdict, and whether attestations are missing.
    pub status: ComplianceState,
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArtifactStatus {
    /// The artifact, if it was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_fingerprint: Option<Fingerprint>,
    /// Whether all required attestations exist and pass.
    pub is_compliant: bool,
    /// The same, and whether attestations are missing.
    pub status: ComplianceState,
    /// Required attestations first, then unexpected ones.
    pub attestations_statuses: Vec<AttestationStatus>,
}

/// An artifact without attestations, of which none is required.
impl Default for ArtifactStatus {
    fn default() -> Self {
        Self {
            artifact_fingerprint: None,
            is_compliant: true,
            status: ComplianceState::Compliant,
            attestations_statuses: Vec::new(),
        }
    }
}

/// The part of a verdict that concerns one attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum AttestationPresence {
    /// The attestation exists, whether or not it passes.
    Complete,
    /// The template requires the attestation, which does not exist.
    Missing,
}
