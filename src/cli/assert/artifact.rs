//! `assert artifact`.

use std::collections::BTreeSet;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::api::{AssertScope, Assertion, Client, Filter, Parsed, Resource};
use crate::cli::exit::Failure;
use crate::cli::fingerprints::Fingerprints;
use crate::cli::output::{Cell, Table};
use crate::cli::read::{Common, client};
use crate::cli::service::Service;
use crate::domain::escape::Escaped;
use crate::domain::model::{EnvironmentName, Fingerprint, FlowName, Page, PolicyName};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("artifacts").required(true).multiple(true).args(["fingerprint", "fingerprint_file"]),
    after_help = EXAMPLES,
)]
pub(super) struct Artifact {
    #[command(flatten)]
    artifacts: Fingerprints,
    /// Check the policies of this environment (default: the templates of the flows that hold the artifact)
    #[arg(long, value_name = "NAME", conflicts_with = "policy")]
    environment: Option<EnvironmentName>,
    /// Check this policy; repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<PolicyName>,
    /// Only this flow counts
    #[arg(long, value_name = "NAME")]
    flow: Option<FlowName>,
    /// Fail if no policy was checked, such as in an environment without policies
    #[arg(long)]
    require_policy: bool,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  Check whether an image may run in production; exit with 10 if it may not:
    supercargo assert artifact --environment prod --require-policy --fingerprint \\
      sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Add the reasons to the summary of a GitHub job:
    supercargo assert artifact --environment prod --fingerprint-file digests \\
      -o markdown >>\"$GITHUB_STEP_SUMMARY\"";

impl Artifact {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let artifacts = self.artifacts.read().map_err(Failure::usage)?;
        let client = client(service)?;
        let scope = AssertScope {
            environment: self.environment.clone(),
            policies: self.policy.clone(),
            flow: self.flow.clone(),
        };
        let (mut answers, mut table) = (Vec::new(), Table::new(["DIGEST", "CHECK", "RESULT", "REASON"]));
        let mut failed = Vec::new();
        for artifact in artifacts {
            let Parsed { value, raw } = match self.ask(&client, artifact, &scope).await? {
                Some(answer) => answer,
                None => self.check_trails(&client, artifact).await?,
            };
            for (check, is_compliant, reason) in self.rows(&value) {
                table.row([
                    Cell::digest(Some(artifact.to_string())),
                    Cell::text(check),
                    Cell::compliance(Some(is_compliant)),
                    Cell::maybe(reason),
                ]);
            }
            if !value.compliant || self.lacks_policy(&value) {
                failed.push(artifact.to_string());
            }
            answers.push(raw);
        }
        self.common.output.print(&Value::from(answers), || table)?;
        if failed.is_empty() { Ok(()) } else { Err(Failure::not_compliant(failed.join(", "))) }
    }

    /// The service's verdict; `None` if the service has no such operation.
    async fn ask(
        &self,
        client: &Client,
        artifact: Fingerprint,
        scope: &AssertScope,
    ) -> Result<Option<Parsed<Assertion>>, Failure> {
        let send = async || match client.assert_artifact(artifact, scope).await {
            Err(error) if error.is_unknown_operation(&artifact.to_string()) => Ok(None),
            answer => answer.map(Some),
        };
        self.common.requests.retry(client, "checking the artifact", Resource::Artifact(artifact), send).await
    }

    /// The verdict by the latest trail of the artifact in each flow, for a service without the operation.
    async fn check_trails(
        &self,
        client: &Client,
        artifact: Fingerprint,
    ) -> Result<Parsed<Assertion>, Failure> {
        let filter = Filter { flow: self.flow.clone(), tag: None, fingerprint: Some(artifact) };
        let page = Page::new(None, Some(MAX_TRAILS)).map_err(Failure::unexpected)?;
        let send = async || client.trails(&filter, page).await;
        let about = Resource::Artifact(artifact);
        let trails =
            self.common.requests.retry(client, "reading the trails of the artifact", about, send).await?;
        let mut seen = BTreeSet::new();
        let latest = trails.data.iter().filter(|trail| seen.insert(&trail.value.flow.name));
        let mut is_compliant = !trails.data.is_empty();
        let mut flows = Vec::new();
        for Parsed { value: trail, raw } in latest {
            let passes = trail.is_compliant == Some(true);
            is_compliant &= passes;
            flows.push(json!({
                "flow": trail.flow.name, "trail": trail.name,
                "compliance_status": {
                    "status": if passes { "COMPLIANT" } else { "NON_COMPLIANT" },
                    "attestations_statuses": raw.pointer("/compliance_status/attestations_statuses"),
                },
            }));
        }
        let message = self.unchecked();
        tracing::warn!("{message}");
        let message = if flows.is_empty() { "no trail holds the artifact".to_owned() } else { message };
        let raw = json!({
            "scope": "flow", "compliant": is_compliant, "message": message, "flows": flows,
        });
        serde_json::from_value(raw).map_err(Failure::unexpected)
    }

    /// The requirements that the trails do not show.
    fn unchecked(&self) -> String {
        let environment = self.environment.as_ref().map(|name| format!("the policies of {name}"));
        let policies: Vec<&str> = self.policy.iter().map(PolicyName::as_str).collect();
        let policies = Some(policies.join(", ")).filter(|names| !names.is_empty());
        let unchecked = environment.or(policies).unwrap_or_else(|| "attestations outside of them".to_owned());
        format!(
            "the service cannot assert artifacts: only the latest trail of each flow was checked, not {}",
            Escaped(&unchecked)
        )
    }

    fn lacks_policy(&self, answer: &Assertion) -> bool {
        self.require_policy && answer.policy_evaluations.is_empty()
    }

    /// The checks, each with its result and a reason.
    fn rows(&self, answer: &Assertion) -> Vec<(String, bool, Option<String>)> {
        let mut rows = Vec::new();
        let mut add = |check: String, is_compliant: bool, reasons: Vec<String>| {
            let reasons = reasons.into_iter().filter(|_| !is_compliant).map(Some);
            let mut reasons: Vec<_> = reasons.collect();
            if reasons.is_empty() {
                reasons.push(None);
            }
            rows.extend(reasons.into_iter().map(|reason| (check.clone(), is_compliant, reason)));
        };
        for policy in &answer.policy_evaluations {
            let version = policy.policy_version.map(|version| format!(" v{version}"));
            let check = format!("policy {}{}", policy.policy_name, version.unwrap_or_default());
            add(check, policy.status == "COMPLIANT", policy.reasons());
        }
        if self.environment.is_none() && self.policy.is_empty() || answer.policy_evaluations.is_empty() {
            for flow in &answer.flows {
                let trail = flow.trail.as_ref().map(|trail| format!(", trail {trail}"));
                let check = format!("flow {}{}", flow.flow, trail.unwrap_or_default());
                let status = &flow.compliance_status;
                add(check, status.status == "COMPLIANT", status.reasons());
            }
        }
        let verdict = answer.compliant && !self.lacks_policy(answer);
        let message = match &answer.message {
            Some(message) if self.lacks_policy(answer) => {
                Some(format!("{message}; --require-policy requires a policy"))
            }
            None if self.lacks_policy(answer) => Some("no policy was checked (--require-policy)".to_owned()),
            message => message.clone(),
        };
        if message.is_some() || rows.is_empty() {
            rows.push(("verdict".to_owned(), verdict, message));
        }
        rows
    }
}

/// Maximum number of trails that the fallback reads, newest first.
const MAX_TRAILS: i64 = 500;
