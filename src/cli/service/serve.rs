//! `supercargo serve`: validates the options and runs the service until a signal.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use url::Url;

use crate::cli::exit::{Exit, Failure};
use crate::cli::values::{address, integer, non_empty};
use model::escape::quoted_url;
use runtime::listener::Bounds;
use runtime::machine;
use runtime::signals;
use runtime::tls::Files;
use service::bootstrap::BootstrapError;
use service::{Clock, Limits, Service, Setup, StartError};
use store::{DatabaseTimeouts, DatabaseUrl, InvalidUrl};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Listen address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", env = "SUPERCARGO_LISTEN", value_parser = address)]
    listen: SocketAddr,
    /// TLS certificate chain (PEM); reloaded when it changes and on SIGHUP
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_TLS_CERT")]
    tls_cert: Option<OsString>,
    /// TLS private key (PEM)
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_TLS_KEY")]
    tls_key: Option<OsString>,
    /// Listen address for /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", env = "SUPERCARGO_ADMIN_LISTEN", value_parser = address)]
    admin_listen: SocketAddr,
    #[arg(long, value_name = "URL", help = DATABASE)]
    database: Option<String>,
    /// File with the password of PostgreSQL, instead of in the URL; reread when it changes
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_DATABASE_PASSWORD_FILE")]
    database_password_file: Option<OsString>,
    #[arg(long, value_name = "URL", help = DATABASE_READ)]
    database_read: Option<String>,
    /// File with organizations, tokens, flows, environments and actions; reloaded on SIGHUP
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_BOOTSTRAP")]
    bootstrap: Option<OsString>,
    /// Base URL for links in responses (default: the listen address)
    #[arg(long, value_name = "URL", env = "SUPERCARGO_PUBLIC_URL")]
    public_url: Option<String>,
    /// Internal networks to connect to, such as 10.1.0.0/16, separated by commas; others are denied
    #[arg(long, value_name = "CIDR", value_delimiter = ',', env = "SUPERCARGO_ALLOW_INTERNAL", value_parser = network)]
    allow_internal: Vec<IpNet>,
    /// Networks of proxies whose Forwarded and X-Forwarded-For name the client, such as 10.1.0.0/16, separated by commas
    #[arg(long, value_name = "CIDR", value_delimiter = ',', env = "SUPERCARGO_TRUSTED_PROXIES", value_parser = network)]
    trusted_proxies: Vec<IpNet>,
    /// Key (PEM, PKCS #8, Ed25519 or ECDSA P-256) that signs checkpoints and statements
    #[arg(long, value_name = "FILE", env = "SUPERCARGO_SIGNING_KEY")]
    signing_key: Option<OsString>,
    /// Maximum size of a report, at most 64 MiB
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().report, value_parser = integer(1..=Limits::default().report))]
    max_report: u64,
    /// Maximum size of an attachment, at most 10 MiB
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().attachment, value_parser = integer(1..=Limits::default().attachment))]
    max_attachment: u64,
    /// Requests without a valid token per client address and minute; clients of a proxy share its address, unless it is
    /// one of --trusted-proxies
    #[arg(long, value_name = "N", default_value_t = Limits::default().invalid_tokens, value_parser = integer(1..=u32::MAX))]
    max_invalid_tokens: u32,
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| "expected a network such as 10.1.0.0/16, or an address")
}

const DATABASE: &str = "Database URL: sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE \
    (default: SUPERCARGO_DATABASE, which may contain a password, or sqlite:supercargo.db)";
const DATABASE_READ: &str =
    "URL of a PostgreSQL replica, from which pages are read (default: SUPERCARGO_DATABASE_READ)";

const EXAMPLES: &str = "\
Examples:
  Use the SQLite database supercargo.db and a new admin token:
    openssl rand -hex 32 >examples/admin.token
    supercargo serve --bootstrap examples/bootstrap.yaml
  Use PostgreSQL, without the password in the process list:
    export SUPERCARGO_DATABASE=postgres://USER:PASSWORD@HOST/DB
    supercargo serve --bootstrap FILE --tls-cert tls.crt --tls-key tls.key --listen 0.0.0.0:8443

Exit codes: see supercargo --help";

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{option} contains a password, which the process list shows: set the URL in {variable}")]
    PasswordInArgument { option: &'static str, variable: &'static str },
    #[error(transparent)]
    Database(#[from] InvalidUrl),
    #[error("--database-read (SUPERCARGO_DATABASE_READ) requires PostgreSQL: SQLite has no replicas")]
    ReplicaOfSqlite,
    #[error(
        "invalid public URL (--public-url, SUPERCARGO_PUBLIC_URL): expected an http or https URL without credentials, query and fragment, got {0}"
    )]
    PublicUrl(String),
    #[error("{present} requires {missing}")]
    IncompleteTls { present: &'static str, missing: &'static str },
    #[error("failed to install signal handlers")]
    Signals(#[source] std::io::Error),
}

