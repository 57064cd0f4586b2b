//! `supercargo demo`: runs the whole workflow on one machine, without a cluster or an account.
//!
//! The demo starts the real service on a temporary database, and attests and reports to it over HTTP with the commands
//! of the program (`runner`). `story` plays the steps; `history` replays the two days that `--keep` adds. `data` reads
//! their YAML, `pods` generates pods, `receiver` receives notifications, `files` manages the temporary folder, and
//! `screen` prints.

mod data;
mod error;
mod files;
mod history;
mod pods;
mod receiver;
mod runner;
mod screen;
mod story;

pub(crate) use self::runner::CommandResult;
use self::runner::RunCommand;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cli::exit::Failure;
use model::envelope::STATEMENT;
use runtime::listener::Bounds;
use runtime::{signals, signing};
use service::random::random;
use service::{Clock, Delivery, Limits, Service, Setup};
use store::DatabaseTimeouts;

use self::data::{Attest, Data, junit_xml};
use self::error::{Ended, Result};
use self::files::Files;
use self::history::History;
use self::receiver::Receiver;
use self::runner::Runner;
use self::screen::Screen;
use self::story::Story;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Demo {
    /// Keep the service running until Ctrl-C or SIGTERM, to try the printed commands
    #[arg(long)]
    keep: bool,
}

const EXAMPLE: &str = "\
The demo listens on free loopback ports only, and removes its temporary folder at
the end. With --keep, it first replays two days of fictional history, and prints a
one-time link to sign in with a browser.

Example:
  Run the demo, then try its commands in another terminal:
    supercargo demo --keep

Exit codes: see supercargo --help";

const LINK_LIFETIME: Duration = Duration::from_mins(10);

/// Network of the receiver: loopback only.
const ALLOWED_INTERNAL: IpNet = IpNet::new_assert(IpAddr::V4(Ipv4Addr::LOCALHOST), 32);

impl Demo {
    pub(crate) async fn run(&self, command: RunCommand) -> std::result::Result<(), Vec<Failure>> {
        match self.show(command).await {
            Ok(()) | Err(Ended::ClosedPipe) => Ok(()),
            Err(Ended::Failed(failures)) => Err(failures),
        }
    }

    async fn show(&self, command: RunCommand) -> Result<()> {
        let stop = signals::shutdown(signals::SHUTTING_DOWN)?;
        let (data, files, mut hangups) = (Data::read()?, Files::create()?, signals::hangups()?);
        let token = random::<32>()?;
        let token_file = files.write(files::TOKEN, &format!("{token}\n"))?;
        files.write(files::BOOTSTRAP, &data::bootstrap(&[]))?;
        let (private_key, public_key) = signing::generate()?;
        files.write(files::SIGNING_KEY, &private_key)?;
        files.write("signing.pub", &public_key)?;
        files.write("web-1.5.0.cdx.json", data::BILL_OF_WEB)?;
        let web = data.image("web")?;
        let mut gated = Vec::new();
        let key = signing::SigningKey::read(&files.path(files::SIGNING_KEY))?;
        for build in &data::BUILDS {
            let statement = data::provenance(web, build).to_string();
            let envelope = key.sign_envelope(STATEMENT, statement.as_bytes())?;
            files.write(&format!("web-{}.intoto.json", build.version), &serde_json::to_string(&envelope)?)?;
            gated.push(web.digest(build.version));
        }
        let [ci, laptop] = data::BUILDS.map(|build| web.digest(build.version).to_string());
        pods::write(&data, &files)?;
        for Attest { image, version, tests, failures, .. } in &data.results {
            files.write(&format!("{image}-{version}.xml"), &junit_xml(image, *tests, failures))?;
        }
        let receiver = Receiver::bind(&files).await?;
        let clock = Clock::default();
        let (reload, mut reloads) = mpsc::channel(1);
        let targets = Arc::clone(&receiver.targets);
        let mut history = self.keep.then(|| History::start(&data, &files, clock.clone(), reload, targets));

        let service = Service::start(setup(&files, clock)?).await.map_err(Failure::from)?;
        let (address, admin) = (service.address(), service.admin_address());
        let link = service.invite(&token, LINK_LIFETIME)?;
        let runner = Runner::new(command, address, &token_file)?;
        let serving = tokio::spawn(service.run(stop.clone(), async move || reloads.recv().await));
        // The receiver outlives the service, which sends notifications until it has shut down.
        let stop_receiver = CancellationToken::new();
        let (receiving, notifications) = receiver.serve(stop_receiver.clone());
        let mut screen = Screen::stdout();
        let values = vec![
            ("program", std::env::args().next().unwrap_or_else(|| "supercargo".to_owned())),
            ("folder", files.folder().display().to_string()),
            ("token", screen::quoted(&token_file.display().to_string())),
            ("database", files.database()),
            ("ci_digest", ci),
            ("laptop_digest", laptop),
            ("base_url", format!("http://{address}")),
            ("admin", admin.to_string()),
            ("link", link),
            ("minutes", (LINK_LIFETIME.as_secs() / 60).to_string()),
            ("pid", std::process::id().to_string()),
        ];
        let story = async {
            let (screen, runner, history) = (&mut screen, &runner, history.as_mut());
            let mut story =
                Story { screen, runner, history, notifications, values, gated, shown: Vec::new() };
            story.play(story::STEPS).await?;
            if self.keep {
                story.play(story::HINTS).await?;
                story.show_notifications().await?;
            }
            Ok(())
        };
        let shown: Result<()> = tokio::select! {
            shown = story => shown,
            () = stop.cancelled() => Ok(()),
            _ = hangups.recv() => Ok(()), // The terminal was closed.
        };
        stop.cancel();
        serving.await??;
        stop_receiver.cancel();
        receiving.await?;
        files.remove()?;
        shown?;
        screen.line("", "")?;
        screen.paragraph("The service has stopped, and its folder is removed.")?;
        Ok(())
    }
}

fn setup(files: &Files, clock: Clock) -> Result<Setup> {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ok(Setup {
        listen: free_port,
        tls: None,
        admin_listen: free_port,
        database: files.database().parse()?,
        database_read: None,
        bootstrap: Some(files.path(files::BOOTSTRAP)),
        public_url: None,
        // The history passes hours within milliseconds, so failed deliveries are retried without a pause.
        limits: Limits {
            delivery: Delivery { max_pause: Duration::ZERO, ..Delivery::default() },
            ..Limits::default()
        },
        clock,
        bounds: Bounds::default(),
        timeouts: DatabaseTimeouts::default(),
        allowed_internal: vec![ALLOWED_INTERNAL],
        trusted_proxies: Vec::new(),
        signing_key: Some(files.path(files::SIGNING_KEY)),
    })
}
