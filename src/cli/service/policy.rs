//! `supercargo policy check`: shows what a policy would change, before it is attached.

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::files::{self, quoted};
use crate::cli::output::state;
use crate::cli::read::Format::{Digest, Reasons, State, Text};
use crate::cli::read::{Column, Common, Objects, client, table, warn};
use client::{Operation, Parsed, Resource};
use model::{EnvironmentName, PointInTime, PolicyName, Timestamp};
use rules::policy::MAX_FILE;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show which artifacts of an environment would become compliant or non-compliant
    #[command(after_help = EXAMPLES)]
    Check {
        /// Policy file
        file: PathBuf,
        /// Environment
        #[arg(long, value_name = "NAME")]
        environment: EnvironmentName,
        /// Policy whose new version the file would be (default: it would be added)
        #[arg(long, value_name = "NAME")]
        policy: Option<PolicyName>,
        /// Check the artifacts that ran at this time, such as 2026-10-03T14:00Z or 2w
        #[arg(long, value_name = "TIME")]
        at: Option<PointInTime>,
        #[command(flatten)]
        common: Common,
    },
}

const EXAMPLES: &str = "\
Examples:
  Show what a new version of a policy would change in production:
    supercargo policy check prod-rules.yaml --environment prod --policy prod-rules
  Check the artifacts of another day against a new policy:
    supercargo policy check strict.yaml --environment prod --at 2026-10-03";

#[derive(Debug, Deserialize)]
struct PolicyEffect {
    before: String,
    after: String,
    artifacts_total: u64,
    changed_total: u64,
    artifacts: Objects,
}

const EFFECT: &[Column] = &[
    Column::new("ARTIFACT", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("BEFORE", "/before", State),
    Column::new("AFTER", "/after", State),
    Column::new("REASON", "/reasons", Reasons),
];

#[derive(Debug, thiserror::Error)]
#[error("{} is not a policy file: expected text in UTF-8", quoted(.0))]
struct InvalidEncoding(PathBuf);

impl PolicyCommand {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let PolicyCommand::Check { file, environment, policy, at, common } = self;
        let now = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
        let at = at.as_ref().map(|at| at.resolve(now));
        let limit = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
        let bytes = files::read(limit, file).map_err(Failure::usage)?;
        let text = String::from_utf8(bytes).map_err(|_| Failure::usage(InvalidEncoding(file.clone())))?;
        let client = client(service)?;
        let about = Resource::Environment(environment.as_str());
        let operation = Operation::new(about, &["policies", "check"]);
        let body = json!({
            "policy_file": text, "environment_name": environment,
            "policy_name": policy.as_ref().map(PolicyName::as_str), "at": at,
        });
        let send = async || client.change(Method::POST, &operation, Some(&body)).await;
        let Parsed { value, raw }: Parsed<PolicyEffect> =
            common.requests.retry(&client, "checking the policy", about, send).await?;
        common.output.print(&raw, || table(EFFECT, &value.artifacts.0))?;
        warn(&raw, "/warning");
        tracing::info!(
            "{} of {} artifacts change; {}: {} before, {} after",
            value.changed_total,
            value.artifacts_total,
            environment,
            state(&value.before),
            state(&value.after)
        );
        Ok(())
    }
}
