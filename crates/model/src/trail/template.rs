//! Templates: the attestations that a flow requires of its trails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ShortText;
use crate::escape::Escaped;

/// A flow's template, as the bootstrap file declares it (interface, "template").
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredArtifact {
    /// The name by which attestations target it (`target_artifacts`).
    pub name: String,
    /// The required attestations.
    #[serde(default)]
    pub attestations: Vec<RequiredAttestation>,
}

/// A template file of the public client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    version: i64,
    #[serde(default)]
    trail: TemplateBody,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// The version of the file's format.
    #[error("version: expected 1, got {0}")]
    Version(i64),
    /// A name or a type is no [`ShortText`].
    #[error("expected names and types of 1 to 255 bytes without control or invisible characters")]
    Name,
    /// Two artifacts have one name.
    #[error("the artifact \"{}\" occurs twice", Escaped(.0))]
    Duplicate(String),
}

impl From<TemplateBody> for TemplateFile {
    fn from(trail: TemplateBody) -> Self {
        Self { version: 1, trail }
    }
}

impl TemplateFile {
    /// The requirements.
    ///
    /// # Errors
    ///
    /// [`InvalidTemplate`] for another version or invalid names.
    pub fn into_body(self) -> Result<TemplateBody, InvalidTemplate> {
        if self.version != 1 {
            return Err(InvalidTemplate::Version(self.version));
        }
        self.trail.check()?;
        Ok(self.trail)
    }
}

impl TemplateBody {
    /// Checks lengths, characters and duplicates.
    ///
    /// # Errors
    ///
    /// [`InvalidTemplate`] for invalid names.
    pub fn check(&self) -> Result<(), InvalidTemplate> {
        let required = self.attestations.iter().chain(self.artifacts.iter().flat_map(|a| &a.attestations));
        let names = required.flat_map(|required| [&required.name, &required.kind]);
        let mut names = names.chain(self.artifacts.iter().map(|artifact| &artifact.name));
        if names.any(|name| ShortText::new(name.as_str()).is_err()) {
            return Err(InvalidTemplate::Name);
        }
        let mut artifacts = BTreeSet::new();
        match self.artifacts.iter().find(|artifact| !artifacts.insert(&artifact.name)) {
            Some(duplicate) => Err(InvalidTemplate::Duplicate(duplicate.name.clone())),
            None => Ok(()),
        }
    }
}

/// A version of a flow's template, as trails have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Template {
    /// The template's identifier.
    #[serde(skip)]
    pub id: String,
    /// The requirements.
    #[serde(rename = "trail")]
    pub body: TemplateBody,
    /// Number of the version, from 1.
    pub version: i64,
    /// The requirements as JSON text.
    pub content: String,
}

impl RequiredAttestation {
    /// Whether an attestation of this name and type fulfills the requirement.
    #[must_use]
    pub fn matches(&self, name: &str, kind: &str) -> bool {
        self.name == name && (self.kind == "*" || self.kind == kind)
    }
}
