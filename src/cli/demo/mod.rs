//! `supercargo demo`: shows the whole loop on one machine, without a cluster or an account.
//!
//! It starts the real service on a temporary database, and attests and reports to it over HTTP with the program's own
//! commands (`runner`). `story` plays the steps, and `history` replays the two days that `--keep` adds. `data` reads
//! the YAML that both are about, `pods` makes up pods, `receiver` receives notifications, `files` is the temporary
//! folder, and `screen` prints.

mod data;
mod files;
mod history;
mod pods;
mod receiver;
mod runner;
mod screen;
mod story;

use std::any::Any;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::process::listener::Bounds;
use crate::process::signals;
use crate::service::random::random;
use crate::service::{Clock, Delivery, Policy, Service, Setup};
use crate::store::Patience;

use self::data::{Data, Results, junit_xml};
use self::files::Files;
use self::history::History;
use self::receiver::Receiver;
use self::runner::Runner;
use self::screen::Screen;
use self::story::Story;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Demo {
    /// Stay up afterwards, until Ctrl-C or SIGTERM, so that each command it printed can be tried
    #[arg(long)]
    keep: bool,
}

const EXAMPLE: &str = "\
It listens on free ports of loopback only, and keeps everything in one temporary
folder, which it removes at the end. With --keep it first replays two days of
made-up history, and prints a link that signs in a browser once.

Example:
  Watch it, then try its commands in another terminal:
    supercargo demo --keep

Exit codes: see supercargo --help";

/// The organization of the bootstrap file.
const ORGANIZATION: &str = "acme";

/// The lifetime of the link that signs in.
const LINK_LIFETIME: Duration = Duration::from_mins(10);

/// The network of the receiver: this machine only.
const ALLOWED_INTERNAL: IpNet = IpNet::new_assert(IpAddr::V4(Ipv4Addr::LOCALHOST), 32);

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("failed to write \"{}\"", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("the demo's data has no {0}")]
    Missing(String),
    #[error("no signed notification arrived within {0:?}")]
    NoNotification(Duration),
    #[error("the service did not apply the bootstrap file within {0:?}")]
    NotReloaded(Duration),
}

/// Why the demo ended early.
enum Ended {
    /// The reader of standard output has seen enough, as `head` does.
    ClosedPipe,
    Failed(Vec<Failure>),
}

type Result<T> = std::result::Result<T, Ended>;

impl<E: Error + 'static> From<E> for Ended {
    fn from(error: E) -> Self {
        let io = (&error as &dyn Any).downcast_ref::<io::Error>();
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::BrokenPipe) => Self::ClosedPipe,
            _ => Failure::unexpected(error).into(),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(vec![failure])
    }
}

impl Demo {
    pub(super) async fn run(&self) -> std::result::Result<(), Vec<Failure>> {
        match self.show().await {
            Ok(()) | Err(Ended::ClosedPipe) => Ok(()),
            Err(Ended::Failed(failures)) => Err(failures),
        }
    }

    async fn show(&self) -> Result<()> {
        let stop = signals::shutdown(signals::FINISHING)?;
        let (data, files, mut hangups) = (Data::read()?, Files::create()?, signals::hangups()?);
        let token = random::<32>()?;
        let token_file = files.write(files::TOKEN, &format!("{token}\n"))?;
        files.write(files::BOOTSTRAP, &data::bootstrap(&[]))?;
        pods::write(&data, &files)?;
        for Results { image, version, tests, failures } in &data.results {
            files.write(&format!("{image}-{version}.xml"), &junit_xml(image, *tests, failures))?;
        }
        let receiver = Receiver::bind(&files).await?;
        let (clock, hand) = Clock::movable();
        let (reload, reloads) = mpsc::channel(1);
        let targets = Arc::clone(&receiver.targets);
        let mut history = self.keep.then(|| History::begin(&data, &files, hand, reload, targets));

        let service = Service::start(setup(&files, clock)?).await.map_err(Failure::from)?;
        let (address, admin) = (service.address(), service.admin_address());
        let link = service.invite(&token, LINK_LIFETIME)?;
        let runner = Runner::new(address, &token_file)?;
        let serving = tokio::spawn(service.run(stop.clone(), reloads));
        // The receiver outlives the service, which sends notifications until it has shut down.
        let stop_receiver = CancellationToken::new();
        let (receiving, notifications) = receiver.serve(stop_receiver.clone());
        let mut screen = Screen::stdout();
        let values = vec![
            ("program", std::env::args().next().unwrap_or_else(|| "supercargo".to_owned())),
            ("folder", files.folder().display().to_string()),
            ("token", screen::quoted(&token_file.display().to_string())),
            ("database", files.database()),
            ("base_url", format!("http://{address}")),
            ("admin", admin.to_string()),
            ("link", link),
            ("minutes", (LINK_LIFETIME.as_secs() / 60).to_string()),
            ("pid", std::process::id().to_string()),
        ];
        let story = async {
            let (screen, runner, history) = (&mut screen, &runner, history.as_mut());
            let mut story = Story { screen, runner, history, notifications, values, shown: Vec::new() };
            story.play(story::STEPS).await?;
            if self.keep {
                story.play(story::HINTS).await?;
                story.stay().await?;
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
        screen.say("The service has stopped, and its folder is gone.")?;
        if !self.keep {
            screen.say("To try the commands, run `supercargo demo --keep`, which stays up.")?;
        }
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
        bootstrap: Some(files.path(files::BOOTSTRAP)),
        public_url: None,
        // The history passes hours within milliseconds, so a failing target gets no pause.
        policy: Policy {
            delivery: Delivery { rest: Duration::ZERO, ..Delivery::default() },
            ..Policy::default()
        },
        clock,
        bounds: Bounds::default(),
        patience: Patience::default(),
        allowed_internal: vec![ALLOWED_INTERNAL],
    })
}
