//! `supercargo approve`: approves an artifact for an environment.

use clap::Args;

use super::exit::Failure;
use super::fingerprints::digest;
use super::read::{Common, approval_fields, client};
use super::service::Service;
use crate::api::Resource;
use crate::domain::model::{EnvironmentName, Fingerprint, FlowName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Approve {
    /// Flow name
    flow: FlowName,
    /// Digest of the artifact, as 64 hexadecimal digits, sha256:… or name@sha256:…
    #[arg(value_parser = digest)]
    fingerprint: Fingerprint,
    /// Environment for which the artifact is approved
    #[arg(long, value_name = "NAME")]
    environment: EnvironmentName,
    /// Comment on the approval
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    service: Service,
}

const EXAMPLE: &str = "\
Example:
  Approve an artifact for prod, with a token of role approve or admin:
    supercargo approve cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d \\
      --environment prod --comment 'load test passed'";

impl Approve {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let (client, Self { flow, fingerprint, environment, .. }) = (client(&self.service)?, self);
        let comment = self.comment.as_deref().unwrap_or_default();
        // A repeated request returns the approval of the first one.
        let send = async || client.approve(flow, *fingerprint, environment, comment).await;
        let about = Resource::NewApproval(flow.as_str(), environment.as_str());
        let approval = self.common.requests.retry(&client, "approving", about, send).await?;
        self.common.output.print(&approval.raw, || approval_fields(&approval.value))
    }
}
