//! Policies: the requirements of environments for each artifact.
//!
//! A policy is parsed from the public policy file (`file`), which is also made of the bootstrap file's short form (`inline`),
//! and evaluated with the facts about one artifact (`evaluate`). Called by the service's evaluation, its gate and its pages.
//! Pure: time is an argument.

pub mod authorship;
pub mod evaluate;
pub mod expression;
pub mod facts;
mod file;
mod inline;
mod needs;
pub mod resolution;
mod rule;

pub use file::{InvalidPolicy, MAX_FILE, MAX_RULES};
pub use inline::{InlinePolicy, Requirement};
pub use needs::{LatestNeeded, Needs};
pub use rule::{ApprovalRule, AttestationRule, Exception, FlowRule, Rule};

/// Maximum number of policies of an environment. The bootstrap file may add one in the short form.
pub const MAX_POLICIES: usize = 10;

/// The requirements for each artifact of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub name: PolicyVersion,
    /// The rules. The artifact must satisfy each that applies to it.
    pub rules: Vec<Rule>,
    /// Whether only evidence for the digest itself counts, not that for other digests of the image.
    pub is_exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyVersion {
    /// The policy's name, unique in its organization.
    pub name: String,
    /// Counts from 1.
    pub version: i64,
}

impl std::fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} v{}", self.name, self.version)
    }
}
