//! Configures the client for an API server from a kubeconfig or a pod's service account.
//!
//! Called by `connect`. `kubeconfig` reads the files, `credentials` authenticates, and `tls`, `proxy` and `transport`
//! connect. Of kube, the layers of its client and its in-cluster configuration are used.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::{HeaderValue, Uri};
use kube::config::{AuthInfo, InClusterError};
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::credentials::{Authorization, Certificate, CredentialError, Credentials, Issued, Oidc, Plugin};
use super::kubeconfig::{self, Content, KubeconfigError, Selected, User};
use super::proxy::{self, InvalidProxy};
use super::read_pause::ReadPause;
use super::timeouts::ClusterTimeouts;
use super::tls::Verifier;
use super::transport::Transport;
use crate::cluster::kubeconfig::insecure::{Insecure, OnInsecure, insecure};
use crate::cluster::kubeconfig::secrets::without_userinfo;
use runtime::error_causes;
use runtime::token_file::{Token, TokenFile};

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
        "invalid proxy URL for the cluster (proxy-url of the kubeconfig, or HTTPS_PROXY): expected an http, https, socks5 or socks5h URL"
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

pub(super) struct Connection {
    pub(super) url: Uri,
    pub(super) credentials: Credentials,
}

impl From<KubeconfigError> for ConnectError {
    fn from(error: KubeconfigError) -> Self {
        Self::Kubeconfig(error_causes::describe(&error))
    }
}

impl From<InvalidProxy> for ConnectError {
    fn from(_: InvalidProxy) -> Self {
        Self::Proxy
    }
}

/// Reads the configuration and runs a credential plugin. Opens no connection to the API server.
pub(super) async fn connect(
    access: Access,
    read_pause: ReadPause,
    timeouts: ClusterTimeouts,
    within: Duration,
) -> Result<Connection, ConnectError> {
    let start = Instant::now();
    // Files may be on a mount that hangs.
    let configured = spawn_blocking(move || configure(&access, read_pause, timeouts));
    let connection = match timeout(within, configured).await {
        Ok(Ok(done)) => done?,
        Ok(Err(ended)) => return Err(ConnectError::Kubeconfig(error_causes::describe(&ended))),
        Err(_) => return Err(ConnectError::TimedOut(within)),
    };
    let prepared = connection.credentials.prepare(within.saturating_sub(start.elapsed())).await;
    prepared.map_err(|error| match error {
        CredentialError::TimedOut(_) => ConnectError::TimedOut(within),
        CredentialError::Issue(error) => ConnectError::Credentials(error_causes::describe(&*error)),
    })?;
    Ok(connection)
}

fn configure(
    access: &Access,
    read_pause: ReadPause,
    timeouts: ClusterTimeouts,
) -> Result<Connection, ConnectError> {
    let files = kubeconfigs(access);
    match (files.as_slice(), &access.context) {
        ([], None) => in_cluster(read_pause, timeouts),
        ([], Some(context)) => Err(ConnectError::NoKubeconfig(context.clone())),
        (files, context) => {
            let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
            let selected = kubeconfig::select(&files, context.as_deref())?;
            from_kubeconfig(&selected, access.on_insecure, read_pause, timeouts)
        }
    }
}

/// Finds the kubeconfigs in the same order as client-go.
fn kubeconfigs(access: &Access) -> Vec<PathBuf> {
    if let Some(path) = &access.kubeconfig {
        return vec![path.clone()];
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|p| !p.as_os_str().is_empty()).collect();
    if let Some(first) = listed.first() {
        // Like kubectl, skips missing files if at least one exists.
        let existing: Vec<_> = listed.iter().filter(|path| path.exists()).cloned().collect();
        return if existing.is_empty() { vec![first.clone()] } else { existing };
    }
    let of_home = std::env::home_dir().map(|home| home.join(".kube/config"));
    of_home.filter(|path| path.exists()).into_iter().collect()
}

fn in_cluster(read_pause: ReadPause, timeouts: ClusterTimeouts) -> Result<Connection, ConnectError> {
    let none = |_: InClusterError| ConnectError::NoCluster;
    let mut config = kube::Config::incluster().map_err(none)?;
    let authorization = match config.auth_info.token_file.take() {
        Some(path) => Authorization::File(token_file(path.into(), None)?),
        None => Authorization::None,
    };
    let proxy = proxy_of_environment(&config.cluster_url)?;
    let transport = Transport::new(&config, None, None, proxy, read_pause).map_err(client_error)?;
    let credentials = Credentials::new(authorization, None, transport, timeouts);
    Ok(Connection { url: config.cluster_url, credentials })
}

