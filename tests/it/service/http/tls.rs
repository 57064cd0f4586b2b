//! The service over TLS: protocol, certificate renewal, and unresponsive peers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::tls::{TlsInfo, Version};
use runtime::listener::Bounds;
use runtime::tls::Files;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use service::Limits;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fake::pki::{Authority, Identity};
use crate::service::http::server::assert_report_completes_during_shutdown;
use crate::service::report;
use crate::service::support::test_service::{Options, client, eventually};
use crate::service::{ADMIN, Database, READER, Response, TestService, pod};

/// Interval at which the service checks its certificate files.
const CERTIFICATE_INTERVAL: Duration = Duration::from_millis(10);

/// A folder with a certificate and its key, like a mounted Kubernetes Secret, and the authority that signed it.
pub struct Secret {
    pub authority: Authority,
    pub folder: TempDir,
}

impl Secret {
    pub fn new() -> Self {
        let secret = Self { authority: Authority::new(), folder: tempfile::tempdir().unwrap() };
        secret.write(&secret.authority.host("first"));
        secret
    }

    pub fn files(&self) -> Files {
        let file = |name| self.folder.path().join(name);
        Files { certificate: file("tls.crt"), key: file("tls.key") }
    }

    pub fn write(&self, identity: &Identity) {
        std::fs::write(self.files().certificate, &identity.certificate).unwrap();
        std::fs::write(self.files().key, &identity.key).unwrap();
    }

    pub fn options(&self) -> Options {
        let limits = Limits { certificate_interval: CERTIFICATE_INTERVAL, ..Options::default().limits };
        Options { limits, tls: Some((self.files(), self.authority.pem())), ..Options::default() }
    }

    async fn start(&self) -> TestService {
        TestService::start_with(Database::sqlite(), self.options()).await
    }

