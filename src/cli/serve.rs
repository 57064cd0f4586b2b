//! `supercargo serve`.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use ipnet::IpNet;
use url::Url;

use super::{Exit, Failure, address, given, whole};
use crate::domain::escape::Visible;
use crate::process::listener::Bounds;
use crate::process::machine;
use crate::process::signals;
use crate::process::tls::Files;
use crate::service::bootstrap::LoadError;
use crate::service::{Clock, Policy, Service, Setup, StartError};
use crate::store::{self, DatabaseUrl, InvalidUrl, Patience};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    /// Address to take requests on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", env = "SUPERCARGO_LISTEN", value_parser = address)]
    listen: SocketAddr,
    /// Certificate chain (PEM) to take requests over TLS with; read again when it changes, and on SIGHUP
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_TLS_CERT")]
    tls_cert: Option<OsString>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_TLS_KEY")]
    tls_key: Option<OsString>,
    /// Address for /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", env = "SUPERCARGO_ADMIN_LISTEN", value_parser = address)]
    admin_listen: SocketAddr,
    #[arg(long, value_name = "URL", help = DATABASE)]
    database: Option<String>,
    /// File with organizations, tokens, flows, environments and actions; read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_BOOTSTRAP")]
    bootstrap: Option<OsString>,
    /// Where clients reach the service, for the links in its answers; if absent, where it listens
    #[arg(long, value_name = "URL", env = "SUPERCARGO_PUBLIC_URL")]
    public_url: Option<String>,
    /// Internal networks that notifications may go to, as 10.1.0.0/16, several with commas; others and this
    /// machine are refused
    #[arg(long, value_name = "CIDR", value_delimiter = ',', env = "SUPERCARGO_ALLOW_INTERNAL")]
    allow_internal: Vec<Network>,
    /// Largest report, in bytes; 64 MiB at most
    #[arg(long, value_name = "BYTES", default_value_t = Policy::default().report, value_parser = whole(1..=Policy::default().report))]
    max_report: u64,
    /// Largest attachment of an attestation, in bytes; 10 MiB at most
    #[arg(long, value_name = "BYTES", default_value_t = Policy::default().attachment, value_parser = whole(1..=Policy::default().attachment))]
    max_attachment: u64,
    /// Requests without a valid token that an address may send within a minute before it has to wait; behind a
    /// proxy, all have the proxy's address
    #[arg(long, value_name = "N", default_value_t = Policy::default().wrong_tokens, value_parser = whole(1..=u32::MAX))]
    max_wrong_tokens: u32,
}

/// A network, or none: a variable that is empty is one that is not set.
#[derive(Debug, Clone, Copy)]
struct Network(Option<IpNet>);

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        match text.trim() {
            "" => Ok(Self(None)),
            text => text
                .parse()
                .or_else(|_| address())
                .map(|network| Self(Some(network)))
                .map_err(|_| "a network as 10.1.0.0/16, or an address, was expected"),
        }
    }
}

const DATABASE: &str = "Where evidence is kept: sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE; \
    if absent, the variable SUPERCARGO_DATABASE, which may hold a password, or sqlite:supercargo.db";

const EXAMPLES: &str = "\
Examples:
  Keep evidence in supercargo.db, with a token of your own:
    openssl rand -hex 32 >examples/admin.token
    supercargo serve --bootstrap examples/bootstrap.yaml
  Keep it in PostgreSQL, without the password in the process list:
    export SUPERCARGO_DATABASE=postgres://USER:PASSWORD@HOST/DB
    supercargo serve --bootstrap FILE --tls-cert tls.crt --tls-key tls.key --listen 0.0.0.0:8443

Exit codes: see supercargo --help";

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(
        "--database holds a password, which shows in the process list: give the URL in SUPERCARGO_DATABASE"
    )]
    PasswordInArgument,
    #[error(transparent)]
    Database(#[from] InvalidUrl),
    #[error(
        "the public URL {0} (--public-url, SUPERCARGO_PUBLIC_URL) cannot be used: an http or https URL without credentials, query and fragment was expected"
    )]
    PublicUrl(String),
    #[error("there is {there} but no {missing}: TLS takes both")]
    HalfTls { there: &'static str, missing: &'static str },
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
}

