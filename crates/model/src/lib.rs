//! Types that all crates share: those of the interface, of the log, and of retries and messages.
//!
//! They cannot hold invalid values: only parsing can fail, and a parsed value is never checked again. Uses no runtime,
//! clock, socket, file or environment variable; time is an argument.

pub mod access;
mod action;
mod approval;
mod artifact;
mod attestation;
#[cfg(feature = "sqlx")]
mod columns;
pub mod envelope;
pub mod failure_log;
pub mod json;
pub mod log;
#[cfg(feature = "openapi")]
pub mod openapi;
mod page;
mod policy;
pub mod reason;
pub mod reporter;
mod repository;
pub mod retry;
mod signed_evidence;
mod snapshot_expression;
mod text;
mod timestamp;
mod trail;

pub use action::{Channel, TargetKind, Trigger};
pub use approval::{Approval, ApprovalItem, ApprovalState, CommitHash, SignOff, SourceCommit, Withdrawal};
pub use artifact::digests::DIGEST_PATTERN;
pub use artifact::digests::Digests;
pub use artifact::fingerprint::{Fingerprint, FingerprintHasher, InvalidFingerprint};
pub use artifact::image_index::{
    ImageIndex, InvalidImageIndex, ListedManifest, MAX_INDEX, MAX_MANIFESTS, PlatformManifest, RelatedDigests,
};
pub use artifact::live_artifacts::{
    Embedded, EmbeddedArtifact, EmbeddedEnvironment, Link, LiveArtifact, LiveArtifacts,
};
pub use artifact::reported_artifact::ReportedArtifact;
pub use artifact::{Artifact, ArtifactView, OwnerReference, Workload, namespace_order};
pub use artifact::{image_id, owner};
pub use attestation::{
    AttestationFields, BundleFields, CustomFields, GenericFields, JiraFields, JunitAttestation, JunitFields,
    JunitResult, PullRequestFields, SentAttestation, SnykFields, SonarFields, SystemFields, SystemType,
    unknown_fields,
};
pub use page::{InvalidPage, Page, Pagination};
pub use policy::{PolicySummary, PolicyVersionSummary};
pub use repository::commit::{GitCommit, is_commit_hash};
pub use repository::provider::{InvalidProvider, Provider, at_provider};
pub use repository::remote::{decoded_name, repository_page, repository_path, web_url};
pub use repository::{
    AmbiguousRepository, KnownRepository, RepositoryInfo, RepositoryMatch, commit_url, match_repository,
};
pub use signed_evidence::{EvidenceKind, SignedEvidence, claimed_kind};
pub use snapshot_expression::{EnvironmentSnapshot, InvalidExpression, PointInTime, SnapshotExpression};
pub use text::name::{
    EnvironmentName, FlowName, InvalidName, NamespaceName, OrganizationName, PolicyName, RepositoryName,
    TokenName, TrailName,
};
pub use text::nearest::{did_you_mean, nearest};
pub use text::plural::pluralize;
pub use text::words::UnknownWord;
pub use text::{
    AnyJson, ArtifactName, FreeForm, InvalidObject, InvalidText, ShortText, Text, UnknownFields, UrlText,
    null_is_default,
};
pub use text::{escape, yaml};
pub use timestamp::Timestamp;
pub use trail::template::{
    InvalidTemplate, RequiredArtifact, RequiredAttestation, Template, TemplateBody, TemplateFile,
};
pub use trail::{
    ArtifactStatus, AttestationPresence, AttestationStatus, ComplianceState, ComplianceStatus, TrailCommit,
    TrailEvent,
};
