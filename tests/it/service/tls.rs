//! The service over TLS: who it says it is, what renews that, and what nobody can hold up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::tls::{TlsInfo, Version};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use supercargo::process::listener::Bounds;
use supercargo::process::tls::Files;
use supercargo::service::Policy;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::operation::stops_with_a_report_under_way;
use super::running::{Options, client, eventually};
use super::{ADMIN, Answer, Database, READER, Running, pod, report};
use crate::fake::pki::{Authority, Identity};

/// How often a test's service looks at its certificate.
const SOON: Duration = Duration::from_millis(10);

/// A folder with a certificate and its key, and who signed it.
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
        let policy = Policy { certificate_interval: SOON, ..Options::default().policy };
        Options { policy, tls: Some((self.files(), self.authority.pem())), ..Options::default() }
    }

    async fn start(&self) -> Running {
        Running::start_with(Database::sqlite(), self.options()).await
    }

    /// A connection on which TLS is agreed.
    async fn connect(&self, service: &Running) -> TlsStream<TcpStream> {
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

/// The certificate that a client sees, over the connection that it has, or a new one.
async fn seen(http: &reqwest::Client, service: &Running) -> Vec<u8> {
    let request = http.get(format!("{}/api/v2/trails/acme", service.base)).bearer_auth(READER);
    let answer = request.send().await.unwrap().error_for_status().unwrap();
    let seen = answer.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec();
    // A connection is used again once its answer was read.
    answer.bytes().await.unwrap();
    seen
}

pub fn der(identity: &Identity) -> Vec<u8> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap().to_vec()
}

