//! The fake API server and endpoint, and the processes that run against them.

use std::future::ready;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::api::Cluster;
use super::endpoint::Endpoint;
use super::process::program;
use super::{http, list};
use crate::fake::kube::{User, kubeconfig};
use crate::fake::pki::Authority;

/// A running cluster and endpoint, and the files to access them.
pub struct Stage {
    pub cluster: Arc<Cluster>,
    pub endpoint: Arc<Endpoint>,
    address: SocketAddr,
    folder: TempDir,
}

impl Stage {
    pub async fn start(pods: usize) -> Self {
        let authority = Authority::new();
        let (cluster, endpoint) = (Arc::new(Cluster::new(pods)), Arc::<Endpoint>::default());
        let answering = Arc::clone(&cluster);
        let tls = http::tls(&authority.host("server"));
        let api = http::serve(tls, move |request| ready(answering.answer(&request))).await;
        let receiving = Arc::clone(&endpoint);
        let receive = move |request| Arc::clone(&receiving).answer(request);
        let address = http::serve(authority.server(None), receive).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let kubeconfig = kubeconfig(&format!("https://{api}"), Some(&authority.pem()), &User::Token("t"));
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        Self { cluster, endpoint, address, folder }
    }

    /// The daemon, which reports changes only: heartbeats are rare.
    pub fn agent(&self) -> Command {
        let mut command = program();
        command
            .env("SUPERCARGO_TOKEN", "t")
            .args(["agent", "--org", "bench", "--environment", "bench"])
            .args(["--base-url", &format!("https://{}", self.address)])
            .args(["--listen", "127.0.0.1:0", "--interval", "10m"])
            .arg("--kubeconfig")
            .arg(self.folder.path().join("kubeconfig"))
            .arg("--ca-file")
            .arg(self.folder.path().join("ca.pem"));
        command
    }

    /// Requests metrics and health at this address, as a cluster does.
    pub fn scrape(address: &str) {
        for path in ["/metrics", "/livez", "/readyz"] {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        }
    }

    /// CPU time of kube's typed list in seconds.
    pub async fn typed_list(&self) -> f64 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(list::MODE).arg(self.folder.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (listed, seconds) = printed.split_once(' ').unwrap();
        assert_eq!(listed, self.cluster.pods.to_string());
        seconds.parse().unwrap()
    }
}
