//! `list approvals` and `get approval`.

use clap::Args;

use super::{Common, client};
use crate::api::{self, About, Kept};
use crate::cli::fingerprints::digest;
use crate::cli::output::{Cell, Table, ago, details, now};
use crate::cli::{Failure, Service, whole};
use crate::domain::model::{Fingerprint, FlowName, Timestamp};

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLE)]
pub(super) struct Approvals {
    /// The flow
    flow: FlowName,
    /// The artifact: 64 lowercase hexadecimal digits
    #[arg(value_parser = digest)]
    fingerprint: Fingerprint,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLE)]
pub(super) struct Approval {
    /// The flow
    flow: FlowName,
    /// Its number in that flow
    #[arg(value_parser = whole(0..=u64::MAX))]
    number: u64,
    #[command(flatten)]
    common: Common,
}

const LIST_EXAMPLE: &str = "\
Example:
  Who approved an artifact:
    supercargo list approvals cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

impl Approvals {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let approvals = async || client.approvals(&self.flow, self.fingerprint).await;
        let approvals = self.common.ask(&client, About::Flow(self.flow.as_str()), approvals).await?;
        self.common.print_all(approvals, "approval", table)
    }
}

const GET_EXAMPLE: &str = "\
Example:
  Why an approval was given:
    supercargo get approval cart 12 -o yaml";

impl Approval {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = client(service)?;
        let approval = async || client.approval(&self.flow, self.number).await;
        let about = About::Approval(self.flow.as_str(), self.number);
        let approval = self.common.ask(&client, about, approval).await?;
        self.common.output.print(&approval.sent, || particulars(&approval.known))
    }
}

fn table(approvals: &[Kept<api::Approval>]) -> Table {
    let headings = ["NUMBER", "STATE", "ARTIFACT", "DIGEST", "ENVIRONMENT", "BY", "MODIFIED"];
    let (mut table, now) = (Table::new(headings), now());
    for Kept { known: approval, .. } in approvals {
        let by: Vec<_> = approval.approvals.iter().filter_map(|said| said.approved_by.as_deref()).collect();
        table.row([
            Cell::number(Some(approval.release_number)),
            Cell::word(&approval.state),
            Cell::text(&approval.artifact_name),
            Cell::digest(Some(&approval.target_artifact)),
            Cell::text(approval.environment.as_deref().unwrap_or("any")),
            Cell::maybe(Some(by.join(", ")).filter(|by| !by.is_empty())),
            Cell::ago(approval.last_modified_at, now),
        ]);
    }
    table
}

fn particulars(approval: &api::Approval) -> Table {
    let now = now();
    let age = |at| Cell::ago(at, now);
    let mut lines = vec![
        ("number", Cell::number(Some(approval.release_number))),
        ("state", Cell::word(&approval.state)),
        ("artifact", Cell::text(&approval.artifact_name)),
        ("digest", Cell::text(&approval.target_artifact)),
        ("after", Cell::text(&approval.base_artifact)),
        ("environment", Cell::text(approval.environment.as_deref().unwrap_or("any"))),
        ("description", Cell::text(&approval.description)),
        ("created", age(approval.created_at)),
        ("modified", age(approval.last_modified_at)),
    ];
    lines.extend(approval.approvals.iter().map(|said| ("said", Cell::text(self::said(said, now)))));
    lines.extend(approval.src_commit_list.iter().map(|commit| ("commit", Cell::text(commit.sha()))));
    details(lines)
}

/// `jo, 3d ago: "looks good"`, as far as it is known.
fn said(said: &api::SignOff, now: Timestamp) -> String {
    let who = said.approved_by.as_deref().unwrap_or("-");
    let when = said.timestamp.map(|at| format!(", {}", ago(at, now))).unwrap_or_default();
    let comment = said.comment.as_deref().filter(|comment| !comment.is_empty());
    format!("{who}{when}{}", comment.map(|comment| format!(": \"{comment}\"")).unwrap_or_default())
}
