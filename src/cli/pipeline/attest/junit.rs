//! `attest junit`: builds the attestation from results, provenance and options, and sends it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::facts::ProvenanceOptions;
use super::image::{ImageDigests, ImageFiles};
use super::results::{self, Attach, ResultsError, TestResults};
use super::{fields, send};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::files::{self, FileError, quoted};
use crate::cli::fingerprints::Fingerprints;
use crate::cli::output::{Cell, Output, Table, details};
use crate::cli::values::{duration, named_url, pair, short_text, text};
use crate::provenance::{Fact, Facts};
use client::{Attachment, Client, Deadline, NewAttestation, Operation, Resource};
use junit::Decisions;
use model::escape::{Escaped, shortened};
use model::retry::{Backoff, StatusClass};
use model::{
    AnyJson, AttestationFields, FlowName, FreeForm, InvalidObject, JunitAttestation, JunitFields,
    JunitResult, ShortText, Text, TrailName, pluralize,
};
use rules::verdict;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Junit {
    /// Flow name
    #[arg(long, value_name = "NAME")]
    flow: FlowName,
    /// Trail to attest to, such as the commit or the build
    #[arg(long, value_name = "NAME")]
    trail: TrailName,
    /// Name of the attestation in the flow's template, such as unit-tests
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    name: ShortText,
    /// JUnit XML files, directories with such files, or patterns such as 'build/**/TEST-*.xml'
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Exit with 9 after attesting if a test failed
    #[arg(long)]
    fail_on_failures: bool,
    /// Print the attestation and the source of each fact, and send nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    artifacts: Fingerprints,
    #[command(flatten)]
    image: ImageFiles,
    /// Tested artifact, by its name in the flow's template
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    target: Vec<ShortText>,

    /// File to attach instead of the results, at most 10 MB
    #[arg(long, value_name = "FILE", conflicts_with = "no_attachment")]
    attachment: Option<PathBuf>,
    /// Send only the totals
    #[arg(long)]
    no_attachment: bool,
    /// Description of the attestation
    #[arg(long, value_name = "TEXT", value_parser = text)]
    description: Option<Text>,
    /// Link to a related page, as NAME=URL
    #[arg(long, value_name = "NAME=URL", value_parser = named_url)]
    external_url: Vec<(String, String)>,
    /// Annotation, as KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    annotate: Vec<(String, String)>,
    /// File with a JSON object to include
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
    /// Timeout with retries, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    provenance: ProvenanceOptions,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  Print the attestation and the source of each fact without sending it:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests --dry-run \\
      target/surefire-reports
  Attest an image by the digest file of its build tool, and fail if a test failed:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests \\
      --fingerprint-file image-digest --fail-on-failures '**/TEST-*.xml'";

#[derive(Debug, thiserror::Error)]
enum AttestError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("invalid user data {} (--user-data)", quoted(.0))]
    InvalidUserData(PathBuf, #[source] InvalidObject),
    #[error("invalid {0}")]
    Pairs(&'static str, #[source] InvalidObject),
    #[error("{} sets \"{}\" twice", .0, Escaped(.1))]
    Duplicate(&'static str, String),
    #[error("not all tests passed: {0}")]
    Failing(String),
}

/// An attestation that the service recorded.
pub(super) struct Attested {
    /// What was attested, in one line.
    pub(super) result: String,
    total: JunitResult,
    passes: bool,
}

/// Maximum size of a file of user data, in bytes.
const MAX_USER_DATA: u64 = 64 * 1024;

impl Junit {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let Some(Attested { result, total, passes }) = self.attest(service).await? else { return Ok(()) };
        self.output.conclude(&result)?;
        if self.fail_on_failures && !passes {
            return Err(Failure::new(AttestError::Failing(summary(&total)), None, Exit::Failing));
        }
        Ok(())
    }

    /// Records the attestation; `None` after a dry run.
    pub(super) async fn attest(&self, service: &ServiceOptions) -> Result<Option<Attested>, Failure> {
        let client = if self.dry_run {
            None
        } else {
            Some(service.client("attest", client::RequestTimeouts::default()).map_err(Failure::usage)?)
        };
        let mut found = results::read(&self.results, self.attach()).map_err(unreadable)?;
        let facts = self.provenance.gather();
        let image = self.image.read().map_err(Failure::usage)?;
        let attestation = self.attestation(std::mem::take(&mut found.results), &facts, &image)?;
        warn(&attestation);
        let total = JunitResult::sum(&attestation.own.junit_results);
        let Some(client) = client else {
            self.print(&attestation, &found, &facts)?;
            return Ok(None);
        };
        self.send(&client, &attestation, &image, found.attachment.take()).await?;
        let Self { name, flow, trail, .. } = self;
        if found.decisions != Decisions::default() {
            tracing::info!("decided: {}", found.decisions);
        }
        let result = format!("attested {} in {flow}/{trail}: {}", Escaped(name.as_str()), summary(&total));
        if self.output.is_data() {
            self.print(&attestation, &found, &facts)?;
        }
        Ok(Some(Attested { result, total, passes: verdict::passes(&attestation.own.junit_results) }))
    }

    fn attach(&self) -> Attach<'_> {
        match &self.attachment {
            _ if self.no_attachment => Attach::Nothing,
            Some(path) => Attach::File(path),
            None => Attach::Results,
        }
    }

    fn attestation(
        &self,
        results: Vec<JunitResult>,
        facts: &Facts,
        image: &ImageDigests,
    ) -> Result<JunitAttestation, Failure> {
        let artifacts = self.artifacts.read().map_err(Failure::usage)?;
        let new = image.digests.iter().filter(|digest| !artifacts.contains(digest));
        let new: Vec<_> = new.copied().collect();
        let artifacts = artifacts.into_iter().chain(new);
        let user_data = self.user_data.as_deref().map(user_data).transpose();
        let fields = AttestationFields {
            description: self.description.clone(),
            external_urls: object("--external-url", &self.external_url).map_err(Failure::usage)?,
            annotations: object("--annotate", &self.annotate).map_err(Failure::usage)?,
            user_data: user_data.map_err(Failure::usage)?.map(AnyJson::from),
            ..fields(&self.name, artifacts, &self.target, facts)?
        };
        Ok(JunitAttestation { fields, own: JunitFields { junit_results: results } })
    }

    fn print(
        &self,
        attestation: &JunitAttestation,
        found: &TestResults,
        facts: &Facts,
    ) -> Result<(), Failure> {
        let raw = serde_json::to_value(attestation).map_err(Failure::unexpected)?;
        self.output.print(&raw, || self.table(attestation, found, facts))
    }

    fn table(&self, attestation: &JunitAttestation, found: &TestResults, facts: &Facts) -> Table {
        let Self { name, flow, trail, .. } = self;
        let mut lines = vec![
            ("attestation", Cell::text(format!("{} in {flow}/{trail}", name.as_str()))),
            ("tests", Cell::text(summary(&JunitResult::sum(&attestation.own.junit_results)))),
            (
                "decided",
                Cell::maybe((found.decisions != Decisions::default()).then(|| found.decisions.to_string())),
            ),
            (
                "suites",
                Cell::text(format!(
                    "{} in {}",
                    attestation.own.junit_results.len(),
                    pluralize(found.files as u64, "file")
                )),
            ),
            (
                "attachment",
                Cell::maybe(found.attachment.as_ref().map(|attachment| {
                    format!("{}, {}", attachment.name, pluralize(attachment.content.len() as u64, "byte"))
                })),
            ),
            (
                "artifact",
                Cell::maybe(attestation.fields.artifact_fingerprint.map(|artifact| artifact.to_string())),
            ),
        ];
        let targets =
            attestation.fields.target_artifacts.iter().flatten().map(|target| target.as_str().to_owned());
        lines.extend(targets.map(|target| ("target", Cell::text(target))));
        let object = |name, object: &Option<FreeForm>| Some((name, Cell::text(object.as_ref()?.as_str())));
        lines.extend(self.description.as_ref().map(|text| ("description", Cell::text(text.as_str()))));
        lines.extend(object("external URLs", &attestation.fields.external_urls));
        lines.extend(object("annotations", &attestation.fields.annotations));
        lines
            .extend(attestation.fields.user_data.iter().map(|data| ("user data", Cell::text(data.as_str()))));
        let repository = attestation.fields.repo_info.as_ref();
        let provider = repository.and_then(|repository| repository.provider.as_ref());
        let is_sent = |fact: Fact| fact != Fact::Provider || provider.is_some();
        lines.extend(facts.iter().filter(|(fact, _)| is_sent(**fact)).map(|(fact, found)| {
            let value = shortened(found.value.lines().next().unwrap_or_default(), MAX_SHOWN_CHARS);
            (fact.as_str(), Cell::text(format!("{value} ({})", found.from)))
        }));
        details(lines)
    }

    async fn send(
        &self,
        client: &Client,
        attestation: &JunitAttestation,
        image: &ImageDigests,
        attachment: Option<Attachment>,
    ) -> Result<(), Failure> {
        let data = serde_json::to_string(attestation).map_err(Failure::unexpected)?;
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let about = Resource::Flow(self.flow.as_str());
        for (index, document) in &image.indexes {
            let operation = Operation::new(about, &["artifacts", self.flow.as_str(), "image-index"]);
            let body = json!({"fingerprint": index, "document": document});
            let record =
                async || client.change::<Value>(Method::POST, &operation, Some(&body)).await.map(drop);
            match deadline.retry("the image index", record).await {
                Err(error) if error.last().and_then(client::Error::class) == Some(StatusClass::NotFound) => {
                    tracing::warn!(
                        "the service does not record image indexes: only the attested digests count"
                    );
                }
                recorded => recorded.map_err(|error| Failure::request(client, about, error))?,
            }
        }
        let new = NewAttestation::new("junit", &self.flow, &self.trail, data, attachment);
        send(client, &new, about, deadline).await.map(drop)
    }
}

