//! Builds the HTTP client for an API server: kube's layers around hyper's client.
//!
//! Called by `credentials`. Differs from kube's own client in the read buffer (hyper's default grows to 512 KiB while a
//! list streams, and each watch keeps it), and in that `credentials` renews the client certificate and the
//! `Authorization` header. Timeouts of responses are set in `connect`.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::body::Body;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::middleware::{BaseUriLayer, ExtraHeadersLayer};
use kube::client::{ClientBuilder, ConfigExt};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::read_pause::ReadPause;
use super::tls::Verifier;
use crate::cluster::kubeconfig::secrets::without_userinfo;

/// Maximum size of a connection's read buffer, in bytes. The head of a response must fit.
const MAX_READ_BUFFER: usize = 32 * 1024;

/// Timeout of a connection attempt, which outlives a cancelled request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to the API server, directly or through a proxy, below its TLS.
type Connector = BoxCloneSyncService<Uri, Box<dyn Socket>, BoxError>;

pub(super) trait Socket: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> Socket for T {}

impl Connection for Box<dyn Socket> {
    fn connected(&self) -> Connected {
        (**self).connected()
    }
}

/// Everything that a client needs, except for a client certificate.
pub(super) struct Transport {
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    proxy: Option<Uri>,
    direct: Connector,
    base_uri: BaseUriLayer,
    extra_headers: ExtraHeadersLayer,
}

/// A client that opens connections, over TLS for `https`.
pub(super) type HttpClient<B> = Client<TlsConnector, B>;

type TlsConnector = BoxCloneSyncService<Uri, MaybeHttpsStream<Box<dyn Socket>>, BoxError>;

impl Transport {
    /// `authorities` replaces those of the system.
    pub(super) fn new(
        config: &kube::Config,
        authorities: Option<Verifier>,
        server_name: Option<ServerName<'static>>,
        proxy: Option<Uri>,
        read_pause: ReadPause,
    ) -> Result<Self, kube::Error> {
        Ok(Self {
            tls: tls(config, authorities)?,
            server_name,
            proxy,
            direct: direct(move |socket| read_pause.stream(socket)),
            base_uri: config.base_uri_layer(),
            extra_headers: config.extra_headers_layer()?,
        })
    }

    /// Builds a client, which shares no connection and no TLS session with others.
    pub(super) fn client(&self, identity: Option<&Arc<CertifiedKey>>) -> kube::Client {
        let mut tls = self.tls.clone();
        if let Some(identity) = identity {
            tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(identity)));
            // A resumed session has the client certificate of the first one.
            tls.resumption = Resumption::default();
        }
        let client = http_client(tls, self.server_name.clone(), self.proxy.as_ref(), self.direct.clone());
        let service = ServiceBuilder::new()
            .layer(self.base_uri.clone())
            .layer(self.extra_headers.clone())
            .map_err(BoxError::from)
            .service(client);
        ClientBuilder::new(service, "default").build()
    }
}

/// A client for another server, such as an issuer of tokens.
pub(super) fn client_of<B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static>(
    server: &Uri,
    authorities: Option<Verifier>,
    proxy: Option<&Uri>,
) -> Result<HttpClient<B>, kube::Error> {
    let tls = tls(&kube::Config::new(server.clone()), authorities)?;
    Ok(http_client(tls, None, proxy, direct(|socket| socket)))
}

/// The versions and verifiers of TLS. kube's config has no credentials here, so no plugin runs.
fn tls(config: &kube::Config, authorities: Option<Verifier>) -> Result<ClientConfig, kube::Error> {
    // Fails if a provider is installed already, which is the same one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut tls = config.rustls_client_config()?;
    if let Some(authorities) = authorities.filter(|_| !config.accept_invalid_certs) {
        tls.dangerous().set_certificate_verifier(Arc::new(authorities));
    }
    Ok(tls)
}

fn http_client<B: Body<Data: Send> + Send>(
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    proxy: Option<&Uri>,
    direct: Connector,
) -> HttpClient<B> {
    let connector = match proxy {
        None => direct,
        Some(proxy) => match proxy.scheme_str() {
            Some("socks5" | "socks5h") => boxed(socks(proxy, direct)),
            Some("https") => boxed(tunnel(proxy, https(tls.clone(), server_name.clone(), direct))),
            _ => boxed(tunnel(proxy, direct)),
        },
    };
    let connector = https(tls, server_name, connector);
    let connector =
        service_fn(move |server: Uri| Box::pin(timeout(CONNECT_TIMEOUT, connector.clone().oneshot(server))));
    let connector = connector.map_result(|connected| connected.map_err(BoxError::from)?);
    Client::builder(TokioExecutor::new())
        .http1_max_buf_size(MAX_READ_BUFFER)
        .build(BoxCloneSyncService::new(connector))
}

fn https<C>(tls: ClientConfig, server_name: Option<ServerName<'static>>, connector: C) -> HttpsConnector<C> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = server_name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    builder.enable_http1().wrap_connector(connector)
}

fn direct<S>(wrap: impl Fn(TcpStream) -> S + Clone + Send + Sync + 'static) -> Connector
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    TokioIo<S>: Connection,
{
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    boxed(connector.map_response(move |socket| TokioIo::new(wrap(socket.into_inner()))))
}

fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(without_userinfo(proxy.clone()), connector);
    match credentials(proxy).as_ref().and_then(Intercept::basic_auth) {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

fn socks<C>(proxy: &Uri, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(without_userinfo(proxy.clone()), connector);
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
