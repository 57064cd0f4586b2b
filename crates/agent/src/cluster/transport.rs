//! Builds the HTTP client for an API server: kube's layers around hyper's client.
//!
//! Called by `configuration`. Differs from kube's own client only in the read buffer: hyper's default grows to
//! 512 KiB while a list streams, and each watch keeps it. Timeouts of responses are set in `connect`.

use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{ClientBuilder, ConfigExt};
use tokio::time::timeout;
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::read_pause::ReadPause;

/// Maximum size of a connection's read buffer, in bytes. The head of a response must fit.
const MAX_READ_BUFFER: usize = 32 * 1024;

/// Timeout of a connection attempt, which outlives a cancelled request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to the API server, directly or through a proxy, below its TLS.
type Connector = BoxCloneSyncService<Uri, Box<dyn Socket>, BoxError>;

trait Socket: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> Socket for T {}

impl Connection for Box<dyn Socket> {
    fn connected(&self) -> Connected {
        (**self).connected()
    }
}

/// Builds a client. Opens no connection, but may run a credential plugin.
pub(super) fn client(config: &kube::Config, read_pause: ReadPause) -> Result<kube::Client, kube::Error> {
    // Fails if a provider is installed already, which is the same one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let auth = config.auth_layer()?;
    let tls = config.rustls_https_connector_with_connector(connector(config, read_pause)?)?;
    let connector =
        service_fn(move |server: Uri| Box::pin(timeout(CONNECT_TIMEOUT, tls.clone().oneshot(server))));
    let connector = connector.map_result(|connected| connected.map_err(BoxError::from)?);
    let client = Client::builder(TokioExecutor::new()).http1_max_buf_size(MAX_READ_BUFFER).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.as_str()).build())
}

/// The scheme of the proxy is `http`, `https` or `socks5`.
fn connector(config: &kube::Config, read_pause: ReadPause) -> Result<Connector, kube::Error> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    let direct = direct.map_response(move |socket| TokioIo::new(read_pause.stream(socket.into_inner())));
    let Some(proxy) = &config.proxy_url else { return Ok(boxed(direct)) };
    Ok(match proxy.scheme_str() {
        Some("socks5") => boxed(socks(proxy, direct)),
        Some("https") => boxed(tunnel(proxy, config.rustls_https_connector_with_connector(direct)?)),
        _ => boxed(tunnel(proxy, direct)),
    })
}

fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match credentials(proxy).as_ref().and_then(Intercept::basic_auth) {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

fn socks<C>(proxy: &Uri, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy.clone(), connector);
    match credentials(proxy).as_ref().and_then(Intercept::raw_auth) {
        Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
        None => socks,
    }
}

/// Decodes the percent-encoded credentials in the URL of the proxy.
fn credentials(proxy: &Uri) -> Option<Intercept> {
    Matcher::builder().all(proxy.to_string()).build().intercept(&Uri::from_static("https://kubernetes"))
}

fn boxed<S>(connector: S) -> Connector
where
    S: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    S::Response: Socket + 'static,
{
    BoxCloneSyncService::new(connector.map_response(|io| Box::new(io) as Box<dyn Socket>).map_err(Into::into))
}
