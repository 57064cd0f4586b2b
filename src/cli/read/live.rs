//! `get live-artifacts`.

use clap::Args;
use serde_json::{Value, json};

use super::columns::Format::{Ago, Commit, Digest, State, Text};
use super::columns::{Column, table};
use super::common::{Common, client};
use crate::api::{JoinedArtifact, Resource};
use crate::cli::exit::Failure;
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

const RUNNING: &[Column] = &[
    Column::new("ENVIRONMENT", "/environment", Text),
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMMIT", "/commit", Commit),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("SNAPSHOT", "/snapshot", Text),
    Column::new("SINCE", "/started_at", Ago),
];

impl LiveArtifacts {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let send = async || client.live_artifacts(&self.repository, self.provider.as_ref()).await;
        let about = Resource::Repository(self.repository.as_str());
        let live = self.common.requests.read(&client, about, send).await?;
        if live.value.live_artifacts.is_empty() {
            tracing::info!("no artifact of this repository is running");
        }
        if live.value.conflicts() > 0 {
            tracing::warn!(
                "flows named other origins for {} of the artifacts: the pages of the artifacts show them",
                live.value.conflicts()
            );
        }
        let rows: Vec<_> = live.value.joined().map(row).collect();
        self.common.output.print(&live.raw, || table(RUNNING, &rows))
    }
}

fn row(JoinedArtifact { live, artifact, environment }: JoinedArtifact<'_>) -> Value {
    let is_silent = environment.is_some_and(|environment| environment.is_silent == Some(true));
    let name = environment.map_or(&live.environment_id, |environment| &environment.name);
    json!({
        // A silent environment shows the state of its last report.
        "environment": format!("{name}{}", if is_silent { " (silent)" } else { "" }),
        "name": live.artifact_name,
        "fingerprint": artifact.map(|artifact| &artifact.fingerprint),
        "commit": artifact.map(|artifact| &artifact.commit_sha),
        "compliance": live.compliance,
        "snapshot": live.snapshot_index,
        "started_at": live.started_at,
    })
}
