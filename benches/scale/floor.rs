//! What the bytes alone cost: the daemon's list and watch, read over TLS and thrown away.
//!
//! Below `bytes`, rustls on a socket and nothing else, no reader of this cluster can be. `client` has kube's client
//! and its HTTP above that. Each says when it has read the list, goes on with the events for as long as it lives,
//! and between two looks rests as the daemon does.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use http_body_util::BodyExt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// What the daemon asks for first.
const PATH: &str = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const ACCEPT: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// For so long the daemon rests.
const REST: Duration = Duration::from_millis(25);

/// Of a socket, at a time.
const READ: usize = 256 * 1024;

/// How much of the list is to come, in bytes.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// So many bytes of the answer were read.
fn read(bytes: usize) {
    let left = LEFT.load(Ordering::Relaxed);
    LEFT.store(left.saturating_sub(bytes), Ordering::Relaxed);
    if 0 < left && left <= bytes {
        println!("listed");
    }
}

/// Once the list is read.
pub fn rest() {
    if LEFT.load(Ordering::Relaxed) == 0 {
        sleep(REST);
    }
}

/// Reads an answer whose list has so many bytes, until the server goes away.
pub fn bytes(folder: &str, api: &str, list: usize) {
    LEFT.store(list, Ordering::Relaxed);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(format!("{folder}/ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut tls = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut socket = BufReader::with_capacity(READ, TcpStream::connect(api).unwrap());
    // Of HTTP/1.0, so that the body is as it is, to the end of the connection.
    write!(tls.writer(), "GET {PATH} HTTP/1.0\r\nHost: {api}\r\nAccept: {ACCEPT}\r\n\r\n").unwrap();
    let mut head = Some(Vec::new());
    loop {
        while tls.wants_write() {
            tls.write_tls(socket.get_mut()).unwrap();
        }
        if socket.buffer().is_empty() {
            rest();
        }
        if tls.read_tls(&mut socket).unwrap() == 0 {
            return;
        }
        tls.process_new_packets().unwrap();
        let mut reader = tls.reader();
        while let Ok(plain) = reader.fill_buf()
            && !plain.is_empty()
        {
            let length = plain.len();
            match &mut head {
                None => read(length),
                Some(start) => {
                    start.extend_from_slice(plain);
                    if let Some(end) = start.windows(4).position(|four| four == b"\r\n\r\n") {
                        assert!(start.starts_with(b"HTTP/1.0 200"));
                        read(start.len() - end - 4);
                        head = None;
                    }
                }
            }
            reader.consume(length);
        }
    }
}

/// The same through kube's client.
pub async fn client(folder: &str, list: usize) {
    LEFT.store(list, Ordering::Relaxed);
    let client = super::baseline::client(folder).await;
    let request = http::Request::get(PATH).header("accept", ACCEPT);
    let mut body = client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap().into_body();
    while let Some(Ok(frame)) = body.frame().await {
        read(frame.into_data().map_or(0, |data| data.len()));
    }
}
