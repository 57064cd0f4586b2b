//! `list approvals` and `get approval`; `approve` and `approval withdraw` print an approval too.

use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::columns::Format::{Ago, Custom, Digest, Lines, State, Text};
use super::columns::{Column, at, fields, items, time};
use super::common::{Common, client};
use crate::api::{Operation, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::output::{Cell, ago, now};
use crate::cli::service::Service;
use crate::cli::values::integer;
use crate::domain::model::{Fingerprint, FlowName};

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLE)]
pub(super) struct Approvals {
    /// Flow name
    flow: FlowName,
    /// Digest of the artifact, as 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(value_parser = digest)]
    fingerprint: Fingerprint,
    #[command(flatten)]
    common: Common,
}

const LIST_EXAMPLE: &str = "\
Example:
  List the approvals of an artifact:
    supercargo list approvals cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

const APPROVALS: &[Column] = &[
    Column::new("NUMBER", "/release_number", Text),
    Column::new("STATE", "/state", State),
    Column::new("ARTIFACT", "/artifact_name", Text),
    Column::new("DIGEST", "/target_artifact", Digest),
    Column::new("ENVIRONMENT", "/environment", Custom(environment)),
    Column::new("BY", "/approvals", Custom(approvers)),
    Column::new("MODIFIED", "/last_modified_at", Ago),
];

impl Approvals {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (flow, artifact) = (self.flow.as_str(), self.fingerprint.to_string());
        let operation = Operation::new(Resource::Flow(flow), &["artifacts", flow, &artifact, "approvals"]);
        self.common.list(service, &operation, "approval", APPROVALS).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLE)]
pub(super) struct Approval {
    /// Flow name
    flow: FlowName,
    /// Number of the approval in the flow
    #[arg(value_parser = integer(0..=u64::MAX))]
    number: u64,
    #[command(flatten)]
    common: Common,
}

const GET_EXAMPLE: &str = "\
Example:
  Show the comments of an approval:
    supercargo get approval cart 12 -o yaml";

const APPROVAL: &[Column] = &[
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

impl Approval {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let (flow, number) = (self.flow.as_str(), self.number.to_string());
        let about = Resource::Approval(flow, self.number);
        self.common.show(service, &Operation::new(about, &["approvals", flow, &number]), APPROVAL).await
    }
}

/// A response that is no approval fails, because the decision may not be recorded.
#[derive(Debug, Deserialize)]
struct Recorded {
    #[serde(rename = "release_number")]
    _number: u64,
    #[serde(rename = "state")]
    _state: String,
}

/// Sends a decision, which `what` describes, and prints the approval.
pub(in crate::cli) async fn decide(
    service: &Service,
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
