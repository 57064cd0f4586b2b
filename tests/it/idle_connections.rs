//! Connections to a listener for probes that send nothing.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Much less than the time in which a kubelet gives up, and more than idle connections have.
const PATIENCE: Duration = Duration::from_secs(8);

async fn connect(host: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Forty idle connections from each of two addresses delay no probe, and are closed.
pub async fn assert_probe_is_answered_beside_idle_connections(address: SocketAddr) {
    let mut idle = Vec::new();
    for host in [2; 40].into_iter().chain([3; 40]) {
        idle.push(connect(host, address).await);
    }
    let mut probe = connect(1, address).await;
    probe.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    timeout(PATIENCE, probe.read_to_string(&mut response)).await.expect("the probe waits").unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ok\n"), "{response}");
    for stream in &mut idle {
        let closed = timeout(PATIENCE, stream.read_u8()).await;
        assert!(closed.expect("an idle connection stays open").is_err());
    }
}
