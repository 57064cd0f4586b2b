//! Configures the client for an API server from a kubeconfig or a pod's service account.
//!
//! Called by `connect`. kube handles authentication, TLS and token refresh. Its 15 hidden retries are disabled,
//! and `NO_PROXY` is applied here, because kube compares it with the proxy's address. Errors of kube may quote
//! credentials, so they are described without their texts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
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

use super::insecure::{Insecure, OnInsecure, insecure};
use super::read_pause::ReadPause;
use super::secrets::Secrets;
use super::transport;
use model::escape::Escaped;
use runtime::error_causes;
use runtime::own_variables::own_variables;
use runtime::proxy::is_turned_off;
use runtime::token_file::TokenFile;

/// Selection of the cluster by the command line.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `--kubeconfig`. Without it, `KUBECONFIG`, then `~/.kube/config`, then the service account of
    /// the pod.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`. Without it, the kubeconfig's current one.
    pub context: Option<String>,
    pub on_insecure: OnInsecure,
}

/// The configuration of the cluster is missing or invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "no cluster is configured: found neither --kubeconfig, KUBECONFIG, ~/.kube/config nor a pod's service account; --pods-from works without a cluster"
    )]
    NoCluster,
    /// `--context` without a kubeconfig.
    #[error("--context \"{0}\" requires a kubeconfig, and none was found")]
    NoKubeconfig(String),
    /// The kubeconfig is invalid. The message does not quote it, because it contains credentials.
    #[error("invalid kubeconfig: {0}")]
    Kubeconfig(String),
    /// The kubeconfig has an insecure connection, and they are rejected.
    #[error("insecure kubeconfig (--strict)")]
    Insecure(#[source] Insecure),
    /// The URL of the proxy is invalid. The message does not quote it, because it may contain credentials.
    #[error(
        "invalid proxy URL for the cluster (proxy-url of the kubeconfig, HTTPS_PROXY or ALL_PROXY): expected an http, https or socks5 URL"
    )]
    Proxy,
    #[error("failed to configure the client for the cluster")]
    Client(#[source] Box<kube::Error>),
    /// No credentials, such as after a failure of a credential plugin.
    #[error("no credentials for the cluster: {0}")]
    Credentials(String),
    /// Timeout, such as for a credential plugin that hangs.
    #[error("reading the configuration and credentials of the cluster timed out after {:.1} s", .0.as_secs_f32())]
    TimedOut(Duration),
}

pub(super) struct ConfiguredClient {
    pub(super) client: Client,
    pub(super) url: Uri,
    pub(super) token_file: Option<Arc<TokenFile>>,
    pub(super) secrets: Secrets,
    /// A credential plugin may run before any request.
    pub(super) has_plugin: bool,
}

/// Builds a client. Runs a credential plugin and opens no connection.
pub(super) async fn client(
    access: Access,
    read_pause: ReadPause,
    within: Duration,
) -> Result<ConfiguredClient, ConnectError> {
    // kube blocks the thread while the plugin runs.
    let runtime = Handle::current();
    let configured = spawn_blocking(move || runtime.block_on(configure(&access, read_pause)));
    match timeout(within, configured).await {
        Ok(Ok(done)) => done,
        // kube panics if a credential plugin prints a token with a line break.
        Ok(Err(_)) => Err(ConnectError::Credentials(
            "invalid token; does the output of the credential plugin contain a line break?".to_owned(),
        )),
        Err(_) => Err(ConnectError::TimedOut(within)),
    }
}

