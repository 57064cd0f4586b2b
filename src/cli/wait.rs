//! `supercargo wait`: until artifacts run, or no longer do.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use clap::{ArgGroup, Args};
use tokio::time::{Instant, sleep, timeout};

use super::exit::{Exit, Failure};
use super::fingerprints::Fingerprints;
use super::output::{Progress, ago, now};
use super::read::provider;
use super::{Service, duration};
use crate::agent::retry::seed;
use crate::api::{self, About, Client, LiveArtifacts};
use crate::domain::escape::Visible;
use crate::domain::model::{EnvironmentName, Fingerprint, Provider, RepositoryName};
use crate::domain::retry::{Class, Retryable, retry_after};
use crate::domain::wait::{Failed, Missing, Running, Until, Waiting};
use crate::process::error_causes;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("artifacts").required(true).multiple(true).args(["fingerprint", "fingerprint_file"]),
    after_help = EXAMPLES,
)]
pub(super) struct Wait {
    /// The repository with its owners, as acme/cart
    repository: RepositoryName,
    #[command(flatten)]
    artifacts: Fingerprints,
    /// Environment that each is to run in; repeat it for several (default: any)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    environment: Vec<EnvironmentName>,
    /// Who hosts the repository, where several have one of this name
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: Option<Provider>,
    /// Wait until none of them runs there any more
    #[arg(long)]
    gone: bool,
    /// How long to wait: 90s, 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// How often to ask, a second at least
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = every)]
    every: Duration,
    #[command(flatten)]
    service: Service,
}

const EXAMPLES: &str = "\
Examples:
  Until an image runs in production, ten minutes at most; exit 7 if it does not:
    supercargo wait acme/cart --environment prod --fingerprint \\
      sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Until the images of a build are gone everywhere:
    supercargo wait acme/cart --gone --fingerprint-file old-digests";

