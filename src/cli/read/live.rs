//! `get live-artifacts`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{Common, client};
use crate::api::{self, About};
use crate::cli::output::{Cell, Table, now};
use crate::cli::{Failure, Service};
use crate::domain::model::{Provider, RepositoryName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct LiveArtifacts {
    /// The repository with its owners, as acme/cart
    repository: RepositoryName,
    /// Who hosts it, where several have a repository of this name
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: Option<Provider>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  What runs of a repository, and whether it may:
    supercargo get live-artifacts acme/cart";

impl LiveArtifacts {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let live = async || client.live_artifacts(&self.repository, self.provider).await;
        let live = self.common.ask(&client, About::Repository(self.repository.as_str()), live).await?;
        if live.known.live_artifacts.is_empty() {
            tracing::info!("nothing of this repository runs anywhere");
        }
        self.common.output.print(&live.sent, || table(&live.known))
    }
}

fn table(live: &api::LiveArtifacts) -> Table {
    let headings = ["ENVIRONMENT", "ARTIFACT", "DIGEST", "COMMIT", "COMPLIANCE", "SNAPSHOT", "SINCE"];
    let (mut table, now) = (Table::new(headings), now());
    for api::Joined { live: running, artifact, environment } in live.joined() {
        let is_silent = environment.is_some_and(|environment| environment.is_silent == Some(true));
        let name = environment.map_or(&running.environment_id, |environment| &environment.name);
        // Nobody has reported it for long, so nobody knows what runs there now.
        let name = if is_silent { format!("{name} (silent)") } else { name.clone() };
        let commit = artifact.and_then(|artifact| artifact.commit_sha.as_ref());
        table.row([
            Cell::text(name),
            Cell::text(&running.artifact_name),
            Cell::digest(artifact.map(|artifact| &artifact.fingerprint)),
            Cell::commit(commit),
            Cell::word(&running.compliance),
            Cell::number(running.snapshot_index),
            Cell::ago(running.started_at, now),
        ]);
    }
    table
}

/// The providers, for the help and for completions too.
pub(in crate::cli) fn provider() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(Provider::ALL.map(Provider::as_str)).try_map(|word| word.parse::<Provider>())
}
