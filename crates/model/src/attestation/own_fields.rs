//! The fields of `data_json` that only one type of attestation has.
//!
//! They declare what a verdict needs. The service stores all members of these fields as they were sent.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{ShortText, Text};
use crate::words;

/// The verdict that a client sends: the only field of a generic attestation.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GenericFields {
    /// Whether it passes.
    pub is_compliant: bool,
}

/// Signed evidence, all of which is in the file.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BundleFields {}

/// Data of a type that an organization defines.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CustomFields {
    /// Name of the type.
    pub type_name: ShortText,
    /// The data.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub attestation_data: IgnoredAny,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}

/// Data of a type that the client defines.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemFields {
    /// Name of the type.
    pub type_name: SystemType,
    /// The data.
    pub attestation_data: Option<SystemData>,
    /// The control that a decision is about.
    pub control: Option<Text>,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}

words! {
    /// A type that the client defines.
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    SystemType {
        /// A software bill of materials, which is the attached file.
        Sbom "sbom",
        /// Whether a control is fulfilled.
        Decision "decision",
    }
}

/// The verdict in the data of a decision.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemData {
    /// Whether the control is fulfilled.
    pub is_compliant: Option<bool>,
}

/// Results of a scan.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnykFields {
    /// The results.
    pub snyk_results: SnykResults,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}

/// Results of a scan.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnykResults {
    /// One item per run.
    pub results: Option<Vec<SnykRun>>,
}

/// Numbers of findings by severity.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnykRun {
    /// Findings of high severity.
    #[serde(rename = "high_count")]
    pub high: Option<f64>,
    /// Findings of medium severity.
    #[serde(rename = "medium_count")]
    pub medium: Option<f64>,
    /// Findings of low severity.
    #[serde(rename = "low_count")]
    pub low: Option<f64>,
}

/// Issues that a commit refers to.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JiraFields {
    /// The issues.
    pub jira_results: Option<Vec<JiraIssue>>,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}

/// An issue.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JiraIssue {
    /// Whether the issue tracker has it.
    pub issue_exists: Option<bool>,
}

/// The result of a code analysis.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SonarFields {
    /// The result.
    pub sonar_results: SonarResults,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}

/// The result of a code analysis.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SonarResults {
    /// The quality gate.
    #[serde(rename = "qualityGate")]
    pub quality_gate: Option<QualityGate>,
}

/// A quality gate.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QualityGate {
    /// `OK` if it was passed.
    pub status: Option<String>,
}

/// Pull requests of a commit.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PullRequestFields {
    /// The provider of the pull requests.
    pub git_provider: Option<Text>,
    /// The pull requests.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<serde_json::Value>>))]
    pub pull_requests: Option<Vec<IgnoredAny>>,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
}
