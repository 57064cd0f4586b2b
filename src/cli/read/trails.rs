//! `list trails`.

use clap::Args;

use super::common::{Common, client};
use super::pages::Pages;
use crate::api::{Filter, Parsed, Resource, Trail};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::{Fingerprint, FlowName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Trails {
    /// Filter by flow
    #[arg(long, value_name = "NAME")]
    flow: Option<FlowName>,
    /// Filter by tag of the flow
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    flow_tag: Option<(String, String)>,
    /// Filter by artifact: 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  List the newest trails of a flow, and the trails of an artifact:
    supercargo list trails --flow cart
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

impl Trails {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let filter =
            Filter { flow: self.flow.clone(), tag: self.flow_tag.clone(), fingerprint: self.fingerprint };
        let about = match &self.flow {
            Some(flow) => Resource::Flow(flow.as_str()),
            None => Resource::Organization,
        };
        let fetch = async |page| {
            self.common.requests.request(&client, about, async || client.trails(&filter, page).await).await
        };
        self.pages.list(&self.common.output, "trail", &self.filter(), fetch, table).await
    }

    /// Describes the filter, because a misspelled one yields an empty list and no error.
    fn filter(&self) -> String {
        let flow = self.flow.as_ref().map(|flow| format!(" in the flow \"{flow}\""));
        let tag = self.flow_tag.as_ref();
        let tag =
            tag.map(|(key, value)| format!(" in flows with the tag {}", Escaped(&format!("{key}={value}"))));
        let artifact = self.fingerprint.map(|fingerprint| format!(" with the artifact {fingerprint}"));
        let filter: String = [flow, tag, artifact].into_iter().flatten().collect();
        if filter.is_empty() { filter } else { format!("{filter}; remove the filter to list all trails") }
    }
}

fn table(trails: &[Parsed<Trail>]) -> Table {
    let (mut table, now) = (Table::new(["FLOW", "TRAIL", "COMPLIANCE", "COMMIT", "BY", "MODIFIED"]), now());
    for Parsed { value: trail, .. } in trails {
        let commit = trail.git_commit_info.as_ref().and_then(|commit| commit.sha1.as_ref());
        table.row([
            Cell::text(&trail.flow.name),
            Cell::text(&trail.name),
            Cell::compliance(trail.is_compliant),
            Cell::commit(commit),
            Cell::maybe(trail.created_by.as_ref()),
            Cell::ago(trail.last_modified_at, now),
        ]);
    }
    table
}

fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected a tag as key=value".to_owned()),
    }
}
