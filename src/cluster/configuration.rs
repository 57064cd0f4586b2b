//! Which API server, and as whom: from a kubeconfig, or a pod's service account.
//!
//! kube reads the configuration and does authentication, TLS and token refresh. What does not suit is
//! changed here: it retries 15 times unseen, and takes the proxy's own address for the host that
//! `NO_PROXY` speaks of. Its errors quote what they could not read, credentials included, so they are
//! said in other words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Client;
use kube::client::{AuthError, RustlsTlsError};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::read_pause::ReadPause;
use super::secrets::Secrets;
use super::token_file::TokenFile;
use super::transport;
use crate::domain::escape::Visible;
use crate::process::error_causes;
use crate::process::proxy::is_turned_off;

/// Which cluster, as the command line has it.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `--kubeconfig`. Without it, `KUBECONFIG`, then `~/.kube/config`, then the service account of
    /// the pod.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`. Without it, the kubeconfig's current one.
    pub context: Option<String>,
}

/// The configuration does not lead to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration at all.
    #[error(
        "no cluster is configured: there is neither --kubeconfig, nor KUBECONFIG, nor ~/.kube/config, nor a pod's service account; --pods-from does without one"
    )]
    NoCluster,
    /// A context was named where there is no kubeconfig.
    #[error("--context \"{0}\" needs a kubeconfig, and there is none")]
    NoKubeconfig(String),
    /// The kubeconfig cannot be used. Its content is not shown, since it holds credentials.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    /// The proxy's URL cannot be used.
    #[error(
        "the proxy for the cluster, from the kubeconfig's proxy-url, HTTPS_PROXY or ALL_PROXY, is no URL that begins with http, https or socks5"
    )]
    Proxy,
    /// kube cannot make a client of it.
    #[error("the cluster's configuration cannot be used")]
    Client(#[source] Box<kube::Error>),
    /// There are no credentials, as where a credential plugin fails.
    #[error("no credentials for the cluster could be had: {0}")]
    Credentials(String),
    /// It took too long, as where a credential plugin hangs.
    #[error("the cluster's configuration and credentials could not be had in {:.1} s", .0.as_secs_f32())]
    TooSlow(Duration),
}

/// A client, and what is needed beside it.
pub(super) struct Configured {
    pub(super) client: Client,
    pub(super) url: Uri,
    pub(super) token_file: Option<TokenFile>,
    pub(super) secrets: Secrets,
    /// Whether a credential plugin may be run before any request.
    pub(super) has_plugin: bool,
}

/// Makes a client of the configuration, and says where it leads. A credential plugin is run, and no
/// connection is made yet.
pub(super) async fn client(
    access: Access,
    read_pause: ReadPause,
    within: Duration,
) -> Result<Configured, ConnectError> {
    // kube waits for the plugin without yielding, so it does that on a thread of its own.
    let runtime = Handle::current();
    let configured = spawn_blocking(move || runtime.block_on(configured(&access, read_pause)));
    match timeout(within, configured).await {
        Ok(Ok(done)) => done,
        // kube's way to say that a credential plugin printed a token with a line break.
        Ok(Err(_)) => Err(ConnectError::Credentials(
            "kube cannot use them; is there a line break in a token?".to_owned(),
        )),
        Err(_) => Err(ConnectError::TooSlow(within)),
    }
}

