//! `supercargo wait`: until artifacts run, or no longer do.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use clap::Args;
use tokio::time::{Instant, sleep, timeout};

use super::exit::{Exit, Failure};
use super::fingerprints::Fingerprints;
use super::output::Progress;
use super::read::provider;
use super::{Service, duration};
use crate::agent::counted;
use crate::agent::retry::seed;
use crate::api::{self, Client, LiveArtifacts};
use crate::domain::model::{EnvironmentName, Fingerprint, Provider, RepositoryName};
use crate::domain::outcome::{Backoff, Class, Retryable, class, retry_after};
use crate::domain::waiting::{Missing, Until, missing};
use crate::process::causes;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
}

const EXAMPLES: &str = "\
Examples:
  Until an image runs in production, ten minutes at most; exit 7 if it does not:
    supercargo wait acme/cart --environment prod --fingerprint \\
      sha256:7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d
  Until the images of a build are gone everywhere:
    supercargo wait acme/cart --gone --fingerprint-file old-digests --timeout 30m";

/// A wait that did not come to its end.
#[derive(Debug, thiserror::Error)]
enum WaitError {
    #[error("there is nothing to wait for: give --fingerprint or --fingerprint-file")]
    Nothing,
    #[error("after {within:?}, {}", said(missing))]
    TimedOut {
        within: Duration,
        missing: Vec<Missing>,
        /// Why this is not known any better.
        #[source]
        last: Option<api::Error>,
    },
    #[error("after {0:?} the service has not answered")]
    NoAnswer(Duration),
}

/// What is waited for, and how far that is.
struct Waiting<'a> {
    wait: &'a Wait,
    client: Client,
    wanted: Vec<Fingerprint>,
    progress: Progress,
    /// What was missing when the service last answered.
    missing: Option<Vec<Missing>>,
    /// Why it has not answered since.
    failed: Option<api::Error>,
}

impl Wait {
    pub(super) async fn run(&self, service: &Service) -> Result<(), Failure> {
        let wanted = self.artifacts.read().map_err(Failure::usage)?;
        if wanted.is_empty() {
            return Err(Failure::usage(WaitError::Nothing));
        }
        let client = service.client(api::Patience::default()).map_err(Failure::usage)?;
        let progress = Progress::begin();
        let waiting = Waiting { wait: self, client, wanted, progress, missing: None, failed: None };
        waiting.wait().await
    }

    fn until(&self) -> Until {
        if self.gone { Until::Gone } else { Until::Live }
    }

    /// What came of it, once nothing is missing.
    fn reached(&self, wanted: usize) -> String {
        let artifacts = counted(wanted as u64, "artifact");
        let names: Vec<_> = self.environment.iter().map(EnvironmentName::as_str).collect();
        let runs = if wanted == 1 { "runs" } else { "run" };
        match (self.until(), names.as_slice()) {
            (Until::Live, []) => format!("{artifacts} {runs}"),
            (Until::Live, names) => format!("{artifacts} {runs} in {}", names.join(" and ")),
            (Until::Gone, []) => format!("{artifacts} no longer {runs}"),
            (Until::Gone, names) => format!("{artifacts} no longer {runs} in {}", names.join(" or ")),
        }
    }
}

