//! Connections to an API server through proxies, and with `tls-server-name`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::fake::Server;
use crate::fake::kube::{User, kubeconfig, recorded};
use crate::fake::pki::Authority;
use crate::program::{once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// A running HTTP and SOCKS proxy.
struct Forwarder {
    address: SocketAddr,
    /// Heads of CONNECT requests, SOCKS targets and credentials.
    received: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl Forwarder {
    /// Supports HTTP CONNECT, over TLS with a certificate, and SOCKS5.
    fn start(tls: Option<ServerConfig>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<String>>>::default();
        let (record, tls) = (Arc::clone(&received), tls.map(|tls| TlsAcceptor::from(Arc::new(tls))));
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (record, tls) = (Arc::clone(&record), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => forward(tls.accept(stream).await.unwrap(), &record).await,
                        None => forward(stream, &record).await,
                    }
                });
            }
        });
        Self { address, received, _runtime: runtime }
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

async fn forward(mut client: impl AsyncRead + AsyncWrite + Unpin, received: &Mutex<Vec<String>>) {
    let mut head = vec![client.read_u8().await.unwrap()];
    let (server, accepted) = if head == [5] {
        // RFC 1928: selects the last of the client's methods. The address must be IPv4.
        let methods = length_prefixed(&mut client).await;
        let method = *methods.last().unwrap();
        client.write_all(&[5, method]).await.unwrap();
        if method == 2 {
            // RFC 1929.
            assert_eq!(client.read_u8().await.unwrap(), 1);
            let (user, password) = (length_prefixed(&mut client).await, length_prefixed(&mut client).await);
            let credentials = [user, password].map(|text| String::from_utf8(text).unwrap()).join(" ");
            received.lock().unwrap().push(credentials);
            client.write_all(&[1, 0]).await.unwrap();
        }
        let mut request = [0; 10];
        client.read_exact(&mut request).await.unwrap();
        let [5, 1, 0, 1, a, b, c, d, high, low] = request else { panic!("{request:?}") };
        let server = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
        received.lock().unwrap().push(format!("SOCKS5 {server}"));
        (server, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0].to_vec())
    } else {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let server = head.split(' ').nth(1).unwrap().parse().unwrap();
        received.lock().unwrap().push(head);
        (server, b"HTTP/1.1 200 OK\r\n\r\n".to_vec())
    };
    let mut server = TcpStream::connect(server).await.unwrap();
    client.write_all(&accepted).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// Reads a length byte and as many bytes.
async fn length_prefixed(client: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut text = vec![0; client.read_u8().await.unwrap().into()];
    client.read_exact(&mut text).await.unwrap();
    text
}

#[test]
fn proxy_url_supports_http_https_and_socks5() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let (plain, tls) = (Forwarder::start(None), Forwarder::start(Some(authority.server(None))));
    for (scheme, proxy, request) in
        [("http", &plain, "CONNECT"), ("https", &tls, "CONNECT"), ("socks5", &plain, "SOCKS5")]
    {
        let config = kubeconfig(&api.url(), Some(&authority.pem()), &User::Token("cluster-token"));
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["clusters"][0]["cluster"]["proxy-url"] = format!("{scheme}://{}", proxy.address).into();
        let outcome = once().args(DRY).kubeconfig(&config.to_string()).run();
        outcome.expect(0, &[]);
        assert_eq!(outcome.stdout, recorded_report(), "{scheme}");
        let received = proxy.received().pop().unwrap();
        assert!(
            received.starts_with(&api.url().replace("https://", &format!("{request} "))),
            "{scheme}: {received}"
        );
        assert!(
            !received.contains("cluster-token") && !received.contains("proxy-authorization"),
            "{received}"
        );
    }
    assert_eq!(
        (plain.received().len(), tls.received().len()),
        (2, 1),
        "expected one connection for all pages"
    );
}

#[test]
fn proxy_credentials_are_percent_decoded() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let (plain, tls) = (Forwarder::start(None), Forwarder::start(Some(authority.server(None))));
    let basic = "proxy-authorization: basic dxnlcjpwyubzczp3b3jk\r\n";
    for (scheme, proxy, expected) in
        [("http", &plain, basic), ("https", &tls, basic), ("socks5", &plain, "user pa@ss:word")]
    {
        let program =
            once().args(DRY).kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Anonymous));
        // "user:pa@ss:word", percent-encoded.
        let address = format!("{scheme}://user:pa%40ss%3Aword@{}", proxy.address);
        program.env("HTTPS_PROXY", &address).run().expect(0, &[]);
        let received = proxy.received().join("\n").to_ascii_lowercase();
        assert!(received.contains(expected), "{scheme}: {received}");
    }
}

#[test]
fn tls_server_name_of_the_kubeconfig_is_verified() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server_named("cluster.internal"), recorded);
    let config = kubeconfig(&api.url(), Some(&authority.pem()), &User::Anonymous);
    let mut named: serde_json::Value = serde_json::from_str(&config).unwrap();
    named["clusters"][0]["cluster"]["tls-server-name"] = "cluster.internal".into();
    once().args(DRY).kubeconfig(&named.to_string()).run().expect(0, &[]);
    once().args(DRY).kubeconfig(&config).run().expect(8, &["certificate"]);
}
