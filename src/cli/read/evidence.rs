//! `list flows`, `list artifacts`, `list policies`, `get policy`, `get trail`, `get artifact`, `get attestation` and `search`.

use clap::Args;
use serde_json::{Value, json};

use super::columns::Format::{Ago, Commit, Compliant, Count, Digest, State, Text};
use super::columns::{Column, fields, table};
use super::common::{Common, client};
use super::download::attestation_id;
use super::environments::{at, items};
use super::pages::Pages;
use crate::api::{Item, Parsed, Resource};
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::digest;
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::{Fingerprint, FlowName, PolicyName, RepositoryName, TrailName};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  List the flows of a team:\n    supercargo list flows --name shop")]
pub(super) struct Flows {
    /// Part of the name, ignoring case
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    #[command(flatten)]
    common: Common,
}

const FLOWS: [Column; 5] = [
    ("NAME", "/name", Text),
    ("DESCRIPTION", "/description", Text),
    ("COMPLIANCE", "/latest_state", State),
    ("ACTIVITY", "/latest_activity_at", Ago),
    ("TAGS", "/tags", Text),
];

impl Flows {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let query = self
            .name
            .iter()
            .flat_map(|name| [("search_by_name", name.as_str()), ("case_sensitive", "false")]);
        let query: Vec<_> = query.collect();
        self.common.list_all(service, Resource::Organization, "flow", (&["flows"], &query), &FLOWS).await
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
    #[command(flatten)]
    common: Common,
}

const ARTIFACTS: [Column; 5] = [
    ("ARTIFACT", "/filename", Text),
    ("DIGEST", "/fingerprint", Digest),
    ("COMMIT", "/git_commit", Commit),
    ("COMPLIANCE", "/state", State),
    ("CREATED", "/created_at", Ago),
];

