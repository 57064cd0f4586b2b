//! What a flow expects of its trails.

use serde::{Deserialize, Serialize};

/// A flow's template, as the bootstrap file declares it (interface, "template").
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TemplateBody {
    /// Attestations of the trail itself.
    #[serde(default)]
    pub attestations: Vec<Required>,
    /// Artifacts that the trail builds, and the attestations of each.
    #[serde(default)]
    pub artifacts: Vec<RequiredArtifact>,
}

/// An attestation that has to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Required {
    /// Its name.
    pub name: String,
    /// Its type, as `junit`; `*` takes any.
    #[serde(rename = "type")]
    pub kind: String,
}

/// An artifact that has to be attested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredArtifact {
    /// The name by which attestations target it (`target_artifacts`).
    pub name: String,
    /// Its attestations.
    #[serde(default)]
    pub attestations: Vec<Required>,
}

/// A template that stands, or stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its identifier.
    pub id: String,
    /// Counts the changes, from 1.
    pub version: i64,
    /// What it expects.
    pub body: TemplateBody,
}

impl Required {
    /// Whether an attestation of this name and type is the one.
    #[must_use]
    pub fn is(&self, name: &str, kind: &str) -> bool {
        self.name == name && (self.kind == "*" || self.kind == kind)
    }
}