fn from_kubeconfig(
    selected: &Selected,
    on_insecure: OnInsecure,
    read_pause: ReadPause,
    timeouts: ClusterTimeouts,
) -> Result<Connection, ConnectError> {
    let Selected { cluster, user } = selected;
    let url: Option<Uri> = cluster.server.get().and_then(|server| server.parse().ok());
    let url = url.filter(|url| matches!(url.scheme_str(), Some("https" | "http")));
    let url = url.ok_or_else(|| invalid("expected an https or http URL in its server"))?;
    let url = without_userinfo(url);
    let is_verified = !cluster.insecure_skip_tls_verify || url.scheme_str() == Some("http");
    if !is_verified && cluster.authorities().is_some() {
        return Err(invalid(
            "it has insecure-skip-tls-verify and a certificate-authority or certificate-authority-data; expected one of them",
        ));
    }
    let mut config = kube::Config::new(url.clone());
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify;
    config.auth_info = impersonation(user);
    match (insecure(&config), on_insecure) {
        (None, _) => {}
        (Some(insecure), OnInsecure::Reject) => return Err(ConnectError::Insecure(insecure)),
        (Some(insecure), OnInsecure::Warn) => tracing::warn!("insecure kubeconfig: {insecure}"),
    }
    let proxy = match cluster.proxy_url.get() {
        Some(url) => Some(proxy::parse(url)?),
        None => proxy_of_environment(&url)?,
    };
    let server_name = cluster.tls_server_name.get().map(|name| ServerName::try_from(name.to_owned()));
    let server_name = server_name.transpose();
    let server_name =
        server_name.map_err(|_| invalid("expected a host name or an IP address in its tls-server-name"))?;
    let authorities = match cluster.authorities() {
        Some(Content::Inline(pem)) => Some(pem),
        Some(Content::File(path)) => {
            Some(std::fs::read(&path).map_err(|error| KubeconfigError::Unreadable(path, error))?)
        }
        None => None,
    };
    let verifier = authorities.as_deref().map(Verifier::new).transpose().map_err(|_| {
        invalid("expected certificates in PEM in its certificate-authority or certificate-authority-data")
    })?;
    let transport =
        Transport::new(&config, verifier, server_name, proxy, read_pause).map_err(client_error)?;
    let certificate = certificate(user)?;
    let authorization = authorization(selected, authorities.as_deref(), timeouts)?;
    Ok(Connection { url, credentials: Credentials::new(authorization, certificate, transport, timeouts) })
}

fn impersonation(user: &User) -> AuthInfo {
    let text = |text: &kubeconfig::Text| text.get().map(str::to_owned);
    AuthInfo {
        impersonate: text(&user.impersonate),
        impersonate_uid: text(&user.impersonate_uid),
        impersonate_groups: Some(user.impersonate_groups.clone()),
        impersonate_user_extra: Some(user.impersonate_extra.clone().into_iter().collect()),
        ..AuthInfo::default()
    }
}

fn certificate(user: &User) -> Result<Option<Certificate>, ConnectError> {
    let Some(certificate) = user.certificate() else { return Ok(None) };
    let key = user.key();
    let key =
        key.ok_or_else(|| invalid("expected client-key or client-key-data beside its client certificate"))?;
    let opened = Certificate::open(certificate, key);
    opened.map(Some).map_err(|error| ConnectError::Kubeconfig(error_causes::describe(&error)))
}

/// Selects the source of the header in the order of client-go. A plugin is not run beside another credential.
fn authorization(
    selected: &Selected,
    authorities: Option<&[u8]>,
    timeouts: ClusterTimeouts,
) -> Result<Authorization, ConnectError> {
    let Selected { cluster, user } = selected;
    let token = user.token.secret().filter(|token| !token.expose_secret().trim().is_empty());
    let token = token.map(|token| Token::parse(&token)).transpose();
    let token = token.map_err(|_| invalid("its token contains characters that are invalid in a header"))?;
    // A password without a username is ignored.
    let username = user.username.get();
    match (user.token_file(), token) {
        (Some(_), _) | (_, Some(_)) if username.is_some() => {
            Err(invalid("it has a token and a username; expected one of them"))
        }
        (Some(path), token) => token_file(path, token).map(Authorization::File),
        (None, Some(token)) => Ok(Authorization::bearer(&token)),
        (None, None) => match (username, &user.auth_provider, &user.exec) {
            (Some(name), _, _) => Ok(basic(name, user.password.secret().unwrap_or_default())),
            (None, Some(_), Some(_)) => {
                Err(invalid("it has an auth-provider and exec; expected one of them"))
            }
            (None, Some(provider), None) => match provider.name.get() {
                Some("oidc") => {
                    let oidc = Oidc::new(provider, &user.file)?;
                    Ok(Authorization::Issued(Issued::new(move || oidc.issue(), timeouts)))
                }
                _ => Err(invalid("its auth-provider is not supported; expected oidc, or exec instead")),
            },
            (None, None, Some(exec)) if user.certificate().is_none() => {
                let info = exec.provide_cluster_info.then(|| cluster.info(authorities));
                let plugin = Plugin::new(user, exec, info)?;
                Ok(Authorization::Issued(Issued::new(move || plugin.run(), timeouts)))
            }
            (None, None, _) => Ok(Authorization::None),
        },
    }
}