/// Maximum length of a fact in the table, in characters.
const MAX_SHOWN_CHARS: usize = 200;

fn warn(attestation: &JunitAttestation) {
    if JunitResult::sum(&attestation.own.junit_results).total == 0 {
        tracing::warn!("the results contain no test and do not count as passed");
    }
    if attestation.fields.fingerprints().is_empty() {
        tracing::warn!("unknown artifact: no policy counts this attestation; set --fingerprint");
    }
    if attestation.fields.git_commit_info.as_ref().is_none_or(|commit| commit.sha1.is_none()) {
        tracing::warn!("unknown commit: the attestation will not contain one; set --commit");
    }
    if attestation.fields.repo_info.is_none() {
        tracing::warn!("unknown repository: the attestation will not contain one; set --repository");
    }
}

/// `412 tests: 409 passed, 1 failed, 1 with an error, 1 skipped`.
fn summary(total: &JunitResult) -> String {
    let JunitResult { total: tests, failures, errors, skipped, .. } = *total;
    let parts =
        [(total.passed(), "passed"), (failures, "failed"), (errors, "with an error"), (skipped, "skipped")];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let tests = pluralize(u64::from(tests), "test");
    if parts.is_empty() { tests } else { format!("{tests}: {}", parts.join(", ")) }
}

fn unreadable(error: ResultsError) -> Failure {
    let hint = matches!(error, ResultsError::AttachmentTooLarge).then(|| {
        "attach another file with --attachment FILE, or send only the totals with --no-attachment".to_owned()
    });
    Failure::usage(error).with_hint(hint)
}

fn user_data(path: &Path) -> Result<FreeForm, AttestError> {
    let bytes = files::read_option(MAX_USER_DATA, path, "--user-data")?;
    let object = FreeForm::new(String::from_utf8_lossy(&bytes).trim());
    object.map_err(|error| AttestError::InvalidUserData(path.to_owned(), error))
}

fn object(option: &'static str, pairs: &[(String, String)]) -> Result<Option<FreeForm>, AttestError> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut object = Map::new();
    for (key, value) in pairs {
        if object.insert(key.clone(), json!(value)).is_some() {
            return Err(AttestError::Duplicate(option, key.clone()));
        }
    }
    let object = FreeForm::new(&Value::Object(object).to_string());
    object.map(Some).map_err(|error| AttestError::Pairs(option, error))
}
