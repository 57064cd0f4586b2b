//! The words of the compliance service's interface, as types that cannot hold wrong values.
//!
//! Every room uses them. Parsing is the one place that can fail; what stands here is never checked
//! again.

mod action;
mod approval;
mod artifact;
mod attestation;
mod fingerprint;
mod live;
mod name;
mod page;
mod repository;
mod template;
mod text;
mod timestamp;
mod trail;

pub use action::{Action, Channel, ListedAction, Sent, Target, TargetKind, Trigger, UnknownWord};
pub use approval::{Approval, ApprovalState, CommitHash, SignOff, SourceCommit, UnknownState};
pub use artifact::{Artifact, ArtifactView, Digests, OwnerReference, Workload, namespace_order};
pub use attestation::{Attestation, GitCommit, JunitAttestation, JunitResult, is_commit_hash};
pub use fingerprint::{Fingerprint, Fingerprinting, InvalidFingerprint};
pub use live::{Embedded, EmbeddedArtifact, EmbeddedEnvironment, Link, LiveArtifact, LiveArtifacts};
pub use name::{
    EnvironmentName, FlowName, InvalidName, NamespaceName, OrganizationName, RepositoryName, TrailName,
};
pub use page::{InvalidPage, Page, Pagination};
pub use repository::{Ambiguous, Known, Meant, Provider, RepositoryInfo, commit_url, meant};
pub use template::{Required, RequiredArtifact, Template, TemplateBody};
pub use text::{FreeForm, InvalidObject, InvalidText, ShortText, Text, UrlText};
pub use timestamp::Timestamp;
pub use trail::{
    ArtifactStatus, AttestationStatus, ComplianceStatus, Flow, Trail, TrailCommit, TrailTemplate,
};
