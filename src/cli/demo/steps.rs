//! The story, step by step: each says what it does, how a person would do it, and what came of it.
//!
//! `judged` goes on with who may run where, and who is told.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;

use super::files::Files;
use super::past::Past;
use super::receiver::{Beside, Inbox};
use super::sample::{API, Build, CART, NEXT_WEB, WEB};
use super::screen::{Look, Screen, Word, quoted};
use super::table::{Row, Table, Tests};
use super::{CLUSTER, DemoError, Ended, ORGANIZATION, RECEIVERS, UNIT_TESTS};
use crate::agent::gather::Source;
use crate::agent::once::{self, Destination};
use crate::agent::retry::Deadline;
use crate::agent::{Environment, Plan, Summary};
use crate::api::{Artifact, Client, Filter, Joined};
use crate::cli::{Cli, Failure};
use crate::cluster::PodsFile;
use crate::domain::collapse::Counting;
use crate::domain::confirmation::Emptiness;
use crate::domain::model::{Fingerprint, Page, Timestamp};
use crate::domain::outcome::Backoff;
use crate::domain::selection::Selection;
use crate::process::rest::Rest;

/// Where the service listens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) service: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// The story and all that it takes.
pub(super) struct Story<'a, W> {
    pub(super) screen: &'a mut Screen<W>,
    pub(super) client: Client,
    pub(super) files: &'a Files,
    pub(super) addresses: Addresses,
    pub(super) inbox: Inbox,
    pub(super) beside: Arc<Beside>,
    /// The environments that are reported for as long as it stays up.
    pub(super) heard: Vec<&'static str>,
    pub(super) program: String,
}

impl<'a, W: Write> Story<'a, W> {
    pub(super) fn new(
        screen: &'a mut Screen<W>,
        client: Client,
        files: &'a Files,
        addresses: Addresses,
        (inbox, beside): (Inbox, Arc<Beside>),
    ) -> Self {
        Self { screen, client, files, addresses, inbox, beside, heard: Vec::new(), program: program() }
    }

    /// All of it, and before that the past, if there is one.
    pub(super) async fn tell(&mut self, past: Option<Past>) -> Result<(), Ended> {
        self.serve()?;
        if let Some(past) = past {
            self.heard = self.live(past).await?;
        }

        self.screen.heading("2. Attest the unit tests of three images, as their pipelines would")?;
        for build in [WEB, CART, API] {
            self.attest(&build).await?;
        }

        self.screen.heading("3. Report the cluster: thirteen pods, as kubectl printed them")?;
        self.report(CLUSTER, &self.files.pods()).await?;

        self.screen.heading("4. Ask what runs of each repository, and whether it was tested")?;
        let program = self.program.clone();
        self.screen.command(&[
            "for repo in web cart api; do".to_owned(),
            format!("{program} get live-artifacts acme/$repo; done"),
        ])?;
        let before = self.look(&[WEB, CART, API]).await?;
        self.screen.table(&Table::running(&before, now()).lines())?;
        let failing = before.iter().find(|row| row.tests == Tests::Fail).and_then(|row| row.digest);
        if let Some(digest) = failing {
            self.screen.line("", &[])?;
            self.screen
                .say("TESTS is what the trails say that attest this very digest. More of the one that fails is told by:")?;
            self.screen.command(&[format!("{program} list trails"), format!("--fingerprint {digest}")])?;
        }

        self.screen.heading("5. Roll out shop/web:1.5.0: attest it, start it, report")?;
        self.attest(&NEXT_WEB).await?;
        self.report(CLUSTER, &self.files.pods_after()).await?;

        self.screen.heading("6. Ask what changed")?;
        self.screen.command(&[format!("{program} get live-artifacts acme/web")])?;
        let after = self.look(&[WEB, CART, API]).await?;
        let (old, new) = (snapshot(&before), snapshot(&after));
        let verdict = Word(Look::Bold, format!("snapshot {new}"));
        self.screen.came(format_args!("snapshot {old} gave way to"), Some(verdict))?;
        self.screen.table(&Table::changes(&before, &after).lines())?;

        self.screen.heading("7. Report once more: the same pods, so there is no new snapshot")?;
        self.report(CLUSTER, &self.files.pods_after()).await?;
        let last = snapshot(&self.look(&[WEB, CART, API]).await?);
        let said = format!("snapshot {last} stands; the service compared two hashes and noted the time");
        self.screen.came(said, None)?;

        self.judge().await
    }

    fn serve(&mut self) -> io::Result<()> {
        let Addresses { service, .. } = self.addresses;
        self.screen.line(
            "",
            &[Word(Look::Bold, "supercargo demo: from a test to the cluster that runs it".into())],
        )?;
        self.screen.say("Each step does what the commands under it do, and shows in short what came of it. They can be pasted while `supercargo demo --keep` is up, after these:")?;
        self.screen.line("", &[])?;
        for (name, value) in [
            ("BASE_URL", format!("http://{service}")),
            ("ORG", ORGANIZATION.to_owned()),
            ("TOKEN_FILE", path(&self.files.token())),
        ] {
            self.screen.command(&[format!("export SUPERCARGO_{name}={value}")])?;
        }
        self.screen.heading("1. Start the service, on a database of its own")?;
        self.screen.command(&[
            format!("{} serve", self.program),
            "--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0".to_owned(),
            format!("--database {}", quoted(&self.files.database())),
            format!("--bootstrap {}", path(&self.files.bootstrap())),
            format!("--allow-internal {RECEIVERS}"),
        ])?;
        self.screen.came(format_args!("It listens on http://{service}."), None)
    }

