//! The two days that lie behind a demo which stays up, so that its pages have something to show.
//!
//! The service's clock is set back, and then each line of the table happens through the same operations as in the
//! demo itself, at its time; what nobody changes is reported again and again, as an agent would. At the end the clock
//! shows the present for good.

mod declared;
mod pods;
mod results;
mod table;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(super) use self::declared::Declared;

use self::declared::Approval;
use self::pods::Pods;
use self::results::results;
use self::table::{Failure, Image, Moment, Origin, Table, What};
use super::steps::Story;
use super::{DemoError, Ended, UNIT_TESTS};
use crate::domain::model::{ApprovalState, Fingerprint, FlowName};
use crate::service::Hand;

/// The flow that the policies ask for.
const BUILDS: &str = "builds";

/// The flow of what several images do together.
const INTEGRATION: &str = "integration";

/// The flow of what is found in images.
const SCANS: &str = "scans";

/// The flow of what is looked at once something runs.
const ROLLOUTS: &str = "rollouts";

const PRODUCTION: &str = "production";
const STAGING: &str = "staging";
const WAREHOUSE: &str = "warehouse";
const SANDBOX: &str = "sandbox";

/// How many minutes ago it all begins.
const START: u64 = 48 * 60;

/// From one report of an environment to the next, in minutes.
const INTERVAL: u64 = 120;

/// How long an environment may be silent.
const HEARD_WITHIN: Duration = Duration::from_hours(3);

/// From a commit to the tests of the image that is built from it.
const BUILDING: SignedDuration = SignedDuration::from_mins(25);

/// How long to wait for what the service may take a moment for.
const PATIENCE: Duration = Duration::from_secs(5);

/// From one look whether it did to the next.
const LOOK: Duration = Duration::from_millis(2);

/// A past that was not lived through yet.
pub(super) struct Past {
    table: Arc<Table>,
    hand: Hand,
    now: Timestamp,
    approvals: Vec<Approval>,
    pods: Pods,
    /// The environments that are reported, and when they were last, in minutes before the demo.
    heard: Vec<(&'static str, u64)>,
    reload: mpsc::Sender<()>,
}

/// What tests ran of an image, and when.
struct Tested<'a> {
    name: &'a str,
    image: &'a Image,
    version: &'a str,
    tests: u32,
    failures: &'a [Failure],
    committed: Timestamp,
}

/// Where an attestation belongs.
fn flow(attestation: &str) -> &'static str {
    match attestation {
        "integration-tests" => INTEGRATION,
        "image-scan" => SCANS,
        "smoke-tests" => ROLLOUTS,
        _ => BUILDS,
    }
}

impl Past {
    /// Sets the clock back to where it begins. What asks for the bootstrap file to be read again goes to `reload`.
    pub(super) fn begin(hand: Hand, reload: mpsc::Sender<()>) -> Result<Self, DemoError> {
        let table = Arc::new(Table::read().ok_or(DemoError::Sample("a past"))?);
        let mut past = Self {
            table: Arc::clone(&table),
            hand,
            now: Timestamp::now(),
            approvals: Vec::new(),
            pods: Pods::default(),
            heard: Vec::new(),
            reload,
        };
        past.turn(START);
        let now = past.at(START);
        for image in &table.images {
            let is_ours = matches!(image.origin, Origin::Ours { .. });
            if is_ours && (image.pods != [0, 0] || image.kind == "Job") {
                past.approve(
                    ApprovalState::Approved,
                    image,
                    image.version,
                    "kim@example.com",
                    "OPS-1",
                    START + 60,
                );
            }
            for (environment, pods) in [PRODUCTION, STAGING].into_iter().zip(image.pods) {
                past.pods.run(environment, image, image.version, pods, now);
            }
        }
        past.heard = [PRODUCTION, STAGING, WAREHOUSE, SANDBOX].map(|name| (name, START)).into();
        Ok(past)
    }

    /// What the bootstrap file has to say for it.
    pub(super) fn declared(&self) -> Declared {
        Declared::of(&self.table, &self.approvals)
    }

    fn at(&self, before: u64) -> Timestamp {
        let before = i64::try_from(before).unwrap_or_default();
        self.now.checked_sub(SignedDuration::from_mins(before)).unwrap_or(self.now)
    }

    /// When a version was committed: some time before anything is told of it.
    fn committed(&self, of: &Image, of_version: &str) -> Timestamp {
        let first = self.table.moments.iter().find(|moment| {
            matches!(&moment.what,
                What::Attested { image, version, .. }
                | What::Approval { image, version, .. }
                | What::Run { image, version, .. } if *image == of.name && *version == of_version)
        });
        let first = first.filter(|_| of.version != of_version).map_or(START + 90, |moment| moment.before);
        let at = self.at(first);
        at.checked_sub(BUILDING).unwrap_or(at)
    }

    fn turn(&self, before: u64) {
        self.hand.set_back(Duration::from_secs(before * 60));
    }

    fn approve(
        &mut self,
        state: ApprovalState,
        image: &Image,
        version: &'static str,
        by: &'static str,
        ticket: &'static str,
        before: u64,
    ) {
        let former = self.approvals.iter().rfind(|approval| approval.image.name == image.name);
        let base = former.map_or_else(
            || Fingerprint::of(image.name.as_bytes()),
            |approval| image.digest(approval.version),
        );
        let at = self.at(before);
        self.approvals.push(Approval { state, image: image.clone(), version, base, by, ticket, at });
    }

