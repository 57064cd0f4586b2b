//! Namespaces that are misspelt, deleted, or closed to the agent: their environment is withheld and says
//! why, and the others go on.

use crate::daemon::cluster::{Cluster, Pod, grants, pod};
use crate::daemon::gate::Gate;
use crate::daemon::shop::{force_a_list, gate};
use crate::daemon::{Daemon, Environment, Starting, all_holds, eventually, eventually_or};

const SHOP: Environment = Environment { name: "shop", takes: |namespace| namespace == "shop" };
const PAY: Environment = Environment { name: "pay", takes: |namespace| namespace == "pay" };

const BOTH: &str = "environments:\n- name: shop\n  namespaces: [shop]\n- name: pay\n  namespaces: [pay]\n";
const ONE: &str = "environments:\n- name: shop\n  namespaces: [shop]\n";

fn one(namespace: &str, name: &str) -> Pod {
    pod(namespace, name).image("registry.example.com/app:1", 'a')
}

fn start(cluster: &Cluster, gate: &Gate) -> Daemon {
    Starting::between(cluster, gate).config(BOTH).start()
}

/// A change in each namespace comes to its environment.
async fn both_hold(cluster: &Cluster, gate: &Gate, name: &str) {
    for environment in [SHOP, PAY] {
        cluster.add(one(environment.name, name));
        all_holds(gate, cluster, environment).await;
    }
}

async fn withheld(daemon: &Daemon, environment: &str, reason: &str) -> bool {
    let labels = format!("environment=\"{environment}\",reason=\"{reason}\"");
    daemon.count("supercargo_agent_withheld", &labels).await > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_was_misspelt_withholds_its_environment_until_it_holds_pods() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add(one("shop", "web-1"));
    cluster.add(one("pya", "pay-1"));
    let daemon = start(&cluster, &gate);
    // One clear line, and not before it was looked for.
    let line = daemon.says("pay: reports are withheld").await;
    assert!(
        line.contains("the namespace \"pay\" does not exist (check the name; if it is intended,"),
        "{line}"
    );
    cluster.add(one("shop", "web-2"));
    all_holds(&gate, &cluster, SHOP).await;
    assert!(withheld(&daemon, "pay", "no_such_namespace").await);
    // It is asked for again and again.
    let asked = cluster.count(|ask| !ask.is_about_pods());
    eventually("it is looked for", async || cluster.count(|ask| !ask.is_about_pods()) > asked).await;
    assert!(gate.reports().iter().all(|report| report.environment == "shop"));

    // That it is there and empty may be a mistake as well, and is said.
    cluster.create_namespace("pay");
    daemon.says("pay: reports are withheld: no pod is in the namespace \"pay\"").await;
    assert!(gate.reports().iter().all(|report| report.environment == "shop"));
    both_hold(&cluster, &gate, "new").await;
    daemon.says("pay: no longer withheld").await;
    assert!(!withheld(&daemon, "pay", "no_such_namespace").await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_is_deleted_while_it_is_watched_is_reported_as_empty() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add_all([one("shop", "web-1"), one("pay", "pay-1"), one("pay", "pay-2")]);
    let daemon = start(&cluster, &gate);
    both_hold(&cluster, &gate, "one").await;
    cluster.delete_namespace("pay");
    all_holds(&gate, &cluster, PAY).await;
    assert!(gate.last_accepted("pay").unwrap().pods.is_empty());
    // A list shows nothing else.
    force_a_list(&cluster).await;
    daemon.says("the namespace \"pay\": back after").await;
    both_hold(&cluster, &gate, "two").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_its_only_pod_cannot_be_read_withholds_an_environment_until_it_is_gone() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add(one("shop", "web-1"));
    let daemon = Starting::between(&cluster, &gate).config(ONE).start();
    all_holds(&gate, &cluster, SHOP).await;
    cluster.delete("shop", "web-1");
    all_holds(&gate, &cluster, SHOP).await;
    cluster.add(one("shop", "web-2").created(-1));
    daemon.says("shop: reports are withheld").await;
    cluster.delete("shop", "web-2");
    daemon.says("shop: no longer withheld").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_is_taken_away_while_a_watch_is_open_withholds_its_environment_alone() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add_all([one("shop", "web-1"), one("pay", "pay-1"), one("pay", "pay-2")]);
    cluster.allow_only([grants(Some("shop")), grants(Some("pay"))].concat());
    cluster.keep_watches_open();
    let daemon = start(&cluster, &gate);
    both_hold(&cluster, &gate, "one").await;

    cluster.allow_only(grants(Some("shop")));
    // What is open goes on.
    both_hold(&cluster, &gate, "two").await;
    cluster.end_watches();
    let line = daemon.says("403 Forbidden").await;
    assert!(line.contains("the namespace \"pay\"") && line.contains("by a Role in the namespace"), "{line}");
    cluster.delete("pay", "pay-2");
    daemon.says("pay: reports are withheld: the namespace \"pay\" has not been heard of for too long").await;
    assert!(withheld(&daemon, "pay", "stale").await);
    let (status, checks) = daemon.readyz().await;
    assert_eq!(status, 503, "{checks}");
    assert!(checks.contains("[-]watch pay failed: nothing was heard for"), "{checks}");
    assert!(checks.contains("403 Forbidden") && checks.contains("[+]watch shop ok"), "{checks}");

    // No more is reported of what it does not know, and the other environment goes on.
    let reports = gate.accepted("pay").len();
    cluster.add(one("shop", "web-3"));
    all_holds(&gate, &cluster, SHOP).await;
    let before = gate.accepted("shop").len();
    eventually("heartbeats", async || gate.accepted("shop").len() >= before + 2).await;
    assert_eq!(gate.accepted("pay").len(), reports);

    cluster.allow_only([grants(Some("shop")), grants(Some("pay"))].concat());
    both_hold(&cluster, &gate, "three").await;
    daemon.says("the namespace \"pay\": back after").await;
    daemon.says("pay: no longer withheld").await;
    let why = || format!("{:#?}", daemon.said());
    eventually_or("it is ready", async || daemon.is_ready().await, why).await;
    daemon.stop().await;
}
