//! The way to an API server: where it is, who we are, and one GET.
//!
//! kube reads the configuration and does authentication, TLS and token refresh. Its defaults are
//! changed here: it retries 15 times unseen, takes the proxy's own address for the host that
//! `NO_PROXY` speaks of, and waits for an answer for ever.

use std::path::PathBuf;

use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Uri};
use http_body_util::BodyExt;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::timeout;

use super::answer::{self, Encoding};
use super::error::{Error, Request};
use super::{Listed, Namespace, Patience, list};
use crate::domain::model::NamespaceName;
use crate::domain::selection::Scope;

/// How much of an error answer is read, in bytes.
const MOST_ERROR_BYTES: usize = 64 * 1024;

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
        "no cluster is configured: there is neither --kubeconfig, nor KUBECONFIG, nor ~/.kube/config, nor a pod's service account"
    )]
    NoCluster(#[source] kube::config::InClusterError),
    /// A context was named where there is no kubeconfig.
    #[error("--context \"{0}\" needs a kubeconfig, and there is none")]
    NoKubeconfig(String),
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// The proxy's URL cannot be used.
    #[error(
        "the proxy for the cluster, from the kubeconfig's proxy-url or from HTTPS_PROXY, is no URL that begins with http, https or socks5"
    )]
    Proxy,
    /// kube cannot make a client of it.
    #[error("the cluster's configuration cannot be used")]
    Client(#[source] Box<kube::Error>),
}

/// A cluster that pods are read from.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    url: Uri,
    patience: Patience,
}

/// A success: its headers were seen, its body was not.
pub(super) struct Answer {
    pub(super) encoding: Encoding,
    pub(super) body: Body,
}

impl Cluster {
    /// Reads the configuration. No connection is made yet.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] where there is no configuration, or one that cannot be used.
    pub async fn configure(access: &Access, patience: Patience) -> Result<Self, ConnectError> {
        let (mut config, own_proxy) = match kubeconfig(access)? {
            Some(kubeconfig) => {
                let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
                let own_proxy = proxy_of_kubeconfig(&kubeconfig, access.context.as_deref());
                let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|e| ConnectError::Kubeconfig(Box::new(e)))?;
                (config, own_proxy)
            }
            None => match &access.context {
                Some(context) => return Err(ConnectError::NoKubeconfig(context.clone())),
                None => (kube::Config::incluster().map_err(ConnectError::NoCluster)?, None),
            },
        };
        config.default_retry = false;
        config.disable_compression = true;
        let proxy = own_proxy.or_else(|| proxy_of_environment(&config.cluster_url));
        config.proxy_url = proxy.as_deref().map(parse_proxy).transpose()?;
        let url = config.cluster_url.clone();
        let builder = ClientBuilder::try_from(config).map_err(|e| ConnectError::Client(Box::new(e)))?;
        Ok(Self { client: builder.build(), url, patience })
    }

    /// Reads all pods in the scope, one namespace after the other, and hands out each as it comes.
    ///
    /// # Errors
    ///
    /// [`Error`] as soon as any part of the list fails; what was handed out until then is no
    /// complete list.
    pub async fn list_pods(&self, scope: &Scope, mut each: impl FnMut(Listed)) -> Result<(), Error> {
        match scope {
            Scope::Cluster => list::pods(self, None, &mut each).await,
            Scope::Namespaces(namespaces) => {
                for namespace in namespaces {
                    list::pods(self, Some(namespace), &mut each).await?;
                }
                Ok(())
            }
        }
    }

    /// Asks whether a namespace exists. The right to get it is enough, and a `Role` in it grants
    /// that.
    ///
    /// # Errors
    ///
    /// [`Error`] where the API server does not say.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Namespace, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, "get", "namespaces", Some(name));
        match self.get(request, &path).await {
            Ok(_) => Ok(Namespace::Exists),
            Err(Error::Answered { status: http::StatusCode::NOT_FOUND, .. }) => Ok(Namespace::Missing),
            Err(error) => Err(error),
        }
    }

    pub(super) fn request(
        &self,
        path: &str,
        verb: &'static str,
        resource: &'static str,
        namespace: Option<&NamespaceName>,
    ) -> Request {
        let scheme = self.url.scheme_str().unwrap_or("https");
        let host = self.url.host().unwrap_or_default();
        let port = self.url.port().map_or_else(String::new, |port| format!(":{port}"));
        let prefix = self.url.path().trim_end_matches('/');
        Request {
            url: format!("{scheme}://{host}{port}{prefix}{path}"),
            verb,
            resource,
            namespace: namespace.map(ToString::to_string),
        }
    }

    /// One GET: its answer, where it is a success.
    pub(super) async fn get(&self, request: Request, path_and_query: &str) -> Result<Answer, Error> {
        let message = http::Request::get(path_and_query)
            .header(ACCEPT, answer::ACCEPT)
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("supercargo/", env!("CARGO_PKG_VERSION")))
            .body(Body::empty());
        let unreachable = |source| Error::Unreachable { request: request.clone(), source };
        let message = message.map_err(|e| unreachable(e.into()))?;
        let response = timeout(self.patience.headers, self.client.send(message))
            .await
            .map_err(|_| Error::Silent { request: request.clone(), after: self.patience.headers })?
            .map_err(|error| match error {
                // kube's own wrapping says nothing that its content does not.
                kube::Error::Service(source) => unreachable(source),
                kube::Error::Auth(e) => Error::Credentials { request: request.clone(), source: e.into() },
                other => unreachable(other.into()),
            })?;
        let encoding = Encoding::of(response.headers());
        let status = response.status();
        let retry_after = text(response.headers(), RETRY_AFTER);
        let mut body = response.into_body();
        if status.is_success() {
            return Ok(Answer { encoding, body });
        }
        let mut start = Vec::new();
        // An error whose text breaks off is still the error that its status says.
        while start.len() < MOST_ERROR_BYTES
            && let Ok(Some(frame)) = self.frame(&request, &mut body).await
        {
            start.extend_from_slice(&frame);
        }
        Err(Error::Answered { message: answer::message(encoding, &start), request, status, retry_after })
    }

    /// The next bytes of a body; nothing at its end.
    pub(super) async fn frame(
        &self,
        request: &Request,
        body: &mut Body,
    ) -> Result<Option<bytes::Bytes>, Error> {
        loop {
            let frame = timeout(self.patience.frame, body.frame())
                .await
                .map_err(|_| Error::Silent { request: request.clone(), after: self.patience.frame })?;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    // Trailers say nothing that is needed here.
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(source)) => {
                    return Err(Error::BrokenOff { request: request.clone(), source: source.into() });
                }
            }
        }
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The kubeconfig, in the order that client-go looks for it.
fn kubeconfig(access: &Access) -> Result<Option<Kubeconfig>, ConnectError> {
    let unusable = |e| ConnectError::Kubeconfig(Box::new(e));
    if let Some(path) = &access.kubeconfig {
        return Kubeconfig::read_from(path).map(Some).map_err(unusable);
    }
    if let Some(from_environment) = Kubeconfig::from_env().map_err(unusable)? {
        return Ok(Some(from_environment));
    }
    match std::env::home_dir().map(|home| home.join(".kube/config")) {
        Some(path) if path.exists() => Kubeconfig::read_from(path).map(Some).map_err(unusable),
        _ => Ok(None),
    }
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
    if cluster.scheme_str() != Some("https") {
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
