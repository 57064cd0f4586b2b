//! Plays a script: prints its text, runs its commands, and prints a summary of their results.
//!
//! The first character of a line is its type: `*` heading, `@` command that is printed and run, `$` command that is
//! only printed, `>` result, `!` text on one line, `=` name of a view. All other lines are sentences. A word such as
//! `${folder}` is replaced by a value.

use std::io::Stdout;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::data::ORGANIZATION;
use super::error::{DemoError, Ended, Result};
use super::history::History;
use super::runner::Runner;
use super::screen::{Screen, quoted};
use crate::api::{EmbeddedArtifact, JoinedArtifact, Operation, Resource};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Table, details};
use crate::domain::escape::Escaped;
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

/// Length of a shortened digest.
const DIGEST_DIGITS: usize = 12;

pub(super) struct Story<'a> {
    pub(super) screen: &'a mut Screen<Stdout>,
    pub(super) runner: &'a Runner,
    pub(super) history: Option<&'a mut History<'a>>,
    pub(super) notifications: mpsc::Receiver<Content>,
    /// The values of the scripts' variables.
    pub(super) values: Vec<(&'static str, String)>,
    /// Running artifacts as last printed.
    pub(super) shown: Vec<ArtifactRow>,
}

/// An artifact that runs in an environment.
pub(super) struct ArtifactRow {
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
                        self.screen.paragraph("The demo first replays two days of fictional history.")?;
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
                    let missing = DemoError::TimedOut("no signed notification arrived", NOTIFICATION_TIMEOUT);
                    self.show_notification(&next.ok_or(missing)?)?;
                }
                ("=", name) => return Err(DemoError::Missing(format!("{name} to show")).into()),
                _ => self.screen.paragraph(self.fill(line))?,
            }
        }
        Ok(())
    }

    /// Shows notifications until the demo is stopped.
    pub(super) async fn show_notifications(&mut self) -> Result<()> {
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
                        Err(Ended::Failed(_)) => self.screen.paragraph("Some reports failed; the demo will retry.")?,
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

    /// Shows the difference from the last printed artifacts.
    async fn show_changes(&mut self) -> Result<()> {
        let after = self.live_artifacts(&REPOSITORIES).await?;
        let before = std::mem::take(&mut self.shown);
        let (old, new) = (latest(&before), latest(&after));
        self.screen.result(format_args!("snapshot {new} replaced snapshot {old}"))?;
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
        for ArtifactRow { environment, compliance, cells: [image, digest, ..], .. } in
            self.live_artifacts(&["web"]).await?
        {
            table.row([Cell::text(environment), image, digest, Cell::state(&compliance)]);
        }
        Ok(self.screen.table(&table)?)
    }

    fn show_notification(&mut self, content: &Content) -> Result<()> {
        let Content { environment, compliance, trigger, snapshot_index, artifacts, .. } = content;
        let (name, verdict) = (Escaped(environment), Escaped(compliance));
        self.screen.result(format_args!("notification received, signature verified: {name} is {verdict}"))?;
        let mut lines = vec![
            ("trigger", Cell::text(trigger.as_str())),
            ("environment", Cell::text(format!("{environment}, snapshot {snapshot_index}"))),
        ];
        for artifact in artifacts {
            let digest: String = artifact.fingerprint.to_string().chars().take(DIGEST_DIGITS).collect();
            lines.push(("artifact", Cell::text(format!("{}  {digest}", artifact.name))));
            lines.extend(artifact.reasons.iter().map(|reason| ("reason", Cell::text(reason.to_string()))));
        }
        Ok(self.screen.table(&details(lines))?)
    }

    /// The running artifacts of these repositories, and whether their tests pass.
    async fn live_artifacts(&self, repositories: &[&str]) -> Result<Vec<ArtifactRow>> {
        let (client, mut rows) = (&self.runner.client, Vec::new());
        for repository in repositories {
            let repository = format!("{ORGANIZATION}/{repository}").parse()?;
            let live = client.live_artifacts(&repository, None).await.map_err(Failure::from)?.value;
            for JoinedArtifact { live: running, artifact, environment } in live.joined() {
                let digest = artifact.and_then(EmbeddedArtifact::digest);
                let trails = Operation::new(Resource::Organization, &["trails"]).with("fingerprint", digest);
                let trails = client.get_page(&trails, Page::default()).await.map_err(Failure::from)?.items;
                let tests = match trails.as_slice() {
                    [] => "none",
                    trails if trails.iter().all(|trail| trail["is_compliant"] == true) => "pass",
                    _ => "fail",
                };
                rows.push(ArtifactRow {
                    environment: environment.map_or_else(String::new, |environment| environment.name.clone()),
                    digest,
                    compliance: running.compliance.clone(),
                    snapshot: running.snapshot_index,
                    cells: [
                        Cell::text(&running.artifact_name),
                        Cell::digest(artifact.map(|artifact| &artifact.fingerprint)),
                        Cell::commit(artifact.and_then(|artifact| artifact.commit_sha.as_ref())),
                        Cell::state(tests),
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

fn contains(rows: &[ArtifactRow], other: &ArtifactRow) -> bool {
    rows.iter().any(|row| row.environment == other.environment && row.digest == other.digest)
}

/// The latest snapshot of the rows.
fn latest(rows: &[ArtifactRow]) -> u64 {
    rows.iter().filter_map(|row| row.snapshot).max().unwrap_or_default()
}
