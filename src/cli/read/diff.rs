//! `supercargo diff`.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::columns::Format::{Digest, Text};
use super::columns::{Artifacts, Column, at, by_name, table};
use super::common::{Common, warn};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use client::{Operation, Parsed, Resource};
use model::{EnvironmentSnapshot, pluralize};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  Show the changes of the last week:\n    supercargo diff prod@1w prod")]
pub(crate) struct Diff {
    /// First snapshot, as ENV, ENV#7, ENV~1, ENV@2w or ENV@2026-10-03T14:00Z
    first: EnvironmentSnapshot,
    /// Second snapshot, of the same environment or another
    second: EnvironmentSnapshot,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    service: ServiceOptions,
}

const DIFF: &[Column] = &[
    Column::new("DIFFERENCE", "/difference", Text),
    Column::new("ARTIFACT", "/artifact/name", Text),
    Column::new("DIGEST", "/artifact/fingerprint", Digest).optional(2),
    Column::new("FLOW", "/artifact/flow", Text).optional(1),
    Column::new("PODS BEFORE", "/before", Text),
    Column::new("PODS AFTER", "/after", Text),
];

#[derive(Debug, Deserialize)]
struct Difference {
    snappish1: Artifacts,
    snappish2: Artifacts,
    changed: Artifacts,
    #[serde(rename = "not-changed")]
    not_changed: Artifacts,
}

impl Diff {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let (first, second) = (self.first.to_string(), self.second.to_string());
        let both = format!("{first} and {second}");
        let operation = Operation::new(Resource::Named("snapshots", &both), &["env-diff"]);
        let operation = operation.with("snappish1", [first]).with("snappish2", [second]);
        let Parsed { value, raw: diff }: Parsed<Difference> =
            self.common.read(&self.service, &operation).await?;
        let only = |side| format!("only in {}", at(&diff, side).as_str().unwrap_or_default());
        let mut rows = Vec::new();
        for (part, difference, before, after) in [
            (value.snappish1, only("/snappish1/snapshot_id"), "/instance_count", ""),
            (value.snappish2, only("/snappish2/snapshot_id"), "", "/instance_count"),
            (value.changed, "number of pods".to_owned(), "/s1_instance_count", "/s2_instance_count"),
        ] {
            // An empty pointer is the artifact itself, which is no number.
            let count = |artifact, pointer| at(artifact, pointer).as_i64();
            rows.extend(part.artifacts.0.iter().map(|artifact| {
                json!({
                    "artifact": artifact, "difference": difference,
                    "before": count(artifact, before), "after": count(artifact, after),
                })
            }));
        }
        // The versions of an image follow each other.
        rows.sort_by(|one, other| by_name("/artifact/name", one, other));
        self.common.output.print(&diff, || table(DIFF, &rows))?;
        let unchanged = value.not_changed.artifacts.0.len();
        tracing::info!("{} unchanged", pluralize(unchanged as u64, "artifact"));
        warn(&diff, "/snappish1/warning");
        warn(&diff, "/snappish2/warning");
        Ok(())
    }
}
