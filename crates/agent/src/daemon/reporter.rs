//! The task of one environment: carries out the steps of its cadence and logs their results.
//!
//! Started by `daemon`. When and why to report is decided in `live::cadence`.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::metrics;
use super::shared::{Composed, Shared};
use super::timing::DaemonTiming;
use crate::live::cadence::{
    BeginResult, Cadence, Draft, SendReason, Step, UploadFailure, UploadResult, WithholdReason,
};
use crate::live::confirmation;
use crate::live::departure::Revision;
use crate::live::live_set::Tally;
use crate::live::report::Report;
use crate::{EnvironmentConfig, ReportOutcome, Summary};
use client::{Accepted, Client, IfUnknown, ReportBody, Resource};
use model::escape::Escaped;
use model::failure_log::{FailureLog, LogAction};
use model::retry::{Retryable, retry_after};
use model::{EnvironmentName, pluralize};
use runtime::error_causes;

/// The task of one environment.
pub(super) struct EnvironmentReporter {
    shared: Arc<Shared>,
    n: usize,
    name: EnvironmentName,
    if_unknown: IfUnknown,
    client: Client,
    cadence: Cadence,
    flight: Option<Flight>,
    has_reported: bool,
    is_shutting_down: bool,
    reminder_interval: Duration,
    failed_reports: FailureLog,
    withheld_reports: FailureLog,
    /// Start of the wait for the first list.
    unlisted_since: Option<Instant>,
    /// Number of dropped pods in the last warning.
    dropped: u64,
    dropped_pods: FailureLog,
}

type Upload = Pin<Box<dyn Future<Output = Result<Accepted, client::Error>> + Send>>;

struct Flight {
    upload: Upload,
    reason: SendReason,
    start: Instant,
    /// Revision of the whole live set when the report was composed.
    set: Revision,
    artifacts: usize,
    tally: Tally,
}

impl EnvironmentReporter {
    pub(super) fn new(
        shared: Arc<Shared>,
        n: usize,
        environment: &EnvironmentConfig,
        client: Client,
        timing: &DaemonTiming,
        seed: u64,
    ) -> Self {
        Self {
            shared,
            n,
            name: environment.name.clone(),
            if_unknown: environment.if_unknown,
            client,
            cadence: Cadence::new(timing.cadence, seed),
            flight: None,
            has_reported: false,
            is_shutting_down: false,
            reminder_interval: timing.reminder_interval,
            failed_reports: FailureLog::new(timing.reminder_interval),
            withheld_reports: FailureLog::new(timing.reminder_interval),
            unlisted_since: None,
            dropped: 0,
            dropped_pods: FailureLog::new(timing.reminder_interval),
        }
    }