/// RFC 7617.
fn basic(name: &str, password: SecretString) -> Authorization {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let pair = STANDARD.encode(format!("{name}:{}", password.expose_secret()));
    match HeaderValue::from_str(&format!("Basic {pair}")) {
        Ok(mut header) => {
            header.set_sensitive(true);
            Authorization::Fixed(header, password)
        }
        // Base64 is valid in a header.
        Err(_) => Authorization::None,
    }
}

/// The file of a token. Until it can be read, `token` is used.
fn token_file(path: PathBuf, token: Option<Token>) -> Result<TokenFile, ConnectError> {
    let opened = match token {
        Some(token) => Ok(TokenFile::with_last(path, "", token)),
        None => TokenFile::open(path, ""),
    };
    opened.map_err(|error| ConnectError::Kubeconfig(error_causes::describe(&error)))
}

fn proxy_of_environment(server: &Uri) -> Result<Option<Uri>, InvalidProxy> {
    proxy::from_environment(server, |name| std::env::var(name).ok())
}

fn client_error(error: kube::Error) -> ConnectError {
    ConnectError::Client(Box::new(error))
}

fn invalid(problem: &str) -> ConnectError {
    ConnectError::Kubeconfig(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only context of a kubeconfig with this cluster and this user.
    fn selected(cluster: &str, user: &str) -> Selected {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]"
        );
        std::fs::write(&file, text).unwrap();
        kubeconfig::select(&[&file], None).unwrap()
    }

    #[test]
    fn password_is_sent_with_a_username_only() {
        for (user, expected) in [
            ("password: p", "none"),
            ("username: u", "Basic dTo="),
            ("username: u, password: p", "Basic dTpw"),
            ("password: p, token: t", "Bearer t"),
            ("password: p, exec: {command: /bin/x}", "plugin"),
            ("password: p, client-certificate-data: QQ==", "none"),
            ("username: u, token: t", "invalid"),
        ] {
            let shown = match authorization(&selected("", user), None, ClusterTimeouts::default()) {
                Ok(Authorization::None) => "none".to_owned(),
                Ok(Authorization::Fixed(header, _)) => header.to_str().unwrap().to_owned(),
                Ok(Authorization::File(_)) => "file".to_owned(),
                Ok(Authorization::Issued(_)) => "plugin".to_owned(),
                Err(_) => "invalid".to_owned(),
            };
            assert_eq!(shown, expected, "{user}");
        }
    }

    #[test]
    fn authority_beside_skipped_verification_is_rejected() {
        let timeouts = ClusterTimeouts::default();
        for (cluster, is_rejected) in [
            ("certificate-authority-data: QQ==, insecure-skip-tls-verify: true", true),
            ("certificate-authority: missing, insecure-skip-tls-verify: true", true),
            ("certificate-authority: '', insecure-skip-tls-verify: true", false),
            ("insecure-skip-tls-verify: true", false),
        ] {
            let selected = selected(&format!("server: 'https://u:s3cret@host', {cluster}"), "");
            let read_pause = ReadPause::new(Duration::ZERO);
            match from_kubeconfig(&selected, OnInsecure::Warn, read_pause, timeouts) {
                Ok(connection) => {
                    assert!(!is_rejected, "{cluster}");
                    assert_eq!(connection.url, "https://host/");
                }
                Err(error) => {
                    assert!(is_rejected, "{cluster}: {error}");
                    assert!(
                        error.to_string().contains("insecure-skip-tls-verify and a certificate-authority")
                    );
                }
            }
        }
    }
}
