//! `assert artifact`.

use clap::{ArgGroup, Args};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::Fingerprints;
use crate::cli::output::{Markup, markdown};
use crate::cli::read::Format::{Compliant, Digest, Text};
use crate::cli::read::{
    Column, Common, Objects, at, client, conflict_line, evidence_lines, finding, items, table, text,
};
use client::{Client, Operation, Parsed, Resource};
use model::escape::{Escaped, shortened};
use model::image_id::short_name;
use model::reason::refusal;
use model::{EnvironmentName, Fingerprint, FlowName, PolicyName};

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("artifacts").required(true).multiple(true).args(["fingerprint", "fingerprint_file"]),
    after_help = EXAMPLES,
)]
pub(crate) struct Artifact {
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
    supercargo assert artifact --environment prod --require-policy \\
      --fingerprint \\
      sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Add the reasons to the summary of a GitHub job:
    supercargo assert artifact --environment prod --fingerprint-file digests \\
      -o markdown >>\"$GITHUB_STEP_SUMMARY\"";

/// Displayed digits of a digest.
const DISPLAYED_DIGITS: usize = 12;

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
        let checked = self.check(service).await;
        let failure = checked.as_ref().err().filter(|failure| failure.exit() != Exit::NonCompliant);
        if let Some(failure) = failure {
            // Replaces the comment with an earlier verdict.
            self.common.output.print_markdown(|| no_verdict(failure))?;
        }
        checked
    }

    async fn check(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let artifacts = self.artifacts.read().map_err(Failure::usage)?;
        let client = client(service)?;
        let (mut answers, mut judgments) = (Vec::new(), Vec::new());
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
            judgments.push(self.judge(artifact, &answer));
            answers.push(answer.raw);
        }
        let rows: Vec<_> = judgments.iter().flat_map(Judgment::rows).collect();
        let in_words = |markup: Markup| match markup {
            Markup::Terminal => judgments.iter().map(Judgment::sentence).collect(),
            Markup::Markdown => judgments.iter().map(Judgment::comment).collect::<Vec<_>>().join(
                "
",
            ),
        };
        self.common.output.print_text(&Value::from(answers), in_words, || table(CHECKS, &rows))?;
        let failed = judgments.iter().filter(|judgment| !judgment.may_run);
        let failed: Vec<_> = failed.map(|judgment| judgment.artifact.to_string()).collect();
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

    fn judge(&self, artifact: Fingerprint, Parsed { value, raw }: &Parsed<Assertion>) -> Judgment {
        let mut judgment = Judgment {
            artifact,
            name: at(raw, "/artifact_name").as_str().unwrap_or_default().to_owned(),
            may_run: value.compliant && !self.lacks_policy(value),
            environment: self.environment.as_ref().map(ToString::to_string),
            checks: Vec::new(),
            message: at(raw, "/message").as_str().map(str::to_owned),
            page: at(raw, "/html_url").as_str().map(str::to_owned),
            evidence: evidence_lines(raw).chain(conflict_line(raw)).collect(),
        };
        for policy in items(raw, "/policy_evaluations") {
            let version = at(policy, "/policy_version").as_u64().map(|version| format!(" v{version}"));
            let name = format!("policy {}{}", text(at(policy, "/policy_name")), version.unwrap_or_default());
            let reasons = items(policy, "/reasons").map(Finding::of_policy).collect();
            judgment.checks.push(Check::new(name, policy, reasons));
        }
        if self.environment.is_none() && self.policy.is_empty() {
            for flow in items(raw, "/flows") {
                let trail = at(flow, "/trail").as_str().map(|trail| format!(", trail {trail}"));
                let name = format!("flow {}{}", text(at(flow, "/flow")), trail.unwrap_or_default());
                let result = at(flow, "/compliance_status");
                let reasons = items(result, "/attestations_statuses").filter_map(reason);
                let reasons = reasons.map(|reason| Finding { text: format!("{reason}, {name}"), page: None });
                judgment.checks.push(Check::new(name.clone(), result, reasons.collect()));
            }
        }
        if self.lacks_policy(value) {
            judgment.message = Some(match judgment.message {
                Some(message) => format!("{message}; --require-policy requires a policy"),
                None => "no policy was checked (--require-policy)".to_owned(),
            });
        }
        judgment
    }
}

/// The verdict on an artifact, for people.
struct Judgment {
    artifact: Fingerprint,
    /// The image; empty if the service does not tell it.
    name: String,
    may_run: bool,
    environment: Option<String>,
    checks: Vec<Check>,
    message: Option<String>,
    page: Option<String>,
    /// Who signed evidence, and a conflict of its origin.
    evidence: Vec<String>,
}

/// A policy, or the template of a flow.
struct Check {
    name: String,
    is_compliant: bool,
    /// Why it is not fulfilled.
    findings: Vec<Finding>,
}

/// Why a check fails, and the page with the evidence.
#[derive(Clone, PartialEq, Eq)]
struct Finding {
    text: String,
    page: Option<String>,
}

impl Check {
    fn new(name: String, of: &Value, findings: Vec<Finding>) -> Self {
        let is_compliant = at(of, "/status") == "COMPLIANT";
        Self { name, is_compliant, findings: if is_compliant { Vec::new() } else { findings } }
    }
}

impl Finding {
    fn of_policy(reason: &Value) -> Self {
        let page = at(reason, "/attestation/html_url").as_str().filter(|url| url.starts_with("http"));
        Self { text: finding(reason), page: page.map(str::to_owned) }
    }
}