    /// A connection after the TLS handshake.
    async fn connect(&self, service: &TestService) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(service.host()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

/// The certificate that the client receives. It reuses an open connection.
async fn served_certificate(http: &reqwest::Client, service: &TestService) -> Vec<u8> {
    let request = http.get(format!("{}/api/v2/trails/acme", service.base)).bearer_auth(READER);
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let seen = response.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec();
    // The client reuses a connection only after it has read the response.
    response.bytes().await.unwrap();
    seen
}

pub fn der(identity: &Identity) -> Vec<u8> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap().to_vec()
}

#[tokio::test]
async fn api_is_served_over_tls_only_and_probes_over_plain_http() {
    let secret = Secret::new();
    let service = secret.start().await;
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    for version in [Version::TLS_1_2, Version::TLS_1_3] {
        let builder = client(&secret.options()).tls_version_min(version).tls_version_max(version);
        served_certificate(&builder.build().unwrap(), &service).await;
    }
    // Links use the https URL of the listener.
    let document = service.http.get(format!("{}/api/v2/openapi.json", service.base));
    assert_eq!(Response::from_request(document).await.expect(200).json()["servers"][0]["url"], service.base);

    let plain = format!("http://{}/api/v2/trails/acme", service.host());
    assert!(service.http.get(plain).bearer_auth(READER).send().await.is_err());
    // A plain HTTP client gets a TLS alert (record type 21), not a reset.
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    stream.write_all(b"GET /api/v2/trails/acme HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    assert_eq!(response.first(), Some(&21), "{response:?}");
    // A client that trusts another certificate authority rejects the certificate.
    let untrusting = Options { tls: Some((secret.files(), Authority::new().pem())), ..Options::default() };
    let request = client(&untrusting).build().unwrap().get(format!("{}/api/v2/trails/acme", service.base));
    assert!(request.send().await.is_err());

    assert_eq!(
        Response::from_request(service.http.get(format!("{}/readyz", service.admin))).await.text,
        "ok\n"
    );
    service.stop().await;
}

#[tokio::test]
async fn http_1_1_is_negotiated_and_connection_ends_with_close_notify() {
    let secret = Secret::new();
    let service = secret.start().await;
    let mut stream = secret.connect(&service).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request = format!(
        "GET /api/v2/trails/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // rustls reports an end without close_notify as an error.
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    service.stop().await;
}

#[tokio::test]
async fn session_cookie_is_secure_and_forms_require_the_tls_origin() {
    let secret = Secret::new();
    let service = secret.start().await;
    let http = client(&secret.options()).redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sign_in = async |origin: &str| {
        let request = http.post(format!("{}/ui/sign-in", service.base)).header("Origin", origin);
        Response::from_request(request.body(format!("token={READER}"))).await
    };
    // A plain HTTP page of the same host may come from an attacker on the network.
    for origin in [service.base.replace("https:", "http:"), "https://127.0.0.1".to_owned()] {
        let response = sign_in(&origin).await;
        assert_eq!((response.status.as_u16(), response.headers.get("set-cookie")), (403, None), "{origin}");
    }
    let response = sign_in(&service.base).await;
    assert_eq!(response.status, 303);
    let (cookie, attributes) = response.headers["set-cookie"].to_str().unwrap().split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Secure");
    let (name, value) = cookie.split_once('=').unwrap();
    assert_eq!((name, value.len()), ("__Host-supercargo", 64));
    let status = async |cookie: String| {
        let request = http.get(format!("{}/ui/acme", service.base)).header("Cookie", cookie);
        Response::from_request(request).await.status.as_u16()
    };
    assert_eq!(status(cookie.to_owned()).await, 200);
    // The cookie name of plain HTTP is ignored, because other services of the host could set it.
    assert_eq!(status(format!("supercargo={value}")).await, 303);
    service.stop().await;
}

#[tokio::test]
async fn renewed_certificate_applies_to_new_connections() {
    let secret = Secret::new();
    // The layout of a mounted Secret: the files are links into a folder behind a link that is replaced.
    let (identity, renewed) = (secret.authority.host("first"), secret.authority.host("second"));
    let write = |folder: &str, identity: &Identity| {
        let folder = secret.folder.path().join(folder);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), &identity.certificate).unwrap();
        std::fs::write(folder.join("tls.key"), &identity.key).unwrap();
    };
    let link = |to: &str| {
        let next = secret.folder.path().join("..data_tmp");
        std::os::unix::fs::symlink(to, &next).unwrap();
        std::fs::rename(&next, secret.folder.path().join("..data")).unwrap();
    };
    write("..1", &identity);
    link("..1");
    for file in ["tls.crt", "tls.key"] {
        std::fs::remove_file(secret.folder.path().join(file)).unwrap();
        std::os::unix::fs::symlink(Path::new("..data").join(file), secret.folder.path().join(file)).unwrap();
    }
    let service = secret.start().await;
    let before = client(&secret.options()).build().unwrap();
    assert_eq!(served_certificate(&before, &service).await, der(&identity));
    write("..2", &renewed);
    link("..2");
    eventually("the new certificate is served", async || {
        served_certificate(&client(&secret.options()).build().unwrap(), &service).await == der(&renewed)
    })
    .await;
    assert_eq!(served_certificate(&before, &service).await, der(&identity));
    service.stop().await;
}

#[tokio::test]
async fn unfinished_handshakes_delay_neither_requests_nor_shutdown() {
    let secret = Secret::new();
    let minutes = Duration::from_mins(10);
    let bounds = Bounds { headers: minutes, drain: minutes, ..Options::default().bounds };
    let service = TestService::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut idle = Vec::new();
    for bytes in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"] {
        let mut stream = TcpStream::connect(service.host()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        idle.push(stream);
    }
    service.get(READER, "/trails/acme").await.expect(200);
    tokio::time::timeout(Duration::from_mins(1), service.stop())
        .await
        .expect("the shutdown waited for the handshakes");
}

#[tokio::test]
async fn unfinished_handshake_has_the_header_timeout() {
    let secret = Secret::new();
    let bounds = Bounds { headers: Duration::from_millis(200), ..Options::default().bounds };
    let service = TestService::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_mins(1), stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok() && rest.is_empty(), "{rest:?}");
    service.stop().await;
}

#[tokio::test]
async fn unfinished_handshake_is_evicted_for_a_request() {
    let secret = Secret::new();
    let bounds = Bounds { headers: Duration::from_mins(10), connections: 1, ..Options::default().bounds };
    let service = TestService::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    service.get(READER, "/trails/acme").await.expect(200);
    service.stop().await;
}

#[tokio::test]
async fn peer_that_reads_no_responses_is_disconnected() {
    let secret = Secret::new();
    let bounds = Bounds {
        stall: Duration::from_millis(200),
        headers: Duration::from_mins(10),
        ..Options::default().bounds
    };
    let service = TestService::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut stream = secret.connect(&service).await;
    let flooding = async {
        // The responses exceed all buffers between the two.
        let requests = "GET /api/v2/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
        while stream.write_all(requests.as_bytes()).await.is_ok() {}
    };
    tokio::time::timeout(Duration::from_mins(1), flooding)
        .await
        .expect("the stalled peer was not disconnected");
    service.stop().await;
}

#[tokio::test]
async fn request_in_progress_completes_during_shutdown() {
    let secret = Secret::new();
    let service = secret.start().await;
    let stream = secret.connect(&service).await;
    assert_report_completes_during_shutdown(service, stream).await;
}