    /// What is to be reported again before then, and when: of what is due, what is due first.
    fn due(&mut self, before: u64) -> Option<(&'static str, u64)> {
        let (name, last) = self.heard.iter_mut().max_by_key(|(_, last)| *last)?;
        let due = last.checked_sub(INTERVAL).filter(|due| *due > before)?;
        *last = due;
        Some((name, due))
    }
}

impl<W: Write> Story<'_, W> {
    /// Lives through it; gives the environments that are reported at its end.
    pub(super) async fn live(&mut self, mut past: Past) -> Result<Vec<&'static str>, Ended> {
        self.screen.say(
            "To have something to look at, it lives through two days first: production, staging, a warehouse and a \
             sandbox, all made up.",
        )?;
        let table = Arc::clone(&past.table);
        for image in &table.images {
            if let Origin::Ours { tests } = image.origin {
                let (version, failures) = (image.version, &[]);
                let committed = past.committed(image, version);
                let of = Tested { name: UNIT_TESTS, image, version, tests, failures, committed };
                self.attested(of).await?;
            }
        }
        for environment in [PRODUCTION, STAGING] {
            self.reported(&past, environment).await?;
        }
        for moments in table.moments.chunk_by(|one, next| one.before == next.before) {
            let Some(Moment { before, .. }) = moments.first() else { continue };
            while let Some((environment, due)) = past.due(*before) {
                past.turn(due);
                self.reported(&past, environment).await?;
            }
            past.turn(*before);
            let mut changed = Vec::new();
            for Moment { what, .. } in moments {
                changed.extend(self.happens(&mut past, what, *before).await?);
            }
            changed.dedup();
            for environment in changed {
                self.reported(&past, environment).await?;
                past.heard
                    .iter_mut()
                    .filter(|(name, _)| *name == environment)
                    .for_each(|(_, last)| *last = *before);
            }
            // What happened is told while it is still that time.
            self.beside.quiet().await;
        }
        while let Some((environment, due)) = past.due(0) {
            past.turn(due);
            self.reported(&past, environment).await?;
        }
        past.turn(0);
        let heard: Vec<_> = past.heard.iter().map(|(name, _)| *name).collect();
        for environment in &heard {
            self.reported(&past, environment).await?;
        }
        Ok(heard)
    }

    /// Has something happen; gives the environment that runs something else then.
    async fn happens(
        &mut self,
        past: &mut Past,
        what: &What,
        before: u64,
    ) -> Result<Option<&'static str>, Ended> {
        let table = Arc::clone(&past.table);
        let known = |name: &str| table.image(name).ok_or(DemoError::Sample("an image of its past"));
        match what {
            What::Attested { name, image, version, tests, failures } => {
                let image = known(image)?;
                let committed = past.committed(image, version);
                self.attested(Tested { name, image, version, tests: *tests, failures, committed }).await?;
            }
            What::Approval { state, image, version, by, ticket } => {
                let image = known(image)?;
                past.approve(*state, image, version, by, ticket, before);
                self.declare(past).await?;
            }
            What::Run { environment, image, version, pods } => {
                let image = known(image)?;
                let now = past.at(before);
                past.pods.run(environment, image, version, *pods, now);
                return Ok(Some(environment));
            }
            What::Silent(environment) => past.heard.retain(|(name, _)| name != environment),
            What::Heard(environment) => {
                past.heard.push((environment, before));
                return Ok(Some(environment));
            }
            What::Chat { is_up } => self.beside.answers(*is_up),
        }
        Ok(None)
    }

    /// Attests what was tested, as the pipeline that built it would.
    async fn attested(&self, of: Tested<'_>) -> Result<(), Ended> {
        const AUTHORS: [&str; 3] =
            ["Kim Osei <kim@example.com>", "Ana Duarte <ana@example.com>", "Lee Brandt <lee@example.com>"];
        let Tested { name, image, version, tests, failures, committed } = of;
        let results = self.files.put(&format!("{name}.xml"), &results(image.name, name, tests, failures))?;
        let author = AUTHORS.get(image.name.len() % AUTHORS.len()).copied().unwrap_or_default();
        let repository = format!("https://github.com/acme/{}", image.name);
        let mut words: Vec<String> =
            ["attest", "junit", "--flow", flow(name), "--name", name, "--branch", "main"]
                .map(str::to_owned)
                .into();
        for (option, value) in [
            ("--trail", format!("{}-{version}", image.name)),
            ("--fingerprint", image.digest(version).to_string()),
            ("--commit", image.commit(version)),
            ("--author", author.to_owned()),
            ("--message", format!("Release {} {version}", image.name)),
            ("--commit-timestamp", committed.to_string()),
            ("--origin-url", format!("https://ci.example.com/acme/{}/{version}", image.name)),
            ("--repository-url", repository),
            ("--working-copy", self.files.folder().display().to_string()),
        ] {
            words.extend([option.to_owned(), value]);
        }
        self.run(words.into_iter().map(Into::into).chain([results.into()])).await
    }

    /// Reports what an environment runs.
    async fn reported(&self, past: &Past, environment: &str) -> Result<(), Ended> {
        let pods = self.files.put(&format!("{environment}.json"), &past.pods.of(environment).to_string())?;
        self.send(environment, &pods).await?;
        Ok(())
    }

    /// Has the service read what the bootstrap file says now, and waits until it did.
    async fn declare(&self, past: &Past) -> Result<(), Ended> {
        self.files.declare(&past.declared())?;
        let _ = past.reload.send(()).await;
        let (flow, last): (FlowName, _) = (BUILDS.parse()?, past.approvals.len() as u64);
        let known = async {
            while self.client.approval(&flow, last).await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
        };
        Ok(timeout(PATIENCE, known).await.map_err(|_| DemoError::Sample("an approval of its past"))?)
    }
}
