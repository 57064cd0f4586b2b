//! The content of a bootstrap file, with references resolved and without secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::evidence::access::{Role, Scope};
use crate::domain::evidence::identity::Issuer;
use crate::domain::evidence::ownership::{Ownership, Pattern};
use crate::domain::model::{
    ApprovalState, Channel, EnvironmentName, Fingerprint, FlowName, OrganizationName, PolicyName, SignOff,
    TargetKind, TemplateBody, Timestamp, Trigger,
};

/// The content of a bootstrap file.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Increases with each change of the file.
    pub generation: i64,
    /// The hash of the file, without the files that it refers to.
    pub sha256: Fingerprint,
    /// The organizations.
    pub organizations: Vec<Organization>,
}

/// An organization.
#[derive(Debug, Clone)]
pub struct Organization {
    /// Its name.
    pub name: OrganizationName,
    /// Retention of its rows.
    pub retention: Retention,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Its issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// Its policies.
    pub policies: Vec<PolicyConfig>,
    /// Its flows that the file configures.
    pub flows: Vec<Flow>,
    /// Its environments that the file configures.
    pub environments: Vec<EnvironmentConfig>,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// The retention of an organization's rows; `None` for unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// The history of environments.
    pub history: Option<Duration>,
    /// Attached files, from the latest attestation of each.
    pub attachments: Option<Duration>,
    /// The audit log.
    pub audit: Option<Duration>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: Fingerprint,
    /// Its role.
    pub role: Role,
    /// The environments or flows that the role applies to.
    pub scope: Scope,
    /// Whether its reports create environments.
    pub can_create: bool,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// Describes the token for the audit log.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, scope, can_create, .. } = self;
        write!(f, "token {name} of role {}", role.as_str())?;
        if *scope != Scope::default() {
            write!(f, " for {scope}")?;
        }
        f.write_str(if *can_create { ", which creates environments," } else { "" })
    }
}

/// A flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Its name.
    pub name: FlowName,
    /// The repositories and images that it owns.
    pub ownership: Ownership,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The requirements for its trails.
    pub template: Option<TemplateBody>,
    /// Its approvals.
    pub approvals: Vec<Approval>,
}

/// The configuration of an environment.
#[derive(Debug, Clone)]
pub struct EnvironmentConfig {
    /// Its name.
    pub name: EnvironmentName,
    /// Time without reports until it counts as silent; `None` for the service's default.
    pub silent_after: Option<Duration>,
    /// Minimum number of running artifacts.
    pub min_artifacts: Option<u32>,
    /// Maximum drop of the number of running artifacts, in percent.
    pub max_drop: Option<u32>,
    /// Names of its policies.
    pub policies: Vec<PolicyName>,
    /// Its allow-list.
    pub allowed: Vec<Allowance>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its name.
    pub name: PolicyName,
    /// Its description.
    pub description: String,
    /// The policy file.
    pub content: String,
    /// Whether it requires that trails comply with their templates.
    pub needs_trails: bool,
    /// The flows that its rules name.
    pub flows: BTreeSet<String>,
}

/// An allow-list entry: artifacts that comply regardless of their evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// The artifact; for images, the hash of the pattern.
    pub fingerprint: Fingerprint,
    /// The images.
    pub pattern: Option<Pattern>,
    /// Why it is allowed.
    pub reason: String,
    /// The author of the entry.
    pub author: String,
    /// When the entry expires; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// An approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its number in its flow.
    pub number: i64,
    /// The artifact that it is about.
    pub target: Fingerprint,
    /// The environment that it applies to; `None` for any.
    pub environment: Option<EnvironmentName>,
    /// Its state.
    pub state: ApprovalState,
    /// The remaining fields.
    pub content: ApprovalContent,
}

/// The fields of an approval that are stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalContent {
    /// The artifact that the target replaces.
    pub base: Fingerprint,
    /// The target's name.
    pub artifact_name: String,
    /// Its description.
    pub description: String,
    /// The hashes of the commits between base and target.
    pub commits: Vec<String>,
    /// The sign-offs.
    pub approvals: Vec<SignOff>,
    /// Free-form data.
    pub user_data: serde_json::Value,
}

/// An action: sends events of environments to targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its number in its organization.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The environments that it applies to; `*` is all.
    pub environments: Vec<String>,
    /// The events that it sends.
    pub triggers: Vec<Trigger>,
    /// Its targets.
    pub targets: Vec<Target>,
}

/// A target of an action, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name within its action.
    pub name: String,
    /// Its kind.
    pub kind: TargetKind,
    /// The part of its address that is not secret.
    pub address: PublicAddress,
}

/// The part of a target's address that is not secret, as it is stored and as responses have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PublicAddress {
    /// The address of a webhook; only scheme and host unless the caller is an admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The channel of a chat webhook.
    #[serde(rename = "context", default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The recipients of an email.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
}
