//! Policies in the bootstrap file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::model::{PolicyName, Text};

/// Policy; requires exactly one of text and file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Policy {
    /// Name of the policy.
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) name: PolicyName,
    /// Description of the policy.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(in crate::service::bootstrap) description: Text,
    /// Content of the policy file, as text.
    pub(in crate::service::bootstrap) text: Option<String>,
    /// Path of the policy file, relative to the bootstrap file.
    pub(in crate::service::bootstrap) file: Option<PathBuf>,
}
