//! Plays a script: prints its text, runs its commands, and prints a summary of their results.
//!
//! The first character of a line is its type: `*` heading, `@` command that is printed and run, `$` command that is
//! only printed, `>` result, `!` text on one line, `=` name of a view. All other lines are sentences. A word such as
//! `${folder}` is replaced by a value.

use std::io::Stdout;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::data::ORGANIZATION;
use super::error::{DemoError, Ended, Result};
use super::history::History;
use super::runner::Runner;
use super::screen::{Screen, quoted};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, details, state};
use crate::cli::read::Format::{Commit, Digest, State, Text};
use crate::cli::read::{
    Column, PACKAGES, at, coverage, evidence_lines, finding, items, organization, row, table,
};
use client::EmbeddedArtifact;
use model::escape::Escaped;
use model::image_id::short_name;
use model::reason::refusal;
use model::{Fingerprint, Page};
use rules::notification::{Content, DISPLAYED_DIGITS};

pub(super) const STEPS: &str = include_str!("data/story.txt");

/// The hints for a demo that stays up.
pub(super) const HINTS: &str = include_str!("data/keep.txt");

const EXPORTS: [&str; 3] = [
    "export SUPERCARGO_BASE_URL=${base_url}",
    "export SUPERCARGO_ORG=acme",
    "export SUPERCARGO_TOKEN_FILE=${token}",
];

/// The package that the last step searches, which the bill of materials of the web image contains.
const PACKAGE: &str = "log4j-core";
const VERSIONS: &str = "<2.17.1";

/// The policy that the gate checks.
const POLICY: &str = "built-by-ci";

/// The repositories of the images that the cluster runs and the steps attest.
const REPOSITORIES: [&str; 3] = ["web", "cart", "api"];

/// The interval between two reports of the history's environments while the demo stays up.
const REPORT_INTERVAL: Duration = Duration::from_mins(10);

/// The timeout for a notification about a change.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