async fn configured(access: &Access, read_pause: ReadPause) -> Result<Configured, ConnectError> {
    let (mut config, own_proxy) = match kubeconfig(access)? {
        Some(kubeconfig) => {
            let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
            let own_proxy = proxy_of_kubeconfig(&kubeconfig, access.context.as_deref());
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            (config.map_err(|e| unusable(&e))?, own_proxy)
        }
        None => match &access.context {
            Some(context) => return Err(ConnectError::NoKubeconfig(context.clone())),
            None => (kube::Config::incluster().map_err(|_| ConnectError::NoCluster)?, None),
        },
    };
    check(&mut config)?;
    config.default_retry = false;
    config.disable_compression = true;
    let proxy = own_proxy.or_else(|| proxy_of_environment(&config.cluster_url));
    config.proxy_url = proxy.as_deref().map(parse_proxy).transpose()?;
    let url = config.cluster_url.clone();
    let token_file = match (&config.auth_info.token, config.auth_info.token_file.take()) {
        (None, Some(path)) => Some(TokenFile::open(path.into()).map_err(ConnectError::Kubeconfig)?),
        _ => None,
    };
    let has_plugin = config.auth_info.exec.is_some();
    let secrets = Secrets::of(&config.auth_info);
    let client = transport::client(&config, read_pause).map_err(|error| match error {
        kube::Error::RustlsTls(error) => {
            ConnectError::Kubeconfig(Identity::of(&config.auth_info).wrong(&error))
        }
        kube::Error::Auth(error) => ConnectError::Credentials(without_secrets(&error)),
        kube::Error::InferKubeconfig(error) => unusable(&error),
        other => ConnectError::Client(Box::new(other)),
    })?;
    Ok(Configured { client, url, token_file, secrets, has_plugin })
}

/// The keys of a kubeconfig that hold a user's certificate and its key, with the files that these name.
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn of(user: &kube::config::AuthInfo) -> Self {
        let named = |key: &str, file: &Option<String>| match file {
            Some(file) => format!("its {key} {}", quoted(Path::new(file))),
            None => format!("its {key}-data"),
        };
        Self {
            certificate: named("client-certificate", &user.client_certificate),
            key: named("client-key", &user.client_key),
        }
    }

    /// What is wrong with them, or with the authorities.
    fn wrong(&self, error: &RustlsTlsError) -> String {
        let Self { certificate, key } = self;
        match error {
            RustlsTlsError::MissingCertificate => format!("{certificate} holds no certificate in PEM"),
            RustlsTlsError::MissingPrivateKey | RustlsTlsError::UnknownPrivateKeyFormat => {
                format!("{key} holds no private key in PEM, without a passphrase (PKCS #8, PKCS #1 or SEC 1)")
            }
            RustlsTlsError::InvalidIdentityPem(_) => format!("{certificate}, or {key}, is no PEM"),
            RustlsTlsError::InvalidPrivateKey(_) => {
                format!("{certificate} cannot be read as X.509, or {key} is not the key of it")
            }
            RustlsTlsError::AddRootCertificate(_) => {
                "an authority of its certificate-authority, or of this system, cannot be read as X.509"
                    .to_owned()
            }
            other => error_causes::said_once(other).join(": "),
        }
    }
}

/// What is wrong with the authorities of a cluster.
const NO_AUTHORITY: &str =
    "its certificate-authority, or certificate-authority-data, was expected to be certificates in PEM";

/// What kube takes for granted, and panics without: a URL with a scheme, a token that a header can
/// carry.
fn check(config: &mut kube::Config) -> Result<(), ConnectError> {
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Kubeconfig("its server is no URL that begins with https or http".into()));
    }
    // Without any, those of this system would be trusted.
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConnectError::Kubeconfig(NO_AUTHORITY.into()));
    }
    if let Some(token) = &config.auth_info.token {
        let trimmed = token.expose_secret().trim();
        if !trimmed.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ConnectError::Kubeconfig("its token holds what a header cannot carry".into()));
        }
        // As in client-go, an empty token is none.
        config.auth_info.token = (!trimmed.is_empty()).then(|| SecretString::from(trimmed));
    }
    Ok(())
}

