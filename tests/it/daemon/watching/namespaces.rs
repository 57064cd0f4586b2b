//! Misspelled, deleted and forbidden namespaces. Their environment is withheld with a reason; others are reported.

use crate::daemon::support::cluster::{Cluster, Pod, grants, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::{force_relist, gate_with_service};
use crate::daemon::{Daemon, DaemonBuilder, ExpectedEnvironment, assert_no_loss, eventually, eventually_or};

const SHOP: ExpectedEnvironment =
    ExpectedEnvironment { name: "shop", includes: |namespace| namespace == "shop" };
const PAY: ExpectedEnvironment =
    ExpectedEnvironment { name: "pay", includes: |namespace| namespace == "pay" };

const BOTH: &str = "environments:\n- name: shop\n  namespaces: [shop]\n- name: pay\n  namespaces: [pay]\n";
const ONE: &str = "environments:\n- name: shop\n  namespaces: [shop]\n";

fn one(namespace: &str, name: &str) -> Pod {
    pod(namespace, name).image("registry.example.com/app:1", 'a')
}

fn start(cluster: &Cluster, gate: &Gate) -> Daemon {
    DaemonBuilder::new(cluster, gate).config(BOTH).start()
}

/// Asserts that a change in each namespace is reported to its environment.
async fn both_are_reported(cluster: &Cluster, gate: &Gate, name: &str) {
    for environment in [SHOP, PAY] {
        cluster.add(one(environment.name, name));
        assert_no_loss(gate, cluster, environment).await;
    }
}

async fn withheld(daemon: &Daemon, environment: &str, reason: &str) -> bool {
    let labels = format!("environment=\"{environment}\",reason=\"{reason}\"");
    daemon.count("supercargo_agent_withheld", &labels).await > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misspelled_namespace_withholds_its_environment_until_it_has_pods() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add(one("shop", "web-1"));
    cluster.add(one("pya", "pay-1"));
    let daemon = start(&cluster, &gate);
    // Logged once the lookup has failed.
    let line = daemon.wait_for_line("pay: not reported").await;
    assert!(
        line.contains("the namespace \"pay\" does not exist (check the name; if it is intended to be empty,"),
        "{line}"
    );
    cluster.add(one("shop", "web-2"));
    assert_no_loss(&gate, &cluster, SHOP).await;
    assert!(withheld(&daemon, "pay", "no_such_namespace").await);
    // The lookup is repeated.
    let lookups = cluster.count(|request| !request.is_about_pods());
    eventually("the namespace is looked up", async || {
        cluster.count(|request| !request.is_about_pods()) > lookups
    })
    .await;
    assert!(gate.reports().iter().all(|report| report.environment == "shop"));

    // An existing empty namespace may also be a mistake.
    cluster.create_namespace("pay");
    daemon.wait_for_line("pay: not reported: no pods in the namespace \"pay\"").await;
    assert!(gate.reports().iter().all(|report| report.environment == "shop"));
    both_are_reported(&cluster, &gate, "new").await;
    daemon.wait_for_line("pay: no longer withheld").await;
    assert!(!withheld(&daemon, "pay", "no_such_namespace").await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deleted_during_the_watch_is_reported_as_empty() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add_all([one("shop", "web-1"), one("pay", "pay-1"), one("pay", "pay-2")]);
    let daemon = start(&cluster, &gate);
    both_are_reported(&cluster, &gate, "one").await;
    cluster.delete_namespace("pay");
    assert_no_loss(&gate, &cluster, PAY).await;
    assert!(gate.last_accepted("pay").unwrap().pods.is_empty());
    // A relist confirms it.
    force_relist(&cluster).await;
    daemon.wait_for_line("the namespace \"pay\": recovered after").await;
    both_are_reported(&cluster, &gate, "two").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environment_with_only_an_unreadable_pod_is_withheld() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add(one("shop", "web-1"));
    let daemon = DaemonBuilder::new(&cluster, &gate).config(ONE).start();
    assert_no_loss(&gate, &cluster, SHOP).await;
    cluster.delete("shop", "web-1");
    assert_no_loss(&gate, &cluster, SHOP).await;
    cluster.add(one("shop", "web-2").created(-1));
    daemon.wait_for_line("shop: not reported").await;
    cluster.delete("shop", "web-2");
    daemon.wait_for_line("shop: no longer withheld").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_role_withholds_only_its_environment() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add_all([one("shop", "web-1"), one("pay", "pay-1"), one("pay", "pay-2")]);
    cluster.allow_only([grants(Some("shop")), grants(Some("pay"))].concat());
    cluster.keep_watches_open();
    let daemon = DaemonBuilder::new(&cluster, &gate).config(BOTH).env("RUST_LOG", "supercargo=debug").start();
    both_are_reported(&cluster, &gate, "one").await;

    cluster.allow_only(grants(Some("shop")));
    // Open watches continue.
    both_are_reported(&cluster, &gate, "two").await;
    cluster.end_watches();
    let line = daemon.wait_for_line("403 Forbidden").await;
    assert!(line.contains("the namespace \"pay\"") && line.contains("with a Role in namespace"), "{line}");
    cluster.delete("pay", "pay-2");
    daemon
        .wait_for_line("pay: not reported: no response from the API server for the namespace \"pay\"")
        .await;
    assert!(withheld(&daemon, "pay", "stale").await);
    let (status, checks) = daemon.readyz().await;
    assert_eq!(status, 503, "{checks}");
    assert!(checks.contains("[-]watch pay failed: no response from the API server for"), "{checks}");
    assert!(checks.contains("403 Forbidden") && checks.contains("[+]watch shop ok"), "{checks}");

    // The stale environment is not reported; the other one is.
    cluster.add(one("shop", "web-3"));
    assert_no_loss(&gate, &cluster, SHOP).await;
    let before = gate.accepted("shop").len();
    eventually("heartbeats", async || gate.accepted("shop").len() >= before + 2).await;
    assert_eq!(daemon.begun_while_withheld("pay"), <[String; 0]>::default());

    cluster.allow_only([grants(Some("shop")), grants(Some("pay"))].concat());
    both_are_reported(&cluster, &gate, "three").await;
    daemon.wait_for_line("the namespace \"pay\": recovered after").await;
    daemon.wait_for_line("pay: no longer withheld").await;
    let details = || format!("{:#?}", daemon.log());
    eventually_or("the daemon is ready", async || daemon.is_ready().await, details).await;
    daemon.stop().await;
}