impl Serve {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let setup = self.setup().map_err(Failure::usage)?;
        let signals = |error| Failure::unexpected(ServeError::Signals(error));
        let shutdown = signals::shutdown(signals::FINISHING).map_err(signals)?;
        let hangups = signals::hangups().map_err(signals)?;
        let database = setup.database.to_string();
        let service = tokio::select! {
            service = Service::start(setup) => service?,
            // While it waits for its database, or for another that migrates it.
            () = shutdown.cancelled() => return Ok(()),
        };
        let (address, admin) = (service.address(), service.admin_address());
        let scheme = if service.is_tls() { "https" } else { "http" };
        tracing::info!(
            %address, %admin, database,
            "serving on {scheme}://{address}, probes and metrics on http://{admin}; evidence is kept in {database}"
        );
        if !service.is_tls() && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(
                "tokens come to {address} in the clear, unless a proxy in front ends TLS: give --tls-cert and --tls-key"
            );
        }
        if address.ip().is_unspecified() && given(self.public_url.as_ref()).is_none() {
            tracing::warn!(
                "links in answers lead to {scheme}://{address}, which nobody can follow: give --public-url"
            );
        }
        service.run(shutdown, hangups).await.map_err(Failure::unexpected)?;
        tracing::info!("stopped");
        Ok(())
    }

    fn setup(&self) -> Result<Setup, ServeError> {
        if self.database.as_deref().is_some_and(DatabaseUrl::holds_password) {
            return Err(ServeError::PasswordInArgument);
        }
        let variable = std::env::var("SUPERCARGO_DATABASE").ok();
        let database = given(self.database.as_ref())
            .or(given(variable.as_ref()))
            .map_or("sqlite:supercargo.db", String::as_str);
        let policy = Policy {
            report: self.max_report,
            attachment: self.max_attachment,
            wrong_tokens: self.max_wrong_tokens,
            ..Policy::default()
        };
        Ok(Setup {
            listen: self.listen,
            tls: self.tls()?,
            admin_listen: self.admin_listen,
            database: database.parse()?,
            bootstrap: given(self.bootstrap.as_ref()).map(PathBuf::from),
            public_url: given(self.public_url.as_ref()).map(|url| public_url(url)).transpose()?,
            policy: machine::memory().map_or(policy, |memory| policy.within(memory)),
            clock: Clock::default(),
            bounds: Bounds::default().beside_other_files(),
            patience: Patience::default(),
            allowed_internal: self.allow_internal.iter().filter_map(|network| network.0).collect(),
        })
    }

    /// Where the certificate and its key are. That one needs the other is not left to clap, for which an empty
    /// variable is one that is set.
    fn tls(&self) -> Result<Option<Files>, ServeError> {
        let (certificate, key) = ("--tls-cert (SUPERCARGO_TLS_CERT)", "--tls-key (SUPERCARGO_TLS_KEY)");
        match (given(self.tls_cert.as_ref()), given(self.tls_key.as_ref())) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(Files { certificate: certificate.into(), key: key.into() }))
            }
            (Some(_), None) => Err(ServeError::HalfTls { there: certificate, missing: key }),
            (None, Some(_)) => Err(ServeError::HalfTls { there: key, missing: certificate }),
        }
    }
}

fn public_url(text: &str) -> Result<Url, ServeError> {
    let refused = || {
        let is_secret = text.contains(['@', '?']);
        ServeError::PublicUrl(if is_secret { "(not shown)".into() } else { format!("\"{}\"", Visible(text)) })
    };
    let url: Url = text.parse().map_err(|_| refused())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain { Ok(url) } else { Err(refused()) }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let exit = match &error {
            StartError::Listen(_)
            | StartError::Tls(_)
            | StartError::Empty
            | StartError::Bootstrap(LoadError::File(_) | LoadError::TooSlow(_)) => Exit::Usage,
            StartError::Store(_, error) | StartError::Bootstrap(LoadError::Store(error)) => match error {
                store::Error::Unavailable(_) | store::Error::InDoubt(_) => Exit::Unreachable,
                store::Error::Newer(_) | store::Error::Migrate(_) => Exit::Usage,
                store::Error::Failed(_) | store::Error::Unreadable(_) => Exit::Unexpected,
            },
            StartError::Address(_) => Exit::Unexpected,
        };
        let hint = match &error {
            StartError::Empty => Some("give --bootstrap FILE; examples/bootstrap.yaml is one"),
            StartError::Store(_, error) if error.is_of_the_disk() => Some("look whether its disk is full"),
            _ => None,
        };
        Self::new(error, hint.map(str::to_owned), exit)
    }
}