    /// Reports until `shutdown`, then sends the last report.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let now = Instant::now();
            let (view, unconfirmed) = self.shared.view(self.n);
            let step = self.cadence.next(&view, now);
            if !self.is_shutting_down {
                self.log_state(step, unconfirmed.as_ref(), now);
            }
            let until = match step {
                Step::Stop => return self.warn_unreported(),
                Step::Send { reason } => {
                    self.send(reason, now);
                    continue;
                }
                Step::Wait { until } => until,
                Step::Withhold { .. } => now.checked_add(self.reminder_interval),
            };
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                result = upload_result(&mut self.flight) => self.upload_finished(result),
                () = sleep_to(until) => {}
                () = shared.changed(self.n) => {}
                () = shutdown.cancelled(), if !self.is_shutting_down => {
                    self.is_shutting_down = true;
                    self.cadence.shut_down(Instant::now());
                }
            }
        }
    }

    /// Composes a report and starts its upload.
    fn send(&mut self, reason: SendReason, now: Instant) {
        let Composed { snapshot, set, contents } =
            self.shared.compose(self.n, reason.includes_departed_pods());
        let (revision, tally) = (snapshot.revision, snapshot.tally.clone());
        let report = Report::new(snapshot);
        let draft = Draft { reason, revision, hash: report.hash(), contents };
        match self.cadence.begin(draft, now) {
            BeginResult::Busy => {}
            BeginResult::Unchanged => self.shared.accepted(self.n, set, contents),
            BeginResult::Upload => {
                tracing::debug!(
                    "{}: sending a report of {} bytes: {reason:?}, {contents:?}",
                    Escaped(self.name.as_str()),
                    report.content_length()
                );
                let artifacts = report.len();
                let (client, name, if_unknown) = (self.client.clone(), self.name.clone(), self.if_unknown);
                let upload = Box::pin(async move { client.report_k8s(&name, if_unknown, &report).await });
                self.flight = Some(Flight { upload, reason, start: now, set, artifacts, tally });
            }
        }
    }

    fn upload_finished(&mut self, result: Result<Accepted, client::Error>) {
        let Some(flight) = self.flight.take() else { return };
        let (now, took) = (Instant::now(), flight.start.elapsed());
        let metrics = &self.shared.metrics;
        let name = ("environment", self.name.as_str());
        metrics.report_seconds.get_or_create(&metrics::labels([name])).observe(took.as_secs_f64());
        let outcome = match &result {
            Ok(accepted) => accepted.as_str(),
            Err(error) => metrics::failed(error),
        };
        metrics.reports.get_or_create(&metrics::labels([name, ("outcome", outcome)])).inc();
        match result {
            Ok(accepted) => self.accepted(accepted, flight, now),
            Err(error) => {
                let retry_after = error.retry_after().and_then(|value| retry_after(value, SystemTime::now()));
                let failure = match &error {
                    error if error.is_transient() => UploadFailure::Transient,
                    client::Error::Answered { status, .. } if *status == StatusCode::PAYLOAD_TOO_LARGE => {
                        UploadFailure::TooLarge
                    }
                    _ => UploadFailure::Permanent,
                };
                self.cadence.finish(UploadResult::Failed { failure, retry_after }, now);
                self.failed(&error, now);
            }
        }
    }

    fn accepted(&mut self, accepted: Accepted, flight: Flight, now: Instant) {
        let new_snapshot = match accepted {
            Accepted::NewSnapshot => Some(true),
            Accepted::Unchanged => Some(false),
            Accepted::Unspecified => None,
        };
        let completion = self.cadence.finish(UploadResult::Accepted { new_snapshot }, now);
        if let Some((_, contents)) = completion.accepted {
            self.shared.accepted(self.n, flight.set, contents);
        }
        self.shared.update_reports(self.n, |reports| reports.last_accepted = Some(SystemTime::now()));
        let name = Escaped(self.name.as_str());
        if let Some((failures, lasted)) = self.failed_reports.recovered(now) {
            tracing::info!(
                environment = self.name.as_str(),
                failures,
                seconds = lasted.as_secs_f64(),
                "{name}: reported again after {} in {lasted:.0?}",
                pluralize(failures, "failure")
            );
        }
        if completion.another_writer {
            let label = metrics::labels([("environment", self.name.as_str())]);
            self.shared.metrics.other_writers.get_or_create(&label).inc();
            tracing::warn!(
                environment = self.name.as_str(),
                "{name}: another client reports to this environment: the service created a new snapshot for an unchanged report; use one agent per environment (see docs/guides/troubleshooting.md)"
            );
        }
        let environment = self.name.clone();
        let outcome = ReportOutcome::Accepted(accepted);
        let Flight { reason, artifacts, tally, start, .. } = flight;
        let summary = Summary { environment, outcome, artifacts, tally, took: start.elapsed() };
        // The first report shows that reporting works; later reports without a change are logged at debug level.
        let has_changed = match new_snapshot {
            Some(is_new) => is_new,
            None => reason != SendReason::Heartbeat,
        };
        let is_first = !std::mem::replace(&mut self.has_reported, true);
        if has_changed || is_first {
            summary.log();
        } else {
            tracing::debug!("{summary}");
        }
    }

    fn failed(&mut self, error: &client::Error, now: Instant) {
        // During shutdown, the cadence decides whether another attempt follows.
        let (view, _) = self.shared.view(self.n);
        let is_final = self.is_shutting_down && self.cadence.shutdown_step(&view, now) == Step::Stop;
        let cause = error_causes::describe(error);
        let (environment, name) = (self.name.as_str(), Escaped(self.name.as_str()));
        match self.failed_reports.failed(&cause, now) {
            LogAction::New => {
                let hint = self.client.hint(error, Resource::Reported(environment));
                let cause = error_causes::with_hint(&cause, hint);
                let retrying = if is_final { "" } else { "; retrying" };
                tracing::warn!(environment, "{name}: report failed: {cause}{retrying}");
            }
            LogAction::Ongoing(failures, lasted) => tracing::warn!(
                environment,
                failures,
                seconds = lasted.as_secs_f64(),
                "{name}: report still failing after {failures} attempts in {lasted:.0?}: {cause}"
            ),
            LogAction::Suppress => tracing::debug!("{name}: report failed: {cause}"),
        }
    }

    fn warn_dropped(&mut self, now: Instant) {
        let dropped = self.shared.dropped_pods(self.n);
        if dropped > self.dropped && self.dropped_pods.failed("", now) != LogAction::Suppress {
            self.dropped = dropped;
            let (environment, name) = (self.name.as_str(), Escaped(self.name.as_str()));
            tracing::warn!(
                environment,
                dropped,
                "{name}: dropped {dropped} departed pods without a report: too many since the last accepted report"
            );
        }
    }

    /// Warns of changes that no accepted report contains when the agent shuts down, with the cause.
    fn warn_unreported(&self) {
        let departed = self.shared.departed_pods(self.n);
        let is_reported = self.cadence.pending_since().is_none() && !self.cadence.needs_follow_up();
        if is_reported && departed == 0 {
            return;
        }
        let attempts = self.cadence.attempts_at_shutdown();
        let unanswered = self.flight.as_ref().map(|_| "the last attempt timed out");
        let causes = [unanswered, self.withheld_reports.message(), self.failed_reports.message()];
        let causes: Vec<_> = causes.into_iter().flatten().collect();
        let cause = if causes.is_empty() {
            "reports are withheld".to_owned()
        } else {
            causes.join("; before that: ")
        };
        tracing::warn!(
            environment = self.name.as_str(),
            departed,
            attempts,
            "{}: shutting down with unreported changes after {}: {cause}",
            Escaped(self.name.as_str()),
            pluralize(attempts.into(), "attempt")
        );
    }

    /// Updates the log and the metrics.
    fn log_state(&mut self, step: Step, unconfirmed: Option<&confirmation::Withheld>, now: Instant) {
        let (environment, name) = (self.name.as_str(), Escaped(self.name.as_str()));
        if !matches!(step, Step::Withhold { reason: WithholdReason::Unlisted }) {
            self.unlisted_since = None;
        }
        let withheld = match (step, unconfirmed) {
            (Step::Withhold { reason: WithholdReason::Unlisted }, _) => {
                let since = *self.unlisted_since.get_or_insert(now);
                let cause = || {
                    let unlisted = self.shared.stalest_watch(self.n).unwrap_or_default();
                    format!("the first list of {unlisted} is not complete")
                };
                let is_late = now.saturating_duration_since(since) >= self.reminder_interval;
                Some(("unlisted", is_late.then(cause)))
            }
            (Step::Withhold { reason: WithholdReason::Stale { .. } }, _) => {
                let stalest = self.shared.stalest_watch(self.n).unwrap_or_default();
                Some(("stale", Some(format!("no response from the API server for {stalest}"))))
            }
            (Step::Withhold { reason: WithholdReason::Unconfirmed }, Some(why)) => {
                let cause = error_causes::with_hint(&why.to_string(), why.hint().map(str::to_owned));
                Some((why.as_str(), Some(cause)))
            }
            _ => None,
        };
        match &withheld {
            None => {
                if let Some((_, lasted)) = self.withheld_reports.recovered(now) {
                    tracing::info!(environment, "{name}: no longer withheld after {lasted:.0?}");
                }
            }
            Some((_, None)) => {}
            Some((reason, Some(cause))) => {
                match self.withheld_reports.failed(failure_key(reason, cause), now) {
                    LogAction::New => {
                        tracing::warn!(environment, reason, "{name}: not reported: {cause}");
                    }
                    LogAction::Ongoing(_, lasted) => {
                        tracing::warn!(
                            environment,
                            reason,
                            "{name}: still not reported after {lasted:.0?}: {cause}"
                        );
                    }
                    LogAction::Suppress => {}
                }
            }
        }
        let pending_since = self.cadence.pending_since();
        self.warn_dropped(now);
        self.shared.update_reports(self.n, |reports| {
            reports.pending_since = pending_since;
            reports.withheld = withheld.map(|(reason, _)| reason);
        });
    }
}

/// Identifies a failure in the log. The number of unreadable pods may differ with each event.
fn failure_key<'a>(reason: &'a str, cause: &'a str) -> &'a str {
    if reason == "unreadable" { reason } else { cause }
}

/// Waits for the upload in flight; forever if there is none.
async fn upload_result(flight: &mut Option<Flight>) -> Result<Accepted, client::Error> {
    match flight {
        Some(flight) => flight.upload.as_mut().await,
        None => pending().await,
    }
}

/// Sleeps until the given time; forever if there is none.
async fn sleep_to(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => pending().await,
    }
}
