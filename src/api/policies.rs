//! Check what a policy would change: an extension of the interface.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Parsed, integer};
use crate::domain::model::{EnvironmentName, PolicyName, Timestamp};

/// The effect of a policy on the artifacts of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PolicyEffect {
    /// Why the list of artifacts may be incomplete.
    pub warning: Option<String>,
    /// The compliance of all artifacts together: `COMPLIANT`, `NON-COMPLIANT`, `UNKNOWN`, or an unknown state.
    pub before: String,
    /// The compliance with the policy.
    pub after: String,
    /// Number of artifacts.
    #[serde(deserialize_with = "integer")]
    pub artifacts_total: u64,
    /// Number of artifacts whose compliance changes.
    #[serde(deserialize_with = "integer")]
    pub changed_total: u64,
    /// Artifacts whose compliance changes, and others that are not compliant.
    pub artifacts: Vec<ArtifactEffect>,
}

/// The effect of a policy on an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ArtifactEffect {
    /// The image's name.
    pub name: String,
    /// Its digest, unvalidated.
    pub fingerprint: String,
    /// Its compliance.
    pub before: String,
    /// Its compliance with the policy.
    pub after: String,
    /// The reasons for the compliance with the policy.
    pub reasons: Vec<String>,
}

impl Client {
    /// POSTs a policy file to check its effect in an environment: `/policies/{org}/check`. It would replace `policy`, and
    /// is added without one.
    pub async fn check_policy(
        &self,
        file: &str,
        environment: &EnvironmentName,
        policy: Option<&PolicyName>,
        at: Option<Timestamp>,
    ) -> Result<Parsed<PolicyEffect>, Error> {
        let body = json!({
            "policy_file": file, "environment_name": environment, "policy_name": policy.map(PolicyName::as_str), "at": at,
        });
        let path = ["policies", self.organization().as_str(), "check"];
        self.send_json(self.request(Method::POST, &path), &body).await
    }
}
