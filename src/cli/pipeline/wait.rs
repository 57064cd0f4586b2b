//! `supercargo wait`: polls the service until artifacts run, or have stopped running.
//!
//! `client::wait` decides; this module requests, reports progress and maps the result to an exit code.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use clap::{ArgGroup, Args};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::fingerprints::Fingerprints;
use crate::cli::output::{ago, now, say};
use crate::cli::read::organization;
use crate::cli::values::{duration, interval};
use client::wait::{ArtifactWait, RunningArtifact, UnmetArtifact, Until};
use client::{Client, Deadline, LiveArtifacts, Resource, RetryError, seed};
use model::escape::Escaped;
use model::retry::{Backoff, Retryable, StatusClass, retry_after};
use model::{EnvironmentName, Fingerprint, Provider, RepositoryName, did_you_mean};
use runtime::error_causes;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("artifacts").required(true).multiple(true).args(["fingerprint", "fingerprint_file"]),
    after_help = EXAMPLES,
)]
pub(crate) struct Wait {
    /// Repository with its owner, such as acme/cart
    repository: RepositoryName,
    #[command(flatten)]
    artifacts: Fingerprints,
    /// Environment in which each artifact must run; repeatable (default: any)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    environment: Vec<EnvironmentName>,
    /// Provider of the repository, such as github, if several have one of this name
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<Provider>,
    /// Wait until none of the artifacts is running
    #[arg(long)]
    gone: bool,
    /// Maximum time to wait, such as 90s or 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// Polling interval, at least 1s
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = interval)]
    every: Duration,
    #[command(flatten)]
    service: ServiceOptions,
}

const EXAMPLES: &str = "\
Examples:
  Wait at most ten minutes until an image runs in production; exit with 7 if it does not:
    supercargo wait acme/cart --environment prod --fingerprint \\
      sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Wait until no environment runs the images of a build:
    supercargo wait acme/cart --gone --fingerprint-file old-digests";

/// The condition was not reached, or cannot be decided.
#[derive(Debug, thiserror::Error)]
enum WaitError {
    #[error("timed out after {}: {}", friendly(within), describe(missing))]
    TimedOut {
        within: Duration,
        missing: Vec<UnmetArtifact>,
        /// Error of the last request, if it failed.
        #[source]
        last: Option<client::Error>,
    },
    #[error("timed out after {} without a response of the service", friendly(.0))]
    NoResponse(Duration, #[source] Option<client::Error>),
    #[error("environment {} not found{nearest}", Escaped(.environment.as_str()))]
    UnknownEnvironment {
        environment: EnvironmentName,
        /// The end of the message: the environments that may be meant.
        nearest: String,
    },
    #[error("{} also has a repository {} with other running artifacts", .0.iter().map(Provider::as_str).collect::<Vec<_>>().join(" and "), .1)]
    Ambiguous(Vec<Provider>, RepositoryName),
}

#[derive(Debug, Deserialize)]
struct ListedEnvironment {
    name: String,
}

impl Wait {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let wanted = self.artifacts.read().map_err(Failure::usage)?;
        let client =
            self.service.client("wait", client::RequestTimeouts::default()).map_err(Failure::usage)?;
        let until = if self.gone { Until::Gone } else { Until::Live };
        let mut waiting = ArtifactWait::new(until, wanted, self.environment.clone());
        let start = Instant::now();
        let left = || self.timeout.saturating_sub(start.elapsed());
        let mut failed = None;
        loop {
            let pause = match timeout(left(), self.request(&client)).await {
                Ok(Ok(live)) => {
                    failed = None;
                    let is_first = waiting.missing().is_none();
                    let running: Vec<_> = live.running().collect();
                    if is_first {
                        self.check_environments(&client, &running, left()).await?;
                    }
                    let has_changed = waiting.update(&running);
                    if is_first && (self.gone || !waiting.is_complete()) {
                        let others = self.other_providers(&client, &running, left()).await;
                        self.check_ambiguity(others)?;
                    }
                    if waiting.is_complete() {
                        return say(waiting.summary());
                    }
                    if has_changed {
                        let missing = waiting.missing().unwrap_or_default();
                        tracing::info!("waiting: {}", describe(missing));
                    }
                    self.every
                }
                Ok(Err(error)) => {
                    // The service may be restarting: it knew the repository before.
                    let may_return = waiting.missing().is_some() && is_unknown(&error);
                    if !error.is_transient() && !may_return {
                        let about = Resource::Repository(self.repository.as_str());
                        return Err(Failure::request(&client, about, error));
                    }
                    let requested =
                        error.retry_after().and_then(|value| retry_after(value, SystemTime::now()));
                    let pause = waiting.retry_delay(self.every, seed(), requested);
                    let seconds = pause.min(left()).as_secs_f32();
                    let causes = error_causes::describe(&error);
                    tracing::info!("request failed, retrying in {seconds:.1} s: {causes}");
                    failed = Some(error);
                    pause
                }
                Err(_) => Duration::ZERO,
            };
            sleep(pause.min(left())).await;
            if left().is_zero() {
                return Err(self.timed_out(&client, waiting.missing(), failed));
            }
        }
    }

    async fn request(&self, client: &Client) -> Result<LiveArtifacts, client::Error> {
        client.live_artifacts(&self.repository, self.provider.as_ref()).await.map(|live| live.value)
    }

