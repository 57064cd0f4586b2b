//! What of the suite can be shown without a cluster: the proxy, before the one that tests make up, and
//! what is said where none is named.

use std::time::Duration;

use kube::config::Kubeconfig;

use super::cluster::kubeconfig_path;
use super::{Cluster, Fault, Passed, Proxy};
use crate::daemon::cluster::{self as made_up, pod};
use crate::daemon::gate::Gate;
use crate::daemon::rules::{always, on, the_first};
use crate::daemon::{PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_invented};

#[test]
fn where_no_cluster_is_named_the_tests_say_what_is_missing() {
    for nothing in [None, Some(String::new())] {
        let why = kubeconfig_path(nothing).unwrap_err();
        assert!(why.contains("SUPERCARGO_TEST_KUBECONFIG is not set: this test needs a cluster"), "{why}");
    }
    let why = kubeconfig_path(Some("/nowhere".to_owned())).unwrap_err();
    assert!(why.ends_with("names /nowhere: no file"), "{why}");
    assert!(kubeconfig_path(Some("Cargo.toml".to_owned())).unwrap().is_absolute());
}

#[test]
fn another_user_leaves_nothing_of_the_first_in_a_kubeconfig() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let made_up = made_up::Cluster::start();
    made_up.require_token("first");
    let cluster = runtime.block_on(Cluster::at(Kubeconfig::from_yaml(&made_up.kubeconfig()).unwrap()));
    let other = cluster.kubeconfig_of("other");
    assert!(cluster.kubeconfig().contains("first") && !other.contains("first"), "{other}");
    assert!(other.contains(r#""token":"other""#), "{other}");
}

async fn before(made_up: &made_up::Cluster) -> Proxy {
    Proxy::before(&Cluster::at(Kubeconfig::from_yaml(&made_up.kubeconfig()).unwrap()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_passes_on_what_it_is_asked_and_misbehaves_as_it_is_told() {
    let (made_up, gate) = (made_up::Cluster::start(), Gate::alone());
    made_up
        .add_all((1..=7).map(|n| pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", 'a')));
    let proxy = before(&made_up).await;
    proxy.misbehave(on(|seen| seen.query.contains("sendInitialEvents"), always(Fault::CannotStream)));
    proxy.misbehave(on(|seen| !seen.query.contains("watch"), the_first(1, Fault::CutAfter(200))));
    proxy.misbehave(always(Fault::Pages(3)));
    let daemon = Starting::at(&proxy.kubeconfig(), &gate).start();
    holds_what_the_cluster_holds(&gate, &made_up, PROD).await;
    let passed = proxy.passed();
    assert_eq!(passed[0].status, 422);
    let pages: Vec<_> = passed.iter().filter(|passed| passed.is_list()).collect();
    assert_eq!(pages[0].body.len(), 200);
    let is_first: Vec<_> = pages.iter().map(|page| page.parameter("continue").is_none()).collect();
    assert_eq!(is_first, [true, true, false, false]);
    assert!(pages[1].has("web-3") && !pages[1].has("web-4"));

    eventually("a watch is open", async || made_up.open_watches() == 1).await;
    proxy.listen(false);
    eventually("no watch is open", async || made_up.open_watches() == 0).await;
    made_up.delete("shop", "web-1");
    daemon.says("trying again").await;
    proxy.listen(true);
    holds_what_the_cluster_holds(&gate, &made_up, PROD).await;
    let watches = proxy.count(Passed::is_watch);
    proxy.hang_up();
    made_up.delete("shop", "web-2");
    holds_what_the_cluster_holds(&gate, &made_up, PROD).await;
    assert!(proxy.count(Passed::is_watch) > watches);
    nothing_was_invented(&gate, &made_up, PROD);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_passes_events_and_bookmarks_on_as_they_come() {
    let (made_up, gate) = (made_up::Cluster::start(), Gate::alone());
    made_up.bookmarks_every(Duration::from_millis(10));
    made_up.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    let proxy = before(&made_up).await;
    let daemon = Starting::at(&proxy.kubeconfig(), &gate).start();
    holds_what_the_cluster_holds(&gate, &made_up, PROD).await;
    let stream = || proxy.passed().into_iter().find(Passed::is_streaming_list).unwrap();
    assert_eq!(stream().count("k8s.io/initial-events-end"), 1);
    eventually("bookmarks pass", async || stream().count("BOOKMARK") > 2).await;
    daemon.stop().await;
}
