//! `attest junit`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::facts::Given;
use super::results::{self, Attach, Read, ResultsError};
use crate::agent::counted;
use crate::agent::retry::Deadline;
use crate::api::{self, About, Attachment, Client};
use crate::cli::exit::Exit;
use crate::cli::fingerprints::Fingerprints;
use crate::cli::output::{Cell, Output, Table, Upload, details};
use crate::cli::{Failure, Service, duration};
use crate::domain::attestation::provenance::{Fact, Facts, InvalidFact, Provenance, address, of_attestation};
use crate::domain::escape::{Visible, shortened};
use crate::domain::evidence::verdict;
use crate::domain::model::{
    FlowName, FreeForm, InvalidObject, InvalidText, JunitAttestation, JunitResult, ShortText, Text, TrailName,
};
use crate::domain::retry::Backoff;
use crate::process::files::read_up_to;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Junit {
    /// Flow that the trail belongs to
    #[arg(long, value_name = "NAME")]
    flow: FlowName,
    /// Trail to attest in: the commit or the build, say
    #[arg(long, value_name = "NAME")]
    trail: TrailName,
    /// What was attested, as unit-tests; the flow's template asks for it by this name
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    name: ShortText,
    /// Files in JUnit XML, directories that hold some, or patterns as 'build/**/TEST-*.xml'
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Exit with 9 where the results do not pass, once they are attested
    #[arg(long)]
    fail_on_failures: bool,
    /// Show what would be sent, and where each fact was found, instead of sending it
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    artifacts: Fingerprints,
    /// Artifact of the flow's template that was tested
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    target: Vec<ShortText>,

    /// File to attach instead of the results, 10 MB at most
    #[arg(long, value_name = "FILE", conflicts_with = "no_attachment")]
    attachment: Option<PathBuf>,
    /// Attach nothing: send the totals alone
    #[arg(long)]
    no_attachment: bool,
    /// What there is to say about it
    #[arg(long, value_name = "TEXT", value_parser = text)]
    description: Option<Text>,
    /// Page that belongs to it, as NAME=URL
    #[arg(long, value_name = "NAME=URL", value_parser = web_page)]
    external_url: Vec<(String, String)>,
    /// Annotation, as KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    annotate: Vec<(String, String)>,
    /// File with a JSON object of your own
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
    /// How long sending may take, second tries included: 30s, 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    given: Given,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  What would be sent, and where each fact was found:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests --dry-run \\
      target/surefire-reports
  Attest an image by the digest that its build tool wrote, and fail where tests do:
    supercargo attest junit --flow cart --trail 4f1c2e7 --name unit-tests \\
      --fingerprint-file image-digest --fail-on-failures '**/TEST-*.xml'";

/// Results that cannot be attested, or do not pass.
#[derive(Debug, thiserror::Error)]
enum AttestError {
    #[error(transparent)]
    Fact(#[from] InvalidFact),
    #[error("\"{}\" (--user-data) cannot be read", Visible(&.0.display().to_string()))]
    UserData(PathBuf, #[source] io::Error),
    #[error("\"{}\" (--user-data) cannot be sent", Visible(&.0.display().to_string()))]
    NoObject(PathBuf, #[source] InvalidObject),
    #[error("{0} cannot be sent")]
    Pairs(&'static str, #[source] InvalidObject),
    #[error("{} gives \"{}\" twice; once was expected", .0, Visible(.1))]
    Twice(&'static str, String),
    #[error("the attestation cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    #[error("the tests do not pass: {0}{1}")]
    Failing(String, Doubtful),
}

/// How much more went wrong than test cases show.
#[derive(Debug)]
struct Doubtful(u64);

impl fmt::Display for Doubtful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, "; {more} more went wrong, as suites say"),
        }
    }
}

/// The largest file of user data, in bytes.
const MOST_USER_DATA: u64 = 64 * 1024;

impl Junit {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let client = if self.dry_run {
            None
        } else {
            Some(service.client(api::Patience::default()).map_err(Failure::usage)?)
        };
        let mut found = results::read(&self.results, self.attach()).map_err(unreadable)?;
        let facts = self.given.gather();
        let attestation = self.attestation(std::mem::take(&mut found.results), &facts)?;
        warn(&found, &attestation);
        let total = total(&attestation.junit_results);
        let Some(client) = client else { return self.show(&attestation, &found, &facts) };
        self.send(&client, &attestation, found.attachment.take()).await?;
        let Self { name, flow, trail, .. } = self;
        tracing::info!("attested {} in {flow}/{trail}: {}", Visible(name.as_str()), said(&total));
        if self.output.is_data() {
            self.show(&attestation, &found, &facts)?;
        }
        let is_passing = verdict::passes(&attestation.junit_results) && found.doubts.is_empty();
        if self.fail_on_failures && !is_passing {
            let more = found.doubts.iter().map(|(_, doubt)| doubt.said - doubt.counted);
            let more = more.fold(0, u64::saturating_add);
            return Err(Failure::new(
                AttestError::Failing(said(&total), Doubtful(more)),
                None,
                Exit::Failing,
            ));
        }
        Ok(())
    }

    fn attach(&self) -> Attach<'_> {
        match &self.attachment {
            _ if self.no_attachment => Attach::Nothing,
            Some(path) => Attach::File(path),
            None => Attach::Results,
        }
    }

    fn attestation(&self, results: Vec<JunitResult>, facts: &Facts) -> Result<JunitAttestation, Failure> {
        let mut artifacts = self.artifacts.read().map_err(Failure::usage)?.into_iter();
        let Provenance { commit, repository, origin_url, left_out } =
            of_attestation(facts).map_err(|error| Failure::usage(AttestError::Fact(error)))?;
        for fact in left_out {
            tracing::warn!("{fact}; it is left out");
        }
        let artifact_fingerprint = artifacts.next();
        let targets: Vec<_> = artifacts.map(ShortText::from).chain(self.target.iter().cloned()).collect();
        Ok(JunitAttestation {
            attestation_name: self.name.clone(),
            junit_results: results,
            origin_url,
            description: self.description.clone(),
            artifact_fingerprint,
            target_artifacts: Some(targets).filter(|targets| !targets.is_empty()),
            git_commit_info: commit,
            repo_info: repository,
            external_urls: object("--external-url", &self.external_url).map_err(Failure::usage)?,
            annotations: object("--annotate", &self.annotate).map_err(Failure::usage)?,
            user_data: self.user_data.as_deref().map(user_data).transpose().map_err(Failure::usage)?,
        })
    }

    fn show(&self, attestation: &JunitAttestation, found: &Read, facts: &Facts) -> Result<(), Failure> {
        let sent =
            serde_json::to_value(attestation).map_err(|e| Failure::unexpected(AttestError::Json(e)))?;
        self.output.print(&sent, || self.table(attestation, found, facts))
    }

    fn table(&self, attestation: &JunitAttestation, found: &Read, facts: &Facts) -> Table {
        let Self { name, flow, trail, .. } = self;
        let mut lines = vec![
            ("attestation", Cell::text(format!("{} in {flow}/{trail}", name.as_str()))),
            ("tests", Cell::text(said(&total(&attestation.junit_results)))),
            (
                "suites",
                Cell::text(format!(
                    "{} in {}",
                    attestation.junit_results.len(),
                    counted(found.files as u64, "file")
                )),
            ),
            (
                "attachment",
                Cell::maybe(found.attachment.as_ref().map(|attachment| {
                    format!("{}, {}", attachment.name, counted(attachment.content.len() as u64, "byte"))
                })),
            ),
            ("artifact", Cell::maybe(attestation.artifact_fingerprint.map(|artifact| artifact.to_string()))),
        ];
        let targets = attestation.target_artifacts.iter().flatten().map(|target| target.as_str().to_owned());
        lines.extend(targets.map(|target| ("target", Cell::text(target))));
        let object = |name, object: &Option<FreeForm>| Some((name, Cell::text(object.as_ref()?.as_str())));
        lines.extend(self.description.as_ref().map(|text| ("description", Cell::text(text.as_str()))));
        lines.extend(object("external URLs", &attestation.external_urls));
        lines.extend(object("annotations", &attestation.annotations));
        lines.extend(object("user data", &attestation.user_data));
        let provider = attestation.repo_info.as_ref().and_then(|repository| repository.provider);
        let is_sent = |fact: Fact| fact != Fact::Provider || provider.is_some();
        lines.extend(facts.iter().filter(|(fact, _)| is_sent(**fact)).map(|(fact, found)| {
            let value = shortened(found.value.lines().next().unwrap_or_default(), LONGEST_SHOWN);
            (fact.words(), Cell::text(format!("{value} ({})", found.from)))
        }));
        details(lines)
    }

    async fn send(
        &self,
        client: &Client,
        attestation: &JunitAttestation,
        attachment: Option<Attachment>,
    ) -> Result<(), Failure> {
        let data =
            serde_json::to_string(attestation).map_err(|e| Failure::unexpected(AttestError::Json(e)))?;
        let bytes = attachment.as_ref().map_or(0, |attachment| attachment.content.len() as u64);
        let deadline = Deadline::after(self.timeout, Backoff::default());
        let attest = async || {
            let upload = Upload::begin(bytes);
            let sent = upload.told();
            client.attest_junit(&self.flow, &self.trail, data.clone(), attachment.clone(), sent).await
        };
        let attested = deadline.persist_in("the attestation", attest).await;
        attested.map_err(|gave_up| {
            let hint = gave_up.last().and_then(|error| client.hint(error, About::Flow(self.flow.as_str())));
            Failure::from(gave_up).hinted(hint)
        })
    }
}

