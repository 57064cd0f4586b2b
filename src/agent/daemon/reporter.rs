//! One environment: it asks its cadence what to do next, and does that.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::metrics;
use super::shared::{Composed, Shared};
use super::timing::Policy;
use crate::agent::{Outcome, Summary, counted};
use crate::api::{self, About, Accepted, Client};
use crate::domain::escape::Visible;
use crate::domain::failure_log::{Outage, Say};
use crate::domain::live::cadence::{Answer, Begun, Cadence, Draft, Failure, Step, Why, Withheld};
use crate::domain::live::confirmation;
use crate::domain::live::departure::Revision;
use crate::domain::live::live_set::Tally;
use crate::domain::live::report::Report;
use crate::domain::model::EnvironmentName;
use crate::domain::retry::{Retryable, retry_after};
use crate::process::error_causes;

/// The task of one environment.
pub(super) struct Reporter {
    shared: Arc<Shared>,
    n: usize,
    name: EnvironmentName,
    client: Client,
    cadence: Cadence,
    flight: Option<Flight>,
    has_reported: bool,
    is_ending: bool,
    remind: Duration,
    /// Reports that are not accepted.
    refused: Outage,
    /// Reports that may not begin.
    withheld: Outage,
    /// Since when its first list is waited for.
    unlisted_since: Option<Instant>,
    /// Pods that the witness lost, as far as that was said.
    lost: u64,
    losses: Outage,
}

type Upload = Pin<Box<dyn Future<Output = Result<Accepted, api::Error>> + Send>>;

/// A report that is under way.
struct Flight {
    upload: Upload,
    why: Why,
    start: Instant,
    /// The revision of the whole set that it is of.
    set: Revision,
    artifacts: usize,
    tally: Tally,
}

impl Reporter {
    pub(super) fn new(
        shared: Arc<Shared>,
        n: usize,
        name: EnvironmentName,
        client: Client,
        policy: &Policy,
        seed: u64,
    ) -> Self {
        Self {
            shared,
            n,
            name,
            client,
            cadence: Cadence::new(policy.cadence, seed),
            flight: None,
            has_reported: false,
            is_ending: false,
            remind: policy.remind,
            refused: Outage::new(policy.remind),
            withheld: Outage::new(policy.remind),
            unlisted_since: None,
            lost: 0,
            losses: Outage::new(policy.remind),
        }
    }