async fn configure(access: &Access, read_pause: ReadPause) -> Result<ConfiguredClient, ConnectError> {
    let (mut config, own_proxy) = match kubeconfig(access)? {
        Some(kubeconfig) => {
            let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
            let own_proxy = proxy_of_kubeconfig(&kubeconfig, access.context.as_deref());
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            (config.map_err(|e| kubeconfig_error(&e))?, own_proxy)
        }
        None => match &access.context {
            Some(context) => return Err(ConnectError::NoKubeconfig(context.clone())),
            None => (kube::Config::incluster().map_err(|_| ConnectError::NoCluster)?, None),
        },
    };
    check(&mut config)?;
    match (insecure(&config), access.on_insecure) {
        (None, _) => {}
        (Some(insecure), OnInsecure::Reject) => return Err(ConnectError::Insecure(insecure)),
        (Some(insecure), OnInsecure::Warn) => tracing::warn!("insecure kubeconfig: {insecure}"),
    }
    if let Some(plugin) = &mut config.auth_info.exec {
        plugin.drop_env = Some(own_variables());
    }
    config.default_retry = false;
    config.disable_compression = true;
    let proxy = own_proxy.or_else(|| proxy_of_environment(&config.cluster_url));
    config.proxy_url = proxy.as_deref().map(parse_proxy).transpose()?;
    let url = config.cluster_url.clone();
    let token_file = match (&config.auth_info.token, config.auth_info.token_file.take()) {
        (None, Some(path)) => {
            let opened = TokenFile::open(path.into(), "");
            Some(Arc::new(opened.map_err(|e| ConnectError::Kubeconfig(error_causes::describe(&e)))?))
        }
        _ => None,
    };
    let has_plugin = config.auth_info.exec.is_some();
    let secrets = Secrets::new(&config.auth_info);
    let client = transport::client(&config, read_pause).map_err(|error| match error {
        kube::Error::RustlsTls(error) => {
            ConnectError::Kubeconfig(Identity::new(&config.auth_info).describe(&error))
        }
        kube::Error::Auth(error) => ConnectError::Credentials(without_secrets(&error)),
        kube::Error::InferKubeconfig(error) => kubeconfig_error(&error),
        other => ConnectError::Client(Box::new(other)),
    })?;
    Ok(ConfiguredClient { client, url, token_file, secrets, has_plugin })
}

/// Names of the kubeconfig keys for the client certificate and its key, with their files.
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn new(user: &kube::config::AuthInfo) -> Self {
        let named = |key: &str, file: &Option<String>| match file {
            Some(file) => format!("its {key} {}", quoted(Path::new(file))),
            None => format!("its {key}-data"),
        };
        Self {
            certificate: named("client-certificate", &user.client_certificate),
            key: named("client-key", &user.client_key),
        }
    }

    /// Describes an error of the client certificate or the certificate authorities.
    fn describe(&self, error: &RustlsTlsError) -> String {
        let Self { certificate, key } = self;
        match error {
            RustlsTlsError::MissingCertificate => format!("{certificate}: expected a certificate in PEM"),
            RustlsTlsError::MissingPrivateKey | RustlsTlsError::UnknownPrivateKeyFormat => {
                format!(
                    "{key}: expected a private key in PEM (PKCS #8, PKCS #1 or SEC 1) without a passphrase"
                )
            }
            RustlsTlsError::InvalidIdentityPem(_) => format!("{certificate}, {key}: expected PEM"),
            RustlsTlsError::InvalidPrivateKey(_) => {
                format!("{certificate} is not X.509, or {key} does not match it")
            }
            RustlsTlsError::AddRootCertificate(_) => {
                "a certificate authority of its certificate-authority or of this system is not X.509"
                    .to_owned()
            }
            other => error_causes::describe(other),
        }
    }
}

/// Invalid certificate authorities of a cluster.
const NO_AUTHORITY: &str =
    "expected certificates in PEM in its certificate-authority or certificate-authority-data";

/// Checks for which kube panics: the scheme of the URL, and the characters of the token.
fn check(config: &mut kube::Config) -> Result<(), ConnectError> {
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Kubeconfig("expected an https or http URL in its server".into()));
    }
    // An empty list would trust the certificate authorities of the system.
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConnectError::Kubeconfig(NO_AUTHORITY.into()));
    }
    if let Some(token) = &config.auth_info.token {
        let trimmed = token.expose_secret().trim();
        if !trimmed.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ConnectError::Kubeconfig(
                "its token contains characters that are invalid in a header".into(),
            ));
        }
        // client-go ignores an empty token.
        config.auth_info.token = (!trimmed.is_empty()).then(|| SecretString::from(trimmed));
    }
    Ok(())
}

