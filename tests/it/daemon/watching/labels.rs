//! Environments that select namespaces by labels: labels gained and lost, and failures of the watch of namespaces.

use std::collections::BTreeMap;

use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault, Grant, Pod, grants, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::ReportedPod;
use crate::daemon::support::rules::{always, on};
use crate::daemon::support::shop::gate_with_service;
use crate::daemon::{
    DaemonBuilder, ExpectedEnvironment, PROD, assert_no_loss, eventually, wait_until_in_sync,
};
use crate::fake::pods::UNREADABLE;

const TEAMS: &str = "environments:
- name: teams
  namespaces: [shop]
  namespaceSelector: team,env notin (test)
  excludeNamespaces: [ops]
";
const BOTH: &str = "environments:
- name: teams
  namespaceSelector: team
- name: prod
";

const fn teams(includes: fn(&str) -> bool) -> ExpectedEnvironment {
    ExpectedEnvironment { name: "teams", includes }
}

const PAY: ExpectedEnvironment = teams(|namespace| namespace == "pay");

fn one(namespace: &str, name: &str) -> Pod {
    pod(namespace, name).image("registry.example.com/app:1", 'a')
}

/// The shop, without labels, and the namespaces `pay`, `ledger` and `ops`, with two pods each.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    for namespace in ["shop", "pay", "ledger", "ops"] {
        cluster.add_all(["web-1", "web-2"].map(|name| one(namespace, name)));
    }
    cluster.label_namespace("pay", &["team=a"]);
    cluster.label_namespace("ops", &["team=a"]);
    cluster
}

/// Number of pods by namespace in each accepted report, without repetitions.
fn reported(gate: &Gate) -> Vec<BTreeMap<String, usize>> {
    let mut counts: Vec<_> = gate
        .accepted("teams")
        .iter()
        .map(|report| {
            report.pods.iter().fold(BTreeMap::new(), |mut counts, pod| {
                *counts.entry(pod.namespace.clone()).or_default() += 1;
                counts
            })
        })
        .collect();
    counts.dedup();
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_labels_move_pods_in_one_report_without_a_list() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    let daemon = DaemonBuilder::new(&cluster, &gate).config(TEAMS).start();
    let sync = async |includes| wait_until_in_sync(&gate, &cluster, teams(includes)).await;
    sync(|namespace| matches!(namespace, "shop" | "pay")).await;
    let lists = || cluster.count(|request| !request.is_watch());
    let listed = lists();
    // Gained.
    cluster.label_namespace("ledger", &["team=b", "env=prod"]);
    sync(|namespace| matches!(namespace, "shop" | "pay" | "ledger")).await;
    // Lost, and excluded from the start.
    cluster.label_namespace("pay", &["team=a", "env=test"]);
    sync(|namespace| matches!(namespace, "shop" | "ledger")).await;
    cluster.label_namespace("shop", &["env=test"]);
    cluster.label_namespace("ops", &["team=b"]);
    // Started while not selected, and in a new namespace.
    cluster.add(one("pay", "web-3"));
    cluster.label_namespace("new", &["team=c"]);
    cluster.add(one("new", "web-1"));
    sync(|namespace| matches!(namespace, "shop" | "ledger" | "new")).await;
    cluster.label_namespace("pay", &["team=a"]);
    sync(|namespace| matches!(namespace, "shop" | "ledger" | "new" | "pay")).await;
    let counts = |counts: &[(&str, usize)]| counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    let expected: [BTreeMap<_, _>; 5] = [
        counts(&[("shop", 2), ("pay", 2)]),
        counts(&[("shop", 2), ("pay", 2), ("ledger", 2)]),
        counts(&[("shop", 2), ("ledger", 2)]),
        counts(&[("shop", 2), ("ledger", 2), ("new", 1)]),
        counts(&[("shop", 2), ("ledger", 2), ("new", 1), ("pay", 3)]),
    ];
    assert_eq!(reported(&gate), expected);
    cluster.delete_namespace("ledger");
    sync(|namespace| matches!(namespace, "shop" | "new" | "pay")).await;
    // A namespace with the name of a deleted one.
    cluster.add(one("ledger", "web-1"));
    cluster.add(one("shop", "web-3"));
    sync(|namespace| matches!(namespace, "shop" | "new" | "pay")).await;
    assert_eq!(lists(), listed);
    daemon.stop().await;
}