/// How much of a fact is shown, in characters.
const LONGEST_SHOWN: usize = 200;

/// How many doubts are said one by one.
const MOST_DOUBTS: usize = 10;

/// What a person should know before this is evidence.
fn warn(found: &Read, attestation: &JunitAttestation) {
    for (path, doubt) in found.doubts.iter().take(MOST_DOUBTS) {
        let suite =
            if doubt.suite.is_empty() { "a suite" } else { &*format!("the suite \"{}\"", doubt.suite) };
        tracing::warn!(
            "\"{}\": {} says of itself that {} went wrong, of which its test cases show {}",
            Visible(&path.display().to_string()),
            Visible(suite),
            doubt.said,
            doubt.counted
        );
    }
    if found.doubts.len() > MOST_DOUBTS {
        tracing::warn!("so do {} more suites", found.doubts.len() - MOST_DOUBTS);
    }
    if total(&attestation.junit_results).total == 0 {
        tracing::warn!("there is no test in these results, which do not count as passed");
    }
    if attestation.fingerprints().is_empty() {
        tracing::warn!(
            "nothing tells the artifact, so no environment's policy counts this; give --fingerprint"
        );
    }
    if attestation.git_commit_info.as_ref().is_none_or(|commit| commit.sha1.is_none()) {
        tracing::warn!("nothing tells the commit, so it is not attested; give --commit");
    }
    if attestation.repo_info.is_none() {
        tracing::warn!("nothing tells the repository, so it is not attested; give --repository");
    }
}

