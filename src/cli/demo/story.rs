//! Plays a script: prints its text, runs its commands, and prints a summary of their results.
//!
//! Each line of a script begins with a mark: `*` a heading, `@` a command that is printed and run, `$` a command that
//! is only printed, `>` a result, `!` a text that stays on one line, and `=` the name of something to show. All other
//! lines are sentences. A word such as `${folder}` stands for a value.

use std::io::Stdout;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::history::History;
use super::runner::Runner;
use super::screen::{Screen, quoted};
use super::{DemoError, Ended, ORGANIZATION, Result};
use crate::api::{Artifact, Filter, Joined};
use crate::cli::Failure;
use crate::cli::output::{Cell, Table, details};
use crate::domain::escape::Visible;
use crate::domain::evidence::notification::Content;
use crate::domain::model::{Fingerprint, Page};

/// All steps.
pub(super) const STEPS: &str = include_str!("data/story.txt");

/// The hints for a demo that stays up.
pub(super) const HINTS: &str = include_str!("data/keep.txt");

/// The repositories of the images that the cluster runs and the steps attest.
const REPOSITORIES: [&str; 3] = ["web", "cart", "api"];

/// The interval between two reports of the history's environments while the demo stays up.
const REPORT_INTERVAL: Duration = Duration::from_mins(10);

/// The timeout for a notification about a change.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Hex digits that are shown of a digest.
const DIGEST_DIGITS: usize = 12;

pub(super) struct Story<'a> {
    pub(super) screen: &'a mut Screen<Stdout>,
    pub(super) runner: &'a Runner,
    pub(super) history: Option<&'a mut History<'a>>,
    pub(super) notifications: mpsc::Receiver<Content>,
    /// The values of the scripts' variables.
    pub(super) values: Vec<(&'static str, String)>,
    /// The running artifacts, as they were shown last.
    pub(super) shown: Vec<Row>,
}

/// An artifact that runs in an environment.
pub(super) struct Row {
    environment: String,
    digest: Option<Fingerprint>,
    compliance: String,
    snapshot: Option<u64>,
    /// Image, digest, commit, and whether all trails of the digest are compliant.
    cells: [Cell; 4],
}