/// The pod started before an accepted report, which did not contain it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_that_ends_before_the_first_report_with_its_namespace_is_reported() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    let daemon = DaemonBuilder::new(&cluster, &gate).config(TEAMS).start();
    wait_until_in_sync(&gate, &cluster, teams(|namespace| matches!(namespace, "shop" | "pay"))).await;
    gate.listen(false);
    cluster.label_namespace("ledger", &["team=b"]);
    daemon.wait_for_line("teams: report failed").await;
    cluster.delete("ledger", "web-1");
    gate.listen(true);
    let is_departed = |pod: &ReportedPod| (&*pod.namespace, &*pod.name) == ("ledger", "web-1");
    let is_reported = async || gate.every_accepted_pod("teams").iter().any(is_departed);
    eventually("the departed pod is reported", is_reported).await;
    let now = teams(|namespace| matches!(namespace, "shop" | "pay" | "ledger"));
    wait_until_in_sync(&gate, &cluster, now).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_namespaces_withhold_only_environments_by_labels() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    cluster.label_namespace("ops", &[]);
    cluster.allow_only(grants(None));
    let daemon = DaemonBuilder::new(&cluster, &gate).config(BOTH).start();
    let line = daemon.wait_for_line("403 Forbidden").await;
    assert!(line.contains("the namespaces: failed to "), "{line}");
    assert!(line.contains("on \"namespaces\" with a ClusterRole"), "{line}");
    daemon.wait_for_line("teams: not reported: the first list of the namespaces is not complete").await;
    let (status, checks) = daemon.readyz().await;
    assert_eq!(status, 503, "{checks}");
    assert!(
        checks.contains("[-]list namespaces failed") && checks.contains("[+]list cluster ok"),
        "{checks}"
    );
    // A pod ends before the labels of its namespace are known.
    cluster.add(one("pay", "brief"));
    assert_no_loss(&gate, &cluster, PROD).await;
    cluster.delete("pay", "brief");
    assert_no_loss(&gate, &cluster, PROD).await;
    assert!(gate.accepted("teams").is_empty());

    let by_labels = |verb| Grant { verb, resource: "namespaces", namespace: None };
    cluster.allow_only(grants(None).into_iter().chain([by_labels("list"), by_labels("watch")]));
    assert_no_loss(&gate, &cluster, PAY).await;
    let reported = gate.every_accepted_pod("teams").iter().any(|pod| pod.name == "brief");
    assert!(reported, "{:#?}", gate.accepted("teams"));
    daemon.wait_for_line("the namespaces: 6 listed in ").await;
    let all = gate.every_accepted_pod("prod").iter().filter(|pod| pod.name == "brief").count();
    assert!(all > 0);
    eventually("the daemon is ready", async || daemon.is_ready().await).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pods_without_known_labels_are_dropped_at_the_limit_and_counted() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    cluster.allow_only(grants(None));
    let daemon = DaemonBuilder::new(&cluster, &gate).config(TEAMS).start();
    daemon.wait_for_line(" pods listed in ").await;
    let names: Vec<_> = (0..1_003).map(|n| format!("brief-{n}")).collect();
    for namespace in ["pay", "ops"] {
        cluster.add_all(names.iter().map(|name| one(namespace, name)));
        for name in &names {
            cluster.delete(namespace, name);
        }
    }
    let dropped = async || {
        let count = daemon.count("supercargo_agent_departed_pods_dropped_total", r#"environment="teams""#);
        count.await == 3
    };
    eventually("three pods of pay are dropped, and those of ops are excluded", dropped).await;
    daemon.wait_for_line("teams: dropped ").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_namespace_keeps_its_environments_and_withholds_empty_reports() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    cluster.label_namespace("ops", &[]);
    cluster.keep_watches_open();
    let daemon = DaemonBuilder::new(&cluster, &gate).config(BOTH).start();
    assert_no_loss(&gate, &cluster, PAY).await;

    cluster.label_namespace("pay", &[UNREADABLE]);
    daemon.wait_for_line("labels of an unreadable namespace ignored").await;
    let lists = || cluster.count(|request| request.is_about_labels() && !request.is_watch());
    let listed = lists();
    cluster.compact();
    cluster.end_watches();
    eventually("the namespaces are listed again", async || lists() > listed).await;
    cluster.add(one("pay", "web-3"));
    wait_until_in_sync(&gate, &cluster, PAY).await;
    for name in ["web-1", "web-2", "web-3"] {
        cluster.delete("pay", name);
    }
    daemon.wait_for_line("teams: not reported: no artifacts; 1 listed pods or namespaces").await;
    assert_no_loss(&gate, &cluster, PROD).await;
    cluster.label_namespace("pay", &[]);
    daemon.wait_for_line("teams: no longer withheld").await;
    wait_until_in_sync(&gate, &cluster, teams(|_| false)).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_namespaces_withhold_reports_until_they_are_watched_again() {
    let (cluster, gate) = (cluster(), gate_with_service().await);
    cluster.label_namespace("ops", &[]);
    cluster.keep_watches_open();
    let builder = DaemonBuilder::new(&cluster, &gate).config(BOTH).env("RUST_LOG", "supercargo=debug");
    let daemon = builder.start();
    assert_no_loss(&gate, &cluster, PAY).await;

    cluster.inject(on(ApiRequest::is_about_labels, always(Fault::Broken)));
    cluster.end_watches();
    daemon.wait_for_line("teams: not reported: no response from the API server for the namespaces").await;
    let prod = gate.accepted("prod").len();
    cluster.delete_namespace("pay");
    cluster.label_namespace("ledger", &["team=b"]);
    cluster.add(one("new", "web-1"));
    cluster.label_namespace("new", &["team=c"]);
    eventually("heartbeats", async || gate.accepted("prod").len() >= prod + 2).await;
    assert_eq!(daemon.begun_while_withheld("teams"), <[String; 0]>::default());

    // The list has the changes.
    cluster.compact();
    cluster.clear_faults();
    let changed = teams(|namespace| matches!(namespace, "ledger" | "new"));
    wait_until_in_sync(&gate, &cluster, changed).await;
    daemon.wait_for_line("teams: no longer withheld").await;
    daemon.wait_for_line("the namespaces: recovered after").await;
    // No label is left: confirmed, therefore reported as empty.
    cluster.label_namespace("ledger", &[]);
    cluster.delete_namespace("new");
    wait_until_in_sync(&gate, &cluster, teams(|_| false)).await;
    daemon.stop().await;
}
