//! `get snapshot`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::columns::Format::{Commit, Custom, Digest, ReasonsOfSnapshot, Text};
use super::columns::{Artifacts, Column, at, findings, items, state_of, table, text, time};
use super::common::{Common, warn};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::{COMPLIANT, Cell, NON_COMPLIANT};
use client::{Operation, Parsed, Resource};
use model::image_id::short_name;
use model::owner::Owner;
use model::{EnvironmentSnapshot, SnapshotExpression, pluralize};

/// The artifacts that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    NonCompliant,
}

const ARTIFACTS: &[Column] = &[
    Column::new("WORKLOAD", "/pods", Custom(workload)),
    Column::new("NAMESPACE", "/pods", Custom(namespaces)).wide(),
    Column::new("IMAGE", "/name", Custom(image)),
    Column::new("COMMIT", "/git_commit", Commit).optional(1),
    Column::new("COMPLIANCE", "", Custom(compliance)),
    Column::new("PODS", "/annotation/now", Text).wide(),
    Column::new("FLOW", "/flow_name", Text).wide(),
    Column::new("DIGEST", "/fingerprint", Digest).wide(),
    Column::new("FULL NAME", "/name", Text).wide(),
    Column::new("REASONS", "", ReasonsOfSnapshot).wide(),
];

pub(super) async fn show(
    service: &ServiceOptions,
    common: &Common,
    snapshot: &EnvironmentSnapshot,
    shown: Shown,
) -> Result<(), Failure> {
    let EnvironmentSnapshot { environment, expression } = snapshot;
    let name = snapshot.to_string();
    let path = ["snapshots", environment.as_str(), &expression.to_string()];
    let operation = Operation::new(Resource::Named("snapshot", &name), &path);
    let Parsed { value, mut raw }: Parsed<Artifacts> = common.read(service, &operation).await?;
    let mut running = value.artifacts.0;
    running.sort_by_cached_key(|artifact| {
        let name = at(artifact, "/name").as_str().unwrap_or_default();
        (severity(artifact), short_name(name).to_owned())
    });
    let title = title(snapshot, &raw, &running);
    if shown == Shown::NonCompliant {
        running.retain(|artifact| state_of(artifact) == NON_COMPLIANT);
        if let Some(artifacts) = raw.get_mut("artifacts").and_then(Value::as_array_mut) {
            artifacts.retain(|artifact| state_of(artifact) == NON_COMPLIANT);
        }
    }
    common.output.print(&raw, || table(ARTIFACTS, &running).titled(&title))?;
    warn(&raw, "/warning");
    Ok(())
}

/// Failures first, then what is unknown.
fn severity(artifact: &Value) -> usize {
    match state_of(artifact).as_str() {
        NON_COMPLIANT => 0,
        COMPLIANT => 2,
        _ => 1,
    }
}

/// `production #15: non-compliant, 1 of 27`, for an earlier time with the time.
fn title(
    EnvironmentSnapshot { environment, expression }: &EnvironmentSnapshot,
    raw: &Value,
    running: &[Value],
) -> String {
    let is_past = matches!(expression, SnapshotExpression::At(_)) || at(raw, "/is_latest") == false;
    let when = time(at(raw, "/as_of")).filter(|_| is_past);
    let when = when.map(|when| format!(" as of {when}")).unwrap_or_default();
    let failing = running.iter().filter(|artifact| severity(artifact) == 0).count();
    let count = if failing > 0 {
        format!("{failing} of {}", running.len())
    } else {
        pluralize(running.len() as u64, "artifact")
    };
    format!("{environment} #{}{when}: {}, {count}", text(at(raw, "/index")), state_of(raw))
}

/// Distinct values of pods.
fn of_pods<T: Ord>(pods: &Value, value: impl Fn(&str, &Value) -> Option<T>) -> BTreeSet<T> {
    let pods = pods.as_object().into_iter().flat_map(Map::iter);
    pods.filter_map(|(name, pod)| value(name, pod)).collect()
}

/// The first owner of the pods, or a pod without one.
fn workload(pods: &Value) -> Cell {
    let workloads = of_pods(pods, |name, pod| {
        Some(
            Owner::deserialize(at(pod, "/owner"))
                .map_or_else(|_| format!("pod/{name}"), |owner| owner.short()),
        )
    });
    let others = workloads.len().saturating_sub(1);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    Cell::maybe(workloads.first().map(|first| format!("{first}{more}")))
}

fn namespaces(pods: &Value) -> Cell {
    let namespaces = of_pods(pods, |_, pod| at(pod, "/namespace").as_str().map(str::to_owned));
    Cell::maybe(Some(namespaces.into_iter().collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty()))
}

fn image(name: &Value) -> Cell {
    Cell::maybe(name.as_str().map(short_name))
}

/// The state, and why the artifact is not compliant.
fn compliance(artifact: &Value) -> Cell {
    let word = state_of(artifact);
    let is_allowed = items(artifact, "/reasons").any(|reason| at(reason, "/type") == "allowed");
    let more = match findings(artifact) {
        _ if word == COMPLIANT && is_allowed => ", allowed".to_owned(),
        found if word == NON_COMPLIANT && !found.is_empty() => format!(": {}", found.join("; ")),
        _ => String::new(),
    };
    Cell::stating(&word, &more)
}