fn total(results: &[JunitResult]) -> JunitResult {
    results.iter().fold(JunitResult::default(), |mut all, one| {
        all.include(one);
        all
    })
}

/// `412 tests: 409 passed, 1 failed, 1 with an error, 1 skipped`.
fn said(total: &JunitResult) -> String {
    let JunitResult { total: tests, failures, errors, skipped, .. } = *total;
    let parts =
        [(total.passed(), "passed"), (failures, "failed"), (errors, "with an error"), (skipped, "skipped")];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let tests = counted(u64::from(tests), "test");
    if parts.is_empty() { tests } else { format!("{tests}: {}", parts.join(", ")) }
}

fn unreadable(error: ResultsError) -> Failure {
    let hint = matches!(error, ResultsError::Attachment).then(|| {
        "--attachment FILE attaches another file, --no-attachment none; the totals are sent either way"
            .to_owned()
    });
    Failure::usage(error).hinted(hint)
}

fn user_data(path: &Path) -> Result<FreeForm, AttestError> {
    let bytes =
        read_up_to(MOST_USER_DATA, path).map_err(|error| AttestError::UserData(path.to_owned(), error))?;
    let object = FreeForm::new(String::from_utf8_lossy(&bytes).trim());
    object.map_err(|error| AttestError::NoObject(path.to_owned(), error))
}

fn object(option: &'static str, pairs: &[(String, String)]) -> Result<Option<FreeForm>, AttestError> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut object = Map::new();
    for (key, value) in pairs {
        if object.insert(key.clone(), json!(value)).is_some() {
            return Err(AttestError::Twice(option, key.clone()));
        }
    }
    let object = FreeForm::new(&Value::Object(object).to_string());
    object.map(Some).map_err(|error| AttestError::Pairs(option, error))
}

fn web_page(text: &str) -> Result<(String, String), String> {
    let (name, url) = pair(text)?;
    let expected = || "a URL that begins with https:// or http:// was expected behind the =".to_owned();
    Ok((name, address(&url).ok_or_else(expected)?))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a key and a value with = between them was expected".to_owned()),
    }
}

fn short_text(text: &str) -> Result<ShortText, InvalidText> {
    ShortText::new(text)
}

fn text(text: &str) -> Result<Text, InvalidText> {
    Text::new(text)
}
