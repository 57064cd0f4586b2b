//! `supercargo approval`: withdraws approvals.

use clap::Subcommand;
use http::Method;
use serde_json::json;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::read::{Common, decide};
use crate::cli::values::integer;
use client::{Operation, Resource};
use model::FlowName;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalChange {
    /// Withdraw an approval that was made with a token
    #[command(after_help = EXAMPLE)]
    Withdraw {
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
    },
}

const EXAMPLE: &str = "\
Example:
  Withdraw an approval, with a token of role approve or admin:
    supercargo approval withdraw cart 12 --comment 'broken in stage'";

impl ApprovalChange {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let ApprovalChange::Withdraw { flow, number, comment, common } = self;
        let about = Resource::Approval(flow.as_str(), *number);
        let path = ["approvals", flow.as_str(), &number.to_string(), "withdraw"];
        let (what, operation) = ("withdrawing the approval", Operation::new(about, &path));
        let body = json!({"comment": comment.as_deref().unwrap_or_default()});
        decide(service, common, what, Method::PUT, &operation, &body).await
    }
}