impl Serve {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let setup = self.setup().map_err(Failure::usage)?;
        let signals = |error| Failure::unexpected(ServeError::Signals(error));
        let shutdown = signals::shutdown(signals::SHUTTING_DOWN).map_err(signals)?;
        let mut hangups = signals::hangups().map_err(signals)?;
        let database = setup.database.to_string();
        let service = tokio::select! {
            service = Service::start(setup) => service?,
            // The start may wait for the database, or for another replica's migration.
            () = shutdown.cancelled() => return Ok(()),
        };
        let (address, admin) = (service.address(), service.admin_address());
        let scheme = if service.is_tls() { "https" } else { "http" };
        let pages = non_empty(self.public_url.as_ref())
            .map_or_else(|| format!("{scheme}://{address}"), |url| url.trim_end_matches('/').to_owned());
        tracing::info!(
            %address, %admin, database,
            "serving on {scheme}://{address}, pages on {pages}/ui, probes and metrics on http://{admin}; database: {database}"
        );
        if !service.is_tls() && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(
                "serving plain HTTP on {address}: tokens are not encrypted in transit unless a proxy terminates TLS; set --tls-cert and --tls-key"
            );
        }
        if address.ip().is_unspecified() && non_empty(self.public_url.as_ref()).is_none() {
            tracing::warn!(
                "--public-url is not set: links in responses point to {scheme}://{address} and will not be reachable"
            );
        }
        service.run(shutdown, async move || hangups.recv().await).await.map_err(Failure::unexpected)?;
        tracing::info!("stopped");
        Ok(())
    }

    fn setup(&self) -> Result<Setup, ServeError> {
        let password_file = non_empty(self.database_password_file.as_ref()).map(PathBuf::from);
        let database = database_url(self.database.as_ref(), "--database", "SUPERCARGO_DATABASE")?;
        let database = database.map_or_else(|| "sqlite:supercargo.db".parse(), Ok)?;
        let database = database.with_password_file(password_file.clone())?;
        let replica =
            database_url(self.database_read.as_ref(), "--database-read", "SUPERCARGO_DATABASE_READ")?;
        let replica = replica.map(|replica| replica.with_password_file(password_file)).transpose()?;
        let is_sqlite = |url: &DatabaseUrl| matches!(url, DatabaseUrl::Sqlite { .. });
        if replica.as_ref().is_some_and(|replica| is_sqlite(replica) || is_sqlite(&database)) {
            return Err(ServeError::ReplicaOfSqlite);
        }
        let limits = Limits {
            report: self.max_report,
            attachment: self.max_attachment,
            invalid_tokens: self.max_invalid_tokens,
            ..Limits::default()
        };
        Ok(Setup {
            listen: self.listen,
            tls: self.tls()?,
            admin_listen: self.admin_listen,
            database,
            database_read: replica,
            bootstrap: non_empty(self.bootstrap.as_ref()).map(PathBuf::from),
            public_url: non_empty(self.public_url.as_ref()).map(|url| public_url(url)).transpose()?,
            limits: machine::memory_limit().map_or(limits, |memory| limits.within(memory)),
            clock: Clock::default(),
            bounds: Bounds::default().within_file_limit(),
            timeouts: DatabaseTimeouts::default(),
            signing_key: non_empty(self.signing_key.as_ref()).map(PathBuf::from),
            allowed_internal: self.allow_internal.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
        })
    }

    /// Paths of the certificate and its key. clap's `requires` would count an empty variable as set.
    fn tls(&self) -> Result<Option<Files>, ServeError> {
        let (certificate, key) = ("--tls-cert (SUPERCARGO_TLS_CERT)", "--tls-key (SUPERCARGO_TLS_KEY)");
        match (non_empty(self.tls_cert.as_ref()), non_empty(self.tls_key.as_ref())) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(Files { certificate: certificate.into(), key: key.into() }))
            }
            (Some(_), None) => Err(ServeError::IncompleteTls { present: certificate, missing: key }),
            (None, Some(_)) => Err(ServeError::IncompleteTls { present: key, missing: certificate }),
        }
    }
}

/// The URL in an option, or in its variable, which may contain a password.
fn database_url(
    argument: Option<&String>,
    option: &'static str,
    variable: &'static str,
) -> Result<Option<DatabaseUrl>, ServeError> {
    if argument.is_some_and(|url| DatabaseUrl::contains_password(url)) {
        return Err(ServeError::PasswordInArgument { option, variable });
    }
    let value = std::env::var(variable).ok();
    let url = non_empty(argument).or(non_empty(value.as_ref()));
    Ok(url.map(|url| url.parse::<DatabaseUrl>()).transpose()?)
}

fn public_url(text: &str) -> Result<Url, ServeError> {
    let invalid = || ServeError::PublicUrl(quoted_url(text));
    let url: Url = text.parse().map_err(|_| invalid())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain { Ok(url) } else { Err(invalid()) }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let exit = match &error {
            StartError::Store(_, error) | StartError::Bootstrap(BootstrapError::Store(error)) => {
                match error {
                    store::Error::Unavailable(_)
                    | store::Error::Busy(_)
                    | store::Error::InDoubt(_)
                    | store::Error::Migrating(_) => Exit::Unreachable,
                    store::Error::Newer(_)
                    | store::Error::Migrate(_)
                    | store::Error::Pooler(_)
                    | store::Error::Password(..) => Exit::Usage,
                    store::Error::Failed(_)
                    | store::Error::PageTooLarge
                    | store::Error::Unreadable(_)
                    | store::Error::Serialize(_) => Exit::Unexpected,
                }
            }
            StartError::Listen(_)
            | StartError::Tls(_)
            | StartError::SigningKey(_)
            | StartError::SigningKeyTimedOut(_)
            | StartError::Empty
            | StartError::Bootstrap(
                BootstrapError::Unreadable(..)
                | BootstrapError::TooSlow(_)
                | BootstrapError::Empty(_)
                | BootstrapError::Invalid(..)
                | BootstrapError::Value { .. }
                | BootstrapError::Changed { .. }
                | BootstrapError::Outdated { .. }
                | BootstrapError::NumberConflict { .. },
            ) => Exit::Usage,
            StartError::Clock | StartError::Address(_) => Exit::Unexpected,
        };
        let hint = match &error {
            StartError::Empty => Some("set --bootstrap FILE; examples/bootstrap.yaml is an example"),
            StartError::Store(_, error) if error.is_disk_error() => Some("check whether its disk is full"),
            _ => None,
        };
        Self::new(error, hint.map(str::to_owned), exit)
    }
}