impl Judgment {
    /// The checks, each with its result and a reason.
    fn rows(&self) -> Vec<Value> {
        let row = |check: &str, is_compliant: bool, reason: Option<&str>| json!({"artifact": self.artifact, "check": check, "is_compliant": is_compliant, "reason": reason});
        let mut rows = Vec::new();
        for Check { name, is_compliant, findings } in &self.checks {
            if findings.is_empty() {
                rows.push(row(name, *is_compliant, None));
            }
            rows.extend(findings.iter().map(|found| row(name, *is_compliant, Some(&found.text))));
        }
        if self.message.is_some() || rows.is_empty() {
            rows.push(row("verdict", self.may_run, self.message.as_deref()));
        }
        rows
    }

    /// Distinct findings, then the message of the service. None if the artifact may run.
    fn findings(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        let message = self.message.iter().map(|text| Finding { text: text.clone(), page: None });
        let of_checks = self.checks.iter().flat_map(|check| check.findings.iter().cloned());
        for finding in of_checks.chain(message).filter(|_| !self.may_run) {
            if !found.contains(&finding) {
                found.push(finding);
            }
        }
        found
    }

    fn image(&self) -> String {
        match short_name(&self.name) {
            "" => shortened(&self.artifact.to_string(), DISPLAYED_DIGITS),
            name => name.to_owned(),
        }
    }

    /// The artifact and the verdict, without reasons.
    fn headline(&self) -> String {
        let image = self.image();
        match &self.environment {
            _ if !self.may_run => refusal(&image, self.environment.as_deref(), &[]),
            Some(environment) => format!("{image} may run in {environment}"),
            None => format!("{image} is compliant"),
        }
    }

    fn checked(&self) -> String {
        let checked = if self.may_run { ": fulfills " } else { "; checked " };
        let checks = self.checks.iter().filter(|check| check.is_compliant || !self.may_run);
        let names: Vec<_> = checks.map(|check| check.name.as_str()).collect();
        if names.is_empty() { String::new() } else { format!("{checked}{}", names.join(", ")) }
    }

    /// A sentence; several findings are a list.
    fn sentence(&self) -> String {
        let findings = self.findings().into_iter().map(|Finding { text, page }| {
            let page = page.map(|page| format!(", {page}")).unwrap_or_default();
            format!("{text}{page}")
        });
        let findings: Vec<_> = findings.collect();
        let lines = match (findings.as_slice(), &self.message) {
            ([], Some(message)) => vec![format!("{}: {message}", self.headline())],
            ([], None) => vec![format!("{}{}", self.headline(), self.checked())],
            ([_], _) => vec![refusal(&self.image(), self.environment.as_deref(), &findings)],
            (several, _) => {
                let list = several.iter().map(|finding| format!("- {finding}"));
                std::iter::once(format!("{}:", self.headline())).chain(list).collect()
            }
        };
        let evidence = self.evidence.iter().map(|line| format!("  {line}"));
        let lines: Vec<_> =
            lines.into_iter().chain(evidence).map(|line| format!("{}\n", Escaped(&line))).collect();
        lines.concat()
    }

    /// A comment for a pull request.
    fn comment(&self) -> String {
        let escaped = |text: &str| markdown(&Escaped(text).to_string());
        let link = |text: &str, page: &str| format!("[{text}](<{}>)", Escaped(page));
        let mark = if self.may_run { ":white_check_mark:" } else { ":x:" };
        let mut lines = vec![format!("### {mark} {}", escaped(&self.headline())), String::new()];
        for Finding { text, page } in self.findings() {
            let page = page.map(|page| format!(" ({})", link("attestation", &page))).unwrap_or_default();
            lines.push(format!("- {}{page}", escaped(&text)));
        }
        if let Some(message) = self.message.as_ref().filter(|_| self.may_run) {
            lines.push(format!("- {}", escaped(message)));
        }
        lines.extend(self.evidence.iter().map(|line| format!("- {}", escaped(line))));
        if lines.len() > 2 {
            lines.push(String::new());
        }
        let names: Vec<_> = self.checks.iter().map(|check| escaped(&check.name)).collect();
        let checked =
            if names.is_empty() { String::new() } else { format!("Checked: {}. ", names.join(", ")) };
        let page = self.page.as_ref().filter(|page| page.starts_with("http"));
        let page = page.map(|page| format!(" {}", link("Evidence", page))).unwrap_or_default();
        lines.push(format!("{checked}Digest: `sha256:{}`.{page}\n", self.artifact));
        lines.join("\n")
    }
}

/// A comment for a pull request whose artifact was not judged.
fn no_verdict(failure: &Failure) -> String {
    let causes = failure.causes();
    let causes = causes.iter().map(|cause| format!("- {}\n", markdown(&Escaped(cause).to_string())));
    format!("### :x: no verdict\n\n{}", causes.collect::<String>())
}

/// Why an attestation does not meet the requirements of a template.
fn reason(attestation: &Value) -> Option<String> {
    let is_unexpected = at(attestation, "/unexpected") == true;
    let why = match at(attestation, "/is_compliant").as_bool() {
        Some(true) => return None,
        _ if at(attestation, "/status") == "MISSING" => "is missing",
        Some(false) => "failed",
        None if is_unexpected => return None,
        None => "has no verdict",
    };
    Some(format!("{} {why}", text(at(attestation, "/attestation_name"))))
}
