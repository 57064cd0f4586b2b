//! Tests of the helpers without a real cluster: the proxy in front of the fake cluster, and the error if no cluster is
//! configured.

use std::time::Duration;

use kube::config::Kubeconfig;

use crate::daemon::support::cluster::{self as fake, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::rules::{always, first_n, on};
use crate::daemon::{DaemonBuilder, PROD, assert_reported_pods_existed, eventually, wait_until_in_sync};
use crate::real::cluster::kubeconfig_path;
use crate::real::{Cluster, Exchange, Fault, Proxy};

#[test]
fn missing_cluster_variable_is_explained() {
    for missing in [None, Some(String::new())] {
        let error = kubeconfig_path(missing).unwrap_err();
        assert!(
            error.contains("SUPERCARGO_TEST_KUBECONFIG is not set: this test needs a cluster"),
            "{error}"
        );
    }
    let error = kubeconfig_path(Some("/nowhere".to_owned())).unwrap_err();
    assert!(error.ends_with("names /nowhere, which is not a file"), "{error}");
    assert!(kubeconfig_path(Some("Cargo.toml".to_owned())).unwrap().is_absolute());
}

#[test]
fn kubeconfig_with_token_replaces_the_user() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fake = fake::Cluster::start();
    fake.require_token("first");
    let cluster =
        runtime.block_on(Cluster::from_kubeconfig(Kubeconfig::from_yaml(&fake.kubeconfig()).unwrap()));
    let other = cluster.kubeconfig_with_token("other");
    assert!(cluster.kubeconfig().contains("first") && !other.contains("first"), "{other}");
    assert!(other.contains(r#""token":"other""#), "{other}");
}

async fn start_proxy(fake: &fake::Cluster) -> Proxy {
    Proxy::start(&Cluster::from_kubeconfig(Kubeconfig::from_yaml(&fake.kubeconfig()).unwrap()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_forwards_requests_and_injects_faults() {
    let (fake, gate) = (fake::Cluster::start(), Gate::without_service());
    fake.add_all((1..=7).map(|n| pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", 'a')));
    let proxy = start_proxy(&fake).await;
    proxy.inject(on(|request| request.query.contains("sendInitialEvents"), always(Fault::CannotStream)));
    proxy.inject(on(|request| !request.query.contains("watch"), first_n(1, Fault::CutAfter(200))));
    proxy.inject(always(Fault::Pages(3)));
    let daemon = DaemonBuilder::from_kubeconfig(&proxy.kubeconfig(), &gate).start();
    wait_until_in_sync(&gate, &fake, PROD).await;
    let exchanges = proxy.exchanges();
    assert_eq!(exchanges[0].status, 422);
    let pages: Vec<_> = exchanges.iter().filter(|exchange| exchange.is_list()).collect();
    assert_eq!(pages[0].body.len(), 200);
    let is_first: Vec<_> = pages.iter().map(|page| page.parameter("continue").is_none()).collect();
    assert_eq!(is_first, [true, true, false, false]);
    assert!(pages[1].has("web-3") && !pages[1].has("web-4"));

    eventually("a watch is open", async || fake.open_watches() == 1).await;
    proxy.listen(false);
    eventually("no watch is open", async || fake.open_watches() == 0).await;
    fake.delete("shop", "web-1");
    daemon.wait_for_line("retrying").await;
    proxy.listen(true);
    wait_until_in_sync(&gate, &fake, PROD).await;
    let watches = proxy.count(Exchange::is_watch);
    proxy.drop_connections();
    fake.delete("shop", "web-2");
    wait_until_in_sync(&gate, &fake, PROD).await;
    assert!(proxy.count(Exchange::is_watch) > watches);
    assert_reported_pods_existed(&gate, &fake, PROD);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_forwards_events_and_bookmarks() {
    let (fake, gate) = (fake::Cluster::start(), Gate::without_service());
    fake.bookmarks_every(Duration::from_millis(10));
    fake.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    let proxy = start_proxy(&fake).await;
    let daemon = DaemonBuilder::from_kubeconfig(&proxy.kubeconfig(), &gate).start();
    wait_until_in_sync(&gate, &fake, PROD).await;
    let stream = || proxy.exchanges().into_iter().find(Exchange::is_streaming_list).unwrap();
    assert_eq!(stream().count("k8s.io/initial-events-end"), 1);
    eventually("bookmarks are forwarded", async || stream().count("BOOKMARK") > 2).await;
    daemon.stop().await;
}
