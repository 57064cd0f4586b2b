//! `list environments`, `list agents`, `list snapshots`, `list events`, `get environment`, `get snapshot` and `diff`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::columns::Format::{
    Ago, Commit, Compliant, Count, Custom, Digest, ReasonsOfSnapshot, Seconds, State, Text,
};
use super::columns::{Column, Objects, at, table, text};
use super::common::Common;
use super::pages::Pages;
use crate::api::{Operation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::Cell;
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::evidence::owner::Owner;
use crate::domain::model::{EnvironmentName, EnvironmentSnapshot, pluralize};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the environments of a team:\n    supercargo list environments --tag team:shop"
)]
pub(super) struct Environments {
    /// Part of the name, ignoring case
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Tag, as key or key:value; may be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    #[command(flatten)]
    common: Common,
}

const ENVIRONMENTS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("COMPLIANCE", "/state", Compliant),
    Column::new("SILENT", "/is_silent", Text),
    Column::new("LAST REPORT", "/last_reported_at", Ago),
    Column::new("CHANGED", "/last_changed_at", Ago),
    Column::new("POLICIES", "/policies", Text),
    Column::new("TAGS", "/tags", Text),
];

const ENVIRONMENT: &[Column] = &[
    Column::new("name", "/name", Text),
    Column::new("type", "/type", Text),
    Column::new("description", "/description", Text),
    Column::new("compliance", "/state", Compliant),
    Column::new("silent", "/is_silent", Text),
    Column::new("last report", "/last_reported_at", Ago),
    Column::new("changed", "/last_changed_at", Ago),
    Column::new("policies", "/policies", Text),
    Column::new("tags", "/tags", Text),
];

impl Environments {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let operation = Operation::new(Resource::Organization, &["environments"]);
        let operation = operation.with("tag", &self.tag).with("name", &self.name);
        self.common.list(service, &operation, "environment", ENVIRONMENTS).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  Show an environment:\n    supercargo get environment prod")]
pub(super) struct Environment {
    /// Environment name
    environment: EnvironmentName,
    #[command(flatten)]
    common: Common,
}

impl Environment {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.environment.as_str();
        let operation = Operation::new(Resource::Named("environment", name), &["environments", name]);
        self.common.show(service, &operation, ENVIRONMENT).await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the latest ten snapshots:\n    supercargo list snapshots prod --interval ~9..NOW"
)]
pub(super) struct Snapshots {
    /// Environment name
    environment: EnvironmentName,
    /// Snapshots A..B, each a number, ~N (before the latest) or NOW
    #[arg(long, value_name = "A..B")]
    interval: Option<String>,
    /// List the oldest first
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    pages: Pages,
}

const SNAPSHOTS: &[Column] = &[
    Column::new("SNAPSHOT", "/index", Text).key(),
    Column::new("RECEIVED", "/from", Ago),
    Column::new("ENDED", "/to", Ago),
    Column::new("DURATION", "/duration", Seconds),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("GAPS", "/gaps", Count),
    Column::new("BY", "/reported_by", Text),
];

impl Snapshots {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.environment.as_str();
        let operation = Operation::new(Resource::Named("environment", name), &["snapshots", name]);
        let operation = operation.with("reverse", [self.reverse]).with("interval", &self.interval);
        self.pages.list(service, &operation, "snapshot", SNAPSHOTS, "").await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the changes of the last day:\n    supercargo list events prod --start 1d --all"
)]
pub(super) struct Events {
    /// Environment name
    environment: EnvironmentName,
    /// From this snapshot or time on, such as 7, 2w or 2026-10-03T14:00Z
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Up to this snapshot or time
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// List the oldest first
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    pages: Pages,
}

const EVENTS: &[Column] = &[
    Column::new("WHEN", "/reported_at", Ago),
    Column::new("SNAPSHOT", "/snapshot_index", Text),
    Column::new("TYPE", "/type", Text),
    Column::new("ARTIFACT", "/artifact_name", Text),
    Column::new("DIGEST", "/sha256", Digest).optional(2),
    Column::new("FLOW", "/pipeline", Text).optional(1),
    Column::new("DESCRIPTION", "/description", Text),
];

impl Events {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.environment.as_str();
        let operation =
            Operation::new(Resource::Named("environment", name), &["environments", name, "events"]);
        let operation =
            operation.with("reverse", [self.reverse]).with("start", &self.start).with("end", &self.end);
        self.pages.list(service, &operation, "event", EVENTS, "").await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the agents that report an environment, with their versions:\n    supercargo list agents prod"
)]
pub(super) struct Agents {
    /// Environment name
    environment: EnvironmentName,
    #[command(flatten)]
    common: Common,
}