impl Story<'_> {
    pub(super) async fn play(&mut self, script: &str) -> Result<()> {
        for line in script.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("", _) => self.screen.line("", "")?,
                ("*", heading) => self.screen.heading(heading)?,
                (">", result) => self.screen.result(self.fill(result))?,
                ("!", text) => self.screen.line("  ", &self.fill(text))?,
                ("$", command) => self.print(command)?,
                ("@", command) => {
                    self.print(command)?;
                    let words: Vec<_> = command.split(' ').skip(1).map(|word| self.fill(word)).collect();
                    for summary in self.runner.run(&words).await? {
                        self.screen.result(summary)?;
                    }
                }
                ("=", "history") => {
                    if let Some(history) = &mut self.history {
                        self.screen.say("Before the other steps, it replays two days of made-up history.")?;
                        history.replay(self.runner).await?;
                        self.screen.result("replayed: production, staging, warehouse and sandbox")?;
                    }
                }
                ("=", "running") => self.show_running().await?,
                ("=", "changes") => self.show_changes().await?,
                ("=", "unchanged") => {
                    let last = latest(&self.live_artifacts(&REPOSITORIES).await?);
                    let text = format!("snapshot {last} is still current: the service compared two hashes");
                    self.screen.result(text)?;
                }
                ("=", "compliance") => self.show_compliance().await?,
                ("=", "notification") => {
                    let next = timeout(NOTIFICATION_TIMEOUT, self.notifications.recv()).await.ok().flatten();
                    let missing = DemoError::NoNotification(NOTIFICATION_TIMEOUT);
                    self.show_notification(&next.ok_or(missing)?)?;
                }
                ("=", name) => return Err(DemoError::Missing(format!("{name} to show")).into()),
                _ => self.screen.say(self.fill(line))?,
            }
        }
        Ok(())
    }

    /// Shows notifications until the demo is stopped.
    pub(super) async fn stay(&mut self) -> Result<()> {
        let mut reports = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                notification = self.notifications.recv() => {
                    let Some(content) = notification else { return Ok(()) };
                    self.screen.line("", "")?;
                    self.show_notification(&content)?;
                }
                _ = reports.tick() => {
                    let Some(history) = &mut self.history else { continue };
                    match history.report_all(self.runner).await {
                        Err(Ended::Failed(_)) => self.screen.say("Some reports failed; the demo will retry.")?,
                        reported => reported?,
                    }
                }
            }
        }
    }

    async fn show_running(&mut self) -> Result<()> {
        self.shown = self.live_artifacts(&REPOSITORIES).await?;
        let mut table = Table::new(["ENV", "IMAGE", "DIGEST", "COMMIT", "TESTS"]);
        for row in &self.shown {
            table.row([Cell::text(&row.environment)].into_iter().chain(row.cells.clone()));
        }
        Ok(self.screen.table(&table)?)
    }

    /// Shows the difference from what was shown last.
    async fn show_changes(&mut self) -> Result<()> {
        let after = self.live_artifacts(&REPOSITORIES).await?;
        let before = std::mem::take(&mut self.shown);
        let (old, new) = (latest(&before), latest(&after));
        self.screen.result(format_args!("snapshot {old} gave way to snapshot {new}"))?;
        let mut table = Table::new(["", "IMAGE", "DIGEST", "COMMIT", "TESTS"]);
        let gone = before.iter().filter(|row| !contains(&after, row)).map(|row| ("-", row));
        let new = after.iter().filter(|row| !contains(&before, row)).map(|row| ("+", row));
        for (sign, row) in gone.chain(new) {
            table.row([Cell::text(sign)].into_iter().chain(row.cells.clone()));
        }
        Ok(self.screen.table(&table)?)
    }

    async fn show_compliance(&mut self) -> Result<()> {
        let mut table = Table::new(["ENV", "IMAGE", "DIGEST", "COMPLIANCE"]);
        for Row { environment, compliance, cells: [image, digest, ..], .. } in
            self.live_artifacts(&["web"]).await?
        {
            table.row([Cell::text(environment), image, digest, Cell::word(&compliance)]);
        }
        Ok(self.screen.table(&table)?)
    }

    fn show_notification(&mut self, content: &Content) -> Result<()> {
        let Content { environment, compliance, trigger, snapshot_index, artifacts, .. } = content;
        let (name, verdict) = (Visible(environment), Visible(compliance));
        self.screen.result(format_args!("notification received, signature verified: {name} is {verdict}"))?;
        let mut lines = vec![
            ("trigger", Cell::text(trigger.as_str())),
            ("environment", Cell::text(format!("{environment}, snapshot {snapshot_index}"))),
        ];
        for artifact in artifacts {
            let digest: String = artifact.fingerprint.to_string().chars().take(DIGEST_DIGITS).collect();
            lines.push(("artifact", Cell::text(format!("{}  {digest}", artifact.name))));
            lines.extend(artifact.reasons.iter().map(|reason| ("reason", Cell::text(reason))));
        }
        Ok(self.screen.table(&details(lines))?)
    }

    /// The running artifacts of these repositories, and whether their tests pass.
    async fn live_artifacts(&self, repositories: &[&str]) -> Result<Vec<Row>> {
        let (client, mut rows) = (&self.runner.client, Vec::new());
        for repository in repositories {
            let repository = format!("{ORGANIZATION}/{repository}").parse()?;
            let live = client.live_artifacts(&repository, None).await.map_err(Failure::from)?.known;
            for Joined { live: running, artifact, environment } in live.joined() {
                let digest = artifact.and_then(Artifact::digest);
                let filter = Filter { fingerprint: digest, ..Filter::default() };
                let trails = client.trails(&filter, Page::default()).await.map_err(Failure::from)?.data;
                let tests = match trails.as_slice() {
                    [] => "none",
                    trails if trails.iter().all(|trail| trail.known.is_compliant == Some(true)) => "pass",
                    _ => "fail",
                };
                rows.push(Row {
                    environment: environment.map_or_else(String::new, |environment| environment.name.clone()),
                    digest,
                    compliance: running.compliance.clone(),
                    snapshot: running.snapshot_index,
                    cells: [
                        Cell::text(&running.artifact_name),
                        Cell::digest(artifact.map(|artifact| &artifact.fingerprint)),
                        Cell::commit(artifact.and_then(|artifact| artifact.commit_sha.as_ref())),
                        Cell::word(tests),
                    ],
                });
            }
        }
        Ok(rows)
    }

    /// Prints a command. Words with values are quoted where a shell needs it.
    fn print(&mut self, command: &str) -> Result<()> {
        let word = |word: &str| if word.contains("${") { quoted(&self.fill(word)) } else { word.to_owned() };
        let words: Vec<_> = command.split(' ').map(word).collect();
        Ok(self.screen.command(words)?)
    }

    fn fill(&self, text: &str) -> String {
        let fill =
            |text: String, (name, value): &(&str, String)| text.replace(&format!("${{{name}}}"), value);
        self.values.iter().fold(text.to_owned(), fill)
    }
}

fn contains(rows: &[Row], other: &Row) -> bool {
    rows.iter().any(|row| row.environment == other.environment && row.digest == other.digest)
}

/// The latest snapshot of the rows.
fn latest(rows: &[Row]) -> u64 {
    rows.iter().filter_map(|row| row.snapshot).max().unwrap_or_default()
}
