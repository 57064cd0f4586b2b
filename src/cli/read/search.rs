//! `supercargo search`.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::columns::Format::{Ago, Commit, Digest, State, Text};
use super::columns::{Artifacts, Column, Data, at, items, table};
use super::common::{Common, organization};
use super::packages::PackageOptions;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use client::{Operation, Parsed, Resource};
use model::escape::Escaped;
use model::{SignedEvidence, pluralize};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Search {
    /// First digits of a commit or digest, at least 5, or a part of the name of an environment, image, pod, flow, repository or trail
    #[arg(required_unless_present = "package", conflicts_with = "package")]
    word: Option<String>,
    #[command(flatten)]
    packages: PackageOptions,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    service: ServiceOptions,
}

const EXAMPLES: &str = "\
Examples:
  Show the artifacts of a commit, and where they run:
    supercargo search 4f1c2e7d
  Find the environments, images, pods, flows, repositories and trails with checkout in their name:
    supercargo search checkout
  Find where a package runs, by the bills of materials that pipelines attest:
    supercargo search --package log4j-core --version='<2.17.1'";

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

/// Prints the artifacts whose digest or commit starts with these digits.
pub(super) async fn search(
    service: &ServiceOptions,
    common: &Common,
    about: Resource<'_>,
    digits: &str,
) -> Result<(), Failure> {
    let operation = Operation::new(about, &["search", "sha", digits]);
    let Parsed { value, raw: found }: Parsed<Artifacts> = common.read(service, &operation).await?;
    common.output.print(&found, || table(FOUND, &value.artifacts.0))?;
    for artifact in &value.artifacts.0 {
        evidence_lines(artifact).for_each(|line| tracing::info!("{}", Escaped(&line)));
        if let Some(line) = conflict_line(artifact) {
            tracing::warn!("{line}");
        }
    }
    let has_more = ["/resolved_to/fingerprints/has_more", "/resolved_to/commits/has_more"];
    if has_more.iter().any(|pointer| at(&found, pointer) == true) {
        tracing::warn!("more artifacts match: enter more digits");
    }
    Ok(())
}

/// Who signed evidence for an artifact, and what that says: `slsa-provenance signed by …`.
pub(crate) fn evidence_lines(artifact: &Value) -> impl Iterator<Item = String> {
    items(artifact, "/signed_evidence").filter_map(|signed| {
        let name = at(signed, "/attestation_name").as_str()?;
        let evidence = SignedEvidence::deserialize(signed).ok()?;
        Some(format!("{name} {evidence}"))
    })
}

/// Says that flows named other origins.
pub(crate) fn conflict_line(artifact: &Value) -> Option<String> {
    let number = at(artifact, "/conflicting_origins").as_u64().filter(|number| *number > 0)?;
    Some(format!("its origin is in conflict with {}", pluralize(number, "other claim")))
}

impl Search {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Self { word, packages, common, service } = self;
        let Some(word) = word else { return packages.search(service, common).await };
        if (5..=64).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return search(service, common, Resource::Named("commit or digest", word), word).await;
        }
        let operation = organization(&["search"]).with("q", [word]);
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
