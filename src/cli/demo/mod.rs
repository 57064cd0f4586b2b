//! `supercargo demo`: the whole loop on one machine, without a cluster or an account.
//!
//! It starts the real service on a temporary database, attests and reports to it over HTTP through the
//! agent's own code, and shows what the service then says and whom it tells. `past` is what lies behind it
//! where it stays up, `steps` and `judged` tell the story, `sample` is what it is about, `files` is where it lies, `receiver` is who is told, and `screen` and
//! `table` are how it looks.

mod files;
mod judged;
mod past;
mod receiver;
mod sample;
mod screen;
mod steps;
mod table;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Failure, ServiceError};
use crate::agent::once;
use crate::api::{self, BaseUrl, PlainHttp, TokenSource};
use crate::domain::model::InvalidName;
use crate::process::listener::{Bounds, ListenError};
use crate::process::signals;
use crate::service::{Clock, Delivery, Policy, Service, Setup};
use crate::store::{InvalidUrl, Patience};

use self::files::Files;
use self::past::Past;
use self::receiver::Webhook;
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
It listens on loopback alone, on ports that are free, and keeps everything in one
temporary folder, which it removes at the end. With --keep it first lives through
two days that are made up, and prints a link that signs a browser in once.

Example:
  Watch it, then try its commands in another terminal:
    supercargo demo --keep

Exit codes: see supercargo --help";

/// The organization that everything belongs to.
const ORGANIZATION: &str = "acme";

/// The environment that the cluster is.
const CLUSTER: &str = "demo";

/// The environment that has a policy.
const STOREFRONT: &str = "storefront";

/// The attestation that the policy requires.
const UNIT_TESTS: &str = "unit-tests";

/// How long the link that signs in does so.
const INVITED: Duration = Duration::from_mins(10);

/// The number of the action that tells what becomes of the storefront.
const ACTION: u64 = 1;

/// The network that the webhook is in: this machine alone.
const RECEIVERS: IpNet = IpNet::new_assert(IpAddr::V4(Ipv4Addr::LOCALHOST), 32);

/// A demo that cannot be given.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the demo's folder cannot be made")]
    Folder(#[source] io::Error),
    #[error("the demo's folder cannot be removed")]
    Left(#[source] io::Error),
    #[error("the demo's file \"{}\" cannot be written", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("no token and no secret can be made: {0}")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("the address that the demo's webhook listens on cannot be told")]
    Address(#[source] io::Error),
    #[error("no notification that is signed came to the demo's webhook within {0:?}")]
    Untold(Duration),
    #[error("the demo's webhook ended on its own")]
    Deaf(#[source] tokio::task::JoinError),
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
        let webhook = Webhook::open().await?;
        let (clock, hand) = Clock::movable();
        let (reload, reloads) = mpsc::channel(1);
        let past = self.keep.then(|| Past::begin(hand, reload)).transpose()?;
        let files = Files::write(&webhook, past.as_ref())?;
        let service = Service::start(setup(&files, clock)?).await.map_err(Failure::from)?;
        let addresses = Addresses { service: service.address(), admin: service.admin_address() };
        let link = service.invite(files.token_itself(), INVITED).map_err(DemoError::Random)?;
        let client = client(&files, addresses.service)?;
        let serving = tokio::spawn(service.run(stop.clone(), reloads));
        // What the service still sends while it ends is still heard.
        let deaf = CancellationToken::new();
        let beside = webhook.beside();
        let (hearing, inbox) = webhook.hear(deaf.clone());

        let mut screen = Screen::stdout();
        let story = async {
            let mut story = Story::new(&mut screen, client, &files, addresses, (inbox, beside));
            story.tell(past).await?;
            if self.keep {
                story.stay(&link).await?;
            }
            Ok(())
        };
        let told: Result<(), Ended> = tokio::select! {
            told = story => told,
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        serving.await.map_err(DemoError::Service)?.map_err(Failure::unexpected)?;
        deaf.cancel();
        hearing.await.map_err(DemoError::Deaf)?;
        files.remove()?;
        told?;
        Ok(screen.farewell(self.keep)?)
    }
}

fn setup(files: &Files, clock: Clock) -> Result<Setup, DemoError> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ok(Setup {
        listen: free,
        tls: None,
        admin_listen: free,
        database: files.database().parse()?,
        bootstrap: Some(files.bootstrap()),
        public_url: None,
        // In its past hours go by within milliseconds: what a target is spared after a failure is no time at all.
        policy: Policy {
            delivery: Delivery { rest: Duration::ZERO, ..Delivery::default() },
            ..Policy::default()
        },
        clock,
        bounds: Bounds::default(),
        patience: Patience::default(),
        // Where the demo listens itself for what is sent.
        allowed_internal: vec![RECEIVERS],
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