/// Describes an error of a kubeconfig without quoting it.
fn kubeconfig_error(error: &KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig(match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(place) => {
                format!("unexpected value in line {}, column {}", place.line(), place.column())
            }
            None => "expected the YAML of a kubeconfig".to_owned(),
        },
        KubeconfigError::ReadConfig(error, path) => {
            format!("failed to read {}: {error}", quoted(path))
        }
        KubeconfigError::ParseNoProxy(_) => {
            "expected a list of hosts in NO_PROXY; does it have an empty entry?".to_owned()
        }
        KubeconfigError::ParseCertificates(_) => NO_AUTHORITY.to_owned(),
        KubeconfigError::ParseProxyUrl(_) => return ConnectError::Proxy,
        KubeconfigError::LoadContext(name) => format!("it has no context \"{}\"", Escaped(name)),
        KubeconfigError::CurrentContextNotSet => "it has no current-context; set --context".to_owned(),
        other => error_causes::describe(other),
    })
}

/// Describes an authentication error without the input and output of a plugin, which may contain a token.
pub(super) fn without_secrets(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed, {}", out.status),
        AuthError::AuthExecParse(_) => "expected an ExecCredential from the credential plugin".to_owned(),
        AuthError::AuthExecStart(error) => format!("failed to start the credential plugin: {error}"),
        other => error_causes::describe(other),
    }
}

/// Finds the kubeconfig in the same order as client-go.
fn kubeconfig(access: &Access) -> Result<Option<Kubeconfig>, ConnectError> {
    if let Some(path) = &access.kubeconfig {
        return not_empty(read(path)?, &[path]).map(Some);
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|p| !p.as_os_str().is_empty()).collect();
    if let Some(first) = listed.first() {
        // Like kubectl, skips missing files if at least one exists.
        let existing: Vec<_> = listed.iter().filter(|path| path.exists()).collect();
        let listed = if existing.is_empty() { vec![first] } else { existing };
        let merged = listed.iter().try_fold(Kubeconfig::default(), |merged, path| {
            merged.merge(read(path)?).map_err(|e| kubeconfig_error(&e))
        });
        return not_empty(merged?, &listed).map(Some);
    }
    match std::env::home_dir().map(|home| home.join(".kube/config")) {
        Some(path) if path.exists() => not_empty(read(&path)?, &[&path]).map(Some),
        _ => Ok(None),
    }
}

/// Reads a kubeconfig. kubectl writes an empty current-context for none.
fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    let mut kubeconfig =
        Kubeconfig::read_from(path).map_err(|error| match (&error, kubeconfig_error(&error)) {
            (KubeconfigError::Parse(_), ConnectError::Kubeconfig(problem)) => {
                ConnectError::Kubeconfig(format!("{}: {problem}", quoted(path)))
            }
            (_, other) => other,
        })?;
    kubeconfig.current_context = kubeconfig.current_context.filter(|context| !context.is_empty());
    Ok(kubeconfig)
}

/// Rejects a kubeconfig without clusters, for which kube reports a misleading error.
fn not_empty(kubeconfig: Kubeconfig, files: &[&PathBuf]) -> Result<Kubeconfig, ConnectError> {
    if !kubeconfig.clusters.is_empty() {
        return Ok(kubeconfig);
    }
    let files: Vec<_> = files.iter().map(|file| quoted(file)).collect();
    Err(ConnectError::Kubeconfig(format!("no cluster in {}; is it empty?", files.join(", "))))
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", Escaped(&path.display().to_string()))
}

fn proxy_of_kubeconfig(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|c| Some(c.name.as_str()) == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|c| c.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy from the environment for this host. Plain http does not use a proxy, which could read it.
fn proxy_of_environment(cluster: &Uri) -> Option<String> {
    if cluster.scheme_str() != Some("https") || is_turned_off() {
        return None;
    }
    // The matcher decides, but removes the credentials from the URL, which kube needs.
    Matcher::from_env().intercept(cluster)?;
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()))
}

/// Parses the URL of a proxy. Errors do not quote it, because it may contain a password.
fn parse_proxy(url: &str) -> Result<Uri, ConnectError> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().map_err(|_| ConnectError::Proxy)?;
    match uri.scheme_str() {
        Some("http" | "https" | "socks5") => Ok(uri),
        _ => Err(ConnectError::Proxy),
    }
}
