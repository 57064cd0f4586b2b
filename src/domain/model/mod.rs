//! The types of the compliance service's interface. They cannot hold invalid values.
//!
//! Used by every layer. Only parsing can fail; a parsed value is never checked again.

mod action;
mod approval;
mod artifact;
mod attestation;
mod checked_text;
mod commit;
mod digests;
mod fingerprint;
mod image_index;
mod live_artifacts;
mod name;
mod page;
mod plural;
mod policy;
mod provider;
mod reported_artifact;
mod repository;
mod snapshot_expression;
mod template;
mod text;
mod timestamp;
mod trail;
mod words;

pub use action::{Channel, TargetKind, Trigger};
pub use approval::{Approval, ApprovalItem, ApprovalState, CommitHash, SignOff, SourceCommit, Withdrawal};
pub use artifact::{Artifact, ArtifactView, OwnerReference, Workload, namespace_order};
pub use attestation::{
    AttestationFields, CustomFields, GenericFields, JiraFields, JunitAttestation, JunitFields, JunitResult,
    PullRequestFields, SentAttestation, SnykFields, SonarFields, SystemFields, SystemType, unknown_fields,
};
pub(crate) use checked_text::checked_text;
pub use commit::{GitCommit, is_commit_hash};
pub(crate) use digests::DIGEST_PATTERN;
pub use digests::Digests;
pub use fingerprint::{Fingerprint, FingerprintHasher, InvalidFingerprint};
pub use image_index::{
    ImageIndex, InvalidImageIndex, ListedManifest, MAX_INDEX, MAX_MANIFESTS, PlatformManifest, RelatedDigests,
};
pub use live_artifacts::{
    Embedded, EmbeddedArtifact, EmbeddedEnvironment, Link, LiveArtifact, LiveArtifacts,
};
pub use name::{
    EnvironmentName, FlowName, InvalidName, NamespaceName, OrganizationName, PolicyName, RepositoryName,
    TokenName, TrailName,
};
pub use page::{InvalidPage, Page, Pagination};
pub use plural::pluralize;
pub use policy::{PolicySummary, PolicyVersionSummary};
pub use provider::{InvalidProvider, Provider, at_provider};
pub use reported_artifact::ReportedArtifact;
pub use repository::{
    AmbiguousRepository, KnownRepository, RepositoryInfo, RepositoryMatch, commit_url, match_repository,
};
pub use snapshot_expression::{EnvironmentSnapshot, InvalidExpression, PointInTime, SnapshotExpression};
pub use template::{
    InvalidTemplate, RequiredArtifact, RequiredAttestation, Template, TemplateBody, TemplateFile,
};
pub use text::{AnyJson, FreeForm, InvalidObject, InvalidText, ShortText, Text, UnknownFields, UrlText};
pub use timestamp::Timestamp;
pub use trail::{
    ArtifactStatus, AttestationPresence, AttestationStatus, ComplianceState, ComplianceStatus, TrailCommit,
    TrailEvent,
};
pub use words::UnknownWord;
pub(crate) use words::words;
