//! `list approvals` and `get approval`.

use clap::Args;

use super::common::{Common, client};
use crate::api::{self, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::output::{Cell, Table, ago, details, now};
use crate::cli::service::Service;
use crate::cli::values::integer;
use crate::domain::model::{Fingerprint, FlowName, Timestamp};

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

const LIST_EXAMPLE: &str = "\
Example:
  List the approvals of an artifact:
    supercargo list approvals cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

impl Approvals {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let approvals = async || client.approvals(&self.flow, self.fingerprint).await;
        let approvals =
            self.common.requests.request(&client, Resource::Flow(self.flow.as_str()), approvals).await?;
        self.common.print_all(approvals, "approval", table)
    }
}

const GET_EXAMPLE: &str = "\
Example:
  Show the comments of an approval:
    supercargo get approval cart 12 -o yaml";

impl Approval {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let approval = async || client.approval(&self.flow, self.number).await;
        let about = Resource::Approval(self.flow.as_str(), self.number);
        let approval = self.common.requests.request(&client, about, approval).await?;
        self.common.output.print(&approval.raw, || fields(&approval.value))
    }
}

fn table(approvals: &[Parsed<api::Approval>]) -> Table {
    let headings = ["NUMBER", "STATE", "ARTIFACT", "DIGEST", "ENVIRONMENT", "BY", "MODIFIED"];
    let (mut table, now) = (Table::new(headings), now());
    for Parsed { value: approval, .. } in approvals {
        let by: Vec<_> =
            approval.approvals.iter().filter_map(|sign_off| sign_off.approved_by.as_deref()).collect();
        table.row([
            Cell::number(Some(approval.release_number)),
            Cell::state(&approval.state),
            Cell::text(&approval.artifact_name),
            Cell::digest(Some(&approval.target_artifact)),
            Cell::text(approval.environment.as_deref().unwrap_or("any")),
            Cell::maybe(Some(by.join(", ")).filter(|by| !by.is_empty())),
            Cell::ago(approval.last_modified_at, now),
        ]);
    }
    table
}

pub(in crate::cli) fn fields(approval: &api::Approval) -> Table {
    let now = now();
    let age = |at| Cell::ago(at, now);
    let mut lines = vec![
        ("number", Cell::number(Some(approval.release_number))),
        ("state", Cell::state(&approval.state)),
        ("artifact", Cell::text(&approval.artifact_name)),
        ("digest", Cell::text(&approval.target_artifact)),
        ("after", Cell::text(&approval.base_artifact)),
        ("environment", Cell::text(approval.environment.as_deref().unwrap_or("any"))),
        ("description", Cell::text(&approval.description)),
        ("created", age(approval.created_at)),
        ("modified", age(approval.last_modified_at)),
    ];
    lines.extend(approval.approvals.iter().map(|one| ("signed off", Cell::text(sign_off(one, now)))));
    lines.extend(approval.created_by.as_deref().map(|token| ("token", Cell::text(token))));
    lines.extend(
        approval
            .withdrawal
            .as_ref()
            .map(|withdrawal| ("withdrawn", Cell::text(describe_withdrawal(withdrawal, now)))),
    );
    lines.extend(approval.src_commit_list.iter().map(|commit| ("commit", Cell::text(commit.sha()))));
    details(lines)
}

fn sign_off(sign_off: &api::SignOff, now: Timestamp) -> String {
    decision(sign_off.approved_by.as_deref(), sign_off.timestamp, sign_off.comment.as_deref(), now)
}

fn describe_withdrawal(withdrawal: &api::Withdrawal, now: Timestamp) -> String {
    decision(Some(&withdrawal.withdrawn_by), withdrawal.timestamp, withdrawal.comment.as_deref(), now)
}

/// `jo, 3d ago: "looks good"`, as far as the service returns it.
fn decision(by: Option<&str>, at: Option<Timestamp>, comment: Option<&str>, now: Timestamp) -> String {
    let by = by.unwrap_or("-");
    let age = at.map(|at| format!(", {}", ago(at, now))).unwrap_or_default();
    let comment = comment.filter(|comment| !comment.is_empty());
    format!("{by}{age}{}", comment.map(|comment| format!(": \"{comment}\"")).unwrap_or_default())
}
