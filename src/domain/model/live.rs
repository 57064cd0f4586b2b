//! What runs now, of one repository (interface, "Live artifact response").

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{Fingerprint, Timestamp};

/// The answer of operation 4.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct LiveArtifacts {
    /// One for each artifact and environment that it runs in.
    pub live_artifacts: Vec<LiveArtifact>,
    /// Addresses of what is near.
    #[serde(rename = "_links")]
    pub links: BTreeMap<&'static str, Link>,
    /// The artifacts and environments that the list names by identifier.
    #[serde(rename = "_embedded")]
    pub embedded: Embedded,
}

/// Addresses that all entries of an artifact share, by what they lead to.
type Links = Arc<BTreeMap<&'static str, Link>>;

/// An artifact that runs in an environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct LiveArtifact {
    /// The environment, in `_embedded.environments`.
    pub environment_id: String,
    /// The artifact, in `_embedded.artifacts`: its fingerprint, which is its identity.
    pub artifact_id: Fingerprint,
    /// The name of the image under which it was last reported.
    pub artifact_name: String,
    /// The environment's current snapshot.
    pub snapshot_index: i64,
    /// When it was first reported in this run of snapshots.
    pub started_at: Timestamp,
    /// `COMPLIANT`, `NON-COMPLIANT`, or `UNKNOWN` where the environment has no policy or is silent.
    pub compliance: &'static str,
    /// Addresses of what is near: those of its artifact.
    #[serde(rename = "_links")]
    #[cfg_attr(feature = "service", schema(value_type = BTreeMap<&'static str, Link>))]
    pub links: Links,
}

/// What the list names by identifier.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct Embedded {
    pub artifacts: Vec<EmbeddedArtifact>,
    pub environments: Vec<EmbeddedEnvironment>,
}

/// An artifact and the commit that it was attested for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the interface's fields, under its names")]
pub struct EmbeddedArtifact {
    pub id: Fingerprint,
    pub fingerprint: Fingerprint,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<String>,
    #[serde(rename = "_links")]
    #[cfg_attr(feature = "service", schema(value_type = BTreeMap<&'static str, Link>))]
    pub links: Links,
}

/// An environment, and how far its word can be taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct EmbeddedEnvironment {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `K8S`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// When it was last reported: what it shows is confirmed until then. Not in the interface.
    pub last_report_at: Timestamp,
    /// Whether it has been silent for longer than it may be. Not in the interface.
    pub is_silent: bool,
    /// Addresses of what is near.
    #[serde(rename = "_links")]
    pub links: BTreeMap<&'static str, Link>,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Link {
    /// Where it is.
    pub href: String,
}
