//! How requests reach an API server: kube's layers around hyper's client.
//!
//! `configuration` asks for it. It is what kube would make of the same configuration, but for how much a connection
//! reads ahead: kube leaves that to hyper, whose buffer grows to 512 KiB while a list streams, and stays so large under
//! the watch that follows, for each namespace that is watched by itself. How long an answer may take is `connect`'s to
//! say.

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

/// How much a connection reads ahead at most, in bytes. The head of an answer has to fit in.
const READ_AHEAD: usize = 32 * 1024;

/// How long a connection may take to be there. Whoever asked for it has gone by then: see `connect::Patience`.
const CONNECTING: Duration = Duration::from_secs(30);

/// A connection to the API server, or through a proxy to it, below its TLS.
type Road = BoxCloneSyncService<Uri, Box<dyn Socket>, BoxError>;

trait Socket: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> Socket for T {}

impl Connection for Box<dyn Socket> {
    fn connected(&self) -> Connected {
        (**self).connected()
    }
}

/// A client of this configuration. No connection is made yet; a credential plugin may be run.
pub(super) fn client(config: &kube::Config, read_pause: ReadPause) -> Result<kube::Client, kube::Error> {
    // Another one is there already where this is not the first; it is the same.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let auth = config.auth_layer()?;
    let tls = config.rustls_https_connector_with_connector(road(config, read_pause)?)?;
    let connector = service_fn(move |server: Uri| Box::pin(timeout(CONNECTING, tls.clone().oneshot(server))));
    let connector = connector.map_result(|connected| connected.map_err(BoxError::from)?);
    let client = Client::builder(TokioExecutor::new()).http1_max_buf_size(READ_AHEAD).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.as_str()).build())
}

/// The proxy is one of `http`, `https` and `socks5`.
fn road(config: &kube::Config, read_pause: ReadPause) -> Result<Road, kube::Error> {
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
    match read(proxy).as_ref().and_then(Intercept::basic_auth) {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

fn socks<C>(proxy: &Uri, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy.clone(), connector);
    match read(proxy).as_ref().and_then(Intercept::raw_auth) {
        Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
        None => socks,
    }
}

/// Credentials in an address are written in percent-encoding, which is the matcher's to undo.
fn read(proxy: &Uri) -> Option<Intercept> {
    Matcher::builder().all(proxy.to_string()).build().intercept(&Uri::from_static("https://kubernetes"))
}

fn boxed<S>(connector: S) -> Road
where
    S: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    S::Response: Socket + 'static,
{
    BoxCloneSyncService::new(connector.map_response(|io| Box::new(io) as Box<dyn Socket>).map_err(Into::into))
}