#[tokio::test]
async fn requests_come_over_tls_and_not_in_the_clear_and_probes_come_as_before() {
    let secret = Secret::new();
    let service = secret.start().await;
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    for version in [Version::TLS_1_2, Version::TLS_1_3] {
        let builder = client(&secret.options()).tls_version_min(version).tls_version_max(version);
        seen(&builder.build().unwrap(), &service).await;
    }
    // Links lead where it listens.
    let document = service.http.get(format!("{}/api/v2/openapi.json", service.base));
    assert_eq!(Answer::of(document).await.expect(200).json()["servers"][0]["url"], service.base);

    let plain = format!("http://{}/api/v2/trails/acme", service.host());
    assert!(service.http.get(plain).bearer_auth(READER).send().await.is_err());
    // It is told so in TLS's own words, an alert, and not by a reset.
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    stream.write_all(b"GET /api/v2/trails/acme HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer.first(), Some(&21), "{answer:?}");
    // Whoever trusts somebody else does not get through.
    let stranger = Options { tls: Some((secret.files(), Authority::new().pem())), ..Options::default() };
    let request = client(&stranger).build().unwrap().get(format!("{}/api/v2/trails/acme", service.base));
    assert!(request.send().await.is_err());

    assert_eq!(Answer::of(service.http.get(format!("{}/readyz", service.admin))).await.text, "ok\n");
    service.stop().await;
}

#[tokio::test]
async fn http_1_1_is_agreed_on_and_the_end_of_a_connection_is_announced() {
    let secret = Secret::new();
    let service = secret.start().await;
    let mut stream = secret.connect(&service).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request = format!(
        "GET /api/v2/trails/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // An end that is not announced is an error here.
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    service.stop().await;
}

#[tokio::test]
async fn a_browser_s_cookie_is_bound_to_tls_and_forms_come_from_there() {
    let secret = Secret::new();
    let service = secret.start().await;
    let http = client(&secret.options()).redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sign_in = async |origin: &str| {
        let request = http.post(format!("{}/ui/sign-in", service.base)).header("Origin", origin);
        Answer::of(request.body(format!("token={READER}"))).await
    };
    // A page of the same host that came in the clear is somebody else's, who is on the way.
    for origin in [service.base.replace("https:", "http:"), "https://127.0.0.1".to_owned()] {
        let answer = sign_in(&origin).await;
        assert_eq!((answer.status.as_u16(), answer.headers.get("set-cookie")), (403, None), "{origin}");
    }
    let answer = sign_in(&service.base).await;
    assert_eq!(answer.status, 303);
    let (cookie, how) = answer.headers["set-cookie"].to_str().unwrap().split_once("; ").unwrap();
    assert_eq!(how, "Path=/; HttpOnly; SameSite=Lax; Secure");
    let (name, value) = cookie.split_once('=').unwrap();
    assert_eq!((name, value.len()), ("__Host-supercargo", 64));
    let look = async |cookie: String| {
        let request = http.get(format!("{}/ui/acme", service.base)).header("Cookie", cookie);
        Answer::of(request).await.status.as_u16()
    };
    assert_eq!(look(cookie.to_owned()).await, 200);
    // The name that it has in the clear, which others of the host could set, is not looked at.
    assert_eq!(look(format!("supercargo={value}")).await, 303);
    service.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_for_new_connections_and_old_ones_go_on() {
    let secret = Secret::new();
    // As Kubernetes lays it: the files are links into a folder, which is a link that is swapped.
    let (identity, renewed) = (secret.authority.host("first"), secret.authority.host("second"));
    let lay = |folder: &str, identity: &Identity| {
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
    lay("..1", &identity);
    link("..1");
    for file in ["tls.crt", "tls.key"] {
        std::fs::remove_file(secret.folder.path().join(file)).unwrap();
        std::os::unix::fs::symlink(Path::new("..data").join(file), secret.folder.path().join(file)).unwrap();
    }
    let service = secret.start().await;
    let before = client(&secret.options()).build().unwrap();
    assert_eq!(seen(&before, &service).await, der(&identity));
    lay("..2", &renewed);
    link("..2");
    eventually("the new certificate is served", async || {
        seen(&client(&secret.options()).build().unwrap(), &service).await == der(&renewed)
    })
    .await;
    assert_eq!(seen(&before, &service).await, der(&identity));
    service.stop().await;
}

#[tokio::test]
async fn those_who_never_finish_a_handshake_hold_up_neither_others_nor_the_end() {
    let secret = Secret::new();
    let minutes = Duration::from_mins(10);
    let bounds = Bounds { headers: minutes, drain: minutes, ..Options::default().bounds };
    let service = Running::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut idle = Vec::new();
    for bytes in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"] {
        let mut stream = TcpStream::connect(service.host()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        idle.push(stream);
    }
    service.get(READER, "/trails/acme").await.expect(200);
    tokio::time::timeout(Duration::from_mins(1), service.stop()).await.expect("it ends before they do");
}

#[tokio::test]
async fn a_handshake_has_as_long_as_headers_have_and_counts_as_a_connection() {
    let secret = Secret::new();
    let bounds = Bounds { headers: Duration::from_millis(200), connections: 1, ..Options::default().bounds };
    let service = Running::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut stream = TcpStream::connect(service.host()).await.unwrap();
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    // Its turn comes when the first is cut off.
    service.get(READER, "/trails/acme").await.expect(200);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    service.stop().await;
}

#[tokio::test]
async fn a_peer_that_reads_nothing_of_its_answers_is_cut_off() {
    let secret = Secret::new();
    let bounds = Bounds {
        stall: Duration::from_millis(200),
        headers: Duration::from_mins(10),
        connections: 1,
        ..Options::default().bounds
    };
    let service = Running::start_with(Database::sqlite(), Options { bounds, ..secret.options() }).await;
    let mut stream = secret.connect(&service).await;
    let asking = async {
        // More answers than any buffer between the two holds.
        let requests = "GET /api/v2/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
        while stream.write_all(requests.as_bytes()).await.is_ok() {}
    };
    let waiting = async {
        service.get(READER, "/trails/acme").await.expect(200);
    };
    tokio::time::timeout(Duration::from_mins(1), async { tokio::join!(asking, waiting) })
        .await
        .expect("its place is given to the next");
    service.stop().await;
}

#[tokio::test]
async fn a_request_under_way_is_finished_when_the_service_stops() {
    let secret = Secret::new();
    let service = secret.start().await;
    let stream = secret.connect(&service).await;
    stops_with_a_report_under_way(service, stream).await;
}
