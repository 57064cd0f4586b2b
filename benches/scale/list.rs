//! kube's typed API, which lists whole pods in pages of 500, in a process of its own.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use nix::unistd::Pid;

use super::process::cpu;

/// Argument of the process, before the folder of the kubeconfig.
pub const MODE: &str = "typed-list";

/// Lists all pods without storing them, and prints their number and the CPU time in seconds.
pub async fn print(folder: &str) {
    let kubeconfig = Kubeconfig::read_from(format!("{folder}/kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let api: Api<Pod> = Api::all(Client::try_from(config).unwrap());
    let (mut listed, mut parameters) = (0, ListParams::default().limit(500));
    loop {
        let page = api.list(&parameters).await.unwrap();
        listed += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    print!("{listed} {}", cpu(Pid::this()).unwrap().as_secs_f64());
}
