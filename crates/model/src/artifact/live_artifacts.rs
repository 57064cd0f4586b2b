//! Running artifacts of one repository (interface, "Live artifact response").

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::{Fingerprint, Timestamp};

/// The response of operation 4.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveArtifacts {
    /// One entry for each artifact and environment.
    pub live_artifacts: Vec<LiveArtifact>,
    /// Links to related resources.
    #[serde(rename = "_links")]
    pub links: BTreeMap<&'static str, Link>,
    /// The artifacts and environments that the entries refer to.
    #[serde(rename = "_embedded")]
    pub embedded: Embedded,
}

/// Links by relation, shared by all entries of an artifact.
type Links = Arc<BTreeMap<&'static str, Link>>;

/// An artifact in an environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveArtifact {
    /// Identifier of the environment in `_embedded.environments`.
    pub environment_id: String,
    /// Identifier of the artifact in `_embedded.artifacts`: its fingerprint.
    pub artifact_id: Fingerprint,
    /// The image name of the last report.
    pub artifact_name: String,
    /// The environment's current snapshot.
    pub snapshot_index: i64,
    /// Time of the first report in this sequence of snapshots.
    pub started_at: Timestamp,
    /// `COMPLIANT`, `NON-COMPLIANT`, or `UNKNOWN` if the environment has no policy or is silent.
    pub compliance: &'static str,
    /// Links to related resources of the artifact.
    #[serde(rename = "_links")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<&'static str, Link>))]
    pub links: Links,
}

/// Resources that the entries refer to by identifier.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Embedded {
    pub artifacts: Vec<EmbeddedArtifact>,
    pub environments: Vec<EmbeddedEnvironment>,
}

/// An artifact and the commit of its attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct EmbeddedArtifact {
    pub id: Fingerprint,
    pub fingerprint: Fingerprint,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_url: Option<String>,
    /// Number of other origins that flows named for the artifact. Not in Kosli's API.
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "sqlx", sqlx(skip))]
    pub provenance_conflicts: i64,
    #[serde(rename = "_links")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<&'static str, Link>))]
    #[cfg_attr(feature = "sqlx", sqlx(skip))]
    pub links: Links,
}

/// An environment, and whether its reports are current.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EmbeddedEnvironment {
    /// The environment's identifier.
    pub id: String,
    /// The environment's name.
    pub name: String,
    /// `K8S`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Time of the last report. Not in Kosli's API.
    pub last_report_at: Timestamp,
    /// Whether the environment has been silent for longer than `silentAfter`. Not in Kosli's API.
    pub is_silent: bool,
    /// Time of the last evaluation, while a change of the policy, the allow-list or approvals waits to be evaluated. Not in
    /// Kosli's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_at: Option<Timestamp>,
    /// Why the environment runs too few artifacts, if it does: it is not compliant. Not in Kosli's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absence: Option<String>,
    /// Links to related resources.
    #[serde(rename = "_links")]
    pub links: BTreeMap<&'static str, Link>,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Link {
    /// The URL.
    pub href: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
