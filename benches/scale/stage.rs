//! The fake API server and endpoint of a measurement, and the processes that run against them.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use tempfile::TempDir;

use super::api::Cluster;
use super::endpoint::Endpoint;
use super::http;
use super::pods::Size;
use super::process::{Process, run_self};
use crate::fake::kube::{User, kubeconfig};
use crate::fake::pki::Authority;

/// A running cluster and endpoint, and the files to access them.
pub struct Stage {
    pub cluster: Arc<Cluster>,
    pub endpoint: Arc<Endpoint>,
    pub api: SocketAddr,
    pub address: SocketAddr,
    pub folder: TempDir,
}

impl Stage {
    pub async fn start(pods: usize, size: Size, in_namespace: usize) -> Self {
        let authority = Authority::new();
        let (cluster, endpoint) =
            (Arc::new(Cluster::new(pods, size, in_namespace)), Arc::<Endpoint>::default());
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
        Self { cluster, endpoint, api, address, folder }
    }

    /// Peak RSS in MiB, CPU and wall time in seconds.
    pub async fn once(&self) -> [f64; 3] {
        self.run_self(&["once", self.folder(), &self.address.to_string()]).await.try_into().unwrap()
    }

    pub async fn run_self(&self, args: &[&str]) -> Vec<f64> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let output = tokio::task::spawn_blocking(move || {
            run_self(&args.iter().map(String::as_str).collect::<Vec<_>>())
        });
        output.await.unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// Starts a process and returns once it has read the list.
    pub async fn reader(&self, args: &[&str]) -> Process {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        tokio::task::spawn_blocking(move || Process::reader(&args)).await.unwrap()
    }

    pub fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }
}
