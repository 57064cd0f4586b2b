//! `get live-artifacts`.

use clap::Args;

use super::common::{Common, client};
use crate::api::{self, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, now};
use crate::cli::service::Service;
use crate::domain::model::{Provider, RepositoryName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct LiveArtifacts {
    /// Repository with its owner, such as acme/cart
    repository: RepositoryName,
    /// Provider of the repository, such as github, gitlab, bitbucket, azure-devops or circleci, if several have one of this
    /// name
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Provider>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Show the running artifacts of a repository and their compliance:
    supercargo get live-artifacts acme/cart";

impl LiveArtifacts {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let live = async || client.live_artifacts(&self.repository, self.provider.as_ref()).await;
        let live = self
            .common
            .requests
            .request(&client, Resource::Repository(self.repository.as_str()), live)
            .await?;
        if live.value.live_artifacts.is_empty() {
            tracing::info!("no artifact of this repository is running");
        }
        if live.value.conflicts() > 0 {
            tracing::warn!(
                "flows named other origins for {} of the artifacts: the pages of the artifacts show them",
                live.value.conflicts()
            );
        }
        self.common.output.print(&live.raw, || table(&live.value))
    }
}

fn table(live: &api::LiveArtifacts) -> Table {
    let headings = ["ENVIRONMENT", "ARTIFACT", "DIGEST", "COMMIT", "COMPLIANCE", "SNAPSHOT", "SINCE"];
    let (mut table, now) = (Table::new(headings), now());
    for api::JoinedArtifact { live: running, artifact, environment } in live.joined() {
        let is_silent = environment.is_some_and(|environment| environment.is_silent == Some(true));
        let name = environment.map_or(&running.environment_id, |environment| &environment.name);
        // A silent environment shows the state of its last report.
        let name = if is_silent { format!("{name} (silent)") } else { name.clone() };
        let commit = artifact.and_then(|artifact| artifact.commit_sha.as_ref());
        table.row([
            Cell::text(name),
            Cell::text(&running.artifact_name),
            Cell::digest(artifact.map(|artifact| &artifact.fingerprint)),
            Cell::commit(commit),
            Cell::state(&running.compliance),
            Cell::number(running.snapshot_index),
            Cell::ago(running.started_at, now),
        ]);
    }
    table
}
