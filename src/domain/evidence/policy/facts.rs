//! The facts about an artifact that policies are evaluated with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::evidence::ownership::Pattern;
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};

/// An artifact in an environment, with its evidence.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The environment; `None` if the policies are evaluated for none, so that only approvals for all environments count.
    pub environment: Option<&'a EnvironmentName>,
    /// The image's name.
    pub name: &'a str,
    /// The artifact.
    pub fingerprint: &'a Fingerprint,
    /// The namespaces in which it runs.
    pub namespaces: &'a [String],
    /// Its evidence.
    pub evidence: &'a Evidence,
}

/// The evidence for an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The flows that hold the artifact: it was attested or reported there.
    pub flows: BTreeMap<String, FlowEvidence>,
    /// Approvals in the state APPROVED, in any order.
    pub approvals: Vec<ApprovalEvidence>,
    /// Authors of the artifact's commits, as `Name <mail>`.
    pub authors: Vec<String>,
}

/// The evidence of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowEvidence {
    /// The flow's tags.
    pub tags: Arc<BTreeMap<String, String>>,
    /// The latest attestations by name.
    pub attestations: BTreeMap<String, AttestationEvidence>,
    /// The trails of the latest attestations, in the order of these; only if a policy needs them.
    pub trails: Vec<TrailEvidence>,
}

/// A trail of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailEvidence {
    /// Its name.
    pub name: String,
    /// Whether it complies with the template of its flow.
    pub is_compliant: bool,
}

/// The latest attestation of a flow and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestationEvidence {
    /// Its type; empty if a previous version recorded it.
    pub kind: String,
    /// Whether it passes.
    pub passes: bool,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// Number of tests that ran; 0 unless a policy limits the number of tests.
    pub tests: u32,
    /// Number of skipped tests; 0 unless a policy limits the number of tests.
    pub skipped: u32,
}

/// An approval of an artifact, in the state APPROVED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalEvidence {
    /// The approved environment; `None` for any.
    pub environment: Option<EnvironmentName>,
    /// The name of the token that made it, or `issuer/subject`; `None` if the bootstrap file declares it.
    pub created_by: Option<String>,
    /// The persons who approved it.
    pub approvers: Vec<String>,
}

/// The allow-list of an environment: artifacts that are compliant without attestations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowList(pub Vec<AllowListEntry>);

/// An entry of an allow-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowListEntry {
    /// The artifacts.
    pub subject: AllowListSubject,
    /// Why they are allowed.
    pub reason: String,
    /// The author of the entry.
    pub author: String,
    /// Expiry time; `None` for never.
    pub until: Option<Timestamp>,
}

/// The artifacts of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowListSubject {
    /// One artifact.
    Artifact(Fingerprint),
    /// The artifacts that run under a name without tag and digest, such as `registry.k8s.io/**`.
    Image(Pattern),
}

impl AllowListEntry {
    fn covers(&self, fingerprint: &Fingerprint, name: &str) -> bool {
        match &self.subject {
            AllowListSubject::Artifact(artifact) => artifact == fingerprint,
            AllowListSubject::Image(pattern) => pattern.matches_image(name),
        }
    }
}

impl AllowList {
    /// Whether an entry is for this artifact and no other.
    #[must_use]
    pub fn names(&self, artifact: &Fingerprint) -> bool {
        self.0.iter().any(|entry| entry.subject == AllowListSubject::Artifact(*artifact))
    }

    /// The valid entries for an artifact.
    pub fn valid<'a>(
        &'a self,
        facts: &Facts<'a>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a AllowListEntry> {
        let (fingerprint, name) = (facts.fingerprint, facts.name);
        self.0.iter().filter(move |entry| {
            entry.until.is_none_or(|until| now < until) && entry.covers(fingerprint, name)
        })
    }
}

impl std::fmt::Display for AllowListEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "allowed by {}", self.author)?;
        if let Some(until) = self.until {
            write!(f, " until {until}")?;
        }
        write!(f, ": {}", self.reason)
    }
}