impl Artifacts {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let (about, query) = match (&self.flow, &self.repository) {
            (Some(flow), _) => (Resource::Named("flow", flow.as_str()), ("flow_name", flow.as_str())),
            (None, Some(name)) => (Resource::Repository(name.as_str()), ("repo_name", name.as_str())),
            // The arguments require one of them.
            (None, None) => (Resource::Organization, ("flow_name", "")),
        };
        let fetch = async |page| {
            let send = async || client.items(&["artifacts"], &[query], Some(page)).await;
            self.common.requests.request(&client, about, send).await
        };
        let listed = |items: &[Parsed<Item>]| table(&ARTIFACTS, items.iter().map(|item| &item.raw));
        self.pages.list(&self.common.output, "artifact", "", fetch, listed).await
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

const POLICIES: [Column; 5] = [
    ("NAME", "/name", Text),
    ("DESCRIPTION", "/description", Text),
    ("ENVIRONMENTS", "/consuming_envs", Text),
    ("VERSIONS", "/versions", Count),
    ("CREATED", "/created_at", Ago),
];

impl Policies {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let request = (&["policies"][..], &[][..]);
        self.common.list_all(service, Resource::Organization, "policy", request, &POLICIES).await
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

const POLICY: [Column; 8] = [
    ("name", "/policy/name", Text),
    ("description", "/policy/description", Text),
    ("environments", "/policy/consuming_envs", Text),
    ("created", "/policy/created_at", Ago),
    ("version", "/latest/version", Text),
    ("changed", "/latest/timestamp", Ago),
    ("by", "/latest/created_by", Text),
    ("comment", "/latest/comment", Text),
];

impl Policy {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.policy.as_str();
        let about = Resource::Named("policy", name);
        let policy = self.common.object(service, about, (&["policies", name], &[])).await?;
        self.common.output.print(&policy, || {
            fields(&POLICY, &json!({"latest": items(&policy, "/versions").last(), "policy": policy}))
        })
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  Show the events of a trail:\n    supercargo get trail cart build-42")]
pub(super) struct Trail {
    /// Flow name
    flow: FlowName,
    /// Trail name
    #[arg(value_name = "TRAIL")]
    name: TrailName,
    #[command(flatten)]
    common: Common,
}

const EVENTS: [Column; 8] = [
    ("WHEN", "/timestamp", Ago),
    ("EVENT", "/type", Text),
    ("NAME", "/template_reference_name", Text),
    ("TARGET", "/target_artifact", Text),
    ("ATTESTATION", "/attestation_id", Text),
    ("COMPLIANCE", "/is_compliant", Compliant),
    ("ENVIRONMENT", "/environment_name", Text),
    ("SNAPSHOT", "/snapshot_index", Text),
];

impl Trail {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (flow, name) = (self.flow.as_str(), self.name.as_str());
        let (about, path) = (Resource::Named("trail", name), ["trails", flow, name]);
        let trail = self.common.object(service, about, (&path, &[])).await?;
        self.common.output.print(&trail, || table(&EVENTS, items(&trail, "/events")))?;
        let state = at(&trail, "/compliance_state").as_str().unwrap_or("not evaluated");
        tracing::info!("the trail \"{}\" of the flow \"{flow}\" is {}", Escaped(name), Escaped(state));
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = ATTESTATION_EXAMPLE)]
pub(super) struct Attestation {
    /// Identifier, as `list attestations` prints it
    #[arg(value_parser = attestation_id)]
    id: String,
    #[command(flatten)]
    common: Common,
}

const ATTESTATION_EXAMPLE: &str = "\
Example:
  Show an attestation:
    supercargo get attestation 0192f0c1-7a3e-7c55-9d0b-3f1f6a2b8c4d";

const ATTESTATION: [Column; 12] = [
    ("name", "/attestation_name", Text),
    ("type", "/attestation_type", Text),
    ("compliance", "/is_compliant", Compliant),
    ("flow", "/flow_name", Text),
    ("trail", "/trail_name", Text),
    ("artifact", "/artifact_fingerprint", Text),
    ("commit", "/git_commit_info/sha1", Text),
    ("description", "/description", Text),
    ("by", "/reported_by", Text),
    ("received", "/created_at", Ago),
    ("file attached", "/has_audit_package", Text),
    ("page", "/html_url", Text),
];

#[derive(Debug, thiserror::Error)]
#[error("attestation \"{0}\" not found")]
struct NoAttestation(String);

impl Attestation {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (about, query) =
            (Resource::Named("attestation", &self.id), [("attestation_id", self.id.as_str())]);
        let found = self.common.object(service, about, (&["attestations"], &query)).await?;
        let Some(attestation) = items(&found, "/data").next() else {
            return Err(Failure::new(NoAttestation(self.id.clone()), None, Exit::NotFound));
        };
        self.common.output.print(attestation, || fields(&ATTESTATION, attestation))
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

const FOUND: [Column; 7] = [
    ("ARTIFACT", "/name", Text),
    ("DIGEST", "/fingerprint", Digest),
    ("FLOW", "/flow", Text),
    ("COMMIT", "/git_commit", Commit),
    ("COMPLIANCE", "/compliance_state", State),
    ("RUNNING IN", "/running_in", Text),
    ("EXITED FROM", "/exited_from", Text),
];

const NAMED: [Column; 7] = [
    ("KIND", "/kind", Text),
    ("NAME", "/name", Text),
    ("DIGEST", "/fingerprint", Digest),
    ("FLOW", "/flow", Text),
    ("ENVIRONMENT", "/pod/environment", Text),
    ("STARTED", "/pod/started_at", Ago),
    ("ENDED", "/pod/ended_at", Ago),
];

async fn search(common: &Common, service: &Service, about: Resource<'_>, word: &str) -> Result<(), Failure> {
    let found: Value = common.object(service, about, (&["search", "sha", word], &[])).await?;
    common.output.print(&found, || table(&FOUND, items(&found, "/artifacts")))?;
    let has_more = ["/resolved_to/fingerprints/has_more", "/resolved_to/commits/has_more"];
    if has_more.iter().any(|pointer| at(&found, pointer) == true) {
        tracing::warn!("more artifacts match: set more digits");
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
        let found = common.object(service, Resource::Organization, (&["search"], &[("q", word)])).await?;
        common.output.print(&found, || table(&NAMED, items(&found, "/data")))?;
        if items(&found, "/data").next().is_none() {
            tracing::info!("no matches found");
        }
        for kind in items(&found, "/truncated").filter_map(Value::as_str) {
            tracing::warn!("more matches of the kind {}: set a longer word", Escaped(kind));
        }
        Ok(())
    }
}
