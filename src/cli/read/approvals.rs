//! Columns of `list approvals` and `get approval`; `approve` and `approval withdraw` print an approval too.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::columns::Format::{Ago, Custom, Digest, Lines, State, Text};
use super::columns::{Column, at, fields, items, time};
use super::common::{Common, client};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, ago, now};
use client::{Operation, Parsed};

pub(super) const APPROVALS: &[Column] = &[
    Column::new("NUMBER", "/release_number", Text),
    Column::new("STATE", "/state", State),
    Column::new("ARTIFACT", "/artifact_name", Text),
    Column::new("DIGEST", "/target_artifact", Digest),
    Column::new("ENVIRONMENT", "/environment", Custom(environment)),
    Column::new("BY", "/approvals", Custom(approvers)),
    Column::new("MODIFIED", "/last_modified_at", Ago),
];

pub(super) const APPROVAL: &[Column] = &[
    Column::new("number", "/release_number", Text),
    Column::new("state", "/state", State),
    Column::new("artifact", "/artifact_name", Text),
    Column::new("digest", "/target_artifact", Text),
    Column::new("after", "/base_artifact", Text),
    Column::new("environment", "/environment", Custom(environment)),
    Column::new("description", "/description", Text),
    Column::new("created", "/created_at", Ago),
    Column::new("modified", "/last_modified_at", Ago),
    Column::new("signed off", "/approvals", Lines(decision)),
    Column::new("token", "/created_by", Lines(|name| Cell::maybe(name.as_str()))),
    Column::new("withdrawn", "/withdrawal", Lines(decision)),
    Column::new("commit", "/src_commit_list", Lines(commit)),
];

/// A response that is no approval fails, because the decision may not be recorded.
#[derive(Debug, Deserialize)]
struct Recorded {
    #[serde(rename = "release_number")]
    _number: u64,
    #[serde(rename = "state")]
    _state: String,
}

/// Sends a decision, which `what` describes, and prints the approval.
pub(crate) async fn decide(
    service: &ServiceOptions,
    common: &Common,
    what: &str,
    method: Method,
    operation: &Operation<'_>,
    body: &Value,
) -> Result<(), Failure> {
    let client = client(service)?;
    let send = async || client.change::<Parsed<Recorded>>(method.clone(), operation, Some(body)).await;
    let approval = common.requests.retry(&client, what, operation.about, send).await?.raw;
    common.output.print(&approval, || fields(APPROVAL, &approval))
}

fn environment(name: &Value) -> Cell {
    Cell::text(name.as_str().unwrap_or("any"))
}

fn approvers(approvals: &Value) -> Cell {
    let by = items(approvals, "").filter_map(|approval| at(approval, "/approved_by").as_str());
    Cell::maybe(Some(by.collect::<Vec<_>>().join(", ")).filter(|by| !by.is_empty()))
}

/// A sign-off or withdrawal such as `jo, 3d ago: "looks good"`, as far as the service returns it.
fn decision(decision: &Value) -> Cell {
    let by = at(decision, "/approved_by").as_str().or(at(decision, "/withdrawn_by").as_str());
    let age = time(at(decision, "/timestamp")).map(|at| format!(", {}", ago(at, now())));
    let comment = at(decision, "/comment").as_str().filter(|comment| !comment.is_empty());
    let comment = comment.map(|comment| format!(": \"{comment}\""));
    Cell::text(format!("{}{}{}", by.unwrap_or("-"), age.unwrap_or_default(), comment.unwrap_or_default()))
}

/// A commit has one form in a list, and another in a single approval.
fn commit(commit: &Value) -> Cell {
    Cell::maybe(commit.as_str().or(at(commit, "/commit_sha").as_str()))
}