    async fn attest(&mut self, build: &Build) -> Result<(), Ended> {
        let (flow, trail) = (build.name, build.trail());
        let digest = self.files.digest(build).ok_or(DemoError::Sample("an image that is attested"))?;
        let attest = [
            format!("attest junit --flow {flow} --trail {trail}"),
            format!("--name {UNIT_TESTS} --branch main"),
            format!("--commit {}", build.commit),
            format!("--fingerprint {digest}"),
            format!("--repository-url {}", build.repository_url()),
        ];
        let results = self.files.results(build);
        let [first, rest @ ..] = &attest;
        let mut shown = vec![format!("{} {first}", self.program)];
        shown.extend(rest.iter().cloned().chain([path(&results)]));
        self.screen.command(&shown)?;
        let words = attest.iter().flat_map(|line| line.split(' ')).map(OsString::from);
        self.run(words.chain([results.into()])).await?;
        let (look, failed) = match build.failures {
            0 => (Look::Good, "all passed".to_owned()),
            failures => (Look::Bad, format!("{failures} failed")),
        };
        let said = format!("{} from acme/{flow}@{trail}: {} tests,", build.short_image(), build.tests);
        Ok(self.screen.came(said, Some(Word(look, failed)))?)
    }

    /// Runs a command as it is shown, with options in place of the exports.
    pub(super) async fn run(&self, words: impl Iterator<Item = OsString>) -> Result<(), Ended> {
        let service = format!("--base-url=http://{} --org={ORGANIZATION}", self.addresses.service);
        let mut token = OsString::from("--token-file=");
        token.push(self.files.token());
        let options = service.split(' ').map(OsString::from).chain([token]);
        let words = std::iter::once("supercargo".into()).chain(words).chain(options);
        let command = Cli::try_parse_from(words).map_err(|error| Ended::from(Failure::unexpected(error)))?;
        Box::pin(command.run(Rest::default())).await.map_err(Ended::Failed)
    }

    /// Reports pods to an environment.
    pub(super) async fn report(&mut self, environment: &str, pods: &Path) -> Result<(), Ended> {
        self.screen.command(&self.agent(environment, pods))?;
        for summary in self.send(environment, pods).await? {
            self.screen.came(summary, None)?;
        }
        Ok(())
    }

    /// Sends the report of pods to an environment.
    pub(super) async fn send(&self, environment: &str, pods: &Path) -> Result<Vec<Summary>, Ended> {
        let environment = Environment {
            name: environment.parse()?,
            selection: Selection::default(),
            empty: Emptiness::Withheld,
        };
        let plan = Plan { environments: vec![environment], counting: Counting::All, own_pod: None };
        let source = Source::File(PodsFile::from(pods.to_owned()));
        let deadline = Deadline::after(Duration::from_secs(10), Backoff::default());
        Ok(once::run(&plan, &source, Destination::Service(&self.client), deadline).await?)
    }

    /// What runs of the repositories that these are built from.
    pub(super) async fn look(&self, builds: &[Build]) -> Result<Vec<Row>, Ended> {
        let mut rows = Vec::new();
        for build in builds {
            let live = self.client.live_artifacts(&build.repository().parse()?, None).await?.known;
            for Joined { live: running, artifact, environment } in live.joined() {
                let digest = artifact.and_then(Artifact::digest);
                rows.push(Row {
                    environment: environment.map_or_else(|| "-".to_owned(), |e| e.name.clone()),
                    image: running.artifact_name.clone(),
                    digest,
                    commit: artifact.and_then(|artifact| artifact.commit_sha.clone()),
                    tests: self.tests(digest).await?,
                    since: running.started_at,
                    snapshot: running.snapshot_index,
                    compliance: running.compliance.clone(),
                });
            }
        }
        Ok(rows)
    }

    async fn tests(&self, digest: Option<Fingerprint>) -> Result<Tests, Ended> {
        let Some(digest) = digest else { return Ok(Tests::Unknown) };
        let of_it = Filter { fingerprint: Some(digest), ..Filter::default() };
        let trails = self.client.trails(&of_it, Page::default()).await?.data;
        Ok(match trails.as_slice() {
            [] => Tests::Unknown,
            trails if trails.iter().all(|trail| trail.known.is_compliant == Some(true)) => Tests::Pass,
            _ => Tests::Fail,
        })
    }

    /// The command that does.
    pub(super) fn agent(&self, environment: &str, pods: &Path) -> [String; 2] {
        let command = format!("{} agent --once --environment {environment}", self.program);
        [command, format!("--pods-from {}", path(pods))]
    }
}

/// The program as it was called, so that its commands can be pasted.
fn program() -> String {
    std::env::args().next().map_or_else(|| "supercargo".to_owned(), |program| quoted(&program))
}

pub(super) fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// The snapshot that rows are of.
fn snapshot(rows: &[Row]) -> String {
    let snapshot = rows.iter().filter_map(|row| row.snapshot).max();
    snapshot.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}
