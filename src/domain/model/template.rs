//! Templates: the attestations that a flow requires of its trails.

use serde::{Deserialize, Serialize};

/// A flow's template, as the bootstrap file declares it (interface, "template").
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TemplateBody {
    /// Attestations of the trail itself.
    #[serde(default)]
    pub attestations: Vec<RequiredAttestation>,
    /// Artifacts of the trail, with the attestations of each.
    #[serde(default)]
    pub artifacts: Vec<RequiredArtifact>,
}

/// A required attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredAttestation {
    /// The attestation's name.
    pub name: String,
    /// The attestation's type, for example `junit`; `*` is any type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// An artifact with required attestations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredArtifact {
    /// The name by which attestations target it (`target_artifacts`).
    pub name: String,
    /// The required attestations.
    #[serde(default)]
    pub attestations: Vec<RequiredAttestation>,
}

/// A version of a flow's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The template's identifier.
    pub id: String,
    /// Number of the version, from 1.
    pub version: i64,
    /// The requirements.
    pub body: TemplateBody,
}

impl RequiredAttestation {
    /// Whether an attestation of this name and type fulfils the requirement.
    #[must_use]
    pub fn matches(&self, name: &str, kind: &str) -> bool {
        self.name == name && (self.kind == "*" || self.kind == kind)
    }
}
