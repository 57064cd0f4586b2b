//! `list trails` and `get trail`.

use clap::Args;
use serde::Deserialize;

use super::columns::Format::{Ago, Commit, Compliant, Text};
use super::columns::{Column, Objects, at, table};
use super::common::Common;
use super::pages::Pages;
use crate::api::{Operation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::{Fingerprint, FlowName, TrailName};

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(super) struct Trails {
    /// Filter by flow
    #[arg(long, value_name = "NAME")]
    flow: Option<FlowName>,
    /// Filter by tag of the flow
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    flow_tag: Option<String>,
    /// Filter by artifact: 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    pages: Pages,
}

const LIST_EXAMPLES: &str = "\
Examples:
  List the newest trails of a flow, and the trails of an artifact:
    supercargo list trails --flow cart
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

const TRAILS: &[Column] = &[
    Column::new("FLOW", "/flow/name", Text).key(),
    Column::new("TRAIL", "/name", Text).key(),
    Column::new("COMPLIANCE", "/is_compliant", Compliant),
    Column::new("COMMIT", "/git_commit_info/sha1", Commit),
    Column::new("BY", "/created_by", Text),
    Column::new("MODIFIED", "/last_modified_at", Ago),
];

impl Trails {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let about = match &self.flow {
            Some(flow) => Resource::Flow(flow.as_str()),
            None => Resource::Organization,
        };
        let operation = Operation::new(about, &["trails"])
            .with("flow", &self.flow)
            .with("flow_tag", &self.flow_tag)
            .with("fingerprint", self.fingerprint);
        self.pages.list(service, &operation, "trail", TRAILS, &self.filter()).await
    }

    /// Describes the filter, because a misspelled one yields an empty list and no error.
    fn filter(&self) -> String {
        let flow = self.flow.as_ref().map(|flow| format!(" in the flow \"{flow}\""));
        let tag = self.flow_tag.as_ref().map(|tag| format!(" in flows with the tag {}", Escaped(tag)));
        let artifact = self.fingerprint.map(|fingerprint| format!(" with the artifact {fingerprint}"));
        let filter: String = [flow, tag, artifact].into_iter().flatten().collect();
        if filter.is_empty() { filter } else { format!("{filter}; remove the filter to list all trails") }
    }
}

fn tag(text: &str) -> Result<String, &'static str> {
    let has_key = text.find('=').is_some_and(|length| length > 0);
    has_key.then(|| text.to_owned()).ok_or("expected a tag as key=value")
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

#[derive(Debug, Deserialize)]
struct History {
    events: Objects,
}

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

impl Trail {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (flow, name) = (self.flow.as_str(), self.name.as_str());
        let operation = Operation::new(Resource::Named("trail", name), &["trails", flow, name]);
        let Parsed { value, raw }: Parsed<History> = self.common.read(service, &operation).await?;
        self.common.output.print(&raw, || table(EVENTS, &value.events.0))?;
        let state = at(&raw, "/compliance_state").as_str().unwrap_or("not evaluated");
        tracing::info!("the trail \"{}\" of the flow \"{flow}\" is {}", Escaped(name), Escaped(state));
        Ok(())
    }
}
