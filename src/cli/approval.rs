//! `supercargo approval`: withdraws approvals.

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::read::{Common, approval_fields, client};
use super::service::Service;
use super::values::integer;
use crate::api::Resource;
use crate::domain::model::FlowName;

#[derive(Debug, Args)]
#[command(subcommand_required = true)]
pub(super) struct Approval {
    #[command(subcommand)]
    change: Change,
    #[command(flatten)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Withdraw an approval that was made with a token
    #[command(after_help = EXAMPLE)]
    Withdraw(Withdraw),
}

#[derive(Debug, Args)]
struct Withdraw {
    /// Flow name
    flow: FlowName,
    /// Number of the approval in the flow
    #[arg(value_parser = integer(1..=u64::MAX))]
    number: u64,
    /// Reason of the withdrawal
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLE: &str = "\
Example:
  Withdraw an approval, with a token of role approve or admin:
    supercargo approval withdraw cart 12 --comment 'broken in stage'";

impl Approval {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let Change::Withdraw(Withdraw { flow, number, comment, common }) = &self.change;
        let client = client(&self.service)?;
        let comment = comment.as_deref().unwrap_or_default();
        let send = async || client.withdraw_approval(flow, *number, comment).await;
        let about = Resource::Approval(flow.as_str(), *number);
        let approval = common.requests.retry(&client, "withdrawing the approval", about, send).await?;
        common.output.print(&approval.raw, || approval_fields(&approval.value))
    }
}
