//! `supercargo approve`: approves an artifact for an environment.

use clap::Args;
use http::Method;
use serde_json::json;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::fingerprints::digest;
use crate::cli::read::{Common, decide};
use client::{Operation, Resource};
use model::{EnvironmentName, Fingerprint, FlowName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Approve {
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
    service: ServiceOptions,
}

const EXAMPLE: &str = "\
Example:
  Approve an artifact for prod, with a token of role approve or admin:
    supercargo approve cart \\
      7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d \\
      --environment prod --comment 'load test passed'";

impl Approve {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let Self { flow, fingerprint, environment, comment, common, service } = self;
        let about = Resource::NewApproval(flow.as_str(), environment.as_str());
        let operation = Operation::new(about, &["approvals", flow.as_str()]);
        let decision = json!({"state": "APPROVED", "comment": comment.as_deref().unwrap_or_default()});
        let body = json!({
            "artifact_fingerprint": fingerprint, "environment": environment, "approvals": [decision],
        });
        // A repeated request returns the approval of the first one.
        decide(service, common, "approving", Method::POST, &operation, &body).await
    }
}
