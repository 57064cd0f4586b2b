//! Baselines, each in its own process: kube's typed API, which lists whole pods in pages of 500, and kube's reflector
//! (`--features reflector`), which stores them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

pub async fn client(folder: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(format!("{folder}/kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Lists all pods without storing them.
pub async fn list(folder: &str) -> usize {
    let api: Api<Pod> = Api::all(client(folder).await);
    let (mut listed, mut parameters) = (0, ListParams::default().limit(500));
    loop {
        let page = api.list(&parameters).await.unwrap();
        listed += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return listed,
        }
    }
}

/// Lists, stores and watches all pods.
#[cfg(feature = "reflector")]
pub async fn reflect(folder: &str) -> usize {
    use futures_util::StreamExt;
    use kube_runtime::{WatchStreamExt, reflector, watcher};

    let api: Api<Pod> = Api::all(client(folder).await);
    let (reader, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default()).default_backoff().reflect(writer).touched_objects();
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while stream.next().await.is_some() {}
    });
    reader.wait_until_ready().await.unwrap();
    reader.len()
}