const AGENTS: &[Column] = &[
    Column::new("NAME", "/name", Text),
    Column::new("PROGRAM", "/user_agent", Text),
    Column::new("CLUSTER", "/cluster", Text),
    Column::new("FIRST REPORT", "/first_reported_at", Ago),
    Column::new("LAST REPORT", "/last_reported_at", Ago),
    Column::new("PODS", "/pods", Text),
    Column::new("OVERWRITTEN", "/is_overwritten", Text),
];

impl Agents {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.environment.as_str();
        let operation =
            Operation::new(Resource::Named("environment", name), &["environments", name, "agents"]);
        self.common.list(service, &operation, "agent", AGENTS).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = SNAPSHOT_EXAMPLE)]
pub(super) struct Snapshot {
    /// Environment, as ENV for the latest snapshot, ENV#7, ENV~1 for the one before the latest, ENV@2w or
    /// ENV@2026-10-03T14:00Z
    snapshot: EnvironmentSnapshot,
    #[command(flatten)]
    common: Common,
}

const SNAPSHOT_EXAMPLE: &str = "\
Examples:
  Show what ran two weeks ago, and the seventh snapshot:
    supercargo get snapshot prod@2w
    supercargo get snapshot 'prod#7'";

const ARTIFACTS: &[Column] = &[
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("OWNER", "/pods", Custom(owner)).optional(3),
    Column::new("FLOW", "/flow_name", Text).optional(1),
    Column::new("COMMIT", "/git_commit", Commit).optional(2),
    Column::new("COMPLIANCE", "/compliance", State),
    Column::new("PODS", "/annotation/now", Text),
    Column::new("REASONS", "", ReasonsOfSnapshot),
];

/// The first owner of pods.
fn owner(pods: &Value) -> Cell {
    let pods = pods.as_object().into_iter().flat_map(Map::values);
    let owners: BTreeSet<_> = pods.filter_map(|pod| Owner::deserialize(at(pod, "/owner")).ok()).collect();
    let others = if owners.len() > 1 { " and others" } else { "" };
    Cell::maybe(owners.first().map(|owner| format!("{owner}{others}")))
}

#[derive(Debug, Deserialize)]
struct Running {
    artifacts: Objects,
}

impl Snapshot {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (name, expression) = (self.snapshot.to_string(), self.snapshot.expression.to_string());
        let path = ["snapshots", self.snapshot.environment.as_str(), &expression];
        let operation = Operation::new(Resource::Named("snapshot", &name), &path);
        let Parsed { value, raw: snapshot }: Parsed<Running> = self.common.read(service, &operation).await?;
        let mut running: Vec<_> = value.artifacts.0.iter().collect();
        running.sort_by(|one, other| by_name("/name", one, other));
        self.common.output.print(&snapshot, || table(ARTIFACTS, running))?;
        tracing::info!(
            "snapshot {} of {} is {}",
            Escaped(&text(at(&snapshot, "/index"))),
            self.snapshot.environment,
            Escaped(at(&snapshot, "/compliance").as_str().unwrap_or("not evaluated"))
        );
        warn(&snapshot, "/warning");
        Ok(())
    }
}

/// The order of two values by the text at a JSON pointer.
pub(super) fn by_name(pointer: &str, one: &Value, other: &Value) -> Ordering {
    at(one, pointer).as_str().cmp(&at(other, pointer).as_str())
}

/// Logs why a list may be incomplete.
pub(in crate::cli) fn warn(snapshot: &Value, pointer: &str) {
    if let Some(warning) = at(snapshot, pointer).as_str() {
        tracing::warn!("{}", Escaped(warning));
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  Show the changes of the last week:\n    supercargo diff prod@1w prod")]
pub(in crate::cli) struct Diff {
    /// First snapshot, as ENV, ENV#7, ENV~1, ENV@2w or ENV@2026-10-03T14:00Z
    first: EnvironmentSnapshot,
    /// Second snapshot, of the same environment or another
    second: EnvironmentSnapshot,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    service: Service,
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
    snappish1: Running,
    snappish2: Running,
    changed: Running,
    #[serde(rename = "not-changed")]
    not_changed: Running,
}

impl Diff {
    pub(in crate::cli) async fn run(&self) -> Result<(), Failure> {
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