impl Waiting<'_> {
    async fn wait(mut self) -> Result<(), Failure> {
        let (start, backoff) = (Instant::now(), Backoff::default());
        let left = || self.wait.timeout.saturating_sub(start.elapsed());
        let mut delays = backoff.delays(seed());
        loop {
            let pause = match timeout(left(), self.ask()).await {
                Ok(Ok(live)) => {
                    if self.missing.is_none() {
                        self.look_for_namesakes(&live, left()).await;
                    }
                    self.failed = None;
                    delays = backoff.delays(seed());
                    if self.takes(&live) {
                        self.progress.end();
                        tracing::info!("{}", self.wait.reached(self.wanted.len()));
                        return Ok(());
                    }
                    self.wait.every
                }
                Ok(Err(error)) if self.may_pass(&error) => {
                    let delay = delays.next().unwrap_or(backoff.most).max(self.wait.every);
                    let asked = error.retry_after().and_then(|value| retry_after(value, SystemTime::now()));
                    let delay = backoff.at_least(delay, asked);
                    self.progress.changed(&format!(
                        "{}; asking again in {:.1} s",
                        causes::said_once(&error).join(": "),
                        delay.as_secs_f32()
                    ));
                    self.failed = Some(error);
                    delay
                }
                Ok(Err(error)) => {
                    let hint = self.client.hint(&error, "repository", self.wait.repository.as_str());
                    return Err(Failure::from(error).hinted(hint));
                }
                Err(_) => Duration::ZERO,
            };
            if left().is_zero() {
                return Err(self.timed_out());
            }
            sleep(pause.min(left())).await;
            if left().is_zero() {
                return Err(self.timed_out());
            }
        }
    }

    async fn ask(&self) -> Result<LiveArtifacts, api::Error> {
        let live = self.client.live_artifacts(&self.wait.repository, self.wait.provider).await;
        live.map(|live| live.known)
    }

    /// Whether nothing is missing. What has changed is said.
    fn takes(&mut self, live: &LiveArtifacts) -> bool {
        let running: Vec<_> = live.running().collect();
        let now = missing(self.wait.until(), &self.wanted, &self.wait.environment, &running);
        let is_reached = now.is_empty();
        if !is_reached && self.missing.as_ref() != Some(&now) {
            self.progress.changed(&format!("waiting: {}", said(&now)));
        }
        self.missing = Some(now);
        is_reached
    }

    /// Whether it makes sense to ask again. A service that has answered and then knows nothing of the
    /// repository is one that is being restarted.
    fn may_pass(&self, error: &api::Error) -> bool {
        let is_missing =
            matches!(error, api::Error::Answered { status, .. } if class(status.as_u16()) == Class::NotFound);
        let is_foreign = matches!(error, api::Error::Foreign { .. });
        error.is_transient() || self.missing.is_some() && (is_missing || is_foreign)
    }

    /// Warns where several providers have a repository of this name, of which the service answered with
    /// one: what is waited for may be another's.
    async fn look_for_namesakes(&self, live: &LiveArtifacts, within: Duration) {
        if self.wait.provider.is_some() {
            return;
        }
        let mut others = Vec::new();
        let look = async {
            for provider in Provider::ALL {
                let of = self.client.live_artifacts(&self.wait.repository, Some(provider)).await;
                if of.is_ok_and(|of| digests(&of.known).difference(&digests(live)).next().is_some()) {
                    others.push(provider.as_str());
                }
            }
        };
        // Without an answer nothing is known, and nothing is said.
        let _ = timeout(within, look).await;
        if !others.is_empty() {
            tracing::warn!(
                "{} also has a repository {}, of which other artifacts run; give --provider to say which is meant",
                others.join(", "),
                self.wait.repository
            );
        }
    }

    fn timed_out(self) -> Failure {
        let within = self.wait.timeout;
        match (self.missing, self.failed) {
            (Some(missing), last) => {
                Failure::new(WaitError::TimedOut { within, missing, last }, None, Exit::TimedOut)
            }
            (None, Some(error)) => Failure::from(error),
            (None, None) => Failure::new(WaitError::NoAnswer(within), None, Exit::Unreachable),
        }
    }
}

fn digests(live: &LiveArtifacts) -> BTreeSet<Option<Fingerprint>> {
    live.running().map(|running| running.fingerprint).collect()
}

/// How much of what is missing is said.
const SAID: usize = 5;

fn said(missing: &[Missing]) -> String {
    let (said, more) = missing.split_at(missing.len().min(SAID));
    let mut said: Vec<_> = said.iter().map(ToString::to_string).collect();
    said.extend((!more.is_empty()).then(|| format!("and {} more", more.len())));
    said.join(", ")
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    if every < Duration::from_secs(1) { Err("a second at least was expected".to_owned()) } else { Ok(every) }
}
