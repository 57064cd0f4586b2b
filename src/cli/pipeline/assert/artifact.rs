//! `assert artifact`.

use clap::{ArgGroup, Args};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::Fingerprints;
use crate::cli::read::Format::{Compliant, Digest, Text};
use crate::cli::read::{Column, Common, Objects, at, client, items, reason_text, table, text};
use client::{Client, Operation, Parsed, Resource};
use model::{EnvironmentName, FlowName, PolicyName};

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

/// The verdict on an artifact. A response of another form is no verdict.
#[derive(Debug, Deserialize)]
struct Assertion {
    compliant: bool,
    policy_evaluations: Option<Vec<PolicyResult>>,
    #[serde(rename = "flows")]
    _flows: Option<Objects>,
}

#[derive(Debug, Deserialize)]
struct PolicyResult {
    #[serde(rename = "policy_name")]
    _name: String,
    #[serde(rename = "status")]
    _status: String,
}

const CHECKS: &[Column] = &[
    Column::new("DIGEST", "/artifact", Digest),
    Column::new("CHECK", "/check", Text),
    Column::new("RESULT", "/is_compliant", Compliant),
    Column::new("REASON", "/reason", Text),
];

impl Artifact {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let artifacts = self.artifacts.read().map_err(Failure::usage)?;
        let client = client(service)?;
        let (mut answers, mut rows, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for artifact in artifacts {
            let path = ["asserts", "fingerprint", &artifact.to_string()];
            let operation = Operation::new(Resource::Artifact(artifact), &path)
                .with("environment_name", &self.environment)
                .with("policy_name", &self.policy)
                .with("flow_name", &self.flow);
            let answer = self.common.requests.get_in_pipeline(&client, &operation).await;
            let answer: Parsed<Assertion> = match answer {
                Err(failure) if failure.exit() == Exit::Rejected => {
                    return Err(self.unknown_name(&client).await.unwrap_or(failure));
                }
                Err(failure) => return Err(failure),
                Ok(answer) => answer,
            };
            rows.extend(self.rows(&answer).into_iter().map(|(check, is_compliant, reason)| {
                json!({"artifact": artifact, "check": check, "is_compliant": is_compliant, "reason": reason})
            }));
            if !answer.value.compliant || self.lacks_policy(&answer.value) {
                failed.push(artifact.to_string());
            }
            answers.push(answer.raw);
        }
        self.common.output.print(&Value::from(answers), || table(CHECKS, &rows))?;
        if failed.is_empty() { Ok(()) } else { Err(Failure::not_compliant(failed.join(", "))) }
    }

    /// The failure to find the environment or a policy. The operation itself has no 404 for them, which would mean an
    /// unknown artifact.
    async fn unknown_name(&self, client: &Client) -> Option<Failure> {
        let environment = self.environment.iter().map(EnvironmentName::as_str);
        let environment =
            environment.map(|name| Operation::new(Resource::Environment(name), &["environments", name]));
        let policies = self.policy.iter().map(PolicyName::as_str);
        let policies =
            policies.map(|name| Operation::new(Resource::Named("policy", name), &["policies", name]));
        for operation in environment.chain(policies) {
            let found: Result<Value, _> = self.common.requests.get(client, &operation).await;
            if let Err(failure) = found
                && failure.exit() == Exit::NotFound
            {
                return Some(failure);
            }
        }
        None
    }

    fn lacks_policy(&self, answer: &Assertion) -> bool {
        self.require_policy && answer.policy_evaluations.as_ref().is_none_or(Vec::is_empty)
    }

    /// The checks, each with its result and a reason.
    fn rows(&self, Parsed { value, raw }: &Parsed<Assertion>) -> Vec<(String, bool, Option<String>)> {
        let mut rows = Vec::new();
        let mut add = |check: String, of: &Value, reasons: Vec<String>| {
            let is_compliant = at(of, "/status") == "COMPLIANT";
            let mut reasons: Vec<_> = reasons.into_iter().filter(|_| !is_compliant).map(Some).collect();
            if reasons.is_empty() {
                reasons.push(None);
            }
            rows.extend(reasons.into_iter().map(|reason| (check.clone(), is_compliant, reason)));
        };
        let policies: Vec<_> = items(raw, "/policy_evaluations").collect();
        for policy in &policies {
            let version = at(policy, "/policy_version").as_u64().map(|version| format!(" v{version}"));
            let check = format!("policy {}{}", text(at(policy, "/policy_name")), version.unwrap_or_default());
            add(check, policy, items(policy, "/reasons").map(reason_text).collect());
        }
        if self.environment.is_none() && self.policy.is_empty() || policies.is_empty() {
            for flow in items(raw, "/flows") {
                let trail = at(flow, "/trail").as_str().map(|trail| format!(", trail {trail}"));
                let check = format!("flow {}{}", text(at(flow, "/flow")), trail.unwrap_or_default());
                let result = at(flow, "/compliance_status");
                add(check, result, items(result, "/attestations_statuses").filter_map(reason).collect());
            }
        }
        let message = at(raw, "/message").as_str().map(str::to_owned);
        let message = match message {
            Some(message) if self.lacks_policy(value) => {
                Some(format!("{message}; --require-policy requires a policy"))
            }
            None if self.lacks_policy(value) => Some("no policy was checked (--require-policy)".to_owned()),
            message => message,
        };
        if message.is_some() || rows.is_empty() {
            rows.push(("verdict".to_owned(), value.compliant && !self.lacks_policy(value), message));
        }
        rows
    }
}

/// Why an attestation does not meet the requirements of a template.
fn reason(attestation: &Value) -> Option<String> {
    let is_unexpected = at(attestation, "/unexpected") == true;
    let why = match at(attestation, "/is_compliant").as_bool() {
        Some(true) => return None,
        _ if at(attestation, "/status") == "MISSING" => "is missing",
        Some(false) => "fails",
        None if is_unexpected => return None,
        None => "has no verdict",
    };
    Some(format!("{} {why}", text(at(attestation, "/attestation_name"))))
}