    /// Fails if the service lists its environments, and not all of these. An environment that runs an artifact of the
    /// repository exists.
    async fn check_environments(
        &self,
        client: &Client,
        running: &[RunningArtifact<'_>],
        within: Duration,
    ) -> Result<(), Failure> {
        let runs = |name: &&EnvironmentName| {
            running.iter().any(|artifact| artifact.environment == Some(name.as_str()))
        };
        let unseen: Vec<_> = self.environment.iter().filter(|name| !runs(name)).collect();
        if unseen.is_empty() {
            return Ok(());
        }
        let operation = organization(&["environments"]);
        let list = async || client.get::<Vec<ListedEnvironment>>(&operation).await;
        let deadline = Deadline::after(within, Backoff::default());
        let known = match deadline.retry("listing the environments", list).await {
            Ok(known) => known,
            // The interface has no such list.
            Err(RetryError::Permanent(error)) => {
                tracing::debug!("{}", error_causes::describe(&*error));
                return Ok(());
            }
            Err(error) => return Err(Failure::request(client, operation.about, error)),
        };
        let known: Vec<_> = known.iter().map(|environment| environment.name.as_str()).collect();
        match unseen.into_iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let nearest = did_you_mean(unknown.as_str(), known);
                let hint = client.not_found_hint(Resource::Environment(unknown.as_str()));
                let error = WaitError::UnknownEnvironment { environment: unknown.clone(), nearest };
                Err(Failure::new(error, Some(hint), Exit::NotFound))
            }
        }
    }

    /// Other providers with a repository of this name and running artifacts that the response did not contain.
    /// Artifacts that started since then are ignored.
    async fn other_providers(
        &self,
        client: &Client,
        running: &[RunningArtifact<'_>],
        within: Duration,
    ) -> Vec<Provider> {
        let mut others = Vec::new();
        let query = async {
            for provider in Provider::named().into_iter().filter(|_| self.provider.is_none()) {
                match client.live_artifacts(&self.repository, Some(&provider)).await {
                    Ok(live) => others.push((provider.clone(), digests(live.value.running()))),
                    Err(error) => {
                        tracing::debug!("{}: {}", provider.as_str(), error_causes::describe(&error));
                    }
                }
            }
            let mut known = digests(running.iter().cloned());
            others.retain(|(_, of)| !of.is_subset(&known));
            if !others.is_empty() {
                known.extend(self.request(client).await.iter().flat_map(|live| digests(live.running())));
                others.retain(|(_, of)| !of.is_subset(&known));
            }
        };
        if timeout(within.min(PROVIDER_CHECK_TIMEOUT), query).await.is_err() {
            tracing::debug!("timed out checking other providers for {}", self.repository);
            others.clear();
        }
        others.into_iter().map(|(provider, _)| provider).collect()
    }

    /// Fails `--gone` if another provider may host the artifacts; warns otherwise.
    fn check_ambiguity(&self, others: Vec<Provider>) -> Result<(), Failure> {
        if others.is_empty() {
            return Ok(());
        }
        let ambiguous = WaitError::Ambiguous(others, self.repository.clone());
        if self.gone {
            let hint = "select the repository with --provider".to_owned();
            return Err(Failure::usage(ambiguous).with_hint(Some(hint)));
        }
        tracing::warn!("{ambiguous}; select one with --provider");
        Ok(())
    }

    fn timed_out(
        &self,
        client: &Client,
        missing: Option<&[UnmetArtifact]>,
        last: Option<client::Error>,
    ) -> Failure {
        let within = self.timeout;
        if let Some(missing) = missing {
            let silent = missing.iter().find_map(|missing| match missing {
                UnmetArtifact::Silent(_, environment, last) => Some((Escaped(environment), *last)),
                _ => None,
            });
            let hint = match silent {
                Some((environment, None)) => {
                    format!("no agent reports {environment}: check whether its agent is running")
                }
                Some((environment, Some(last))) => {
                    format!(
                        "{environment} was last reported {}: check whether its agent is running",
                        ago(last, now())
                    )
                }
                None => {
                    format!("only artifacts that were attested as built from {} are listed", self.repository)
                }
            };
            let hint = Some(hint).filter(|_| !self.gone && last.is_none());
            return Failure::new(
                WaitError::TimedOut { within, missing: missing.to_owned(), last },
                hint,
                Exit::TimedOut,
            );
        }
        let about = Resource::Repository(self.repository.as_str());
        let hint = last.as_ref().and_then(|error| client.hint(error, about));
        Failure::new(WaitError::NoResponse(within, last), hint, Exit::Unreachable)
    }
}

/// Whether the repository is unknown, or another kind of server responded.
fn is_unknown(error: &client::Error) -> bool {
    error.class() == Some(StatusClass::NotFound) || matches!(error, client::Error::UnexpectedResponse { .. })
}

/// Formats a duration as the option accepts it: `10m`.
fn friendly(duration: &Duration) -> String {
    jiff::SignedDuration::try_from(*duration).map_or_else(|_| format!("{duration:?}"), |d| format!("{d:#}"))
}

/// Timeout for querying the other providers.
const PROVIDER_CHECK_TIMEOUT: Duration = Duration::from_secs(30);

fn digests<'a>(running: impl Iterator<Item = RunningArtifact<'a>>) -> HashSet<Option<Fingerprint>> {
    running.map(|running| running.fingerprint).collect()
}

/// Maximum number of unmet conditions in a message.
const MAX_DESCRIBED: usize = 5;

fn describe(missing: &[UnmetArtifact]) -> String {
    let (described, more) = missing.split_at(missing.len().min(MAX_DESCRIBED));
    let mut parts: Vec<_> = described.iter().map(ToString::to_string).collect();
    parts.extend((!more.is_empty()).then(|| format!("and {} more", more.len())));
    parts.join("; ")
}