    /// Reports until `shutdown`, then sends the last report.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let now = Instant::now();
            let (view, unconfirmed) = self.shared.view(self.n);
            let step = self.cadence.next(&view, now);
            if !self.is_ending {
                self.tell(step, unconfirmed.as_ref(), now);
            }
            let until = match step {
                Step::Stop => return self.warn_unreported(),
                Step::Send { why } => {
                    self.send(why, now);
                    continue;
                }
                Step::Wait { until } => until,
                Step::Withhold { .. } => now.checked_add(self.remind),
            };
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                answer = answered(&mut self.flight) => self.answered(answer),
                () = at(until) => {}
                () = shared.changed(self.n) => {}
                () = shutdown.cancelled(), if !self.is_ending => {
                    self.is_ending = true;
                    self.cadence.shut_down(Instant::now());
                }
            }
        }
    }

    /// Composes a report, and begins to upload it where there is something to say.
    fn send(&mut self, why: Why, now: Instant) {
        let Composed { snapshot, set, carried } = self.shared.compose(self.n, why.takes_witnessed());
        let (revision, tally) = (snapshot.revision, snapshot.tally.clone());
        let report = Report::new(snapshot);
        let draft = Draft { why, revision, hash: report.hash(), carried };
        match self.cadence.begin(draft, now) {
            Begun::Busy => {}
            Begun::Repetition => self.shared.accepted(self.n, set, carried),
            Begun::Upload => {
                tracing::debug!(
                    "{}: a report of {} bytes begins: {why:?}, {carried:?}",
                    Visible(self.name.as_str()),
                    report.content_length()
                );
                let artifacts = report.len();
                let (client, name) = (self.client.clone(), self.name.clone());
                let upload = Box::pin(async move { client.report_k8s(&name, &report).await });
                self.flight = Some(Flight { upload, why, start: now, set, artifacts, tally });
            }
        }
    }

    /// Takes in what came of an upload.
    fn answered(&mut self, answer: Result<Accepted, api::Error>) {
        let Some(flight) = self.flight.take() else { return };
        let (now, took) = (Instant::now(), flight.start.elapsed());
        let counted = &self.shared.metrics;
        let environment = metrics::Environment { environment: self.name.as_str().to_owned() };
        counted.report_seconds.observe(&environment, took);
        let outcome = metrics::Outcome {
            environment: environment.environment.clone(),
            outcome: match &answer {
                Ok(accepted) => metrics::accepted(*accepted),
                Err(error) => metrics::failed(error),
            },
        };
        counted.reports.get_or_create(&outcome).inc();
        match answer {
            Ok(accepted) => self.accepted(accepted, flight, &environment, now),
            Err(error) => {
                let asked = error.retry_after().and_then(|value| retry_after(value, SystemTime::now()));
                let failure = match &error {
                    error if error.is_transient() => Failure::Passing,
                    api::Error::Answered { status, .. } if *status == StatusCode::PAYLOAD_TOO_LARGE => {
                        Failure::TooLarge
                    }
                    _ => Failure::Lasting,
                };
                self.cadence.answered(Answer::Failed { failure, retry_after: asked }, now);
                self.failed(&error, now);
            }
        }
    }

    fn accepted(&mut self, accepted: Accepted, flight: Flight, label: &metrics::Environment, now: Instant) {
        let new_snapshot = match accepted {
            Accepted::NewSnapshot => Some(true),
            Accepted::Unchanged => Some(false),
            Accepted::Unsaid => None,
        };
        let answered = self.cadence.answered(Answer::Accepted { new_snapshot }, now);
        if let Some((_, carried)) = answered.accepted {
            self.shared.accepted(self.n, flight.set, carried);
        }
        self.shared.tell(self.n, |reported| reported.last_accepted = Some(SystemTime::now()));
        let name = Visible(self.name.as_str());
        if let Some((failures, lasted)) = self.refused.over(now) {
            tracing::info!(
                environment = self.name.as_str(),
                failures,
                seconds = lasted.as_secs_f64(),
                "{name}: reported again, after {} in {lasted:.0?}",
                counted(failures, "failure")
            );
        }
        if answered.another_writer {
            self.shared.metrics.other_writers.get_or_create(label).inc();
            tracing::warn!(
                environment = self.name.as_str(),
                "{name}: the service made a new snapshot of what it had from here already: someone else reports to this environment, which wants one agent"
            );
        }
        let environment = self.name.clone();
        let outcome = Outcome::Accepted(accepted);
        let Flight { why, artifacts, tally, start, .. } = flight;
        let summary = Summary { environment, outcome, artifacts, tally, took: start.elapsed() };
        // The first one says that it works; after that, what changed nothing is a detail.
        let is_news = match new_snapshot {
            Some(is_new) => is_new,
            None => why != Why::Heartbeat,
        };
        let is_first = !std::mem::replace(&mut self.has_reported, true);
        if is_news || is_first {
            summary.log();
        } else {
            tracing::debug!("{summary}");
        }
    }

    fn failed(&mut self, error: &api::Error, now: Instant) {
        // A shutdown retries as long as its deadline allows, which the cadence decides.
        let (view, _) = self.shared.view(self.n);
        let is_final = self.is_ending && self.cadence.shutdown_step(&view, now) == Step::Stop;
        let words = error_causes::said_once(error).join(": ");
        let (environment, name) = (self.name.as_str(), Visible(self.name.as_str()));
        match self.refused.failed(&words, now) {
            Say::This => {
                let hint = self.client.hint(error, About::Environment(environment));
                let words = error_causes::with_hint(&words, hint);
                let again = if is_final { "" } else { "; trying again" };
                tracing::warn!(environment, "{name}: not reported: {words}{again}");
            }
            Say::Still(failures, lasted) => tracing::warn!(
                environment,
                failures,
                seconds = lasted.as_secs_f64(),
                "{name}: still not reported after {failures} tries in {lasted:.0?}: {words}"
            ),
            Say::Nothing => tracing::debug!("{name}: not reported: {words}"),
        }
    }

    /// Says that pods came and went and were given up, since there were too many.
    fn tell_losses(&mut self, now: Instant) {
        let lost = self.shared.lost(self.n);
        if lost > self.lost && self.losses.failed("", now) != Say::Nothing {
            self.lost = lost;
            let (environment, name) = (self.name.as_str(), Visible(self.name.as_str()));
            tracing::warn!(
                environment,
                lost,
                "{name}: {lost} pods came and went and are in no report: there were too many to keep"
            );
        }
    }

    /// Warns of changes that no accepted report contains when the agent shuts down, with the cause.
    fn warn_unreported(&self) {
        let witnessed = self.shared.witnessed(self.n);
        let is_reported = self.cadence.pending_since().is_none() && !self.cadence.owes_follow_up();
        if is_reported && witnessed == 0 {
            return;
        }
        let attempts = self.cadence.attempts_at_shutdown();
        let unanswered = self.flight.as_ref().map(|_| "the last one was not answered in time");
        let causes = [unanswered, self.withheld.words(), self.refused.words()];
        let causes: Vec<_> = causes.into_iter().flatten().collect();
        let cause = if causes.is_empty() {
            "reports are withheld".to_owned()
        } else {
            causes.join("; before that: ")
        };
        tracing::warn!(
            environment = self.name.as_str(),
            witnessed,
            attempts,
            "{}: shutting down with unreported changes after {}: {cause}",
            Visible(self.name.as_str()),
            counted(attempts.into(), "attempt")
        );
    }

    /// Tells the log and the metrics how it stands.
    fn tell(&mut self, step: Step, unconfirmed: Option<&confirmation::Withheld>, now: Instant) {
        let (environment, name) = (self.name.as_str(), Visible(self.name.as_str()));
        if !matches!(step, Step::Withhold { why: Withheld::Unlisted }) {
            self.unlisted_since = None;
        }
        let withheld = match (step, unconfirmed) {
            (Step::Withhold { why: Withheld::Unlisted }, _) => {
                let since = *self.unlisted_since.get_or_insert(now);
                let words = || "its pods have not all been listed yet".to_owned();
                let is_late = now.saturating_duration_since(since) >= self.remind;
                Some(("unlisted", is_late.then(words)))
            }
            (Step::Withhold { why: Withheld::Stale { .. } }, _) => {
                let stalest = self.shared.stalest(self.n).unwrap_or_default();
                Some(("stale", Some(format!("{stalest} has not been heard of for too long"))))
            }
            (Step::Withhold { why: Withheld::Unconfirmed }, Some(why)) => {
                let words = error_causes::with_hint(&why.to_string(), why.hint().map(str::to_owned));
                Some((why.as_str(), Some(words)))
            }
            _ => None,
        };
        match &withheld {
            None => {
                if let Some((_, lasted)) = self.withheld.over(now) {
                    tracing::info!(environment, "{name}: no longer withheld, after {lasted:.0?}");
                }
            }
            Some((_, None)) => {}
            // How many pods cannot be read may differ with each event.
            Some((reason, Some(words))) => match self.withheld.failed(key(reason, words), now) {
                Say::This => tracing::warn!(environment, reason, "{name}: reports are withheld: {words}"),
                Say::Still(_, lasted) => {
                    tracing::warn!(
                        environment,
                        reason,
                        "{name}: reports are still withheld, for {lasted:.0?}: {words}"
                    );
                }
                Say::Nothing => {}
            },
        }
        let pending_since = self.cadence.pending_since();
        self.tell_losses(now);
        self.shared.tell(self.n, |reported| {
            reported.pending_since = pending_since;
            reported.withheld = withheld.map(|(reason, _)| reason);
        });
    }
}

/// What makes one reason another.
fn key<'a>(reason: &'a str, words: &'a str) -> &'a str {
    if reason == "unreadable" { reason } else { words }
}

/// What came of the upload under way; never, where there is none.
async fn answered(flight: &mut Option<Flight>) -> Result<Accepted, api::Error> {
    match flight {
        Some(flight) => flight.upload.as_mut().await,
        None => pending().await,
    }
}

/// Waits until then; for ever where there is no such time.
async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => pending().await,
    }
}
