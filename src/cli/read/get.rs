//! `supercargo get`.
//!
//! A resource is an operation and the columns of its table, or the lines of its details.

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access_review;
use super::actions::ACTION;
use super::approvals::APPROVAL;
use super::columns::Format::{Ago, Compliant, Custom, Lines, Passes, Text};
use super::columns::{Column, Data, Objects, at, environment_state, fields, table};
use super::common::{Common, environment};
use super::digests;
use super::download::attestation_id;
use super::live;
use super::search::search;
use super::snapshot::{self, Shown};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::DigestPrefix;
use crate::cli::output::{Cell, UNKNOWN, state};
use crate::cli::values::integer;
use client::{Operation, Parsed, Resource};
use model::{
    EnvironmentName, EnvironmentSnapshot, FlowName, PolicyName, Provider, RepositoryName, SignedEvidence,
    TrailName,
};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum GetResource {
    /// Show an environment
    #[command(after_help = "Example:\n  Show an environment:\n    supercargo get environment prod")]
    Environment {
        /// Environment name
        environment: EnvironmentName,
        #[command(flatten)]
        common: Common,
    },
    /// Show what runs, or ran, in an environment
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Snapshot {
        /// Snapshot, as ENV (the latest), ENV#7, ENV~1 (before the latest), ENV@2w or ENV@2026-10-03T14:00Z
        snapshot: EnvironmentSnapshot,
        /// Only non-compliant artifacts
        #[arg(long)]
        non_compliant: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show the running artifacts of a repository in all environments
    #[command(after_help = LIVE_ARTIFACTS_EXAMPLE)]
    LiveArtifacts {
        /// Repository with its owner, such as acme/cart
        repository: RepositoryName,
        /// Provider of the repository, such as github, if several have one of this name
        #[arg(long, value_name = "PROVIDER")]
        provider: Option<Provider>,
        #[command(flatten)]
        common: Common,
    },
    /// Show who may make artifacts compliant in an environment
    #[command(after_help = ACCESS_REVIEW_EXAMPLE)]
    AccessReview {
        /// Environment name
        environment: EnvironmentName,
        #[command(flatten)]
        common: Common,
    },
    /// Show a trail and its events
    #[command(after_help = "Example:\n  Show the events of a trail:\n    supercargo get trail cart build-42")]
    Trail {
        /// Flow name
        flow: FlowName,
        /// Trail name
        #[arg(value_name = "TRAIL")]
        name: TrailName,
        #[command(flatten)]
        common: Common,
    },
    /// Show the flows of an artifact, and where it runs
    #[command(after_help = ARTIFACT_EXAMPLE)]
    Artifact {
        /// Digest, as hexadecimal digits, sha256:… or name@sha256:…; the first 7 digits are enough
        #[arg(value_name = "DIGEST")]
        fingerprint: DigestPrefix,
        #[command(flatten)]
        common: Common,
    },
    /// Show an attestation
    #[command(after_help = ATTESTATION_EXAMPLE)]
    Attestation {
        /// Identifier, as `list attestations` prints it
        #[arg(value_parser = attestation_id)]
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Show a policy
    #[command(after_help = POLICY_EXAMPLE)]
    Policy {
        /// Policy name
        policy: PolicyName,
        #[command(flatten)]
        common: Common,
    },
    /// Show an approval
    #[command(
        after_help = "Example:\n  Show the comments of an approval:\n    supercargo get approval cart 12 -o yaml"
    )]
    Approval {
        /// Flow name
        flow: FlowName,
        /// Number of the approval in the flow
        #[arg(value_parser = integer(0..=u64::MAX))]
        number: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Show a notification action
    #[command(after_help = "Example:\n  Show the last delivery of an action:\n    supercargo get action 7")]
    Action {
        /// Number of the action
        #[arg(value_parser = integer(0..=u64::MAX))]
        number: u64,
        #[command(flatten)]
        common: Common,
    },
}

const EXAMPLES: &str = "\
Examples:
  Show the running artifacts of a repository and their compliance:
    supercargo get live-artifacts acme/cart
  Show the comments of an approval:
    supercargo get approval cart 12 -o yaml";

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  Show what runs and is not compliant, what ran two weeks ago, and the seventh
  snapshot with digests and namespaces:
    supercargo get snapshot prod --non-compliant
    supercargo get snapshot prod@2w
    supercargo get snapshot 'prod#7' -o wide";

const LIVE_ARTIFACTS_EXAMPLE: &str = "\
Example:
  Show the running artifacts of a repository and their compliance:
    supercargo get live-artifacts acme/cart";

const ACCESS_REVIEW_EXAMPLE: &str = "\
Example:
  List the tokens that may make artifacts compliant in prod, with a token of role admin:
    supercargo get access-review prod";

const ARTIFACT_EXAMPLE: &str = "\
Example:
  Show the flows of an artifact, and where it runs:
    supercargo get artifact 7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

const ATTESTATION_EXAMPLE: &str = "\
Example:
  Show an attestation:
    supercargo get attestation 0192f0c1-7a3e-7c55-9d0b-3f1f6a2b8c4d";

const POLICY_EXAMPLE: &str = "\
Example:
  Print the policy file of the current version:
    supercargo get policy prod-rules -o json | jq -r '.versions[-1].policy_yaml'";

const ENVIRONMENT: &[Column] = &[
    Column::new("name", "/name", Text),
    Column::new("type", "/type", Text),
    Column::new("description", "/description", Text),
    Column::new("compliance", "/state", Custom(environment_state)),
    Column::new("silent", "/is_silent", Text),
    Column::new("last report", "/last_reported_at", Ago),
    Column::new("changed", "/last_changed_at", Ago),
    Column::new("archived", "/archived_at", Ago),
    Column::new("excluded pods", "/excluded_pods", Text),
    Column::new("policies", "/policies", Text),
    Column::new("tags", "/tags", Text),
];

const EVENTS: &[Column] = &[
    Column::new("WHEN", "/timestamp", Ago),
    Column::new("EVENT", "/type", Text),
    Column::new("NAME", "/template_reference_name", Text),
    Column::new("TARGET", "/target_artifact", Text),
    Column::new("ATTESTATION", "/attestation_id", Text),
    Column::new("COMPLIANCE", "/is_compliant", Compliant),
    Column::new("ENVIRONMENT", "/environment_name", Text),
    Column::new("SNAPSHOT", "/snapshot_index", Text),
];

const ATTESTATION: &[Column] = &[
    Column::new("name", "/attestation_name", Text),
    Column::new("type", "/attestation_type", Text),
    Column::new("result", "/is_compliant", Passes),
    Column::new("flow", "/flow_name", Text),
    Column::new("trail", "/trail_name", Text),
    Column::new("artifact", "/artifact_fingerprint", Text),
    Column::new("commit", "/git_commit_info/sha1", Text),
    Column::new("signature", "/signed_evidence", Lines(evidence)),
    Column::new("description", "/description", Text),
    Column::new("by", "/reported_by", Text),
    Column::new("received", "/created_at", Ago),
    Column::new("file attached", "/has_audit_package", Text),
    Column::new("page", "/html_url", Text),
];

const POLICY: &[Column] = &[
    Column::new("name", "/policy/name", Text),
    Column::new("description", "/policy/description", Text),
    Column::new("environments", "/policy/consuming_envs", Text),
    Column::new("created", "/policy/created_at", Ago),
    Column::new("version", "/latest/version", Text),
    Column::new("changed", "/latest/timestamp", Ago),
    Column::new("by", "/latest/created_by", Text),
    Column::new("comment", "/latest/comment", Text),
];

/// Who signed it, and what that says of builder and source.
fn evidence(signed: &Value) -> Cell {
    let signed = SignedEvidence::deserialize(signed).ok();
    Cell::maybe(signed.map(|signed| signed.to_string()))
}

#[derive(Debug, Deserialize)]
struct History {
    events: Objects,
}

#[derive(Debug, Deserialize)]
struct Versions {
    versions: Objects,
}

#[derive(Debug, thiserror::Error)]
#[error("attestation \"{0}\" not found")]
struct NoAttestation(String);

impl GetResource {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            GetResource::Environment { environment: name, common } => {
                let operation = environment(name, &["environments", name.as_str()]);
                common.show(service, &operation, ENVIRONMENT).await
            }
            GetResource::Snapshot { snapshot, non_compliant, common } => {
                let shown = if *non_compliant { Shown::NonCompliant } else { Shown::All };
                snapshot::show(service, common, snapshot, shown).await
            }
            GetResource::LiveArtifacts { repository, provider, common } => {
                live::show(service, common, repository, provider.as_ref()).await
            }
            GetResource::AccessReview { environment, common } => {
                access_review::show(service, common, environment).await
            }
            GetResource::Trail { flow, name, common } => trail(service, common, flow, name).await,
            GetResource::Artifact { fingerprint, common } => {
                let fingerprint = digests::resolve(service, common, fingerprint).await?;
                let about = Resource::Artifact(fingerprint);
                search(service, common, about, &fingerprint.to_string()).await
            }
            GetResource::Attestation { id, common } => attestation(service, common, id).await,
            GetResource::Policy { policy, common } => {
                let name = policy.as_str();
                let operation = Operation::new(Resource::Named("policy", name), &["policies", name]);
                let Parsed { value, raw }: Parsed<Versions> = common.read(service, &operation).await?;
                let policy = || json!({"latest": value.versions.0.last(), "policy": raw});
                common.output.print(&raw, || fields(POLICY, &policy()))
            }
            GetResource::Approval { flow, number, common } => {
                let (flow, number) = (flow.as_str(), *number);
                let path = ["approvals", flow, &number.to_string()];
                let operation = Operation::new(Resource::Approval(flow, number), &path);
                common.show(service, &operation, APPROVAL).await
            }
            GetResource::Action { number, common } => {
                let path = ["actions", &number.to_string()];
                common.show(service, &Operation::new(Resource::Action(*number), &path), ACTION).await
            }
        }
    }
}

async fn trail(
    service: &ServiceOptions,
    common: &Common,
    flow: &FlowName,
    name: &TrailName,
) -> Result<(), Failure> {
    let (flow, name) = (flow.as_str(), name.as_str());
    let operation = Operation::new(Resource::Named("trail", name), &["trails", flow, name]);
    let Parsed { value, raw }: Parsed<History> = common.read(service, &operation).await?;
    let state = state(at(&raw, "/compliance_state").as_str().unwrap_or(UNKNOWN));
    common.output.print(&raw, || table(EVENTS, &value.events.0).titled(&format!("{flow}/{name}: {state}")))
}

async fn attestation(service: &ServiceOptions, common: &Common, id: &str) -> Result<(), Failure> {
    let operation = Operation::new(Resource::Named("attestation", id), &["attestations"]);
    let operation = operation.with("attestation_id", [id]);
    let found: Parsed<Data> = common.read(service, &operation).await?;
    let Some(attestation) = found.value.data.0.first() else {
        return Err(Failure::new(NoAttestation(id.to_owned()), None, Exit::NotFound));
    };
    common.output.print(attestation, || fields(ATTESTATION, attestation))
}
