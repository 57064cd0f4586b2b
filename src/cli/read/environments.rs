//! `list environments`, `list agents`, `list snapshots`, `list events`, `get environment`, `get snapshot` and `diff`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::columns::Format::{Ago, Commit, Compliant, Count, Digest, Seconds, State, Text};
use super::columns::{Column, table};
use super::common::{Common, client};
use super::pages::Pages;
use crate::api::{Item, Parsed, Resource};
use crate::cli::exit::Failure;
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

const ENVIRONMENTS: [Column; 7] = [
    ("NAME", "/name", Text),
    ("COMPLIANCE", "/state", Compliant),
    ("SILENT", "/is_silent", Text),
    ("LAST REPORT", "/last_reported_at", Ago),
    ("CHANGED", "/last_changed_at", Ago),
    ("POLICIES", "/policies", Text),
    ("TAGS", "/tags", Text),
];

const ENVIRONMENT: [Column; 10] = [
    ("name", "/name", Text),
    ("type", "/type", Text),
    ("description", "/description", Text),
    ("compliance", "/state", Compliant),
    ("silent", "/is_silent", Text),
    ("last report", "/last_reported_at", Ago),
    ("changed", "/last_changed_at", Ago),
    ("policies", "/policies", Text),
    ("own policy in the bootstrap file", "/has_own_policy", Text),
    ("tags", "/tags", Text),
];

impl Environments {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let mut query: Vec<_> = self.tag.iter().map(|tag| ("tag", tag.as_str())).collect();
        query.extend(self.name.as_deref().map(|name| ("name", name)));
        let about = Resource::Organization;
        self.common.list_all(service, about, "environment", (&["environments"], &query), &ENVIRONMENTS).await
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
        let about = Resource::Named("environment", name);
        self.common.print_object(service, about, (&["environments", name], &[]), &ENVIRONMENT).await
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  List the latest ten snapshots:\n    supercargo list snapshots prod --interval ~9..NOW"
)]
pub(super) struct Snapshots {
    /// Environment name
    environment: EnvironmentName,
    #[command(flatten)]
    range: Range,
}

/// The part of the history that is listed.
#[derive(Debug, Args)]
struct Range {
    /// Snapshots A..B, each a number, ~N (before the latest) or NOW
    #[arg(long, value_name = "A..B")]
    interval: Option<String>,
    /// List the oldest first
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    common: Common,
}

const SNAPSHOTS: [Column; 7] = [
    ("SNAPSHOT", "/index", Text),
    ("RECEIVED", "/from", Ago),
    ("ENDED", "/to", Ago),
    ("DURATION", "/duration", Seconds),
    ("COMPLIANCE", "/compliance", State),
    ("GAPS", "/gaps", Count),
    ("BY", "/reported_by", Text),
];

impl Range {
    async fn list(
        &self,
        service: &Service,
        environment: &EnvironmentName,
        (kind, path): (&str, &[&str]),
        more: &[(&str, &str)],
        columns: &[Column],
    ) -> Result<(), Failure> {
        let client = client(service)?;
        let reverse = if self.reverse { "true" } else { "false" };
        let mut query = vec![("reverse", reverse)];
        query.extend(self.interval.as_deref().map(|interval| ("interval", interval)));
        query.extend(more);
        let about = Resource::Named("environment", environment.as_str());
        let fetch = async |page| {
            self.common
                .requests
                .request(&client, about, async || client.items(path, &query, Some(page)).await)
                .await
        };
        let listed = |items: &[Parsed<Item>]| {
            table(columns, items.iter().map(|item| &item.raw)).leaving_out(&["FLOW", "DIGEST"])
        };
        self.pages.list(&self.common.output, kind, "", fetch, listed).await
    }
}

impl Snapshots {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let path = ["snapshots", self.environment.as_str()];
        self.range.list(service, &self.environment, ("snapshot", &path), &[], &SNAPSHOTS).await
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
    #[command(flatten)]
    range: Range,
}

const EVENTS: [Column; 7] = [
    ("WHEN", "/reported_at", Ago),
    ("SNAPSHOT", "/snapshot_index", Text),
    ("TYPE", "/type", Text),
    ("ARTIFACT", "/artifact_name", Text),
    ("DIGEST", "/sha256", Digest),
    ("FLOW", "/pipeline", Text),
    ("DESCRIPTION", "/description", Text),
];