/// A wait that did not come to its end.
#[derive(Debug, thiserror::Error)]
enum WaitError {
    #[error("after {}, {}", friendly(within), said(missing))]
    TimedOut {
        within: Duration,
        missing: Vec<Missing>,
        /// Why this is not known any better.
        #[source]
        last: Option<api::Error>,
    },
    #[error("after {} the service has not answered", friendly(.0))]
    NoAnswer(Duration, #[source] Option<api::Error>),
    #[error("{} also has a repository {}, of which other artifacts run", .0.join(" and "), .1)]
    Namesake(Vec<&'static str>, RepositoryName),
}

impl Wait {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let wanted = self.artifacts.read().map_err(Failure::usage)?;
        let client = self.service.client(api::Patience::default()).map_err(Failure::usage)?;
        let until = if self.gone { Until::Gone } else { Until::Live };
        let mut waiting = Waiting::new(until, wanted, self.environment.clone(), self.every, seed());
        let progress = Progress::begin();
        let start = Instant::now();
        let left = || self.timeout.saturating_sub(start.elapsed());
        let mut failed = None;
        loop {
            let pause = match timeout(left(), self.ask(&client)).await {
                Ok(Ok(live)) => {
                    failed = None;
                    let (is_first, running) =
                        (waiting.missing().is_none(), live.running().collect::<Vec<_>>());
                    let has_changed = waiting.answered(&running);
                    if is_first && (self.gone || !waiting.is_over()) {
                        let others = self.namesakes(&client, &running, left()).await;
                        self.judge(others, &progress)?;
                    }
                    if has_changed && !waiting.is_over() {
                        progress
                            .changed(&format!("waiting: {}", said(waiting.missing().unwrap_or_default())));
                    }
                    if waiting.is_over() {
                        progress.end();
                        tracing::info!("{}", waiting.came());
                        return Ok(());
                    }
                    self.every
                }
                Ok(Err(error)) => {
                    let asked = error.retry_after().and_then(|value| retry_after(value, SystemTime::now()));
                    let Some(pause) = waiting.failed(kind(&error), asked) else {
                        let hint = client.hint(&error, About::Repository(self.repository.as_str()));
                        return Err(Failure::from(error).hinted(hint));
                    };
                    let seconds = pause.min(left()).as_secs_f32();
                    let words = error_causes::said_once(&error).join(": ");
                    progress.changed(&format!("no answer, asking again in {seconds:.1} s: {words}"));
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

    async fn ask(&self, client: &Client) -> Result<LiveArtifacts, api::Error> {
        client.live_artifacts(&self.repository, self.provider).await.map(|live| live.known)
    }

    /// The other providers that have a repository of this name too, where the service answered with one
    /// of them all the same. What began to run in between is no other's.
    async fn namesakes(
        &self,
        client: &Client,
        running: &[Running<'_>],
        within: Duration,
    ) -> Vec<&'static str> {
        let mut others = Vec::new();
        let look = async {
            for provider in Provider::ALL.into_iter().filter(|_| self.provider.is_none()) {
                match client.live_artifacts(&self.repository, Some(provider)).await {
                    Ok(of) => others.push((provider.as_str(), digests(of.known.running()))),
                    Err(error) => {
                        tracing::debug!(
                            "{}: {}",
                            provider.as_str(),
                            error_causes::said_once(&error).join(": ")
                        );
                    }
                }
            }
            let mut known = digests(running.iter().cloned());
            others.retain(|(_, of)| !of.is_subset(&known));
            if !others.is_empty() {
                known.extend(self.ask(client).await.iter().flat_map(|live| digests(live.running())));
                others.retain(|(_, of)| !of.is_subset(&known));
            }
        };
        if timeout(within.min(LONGEST_LOOK), look).await.is_err() {
            tracing::debug!("it is not known whether several providers have {}", self.repository);
            others.clear();
        }
        others.into_iter().map(|(provider, _)| provider).collect()
    }

    /// What is waited for may be another's, so that it cannot be said to be gone.
    fn judge(&self, others: Vec<&'static str>, progress: &Progress) -> Result<(), Failure> {
        if others.is_empty() {
            return Ok(());
        }
        let namesake = WaitError::Namesake(others, self.repository.clone());
        if self.gone {
            let hint = "say whose repository is meant by --provider".to_owned();
            return Err(Failure::usage(namesake).hinted(Some(hint)));
        }
        progress.warn(&format!("{namesake}; give --provider to say which is meant"));
        Ok(())
    }

    fn timed_out(&self, client: &Client, missing: Option<&[Missing]>, last: Option<api::Error>) -> Failure {
        let within = self.timeout;
        if let Some(missing) = missing {
            let silent = missing.iter().find_map(|missing| match missing {
                Missing::Silent(_, environment, last) => Some((Visible(environment), *last)),
                _ => None,
            });
            let hint = match silent {
                Some((environment, None)) => format!("nobody reports {environment}: does its agent run?"),
                Some((environment, Some(last))) => {
                    format!("{environment} was last reported {}: does its agent run?", ago(last, now()))
                }
                None => format!("only what was attested as built from {} is seen there", self.repository),
            };
            let hint = Some(hint).filter(|_| !self.gone && last.is_none());
            return Failure::new(
                WaitError::TimedOut { within, missing: missing.to_owned(), last },
                hint,
                Exit::TimedOut,
            );
        }
        let about = About::Repository(self.repository.as_str());
        let hint = last.as_ref().and_then(|error| client.hint(error, about));
        Failure::new(WaitError::NoAnswer(within, last), hint, Exit::Unreachable)
    }
}

fn kind(error: &api::Error) -> Failed {
    match error {
        error if error.is_transient() => Failed::ForTheMoment,
        error if error.class() == Some(Class::NotFound) => Failed::Unknown,
        api::Error::Foreign { .. } => Failed::Unknown,
        _ => Failed::ForGood,
    }
}

/// `10m`, as it was given.
fn friendly(duration: &Duration) -> String {
    jiff::SignedDuration::try_from(*duration).map_or_else(|_| format!("{duration:?}"), |d| format!("{d:#}"))
}

/// How long the look for namesakes may take.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

fn digests<'a>(running: impl Iterator<Item = Running<'a>>) -> HashSet<Option<Fingerprint>> {
    running.map(|running| running.fingerprint).collect()
}

/// How much of what is missing is said.
const SAID: usize = 5;

fn said(missing: &[Missing]) -> String {
    let (said, more) = missing.split_at(missing.len().min(SAID));
    let mut said: Vec<_> = said.iter().map(ToString::to_string).collect();
    said.extend((!more.is_empty()).then(|| format!("and {} more", more.len())));
    said.join("; ")
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    if every < Duration::from_secs(1) { Err("a second at least was expected".to_owned()) } else { Ok(every) }
}
