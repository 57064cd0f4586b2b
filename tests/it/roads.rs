//! The roads to an API server: through proxies of each kind, and under a name that is not its address.

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

/// A proxy that forwards to wherever it is asked to, for as long as it is there.
struct Forwarder {
    address: SocketAddr,
    /// What it was asked.
    asked: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl Forwarder {
    /// One that speaks HTTP, over TLS where it has a certificate, and SOCKS of version 5.
    fn start(tls: Option<ServerConfig>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (keeping, tls) = (Arc::clone(&asked), tls.map(|tls| TlsAcceptor::from(Arc::new(tls))));
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (keeping, tls) = (Arc::clone(&keeping), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => forward(tls.accept(stream).await.unwrap(), &keeping).await,
                        None => forward(stream, &keeping).await,
                    }
                });
            }
        });
        Self { address, asked, _runtime: runtime }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn forward(mut client: impl AsyncRead + AsyncWrite + Unpin, asked: &Mutex<Vec<String>>) {
    let mut head = vec![client.read_u8().await.unwrap()];
    let (server, granted) = if head == [5] {
        // RFC 1928: the methods that the client knows, of which the last is taken, and an address of version 4.
        let methods = text(&mut client).await;
        let method = *methods.last().unwrap();
        client.write_all(&[5, method]).await.unwrap();
        if method == 2 {
            // RFC 1929.
            assert_eq!(client.read_u8().await.unwrap(), 1);
            let (user, password) = (text(&mut client).await, text(&mut client).await);
            let told = [user, password].map(|told| String::from_utf8(told).unwrap()).join(" ");
            asked.lock().unwrap().push(told);
            client.write_all(&[1, 0]).await.unwrap();
        }
        let mut request = [0; 10];
        client.read_exact(&mut request).await.unwrap();
        let [5, 1, 0, 1, a, b, c, d, high, low] = request else { panic!("{request:?}") };
        let server = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])));
        asked.lock().unwrap().push(format!("SOCKS5 {server}"));
        (server, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0].to_vec())
    } else {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let server = head.split(' ').nth(1).unwrap().parse().unwrap();
        asked.lock().unwrap().push(head);
        (server, b"HTTP/1.1 200 OK\r\n\r\n".to_vec())
    };
    let mut server = TcpStream::connect(server).await.unwrap();
    client.write_all(&granted).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// As many bytes as the first says.
async fn text(client: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut text = vec![0; client.read_u8().await.unwrap().into()];
    client.read_exact(&mut text).await.unwrap();
    text
}

#[test]
fn a_proxy_of_each_kind_leads_to_the_api_server() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let (plain, tls) = (Forwarder::start(None), Forwarder::start(Some(authority.server(None))));
    for (scheme, proxy, asks) in
        [("http", &plain, "CONNECT"), ("https", &tls, "CONNECT"), ("socks5", &plain, "SOCKS5")]
    {
        let config = kubeconfig(&api.url(), Some(&authority.pem()), &User::Token("cluster-token"));
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["clusters"][0]["cluster"]["proxy-url"] = format!("{scheme}://{}", proxy.address).into();
        let outcome = once().args(DRY).kubeconfig(&config.to_string()).run();
        outcome.says(0, &[]);
        assert_eq!(outcome.stdout, recorded_report(), "{scheme}");
        let asked = proxy.asked().pop().unwrap();
        assert!(asked.starts_with(&api.url().replace("https://", &format!("{asks} "))), "{scheme}: {asked}");
        assert!(!asked.contains("cluster-token") && !asked.contains("proxy-authorization"), "{asked}");
    }
    assert_eq!((plain.asked().len(), tls.asked().len()), (2, 1), "one connection for all pages");
}

#[test]
fn a_proxy_is_told_the_credentials_of_its_address_as_they_are() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let (plain, tls) = (Forwarder::start(None), Forwarder::start(Some(authority.server(None))));
    let basic = "proxy-authorization: basic dxnlcjpwyubzczp3b3jk\r\n";
    for (scheme, proxy, told) in
        [("http", &plain, basic), ("https", &tls, basic), ("socks5", &plain, "user pa@ss:word")]
    {
        let program =
            once().args(DRY).kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Nobody));
        // "user:pa@ss:word", as an address has to write it.
        let address = format!("{scheme}://user:pa%40ss%3Aword@{}", proxy.address);
        program.env("HTTPS_PROXY", &address).run().says(0, &[]);
        let asked = proxy.asked().join("\n").to_ascii_lowercase();
        assert!(asked.contains(told), "{scheme}: {asked}");
    }
}

#[test]
fn a_certificate_of_another_name_is_good_where_the_kubeconfig_has_that_name() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server_named("cluster.internal"), recorded);
    let config = kubeconfig(&api.url(), Some(&authority.pem()), &User::Nobody);
    let mut named: serde_json::Value = serde_json::from_str(&config).unwrap();
    named["clusters"][0]["cluster"]["tls-server-name"] = "cluster.internal".into();
    once().args(DRY).kubeconfig(&named.to_string()).run().says(0, &[]);
    once().args(DRY).kubeconfig(&config).run().says(8, &["certificate"]);
}
