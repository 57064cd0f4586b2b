//! `supercargo demo`: the whole loop on one machine, without a cluster or an account.
//!
//! It starts the real service on a temporary database, attests and reports to it over HTTP through the
//! agent's own code, and shows what the service then says. `steps` tells the story, `sample` is what it
//! is about, `files` is where it lies, and `screen` and `table` are how it looks.

mod files;
mod sample;
mod screen;
mod steps;
mod table;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;

use super::{Failure, ServiceError};
use crate::agent::once;
use crate::api::{self, BaseUrl, PlainHttp, TokenSource};
use crate::domain::model::InvalidName;
use crate::process::listener::Bounds;
use crate::process::signals;
use crate::service::{Policy, Service, Setup};
use crate::store::{InvalidUrl, Patience};

use self::files::Files;
use self::screen::Screen;
use self::steps::{Addresses, Story};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Demo {
    /// Stay up afterwards, until Ctrl-C or SIGTERM, so that each command it printed can be tried
    #[arg(long)]
    keep: bool,
}

const EXAMPLE: &str = "\
It listens on loopback alone, on ports that are free, and keeps everything in one temporary folder,
which it removes at the end. The options of the compliance service do not matter to it.

Example:
  Watch it, then try its commands in another terminal:
    supercargo demo --keep

Exit codes: see supercargo --help";

/// The organization that everything belongs to.
const ORGANIZATION: &str = "acme";

/// A demo that cannot be given.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the demo's folder cannot be made")]
    Folder(#[source] io::Error),
    #[error("the demo's folder cannot be removed")]
    Left(#[source] io::Error),
    #[error("the demo's file \"{}\" cannot be written", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("no random token can be made: {0}")]
    Random(getrandom::Error),
    #[error("the demo's pods lack {0}")]
    Sample(&'static str),
    #[error("the demo cannot be shown")]
    Output(#[source] io::Error),
    #[error("signals cannot be received")]
    Signals(#[source] io::Error),
    #[error("the service ended on its own")]
    Service(#[source] tokio::task::JoinError),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Database(#[from] InvalidUrl),
    #[error(transparent)]
    Client(#[from] ServiceError),
}

/// Why the story ended before its end.
enum Ended {
    /// Nobody reads on: `| head -1` has seen enough.
    Unread,
    /// Something failed.
    Failed(Vec<Failure>),
}

impl Demo {
    pub(super) async fn run(&self) -> Result<(), Vec<Failure>> {
        match self.show().await {
            Ok(()) | Err(Ended::Unread) => Ok(()),
            Err(Ended::Failed(failures)) => Err(failures),
        }
    }

    async fn show(&self) -> Result<(), Ended> {
        let stop = signals::shutdown(signals::FINISHING).map_err(DemoError::Signals)?;
        let files = Files::write()?;
        let service = Service::start(setup(&files)?).await.map_err(Failure::from)?;
        let addresses = Addresses { service: service.address(), admin: service.admin_address() };
        let client = client(&files, addresses.service)?;
        let serving = tokio::spawn(service.run(stop.clone(), ()));

        let mut screen = Screen::stdout();
        let story = async {
            let mut story = Story::new(&mut screen, client, &files, addresses);
            story.tell().await?;
            if self.keep {
                story.stay()?;
                stop.cancelled().await;
            }
            Ok(())
        };
        let told: Result<(), Ended> = tokio::select! {
            told = story => told,
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        serving.await.map_err(DemoError::Service)?.map_err(Failure::unexpected)?;
        files.remove()?;
        told?;
        Ok(screen.farewell(self.keep)?)
    }
}

fn setup(files: &Files) -> Result<Setup, DemoError> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ok(Setup {
        listen: free,
        tls: None,
        admin_listen: free,
        database: files.database().parse()?,
        bootstrap: Some(files.bootstrap()),
        public_url: None,
        policy: Policy::default(),
        bounds: Bounds::default(),
        patience: Patience::default(),
        // Where the demo listens itself for what is sent.
        allowed_internal: vec![IpNet::from(IpAddr::from(Ipv4Addr::LOCALHOST))],
    })
}

fn client(files: &Files, address: SocketAddr) -> Result<api::Client, DemoError> {
    let base_url = BaseUrl::parse(&format!("http://{address}"), PlainHttp::LoopbackOnly);
    let setup = api::Setup {
        base_url: base_url.map_err(ServiceError::from)?,
        organization: ORGANIZATION.parse()?,
        token: TokenSource::File(files.token()),
        ca_file: None,
    };
    Ok(api::Client::new(setup, api::Patience::default()).map_err(ServiceError::from)?)
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => DemoError::Output(error).into(),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(vec![failure])
    }
}

impl From<DemoError> for Ended {
    fn from(error: DemoError) -> Self {
        Failure::unexpected(error).into()
    }
}

impl From<InvalidName> for Ended {
    fn from(error: InvalidName) -> Self {
        DemoError::from(error).into()
    }
}

impl From<api::Error> for Ended {
    fn from(error: api::Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<Vec<once::Error>> for Ended {
    fn from(errors: Vec<once::Error>) -> Self {
        Self::Failed(errors.into_iter().map(Into::into).collect())
    }
}
