//! Replays the two days before a demo that stays up, so that its pages have something to show.
//!
//! The service's clock is set back, and each event happens at its time through the same operations as the steps.
//! Between the events, every environment is reported at regular intervals, as an agent would. At the end the clock
//! shows the present.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::data::{self, Attest, Data, HistoryAction, Image, bootstrap, junit_xml};
use super::error::{DemoError, Result};
use super::files::{BOOTSTRAP, Files};
use super::pods::Pods;
use super::receiver::Targets;
use super::runner::Runner;
use client::{Operation, Resource};
use service::Clock;

/// The start of the history, in minutes before the demo.
const START: u64 = 48 * 60;

/// The interval between two reports of an environment, in minutes.
const REPORT_INTERVAL: u64 = 120;

/// The time from a commit to the first event of its image, in minutes.
const BUILD_TIME: u64 = 25;

/// The timeout for the service to apply a changed bootstrap file.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval between two checks for that.
const RELOAD_POLL: Duration = Duration::from_millis(2);

pub(super) struct History<'a> {
    data: &'a Data,
    files: &'a Files,
    clock: Clock,
    /// A message makes the service read the bootstrap file again.
    reload: mpsc::Sender<()>,
    targets: Arc<Targets>,
    /// The end of the history.
    now: Timestamp,
    approvals: Vec<String>,
    pods: Pods,
    /// The reported environments, and the time of their last report in minutes before the demo.
    last_reports: BTreeMap<String, u64>,
}

impl<'a> History<'a> {
    /// Sets the clock back to the start.
    pub(super) fn start(
        data: &'a Data,
        files: &'a Files,
        clock: Clock,
        reload: mpsc::Sender<()>,
        targets: Arc<Targets>,
    ) -> Self {
        let (approvals, pods, last_reports) = (Vec::new(), Pods::default(), BTreeMap::new());
        let now = data::now();
        let history = Self { data, files, clock, reload, targets, now, approvals, pods, last_reports };
        history.set_clock(START);
        history
    }

    pub(super) async fn replay(&mut self, runner: &Runner) -> Result<()> {
        for events in self.data.history.chunk_by(|one, next| one.ago == next.ago) {
            let Some(ago) = events.first().map(|event| event.ago) else { continue };
            self.report_due(runner, ago).await?;
            self.set_clock(ago);
            let (approvals, mut changed) = (self.approvals.len(), BTreeSet::new());
            for event in events {
                match &event.action {
                    HistoryAction::Attest(attest) => self.attest(runner, attest).await?,
                    HistoryAction::Approve(approval) => {
                        let (number, image) = (self.approvals.len() + 1, self.data.image(&approval.image)?);
                        self.approvals.push(approval.entry(number, image, self.time(ago)));
                    }
                    HistoryAction::Run { image, version, pods } => {
                        for (environment, pods) in pods {
                            self.pods.scale(environment, image, version, *pods, self.time(ago));
                            changed.insert(environment);
                        }
                    }
                    HistoryAction::Silent(environment) => drop(self.last_reports.remove(environment)),
                    HistoryAction::Report(environment) => drop(changed.insert(environment)),
                    HistoryAction::Chat(state) => self.targets.set_chat(*state),
                }
            }
            if self.approvals.len() > approvals {
                self.reload(runner).await?;
            }
            for environment in changed {
                self.report(runner, environment, ago).await?;
            }
            // Notifications are delivered at the time of their event.
            self.targets.quiet().await;
        }
        self.report_due(runner, 0).await?;
        self.set_clock(0);
        self.report_all(runner).await
    }

    /// Reports every environment that is not silent as it is now.
    pub(super) async fn report_all(&mut self, runner: &Runner) -> Result<()> {
        let environments: Vec<_> = self.last_reports.keys().cloned().collect();
        for environment in environments {
            self.report(runner, &environment, 0).await?;
        }
        Ok(())
    }

    /// Attests test results as the pipeline of an image does.
    async fn attest(&self, runner: &Runner, attest: &Attest) -> Result<()> {
        let Attest { flow, name, image, version, tests, failures } = attest;
        let image = self.data.image(image)?;
        let results = self.files.write(&format!("{name}.xml"), &junit_xml(&image.name, *tests, failures))?;
        let mut words = vec!["attest".to_owned(), "junit".to_owned(), results.display().to_string()];
        for (option, value) in [
            ("--flow", flow.clone()),
            ("--name", name.clone()),
            ("--trail", format!("{}-{version}", image.name)),
            ("--fingerprint", image.digest(version).to_string()),
            ("--branch", "main".to_owned()),
            ("--commit", image.commit(version)),
            ("--commit-timestamp", self.commit_time(image, version).to_string()),
            ("--author", self.data.authors.get(&image.namespace).cloned().unwrap_or_default()),
            ("--message", format!("Release {} {version}", image.name)),
            ("--origin-url", format!("https://ci.example.com/acme/{}/{version}", image.name)),
            ("--repository-url", format!("https://github.com/acme/{}", image.name)),
            // Not a git checkout, so that no further facts are found.
            ("--working-copy", self.files.folder().display().to_string()),
        ] {
            words.extend([option.to_owned(), value]);
        }
        runner.run(&words).await.map(drop)
    }

    /// Makes the service read the bootstrap file, and waits until it has applied the last approval.
    async fn reload(&self, runner: &Runner) -> Result<()> {
        self.files.write(BOOTSTRAP, &bootstrap(&self.approvals))?;
        // Fails after the service has ended, and so does the next request.
        let _ = self.reload.send(()).await;
        let (flow, number) = ("builds", self.approvals.len() as u64);
        let about = Resource::Approval(flow, number);
        let approval = Operation::new(about, &["approvals", flow, &number.to_string()]);
        let applied = async {
            while runner.client.get::<Value>(&approval).await.is_err() {
                tokio::time::sleep(RELOAD_POLL).await;
            }
        };
        let missing = DemoError::TimedOut("the service did not apply the bootstrap file", RELOAD_TIMEOUT);
        Ok(timeout(RELOAD_TIMEOUT, applied).await.map_err(|_| missing)?)
    }

    async fn report(&mut self, runner: &Runner, environment: &str, ago: u64) -> Result<()> {
        let pods = self.pods.list(self.data, environment)?;
        let pods = self.files.write(&format!("{environment}.json"), &pods.to_string())?;
        runner.report(environment, &pods).await?;
        self.last_reports.insert(environment.to_owned(), ago);
        Ok(())
    }

    /// Sends the reports that are due before a time, in order.
    async fn report_due(&mut self, runner: &Runner, ago: u64) -> Result<()> {
        while let Some((environment, last)) = self.last_reports.iter().max_by_key(|(_, last)| **last) {
            let Some(due) = last.checked_sub(REPORT_INTERVAL).filter(|due| *due > ago) else { break };
            let environment = environment.clone();
            self.set_clock(due);
            self.report(runner, &environment, due).await?;
        }
        Ok(())
    }

    fn set_clock(&self, ago: u64) {
        self.clock.set_back(Duration::from_secs(ago * 60));
    }

    fn time(&self, ago: u64) -> Timestamp {
        let ago = SignedDuration::from_mins(i64::try_from(ago).unwrap_or_default());
        self.now.checked_sub(ago).unwrap_or(self.now)
    }

    /// The time of a version's commit, before the first event that names it.
    fn commit_time(&self, image: &Image, version: &str) -> Timestamp {
        let mut events = self.data.history.iter();
        let first = events.find(|event| event.action.version() == Some((&image.name, version)));
        self.time(first.map_or(0, |event| event.ago) + BUILD_TIME)
    }
}
