//! HTTP/1 server with TLS on loopback, for the API server and the endpoint. Stores no requests, unlike the server of the
//! tests.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fake::pki::Identity;

/// TLS settings of Go's servers: the server chooses the cipher suite and prefers AES-128.
pub fn tls(identity: &Identity) -> ServerConfig {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.ignore_client_order = true;
    config
}

/// Serves on a free port and returns its address.
pub async fn serve<B, F>(
    tls: ServerConfig,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (tls, answer) = (tls.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(move |request| {
                    let answered = answer(request);
                    async move { Ok::<_, std::convert::Infallible>(answered.await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                // Clients may close the connection.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}
