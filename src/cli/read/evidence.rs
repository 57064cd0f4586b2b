//! `list flows`, `list artifacts`, `list policies`, `get policy`, `get artifact` and `search`.

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::columns::Format::{Ago, Commit, Count, Digest, State, Text};
use super::columns::{Column, Data, Objects, at, fields, items, table};
use super::common::Common;
use super::pages::Pages;
use crate::api::{Operation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::{Fingerprint, FlowName, PolicyName, RepositoryName};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  List the flows of a team:\n    supercargo list flows --name shop")]
pub(super) struct Flows {
    /// Part of the name, ignoring case
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    #[command(flatten)]
    common: Common,
}

const FLOWS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("DESCRIPTION", "/description", Text),
    Column::new("COMPLIANCE", "/latest_state", State),
    Column::new("ACTIVITY", "/latest_activity_at", Ago),
    Column::new("TAGS", "/tags", Text),
];

impl Flows {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let case_sensitive = self.name.as_ref().map(|_| false);
        let operation = Operation::new(Resource::Organization, &["flows"]);
        let operation = operation.with("search_by_name", &self.name).with("case_sensitive", case_sensitive);
        self.common.list(service, &operation, "flow", FLOWS).await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the latest artifacts of a flow:\n    supercargo list artifacts --flow cart"
)]
pub(super) struct Artifacts {
    /// Flow name
    #[arg(long, value_name = "NAME", required_unless_present = "repository", conflicts_with = "repository")]
    flow: Option<FlowName>,
    /// Repository with its owner, such as acme/cart
    #[arg(long, value_name = "NAME")]
    repository: Option<RepositoryName>,
    #[command(flatten)]
    pages: Pages,
}

const ARTIFACTS: &[Column] = &[
    Column::new("ARTIFACT", "/filename", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMMIT", "/git_commit", Commit),
    Column::new("COMPLIANCE", "/state", State),
    Column::new("CREATED", "/created_at", Ago),
];

impl Artifacts {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        // The arguments require one of them.
        let about = match (&self.flow, &self.repository) {
            (Some(flow), _) => Resource::Named("flow", flow.as_str()),
            (None, Some(name)) => Resource::Repository(name.as_str()),
            (None, None) => Resource::Organization,
        };
        let operation = Operation::new(about, &["artifacts"]);
        let operation = operation.with("flow_name", &self.flow).with("repo_name", &self.repository);
        self.pages.list(service, &operation, "artifact", ARTIFACTS, "").await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List policies and the environments that they apply to:\n    supercargo list policies"
)]
pub(super) struct Policies {
    #[command(flatten)]
    common: Common,
}

const POLICIES: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("DESCRIPTION", "/description", Text),
    Column::new("ENVIRONMENTS", "/consuming_envs", Text),
    Column::new("VERSIONS", "/versions", Count),
    Column::new("CREATED", "/created_at", Ago),
];

impl Policies {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        self.common
            .list(service, &Operation::new(Resource::Organization, &["policies"]), "policy", POLICIES)
            .await
    }
}

#[derive(Debug, Args)]
#[command(after_help = POLICY_EXAMPLE)]
pub(super) struct Policy {
    /// Policy name
    policy: PolicyName,
    #[command(flatten)]
    common: Common,
}

const POLICY_EXAMPLE: &str = "\
Example:
  Print the policy file of the current version:
    supercargo get policy prod-rules -o json | jq -r '.versions[-1].policy_yaml'";

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

#[derive(Debug, Deserialize)]
struct Versions {
    versions: Objects,
}

impl Policy {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.policy.as_str();
        let operation = Operation::new(Resource::Named("policy", name), &["policies", name]);
        let Parsed { value, raw }: Parsed<Versions> = self.common.read(service, &operation).await?;
        self.common
            .output
            .print(&raw, || fields(POLICY, &json!({"latest": value.versions.0.last(), "policy": raw})))
    }
}

#[derive(Debug, Args)]
#[command(after_help = ARTIFACT_EXAMPLE)]
pub(super) struct Artifact {
    /// Digest, as 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(value_name = "DIGEST", value_parser = digest)]
    fingerprint: Fingerprint,
    #[command(flatten)]
    common: Common,
}

const ARTIFACT_EXAMPLE: &str = "\
Example:
  Show the flows of an artifact, and where it runs:
    supercargo get artifact 7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

#[derive(Debug, Args)]
#[command(after_help = SEARCH_EXAMPLES)]
pub(in crate::cli) struct Search {
    /// Start of a commit hash or digest, or a part of the name of an image, pod, flow or trail
    word: String,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    service: Service,
}

const SEARCH_EXAMPLES: &str = "\
Examples:
  Search an artifact by its commit, and everything that is named like a word:
    supercargo search 4f1c2e7d
    supercargo search checkout";

const FOUND: &[Column] = &[
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("FLOW", "/flow", Text),
    Column::new("COMMIT", "/git_commit", Commit),
    Column::new("COMPLIANCE", "/compliance_state", State),
    Column::new("RUNNING IN", "/running_in", Text),
    Column::new("EXITED FROM", "/exited_from", Text),
];

const NAMED: &[Column] = &[
    Column::new("KIND", "/kind", Text),
    Column::new("NAME", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("FLOW", "/flow", Text),
    Column::new("ENVIRONMENT", "/pod/environment", Text),
    Column::new("STARTED", "/pod/started_at", Ago),
    Column::new("ENDED", "/pod/ended_at", Ago),
];

#[derive(Debug, Deserialize)]
struct Found {
    artifacts: Objects,
}

async fn search(common: &Common, service: &Service, about: Resource<'_>, word: &str) -> Result<(), Failure> {
    let operation = Operation::new(about, &["search", "sha", word]);
    let Parsed { value, raw: found }: Parsed<Found> = common.read(service, &operation).await?;
    common.output.print(&found, || table(FOUND, &value.artifacts.0))?;
    let has_more = ["/resolved_to/fingerprints/has_more", "/resolved_to/commits/has_more"];
    if has_more.iter().any(|pointer| at(&found, pointer) == true) {
        tracing::warn!("more artifacts match: enter more digits");
    }
    Ok(())
}

impl Artifact {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let about = Resource::Artifact(self.fingerprint);
        search(&self.common, service, about, &self.fingerprint.to_string()).await
    }
}

impl Search {
    pub(in crate::cli) async fn run(&self) -> Result<(), Failure> {
        let Self { word, common, service } = self;
        let about = Resource::Named("commit or digest", word);
        if (5..=64).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return search(common, service, about, word).await;
        }
        let operation = Operation::new(Resource::Organization, &["search"]).with("q", [word]);
        let Parsed { value, raw: found }: Parsed<Data> = common.read(service, &operation).await?;
        common.output.print(&found, || table(NAMED, &value.data.0))?;
        if value.data.0.is_empty() {
            tracing::info!("no matches found");
        }
        for kind in items(&found, "/truncated").filter_map(Value::as_str) {
            tracing::warn!("more matches of the kind {}: enter a longer word", Escaped(kind));
        }
        Ok(())
    }
}