const RUNNING: &[Column] = &[
    Column::new("ENV", "/environment", Text),
    Column::new("IMAGE", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMMIT", "/commit", Commit),
    Column::new("TESTS", "/tests", State),
];

const CHANGES: &[Column] = &[
    Column::new("", "/sign", Text),
    Column::new("IMAGE", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMMIT", "/commit", Commit),
    Column::new("TESTS", "/tests", State),
];

const COMPLIANCE: &[Column] = &[
    Column::new("ENV", "/environment", Text),
    Column::new("IMAGE", "/name", Text),
    Column::new("DIGEST", "/fingerprint", Digest),
    Column::new("COMPLIANCE", "/compliance", State),
];

pub(super) struct Story<'a> {
    pub(super) screen: &'a mut Screen<Stdout>,
    pub(super) runner: &'a Runner,
    pub(super) history: Option<&'a mut History<'a>>,
    pub(super) notifications: mpsc::Receiver<Content>,
    /// The values of the scripts' variables.
    pub(super) values: Vec<(&'static str, String)>,
    /// The digests that the gate is asked about.
    pub(super) gated: Vec<Fingerprint>,
    /// Running artifacts as last printed.
    pub(super) shown: Vec<ArtifactRow>,
}

pub(super) struct ArtifactRow {
    environment: String,
    digest: Option<Fingerprint>,
    snapshot: Option<u64>,
    row: Value,
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
                    for result in self.runner.run(&words).await? {
                        self.screen.result(result)?;
                    }
                }
                ("=", "exports") => self.show_exports()?,
                ("=", "history") => {
                    if let Some(history) = &mut self.history {
                        self.screen.paragraph("The demo first replays two days of fictional history.")?;
                        history.replay(self.runner).await?;
                        self.screen.result("replayed: production, staging, warehouse and sandbox")?;
                    }
                }
                ("=", "running") => {
                    self.shown = self.live_artifacts(&REPOSITORIES).await?;
                    self.screen.table(&table(RUNNING, self.shown.iter().map(|shown| &shown.row)))?;
                }
                ("=", "changes") => self.show_changes().await?,
                ("=", "unchanged") => {
                    let last = latest(&self.live_artifacts(&REPOSITORIES).await?);
                    let text = format!("snapshot {last} is still current: the service compared two hashes");
                    self.screen.result(text)?;
                }
                ("=", "compliance") => {
                    let rows = self.live_artifacts(&["web"]).await?;
                    self.screen.table(&table(COMPLIANCE, rows.iter().map(|shown| &shown.row)))?;
                }
                ("=", "packages") => {
                    let search =
                        organization(&["packages"]).with("name", [PACKAGE]).with("version", [VERSIONS]);
                    let found: Value = self.runner.client.get(&search).await.map_err(Failure::from)?;
                    self.screen.table(&table(PACKAGES, items(&found, "/data")))?;
                    self.screen.result(coverage(&found))?;
                }
                ("=", "gate") => {
                    for digest in &self.gated {
                        let path = ["asserts", "fingerprint", &digest.to_string()];
                        let gate = organization(&path).with("policy_name", [POLICY]);
                        let answer: Value = self.runner.client.get(&gate).await.map_err(Failure::from)?;
                        self.screen.result(judgment(&answer))?;
                    }
                }
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

    /// The variables for the printed commands, if the service stays up.
    fn show_exports(&mut self) -> Result<()> {
        if self.history.is_none() {
            let hint = "To run the commands yourself, keep the service up with `supercargo demo --keep`.";
            return Ok(self.screen.paragraph(hint)?);
        }
        self.screen.paragraph("To run the commands, set these variables in another terminal:")?;
        self.screen.line("", "")?;
        for line in EXPORTS {
            self.screen.line("  ", &self.fill(line))?;
        }
        Ok(self.screen.line("", "")?)
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

    /// Shows the difference from the last printed artifacts.
    async fn show_changes(&mut self) -> Result<()> {
        let after = self.live_artifacts(&REPOSITORIES).await?;
        let before = std::mem::take(&mut self.shown);
        let (old, new) = (latest(&before), latest(&after));
        self.screen.result(format_args!("snapshot {new} replaced snapshot {old}"))?;
        let rows: Vec<_> = only_in(&before, &after, "-").chain(only_in(&after, &before, "+")).collect();
        Ok(self.screen.table(&table(CHANGES, &rows))?)
    }

    fn show_notification(&mut self, content: &Content) -> Result<()> {
        let Content { environment, compliance, trigger, snapshot_index, artifacts, .. } = content;
        let (name, verdict) = (Escaped(environment), state(compliance));
        self.screen.result(format_args!("notification received, signature verified: {name} is {verdict}"))?;
        let mut lines = vec![
            ("trigger", Cell::text(trigger.as_str())),
            ("environment", Cell::text(format!("{environment}, snapshot {snapshot_index}"))),
        ];
        for artifact in artifacts {
            let digest: String = artifact.fingerprint.to_string().chars().take(DISPLAYED_DIGITS).collect();
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
            for joined in live.joined() {
                let digest = joined.artifact.and_then(EmbeddedArtifact::digest);
                let trails = organization(&["trails"]).with("fingerprint", digest);
                let trails = client.get_page(&trails, Page::default()).await.map_err(Failure::from)?.items;
                let tests = match trails.as_slice() {
                    [] => "none",
                    trails if trails.iter().all(|trail| trail["is_compliant"] == true) => "passed",
                    _ => "failed",
                };
                let (environment, snapshot) =
                    (joined.live.environment_id.clone(), joined.live.snapshot_index);
                let mut row = row(joined);
                set(&mut row, "tests", tests);
                rows.push(ArtifactRow { environment, digest, snapshot, row });
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

/// Whether an artifact may run, as the gate says it.
fn judgment(answer: &Value) -> String {
    let name = short_name(at(answer, "/artifact_name").as_str().unwrap_or_default());
    if at(answer, "/compliant") == true {
        let evidence: Vec<_> = evidence_lines(answer).collect();
        return format!("{name} is compliant: {}", evidence.join(", "));
    }
    let policies = items(answer, "/policy_evaluations");
    let findings: Vec<_> = policies.flat_map(|policy| items(policy, "/reasons")).map(finding).collect();
    refusal(name, None, &findings)
}

fn set(row: &mut Value, key: &str, text: &str) {
    if let Some(row) = row.as_object_mut() {
        row.insert(key.to_owned(), text.into());
    }
}

/// The rows of artifacts that the others do not have in the same environment, with a sign.
fn only_in(rows: &[ArtifactRow], others: &[ArtifactRow], sign: &str) -> impl Iterator<Item = Value> {
    let is_same = |a: &ArtifactRow, b: &ArtifactRow| a.environment == b.environment && a.digest == b.digest;
    let only = rows.iter().filter(move |row| !others.iter().any(|other| is_same(row, other)));
    only.map(move |shown| {
        let mut row = shown.row.clone();
        set(&mut row, "sign", sign);
        row
    })
}

/// The latest snapshot of the rows.
fn latest(rows: &[ArtifactRow]) -> u64 {
    rows.iter().filter_map(|row| row.snapshot).max().unwrap_or_default()
}