impl Events {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let path = ["environments", self.environment.as_str(), "events"];
        let limits = [("start", &self.start), ("end", &self.end)];
        let limits: Vec<_> =
            limits.iter().filter_map(|(name, limit)| Some((*name, limit.as_deref()?))).collect();
        self.range.list(service, &self.environment, ("event", &path), &limits, &EVENTS).await
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

const AGENTS: [Column; 7] = [
    ("NAME", "/name", Text),
    ("PROGRAM", "/user_agent", Text),
    ("CLUSTER", "/cluster", Text),
    ("FIRST REPORT", "/first_reported_at", Ago),
    ("LAST REPORT", "/last_reported_at", Ago),
    ("PODS", "/pods", Text),
    ("OVERWRITTEN", "/is_overwritten", Text),
];

impl Agents {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let name = self.environment.as_str();
        let about = Resource::Named("environment", name);
        let request = (&["environments", name, "agents"][..], &[][..]);
        self.common.list_all(service, about, "agent", request, &AGENTS).await
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

const ARTIFACTS: [Column; 8] = [
    ("ARTIFACT", "/artifact/name", Text),
    ("DIGEST", "/artifact/fingerprint", Digest),
    ("OWNER", "/owner", Text),
    ("FLOW", "/artifact/flow_name", Text),
    ("COMMIT", "/artifact/git_commit", Commit),
    ("COMPLIANCE", "/artifact/compliance", State),
    ("PODS", "/artifact/annotation/now", Text),
    ("REASONS", "/artifact/reasons_for_incompliance", Text),
];

/// The first owner of the pods of an artifact. The public service names none.
fn owner(artifact: &Value) -> Option<String> {
    let pods = at(artifact, "/pods").as_object().into_iter().flat_map(Map::values);
    let owners: BTreeSet<_> = pods.filter_map(|pod| Owner::deserialize(at(pod, "/owner")).ok()).collect();
    let others = if owners.len() > 1 { " and others" } else { "" };
    owners.first().map(|owner| format!("{owner}{others}"))
}

impl Snapshot {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (name, expression) = (self.snapshot.to_string(), self.snapshot.expression.to_string());
        let path = ["snapshots", self.snapshot.environment.as_str(), &expression];
        let snapshot = self.common.object(service, Resource::Named("snapshot", &name), (&path, &[])).await?;
        // The public service lists artifacts that stopped with the snapshot too.
        let mut running: Vec<_> =
            items(&snapshot, "/artifacts").filter(|artifact| at(artifact, "/annotation/now") != 0).collect();
        running.sort_by(|one, other| by_name("/name", one, other));
        let row = |artifact: &&Value| json!({"artifact": artifact, "owner": owner(artifact)});
        let rows: Vec<_> = running.iter().map(row).collect();
        self.common
            .output
            .print(&snapshot, || table(&ARTIFACTS, &rows).leaving_out(&["FLOW", "COMMIT", "OWNER"]))?;
        tracing::info!(
            "snapshot {} of {} is {}",
            at(&snapshot, "/index"),
            self.snapshot.environment,
            Escaped(at(&snapshot, "/compliance").as_str().unwrap_or("not evaluated"))
        );
        warn(&snapshot, "/warning");
        Ok(())
    }
}

/// The value at a JSON pointer.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// The items of the list at a JSON pointer.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    at(value, pointer).as_array().into_iter().flatten()
}

/// The order of two values by the text at a JSON pointer.
pub(super) fn by_name(pointer: &str, one: &Value, other: &Value) -> Ordering {
    at(one, pointer).as_str().cmp(&at(other, pointer).as_str())
}

/// Logs why a list may be incomplete.
pub(super) fn warn(snapshot: &Value, pointer: &str) {
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

const DIFF: [Column; 6] = [
    ("DIFFERENCE", "/difference", Text),
    ("ARTIFACT", "/artifact/name", Text),
    ("DIGEST", "/artifact/fingerprint", Digest),
    ("FLOW", "/artifact/flow", Text),
    ("PODS BEFORE", "/before", Text),
    ("PODS AFTER", "/after", Text),
];

impl Diff {
    pub(in crate::cli) async fn run(&self) -> Result<(), Failure> {
        let (first, second) = (self.first.to_string(), self.second.to_string());
        let (both, query) =
            (format!("{first} and {second}"), [("snappish1", &*first), ("snappish2", &*second)]);
        let about = Resource::Named("snapshots", &both);
        let diff = self.common.object(&self.service, about, (&["env-diff"], &query)).await?;
        let only = |side| format!("only in {}", at(&diff, side).as_str().unwrap_or_default());
        let mut rows = Vec::new();
        for (part, difference, before, after) in [
            ("/snappish1/artifacts", only("/snappish1/snapshot_id"), "/instance_count", ""),
            ("/snappish2/artifacts", only("/snappish2/snapshot_id"), "", "/instance_count"),
            ("/changed/artifacts", "number of pods".to_owned(), "/s1_instance_count", "/s2_instance_count"),
        ] {
            // An empty pointer is the artifact itself, which is no number.
            let count = |artifact, pointer| at(artifact, pointer).as_i64();
            rows.extend(items(&diff, part).map(|artifact| {
                json!({
                    "artifact": artifact, "difference": difference,
                    "before": count(artifact, before), "after": count(artifact, after),
                })
            }));
        }
        // The versions of an image follow each other.
        rows.sort_by(|one, other| by_name("/artifact/name", one, other));
        self.common.output.print(&diff, || table(&DIFF, &rows).leaving_out(&["FLOW", "DIGEST"]))?;
        let unchanged = items(&diff, "/not-changed/artifacts").count();
        tracing::info!("{} unchanged", pluralize(unchanged as u64, "artifact"));
        warn(&diff, "/snappish1/warning");
        warn(&diff, "/snappish2/warning");
        Ok(())
    }
}
