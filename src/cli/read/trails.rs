//! `list trails`.

use clap::Args;

use super::{Common, Pages, client};
use crate::api::{About, Filter, Kept, Trail};
use crate::cli::fingerprints::digest;
use crate::cli::output::{Cell, Table, now};
use crate::cli::{Failure, Service};
use crate::domain::escape::Visible;
use crate::domain::model::{Fingerprint, FlowName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Trails {
    /// Those of this flow
    #[arg(long, value_name = "NAME")]
    flow: Option<FlowName>,
    /// Those of flows with this tag
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    flow_tag: Option<(String, String)>,
    /// Those that this artifact was reported to: 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  The newest of a flow, and those that an artifact was reported to:
    supercargo list trails --flow cart
    supercargo list trails --fingerprint \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

impl Trails {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let filter =
            Filter { flow: self.flow.clone(), tag: self.flow_tag.clone(), fingerprint: self.fingerprint };
        let about = match &self.flow {
            Some(flow) => About::Flow(flow.as_str()),
            None => About::Organization,
        };
        let ask =
            async |page| self.common.ask(&client, about, async || client.trails(&filter, page).await).await;
        self.pages.list(&self.common.output, "trail", &self.asked(), ask, table).await
    }

    /// Which are asked for. A filter that nothing passes may be one that is misspelt: a service does not say so.
    fn asked(&self) -> String {
        let flow = self.flow.as_ref().map(|flow| format!(" of the flow \"{flow}\""));
        let tag = self.flow_tag.as_ref();
        let tag =
            tag.map(|(key, value)| format!(" of a flow with the tag {}", Visible(&format!("{key}={value}"))));
        let artifact = self.fingerprint.map(|fingerprint| format!(" with the artifact {fingerprint}"));
        let asked: String = [flow, tag, artifact].into_iter().flatten().collect();
        if asked.is_empty() { asked } else { format!("{asked}; without that, this lists those of all flows") }
    }
}

fn table(trails: &[Kept<Trail>]) -> Table {
    let (mut table, now) = (Table::new(["FLOW", "TRAIL", "COMPLIANCE", "COMMIT", "BY", "MODIFIED"]), now());
    for Kept { known: trail, .. } in trails {
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
        _ => Err("a tag as key=value was expected".to_owned()),
    }
}
