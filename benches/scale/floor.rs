//! Lower bounds of the cost: reads the daemon's list and watch over TLS and discards the bytes.
//!
//! `bytes` uses only rustls on a socket, the minimum for any reader. `client` adds kube's client and HTTP. Both print
//! `listed` after the list, continue with the events until they are killed, and pause between reads as the daemon does.

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

/// First request of the daemon.
const PATH: &str = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const ACCEPT: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Pause of the daemon between two reads.
const READ_PAUSE: Duration = Duration::from_millis(25);

/// Size of the read buffer, in bytes.
const BUFFER_SIZE: usize = 256 * 1024;

/// Remaining bytes of the list.
static REMAINING: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes that were read, and prints the end of the list.
fn count(bytes: usize) {
    let remaining = REMAINING.load(Ordering::Relaxed);
    REMAINING.store(remaining.saturating_sub(bytes), Ordering::Relaxed);
    if 0 < remaining && remaining <= bytes {
        println!("listed");
    }
}

/// Pauses between reads, once the list is read.
pub fn pause() {
    if REMAINING.load(Ordering::Relaxed) == 0 {
        sleep(READ_PAUSE);
    }
}

/// Reads the response until the server closes the connection. `list` is the length of the list in bytes.
pub fn bytes(folder: &str, api: &str, list: usize) {
    REMAINING.store(list, Ordering::Relaxed);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(format!("{folder}/ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut tls = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut socket = BufReader::with_capacity(BUFFER_SIZE, TcpStream::connect(api).unwrap());
    // HTTP/1.0, so that the body is not chunked and ends with the connection.
    write!(tls.writer(), "GET {PATH} HTTP/1.0\r\nHost: {api}\r\nAccept: {ACCEPT}\r\n\r\n").unwrap();
    let mut head = Some(Vec::new());
    loop {
        while tls.wants_write() {
            tls.write_tls(socket.get_mut()).unwrap();
        }
        if socket.buffer().is_empty() {
            pause();
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
                None => count(length),
                Some(start) => {
                    start.extend_from_slice(plain);
                    if let Some(end) = start.windows(4).position(|four| four == b"\r\n\r\n") {
                        assert!(start.starts_with(b"HTTP/1.0 200"));
                        count(start.len() - end - 4);
                        head = None;
                    }
                }
            }
            reader.consume(length);
        }
    }
}

/// Reads the same response with kube's client.
pub async fn client(folder: &str, list: usize) {
    REMAINING.store(list, Ordering::Relaxed);
    let client = super::baseline::client(folder).await;
    let request = http::Request::get(PATH).header("accept", ACCEPT);
    let mut body = client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap().into_body();
    while let Some(Ok(frame)) = body.frame().await {
        count(frame.into_data().map_or(0, |data| data.len()));
    }
}
