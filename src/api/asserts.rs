//! Whether an artifact may run, or an environment is compliant: extensions of the interface.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Parsed, null_is_default, optional_integer};
use crate::domain::model::{EnvironmentName, Fingerprint, FlowName, PolicyName};

/// The requirements that an artifact is checked against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssertScope {
    /// The policies of an environment.
    pub environment: Option<EnvironmentName>,
    /// These policies.
    pub policies: Vec<PolicyName>,
    /// The only flow that counts.
    pub flow: Option<FlowName>,
}

/// The verdict on an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Assertion {
    /// Whether it may run.
    pub compliant: bool,
    /// The reason for the verdict besides policies and flows.
    pub message: Option<String>,
    /// The results of policies.
    #[serde(default, deserialize_with = "null_is_default")]
    pub policy_evaluations: Vec<PolicyResult>,
    /// The results of flows.
    #[serde(default, deserialize_with = "null_is_default")]
    pub flows: Vec<FlowResult>,
}

/// The result of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PolicyResult {
    /// The policy.
    pub policy_name: String,
    /// Its version.
    #[serde(default, deserialize_with = "optional_integer")]
    pub policy_version: Option<u64>,
    /// `COMPLIANT`, `NON_COMPLIANT`, or an unknown status.
    pub status: String,
    /// Why the artifact does not fulfil it; an extension of the interface.
    #[serde(default, deserialize_with = "null_is_default")]
    reasons: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    rule_evaluations: Vec<RuleResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RuleResult {
    #[serde(default, deserialize_with = "null_is_default")]
    ignored: bool,
    satisfied: Option<bool>,
    #[serde(default)]
    rule: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    resolutions: Vec<Value>,
}

/// The result of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FlowResult {
    /// The flow.
    pub flow: String,
    /// The trail.
    pub trail: Option<String>,
    /// Whether the artifact meets the requirements of the template.
    #[serde(default, deserialize_with = "null_is_default")]
    pub compliance_status: FlowCompliance,
}

/// Whether an artifact meets the requirements of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct FlowCompliance {
    /// `COMPLIANT`, `NON_COMPLIANT`, or an unknown status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: String,
    #[serde(default, deserialize_with = "null_is_default")]
    attestations_statuses: Vec<AttestationResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct AttestationResult {
    attestation_name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    status: String,
    is_compliant: Option<bool>,
    #[serde(default, deserialize_with = "null_is_default")]
    unexpected: bool,
}

/// A snapshot of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AssertedSnapshot {
    /// Whether all of its artifacts are compliant.
    pub compliant: bool,
    /// Why the list of artifacts may be incomplete; an extension of the interface.
    pub warning: Option<String>,
    compliance: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    artifacts: Vec<SnapshotArtifact>,
}

/// An artifact of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SnapshotArtifact {
    /// The image's name.
    pub name: String,
    /// Its digest, unvalidated.
    pub fingerprint: String,
    /// Why it is not compliant.
    #[serde(default, rename = "reasons_for_incompliance", deserialize_with = "null_is_default")]
    pub reasons: Vec<String>,
    compliant: Option<bool>,
    compliance: Option<String>,
}

/// The compliance as the service names it, otherwise from `compliant`.
fn compliance(named: Option<&str>, compliant: Option<bool>) -> &str {
    named.unwrap_or(match compliant {
        Some(true) => "COMPLIANT",
        Some(false) => "NON-COMPLIANT",
        None => "UNKNOWN",
    })
}

impl AssertedSnapshot {
    /// The compliance of the environment.
    #[must_use]
    pub fn compliance(&self) -> &str {
        compliance(self.compliance.as_deref(), Some(self.compliant))
    }

    /// The artifacts that are not compliant.
    pub fn failing(&self) -> impl Iterator<Item = &SnapshotArtifact> {
        self.artifacts.iter().filter(|artifact| artifact.compliant != Some(true))
    }
}

impl SnapshotArtifact {
    /// Its compliance.
    #[must_use]
    pub fn compliance(&self) -> &str {
        compliance(self.compliance.as_deref(), self.compliant)
    }
}

impl PolicyResult {
    /// Why the artifact does not fulfil the policy: as the service says, or else from the results of the rules.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        if !self.reasons.is_empty() {
            return self.reasons.clone();
        }
        let failed =
            self.rule_evaluations.iter().filter(|rule| !rule.ignored && rule.satisfied != Some(true));
        failed.flat_map(RuleResult::reasons).collect()
    }
}

impl RuleResult {
    fn reasons(&self) -> impl Iterator<Item = String> {
        let text = |value: &Value, pointer| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let kind = text(&self.rule, "/type").unwrap_or_else(|| "rule".to_owned());
        let subject =
            text(&self.rule, "/definition/name").map_or(kind.clone(), |name| format!("{kind} {name}"));
        let found = self.resolutions.iter().filter_map(move |found| {
            let result = text(found, "/type").filter(|kind| !kind.starts_with("rule_"))?.replace('_', " ");
            let flow = text(found, "/context/flow_name").map(|flow| format!(" in the flow {flow}"));
            Some(format!("{subject}: {result}{}", flow.unwrap_or_default()))
        });
        let found: Vec<_> = found.collect();
        // Other services have rules without a result.
        let unexplained = found.is_empty().then(|| format!("{kind}: not satisfied"));
        found.into_iter().chain(unexplained)
    }
}

impl FlowCompliance {
    /// Why the artifact does not meet the requirements.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let failed = self.attestations_statuses.iter().filter_map(|attestation| {
            let why = match (attestation.status.as_str(), attestation.is_compliant) {
                (_, Some(true)) => return None,
                ("MISSING", _) => "is missing",
                (_, Some(false)) => "fails",
                (_, None) if attestation.unexpected => return None,
                (_, None) => "has no verdict",
            };
            Some(format!("{} {why}", attestation.attestation_name))
        });
        failed.collect()
    }
}

impl Error {
    /// Whether the service does not have the operation of a request about `subject`, which an error of the operation names.
    #[must_use]
    pub fn is_unknown_operation(&self, subject: &str) -> bool {
        match self {
            Self::Answered { status: StatusCode::NOT_FOUND, message, .. } => !message.contains(subject),
            Self::Answered { status, .. } => {
                matches!(*status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
            }
            Self::UnexpectedResponse { .. } => true,
            _ => false,
        }
    }
}

impl Client {
    /// GETs a snapshot of an environment: `/snapshots/{org}/{env_name}/{expression}`.
    pub async fn assert_snapshot(
        &self,
        environment: &EnvironmentName,
        expression: &str,
    ) -> Result<Parsed<AssertedSnapshot>, Error> {
        let path = ["snapshots", self.organization().as_str(), environment.as_str(), expression];
        self.send(self.request(Method::GET, &path)).await
    }

    /// GETs the verdict on an artifact: `/asserts/{org}/fingerprint/{fingerprint}`.
    pub async fn assert_artifact(
        &self,
        artifact: Fingerprint,
        scope: &AssertScope,
    ) -> Result<Parsed<Assertion>, Error> {
        let organization = self.organization().as_str();
        let path = ["asserts", organization, "fingerprint", &artifact.to_string()];
        let environment = scope.environment.iter().map(|name| ("environment_name", name.as_str()));
        let policies = scope.policies.iter().map(|name| ("policy_name", name.as_str()));
        let flow = scope.flow.iter().map(|name| ("flow_name", name.as_str()));
        let parameters = environment.chain(policies).chain(flow);
        let request = self.request(Method::GET, &path);
        self.send(parameters.fold(request, |request, (name, value)| request.with(name, value))).await
    }
}