/// What is wrong with a kubeconfig, without the lines that kube would show of it.
fn unusable(error: &KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig(match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(place) => {
                format!("line {}, column {} is not what a kubeconfig has there", place.line(), place.column())
            }
            None => "it is no YAML that a kubeconfig could be".to_owned(),
        },
        KubeconfigError::ReadConfig(error, path) => {
            format!("{} cannot be read: {error}", quoted(path))
        }
        KubeconfigError::ParseNoProxy(_) => {
            "the variable NO_PROXY is no list of hosts (has it an empty entry?)".to_owned()
        }
        KubeconfigError::ParseCertificates(_) => NO_AUTHORITY.to_owned(),
        KubeconfigError::ParseProxyUrl(_) => return ConnectError::Proxy,
        KubeconfigError::LoadContext(name) => format!("it has no context \"{}\"", Visible(name)),
        KubeconfigError::CurrentContextNotSet => "it has no current-context; give --context".to_owned(),
        other => error_causes::said_once(other).join(": "),
    })
}

/// What is wrong with the credentials, without what a plugin wrote or was given: there may be a
/// token in it.
pub(super) fn without_secrets(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed, {}", out.status),
        AuthError::AuthExecParse(_) => "what the credential plugin printed is no ExecCredential".to_owned(),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        other => error_causes::said_once(other).join(": "),
    }
}

/// The kubeconfig, in the order that client-go looks for it.
fn kubeconfig(access: &Access) -> Result<Option<Kubeconfig>, ConnectError> {
    if let Some(path) = &access.kubeconfig {
        return not_empty(read(path)?, &[path]).map(Some);
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|p| !p.as_os_str().is_empty()).collect();
    if let Some(first) = listed.first() {
        // As kubectl does, files of a list that are not there are passed over, as long as one is.
        let there: Vec<_> = listed.iter().filter(|path| path.exists()).collect();
        let listed = if there.is_empty() { vec![first] } else { there };
        let merged = listed.iter().try_fold(Kubeconfig::default(), |merged, path| {
            merged.merge(read(path)?).map_err(|e| unusable(&e))
        });
        return not_empty(merged?, &listed).map(Some);
    }
    match std::env::home_dir().map(|home| home.join(".kube/config")) {
        Some(path) if path.exists() => not_empty(read(&path)?, &[&path]).map(Some),
        _ => Ok(None),
    }
}

/// kubectl writes no context as an empty one.
fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    let mut kubeconfig = Kubeconfig::read_from(path).map_err(|error| match (&error, unusable(&error)) {
        (KubeconfigError::Parse(_), ConnectError::Kubeconfig(said)) => {
            ConnectError::Kubeconfig(format!("{}: {said}", quoted(path)))
        }
        (_, other) => other,
    })?;
    kubeconfig.current_context = kubeconfig.current_context.filter(|context| !context.is_empty());
    Ok(kubeconfig)
}

/// What names no cluster lacks all else, too, and that is all that would be said of it.
fn not_empty(kubeconfig: Kubeconfig, files: &[&PathBuf]) -> Result<Kubeconfig, ConnectError> {
    if !kubeconfig.clusters.is_empty() {
        return Ok(kubeconfig);
    }
    let files: Vec<_> = files.iter().map(|file| quoted(file)).collect();
    Err(ConnectError::Kubeconfig(format!("{} names no cluster; is it empty?", files.join(", "))))
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", Visible(&path.display().to_string()))
}

/// The proxy that the kubeconfig itself gives to the cluster of this context.
fn proxy_of_kubeconfig(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|c| Some(c.name.as_str()) == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|c| c.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy that the environment has for this host. Plain http goes without: what is not encrypted
/// is not handed to a third party.
fn proxy_of_environment(cluster: &Uri) -> Option<String> {
    if cluster.scheme_str() != Some("https") || is_turned_off() {
        return None;
    }
    // The matcher decides, but parts the credentials from the address, and kube wants them in it.
    Matcher::from_env().intercept(cluster)?;
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
}

/// Its errors never show the address, which may hold a password.
fn parse_proxy(url: &str) -> Result<Uri, ConnectError> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().map_err(|_| ConnectError::Proxy)?;
    match uri.scheme_str() {
        Some("http" | "https" | "socks5") => Ok(uri),
        _ => Err(ConnectError::Proxy),
    }
}
