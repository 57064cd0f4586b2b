//! `get live-artifacts`.

use serde_json::{Value, json};

use super::columns::Format::{Ago, Commit, Digest, State, Text};
use super::columns::{Column, table};
use super::common::{Common, client};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use client::{JoinedArtifact, Resource};
use model::{Provider, RepositoryName};

const RUNNING: &[Column] = &[
    Column::new("ENVIRONMENT", "/environment", Text),
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest).optional(2),
    Column::new("COMMIT", "/commit", Commit),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("SNAPSHOT", "/snapshot", Text).optional(1),
    Column::new("SINCE", "/started_at", Ago),
];

pub(super) async fn show(
    service: &ServiceOptions,
    common: &Common,
    repository: &RepositoryName,
    provider: Option<&Provider>,
) -> Result<(), Failure> {
    let client = client(service)?;
    let send = async || client.live_artifacts(repository, provider).await;
    let live = common.requests.read(&client, Resource::Repository(repository.as_str()), send).await?;
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
    common.output.print(&live.raw, || table(RUNNING, &rows))
}

/// The row of a table that shows a running artifact.
pub(crate) fn row(JoinedArtifact { live, artifact, environment }: JoinedArtifact<'_>) -> Value {
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
