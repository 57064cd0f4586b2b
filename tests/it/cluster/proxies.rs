//! Connections to an API server through proxies, and with `tls-server-name`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::fake::kube::{User, kubeconfig, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Reply, Server};
use crate::program::{once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// A kubeconfig whose server is this machine, but not its loopback network, for which no proxy is used.
pub fn elsewhere(api: &Server, authority: &Authority, user: &User<'_>) -> String {
    let config = kubeconfig(&api.url().replace("127.0.0.1", "0.0.0.0"), Some(&authority.pem()), user);
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["clusters"][0]["cluster"]["tls-server-name"] = "localhost".into();
    config.to_string()
}

/// A running HTTP and SOCKS proxy.
pub struct Forwarder {
    pub address: SocketAddr,
    /// Heads of CONNECT requests, SOCKS targets and credentials.
    received: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl Forwarder {
    /// Supports HTTP CONNECT, over TLS with a certificate, and SOCKS5.
    pub fn start(tls: Option<ServerConfig>) -> Self {
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

    pub fn received(&self) -> Vec<String> {
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
        let program = once().args(DRY).kubeconfig(&elsewhere(&api, &authority, &User::Anonymous));
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

#[test]
fn proxy_variable_is_used_unless_no_proxy_lists_the_cluster() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let port = api.url().rsplit(':').next().unwrap().to_owned();
    let proxy = Forwarder::start(None);
    let url = format!("http://{}", proxy.address);
    for (variables, is_used) in [
        (vec![("HTTPS_PROXY", url.clone())], true),
        (vec![("HTTPS_PROXY", proxy.address.to_string())], true),
        (vec![("HTTPS_PROXY", format!("socks5h://{}", proxy.address))], true),
        (vec![("HTTPS_PROXY", String::new()), ("https_proxy", url.clone())], true),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "0.0.0.1,/var/run/docker.sock,".into())], true),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "0.0.0.0,/var/run/docker.sock".into())], false),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "localhost,".into())], true),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "example.com,0.0.0.0/8".into())], false),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", format!("0.0.0.0:{port}"))], false),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "0.0.0.0:443".into())], true),
        (vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", "*".into())], false),
        (
            vec![("HTTPS_PROXY", url.clone()), ("NO_PROXY", String::new()), ("no_proxy", "0.0.0.0".into())],
            false,
        ),
        (vec![("ALL_PROXY", url.clone()), ("HTTP_PROXY", url.clone())], false),
    ] {
        let before = proxy.received().len();
        let program = once().args(DRY).kubeconfig(&elsewhere(&api, &authority, &User::Anonymous));
        let program = variables.iter().fold(program, |program, (name, value)| program.env(name, value));
        program.run().expect(0, &["20 pods"]);
        assert_eq!(proxy.received().len() > before, is_used, "{variables:?}");
    }
}

#[test]
fn loopback_api_server_is_reached_without_the_proxy() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    for url in [api.url(), api.url().replace("127.0.0.1", "localhost")] {
        let program =
            once().args(DRY).kubeconfig(&kubeconfig(&url, Some(&authority.pem()), &User::Anonymous));
        program.env("HTTPS_PROXY", "http://127.0.0.1:1").run().expect(0, &["20 pods"]);
    }
}

#[test]
fn password_of_an_unusable_proxy_is_not_printed() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    // This proxy rejects CONNECT: the request is enough.
    let proxy = Server::start(|_| Reply::text(502, "no way"));
    let config = elsewhere(&api, &authority, &User::Anonymous);
    let with =
        |url: &str| once().args(DRY).args(["--timeout", "3s"]).kubeconfig(&config).env("HTTPS_PROXY", url);
    let through = with(&proxy.url().replace("http://", "http://user:pr0xy-pass@")).run();
    through.expect(8, &["failed to list pods"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.requests()[0].method, "CONNECT");
    assert!(proxy.requests()[0].headers.contains_key("proxy-authorization"));
    assert!(api.requests().is_empty());
    let unknown = with("socks4://user:pr0xy-pass@127.0.0.1:1").run();
    assert!(!unknown.stderr.contains("pr0xy-pass"), "{unknown:#?}");
    let invalid = with("http://user:pr0xy-pass@[::1").run();
    invalid.expect(2, &["invalid proxy URL", "expected an http, https, socks5 or socks5h URL"]);
    assert!(!invalid.stderr.contains("pr0xy-pass"), "{invalid:#?}");
}
