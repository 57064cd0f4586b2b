//! What a bootstrap file says, with its references resolved and its secrets left out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::evidence::access::{Role, Scope};
use crate::domain::evidence::compliance::Policy;
use crate::domain::model::{
    ApprovalState, Channel, EnvironmentName, Fingerprint, FlowName, OrganizationName, SignOff, TargetKind,
    TemplateBody, Timestamp, Trigger,
};

/// All that a bootstrap file says, with its references resolved.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Grows with each change of the file.
    pub generation: i64,
    /// The hash of the file, without what it refers to.
    pub sha256: Fingerprint,
    /// The organizations.
    pub organizations: Vec<Organization>,
}

/// An organization.
#[derive(Debug, Clone)]
pub struct Organization {
    /// Its name.
    pub name: OrganizationName,
    /// How long its environments' history is kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Its flows, as far as more than their names is known.
    pub flows: Vec<Flow>,
    /// Its environments, as far as more than their names is known.
    pub environments: Vec<Environment>,
    /// What is sent where when something happens.
    pub actions: Vec<Action>,
}

/// A token, known by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: Fingerprint,
    /// What it may do.
    pub role: Role,
    /// For which environments or flows.
    pub scope: Scope,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// A flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Its name.
    pub name: FlowName,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// What it expects of its trails.
    pub template: Option<TemplateBody>,
    /// Its approvals.
    pub approvals: Vec<Approval>,
}

/// An environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its name.
    pub name: EnvironmentName,
    /// How long it may be silent; `None`: the default.
    pub silent_after: Option<Duration>,
    /// What it requires of what runs there.
    pub policy: Option<Policy>,
    /// What may run there all the same.
    pub allowed: Vec<Allowance>,
}

/// An artifact that may run whatever is attested of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub author: String,
    /// Until when; `None`: for ever.
    pub expires_at: Option<Timestamp>,
}

/// An approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its number in its flow.
    pub number: i64,
    /// The artifact that it is about.
    pub target: Fingerprint,
    /// The environment that it is for; `None`: any.
    pub environment: Option<EnvironmentName>,
    /// Where it stands.
    pub state: ApprovalState,
    /// All else.
    pub content: ApprovalContent,
}

/// What is kept of an approval besides what it is looked up by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalContent {
    /// The artifact that the target takes the place of.
    pub base: Fingerprint,
    /// The target's name.
    pub artifact_name: String,
    /// What it is about.
    pub description: String,
    /// The commits that come with it, as hashes.
    pub commits: Vec<String>,
    /// Who said what.
    pub approvals: Vec<SignOff>,
    /// Whatever else is to be kept with it.
    pub user_data: serde_json::Value,
}

/// What is sent where when something happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its number in its organization.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The environments that it is for; `*` is all.
    pub environments: Vec<String>,
    /// What has to happen.
    pub triggers: Vec<Trigger>,
    /// Where it is sent.
    pub targets: Vec<Target>,
}

/// Where something is sent, as far as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name within its action.
    pub name: String,
    /// What kind of place it is.
    pub kind: TargetKind,
    /// As much of the address as everybody may see.
    pub shown: Shown,
}

/// As much of a target's address as everybody may see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shown {
    /// The scheme and host of a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The channel behind a chat's webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The addresses of an email.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
}
