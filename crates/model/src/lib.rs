//! Types that all crates share: those of the interface, of the log, and of retries and messages.
//!
//! They cannot hold invalid values: only parsing can fail, and a parsed value is never checked again. Uses no runtime,
//! clock, socket, file or environment variable; time is an argument.

pub mod access;
mod action;
mod approval;
mod artifact;
mod attestation;
mod checked_text;
#[cfg(feature = "sqlx")]
mod columns;
mod commit;
mod digests;
pub mod envelope;
pub mod escape;
pub mod failure_log;
mod fingerprint;
pub mod image_id;
mod image_index;
mod live_artifacts;
pub mod log;
mod name;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod owner;
mod page;
mod plural;
mod policy;
mod provider;
pub mod reason;
mod reported_artifact;
pub mod reporter;
mod repository;
pub mod retry;
mod snapshot_expression;
mod template;
mod text;
mod timestamp;
mod trail;
mod words;
pub mod yaml;

pub use action::{Channel, TargetKind, Trigger};
pub use approval::{Approval, ApprovalItem, ApprovalState, CommitHash, SignOff, SourceCommit, Withdrawal};
pub use artifact::{Artifact, ArtifactView, OwnerReference, Workload, namespace_order};
pub use attestation::{
    AttestationFields, CustomFields, GenericFields, JiraFields, JunitAttestation, JunitFields, JunitResult,
    PullRequestFields, SentAttestation, SnykFields, SonarFields, SystemFields, SystemType, unknown_fields,
};
pub use commit::{GitCommit, is_commit_hash};
pub use digests::DIGEST_PATTERN;
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
