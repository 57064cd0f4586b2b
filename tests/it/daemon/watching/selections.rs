//! Selection of pods for environments, and the resulting API requests.

use crate::daemon::support::cluster::{ApiRequest, Cluster, Pod, grants, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::{force_relist, gate_with_service};
use crate::daemon::{
    DaemonBuilder, ExpectedEnvironment, PROD, assert_no_loss, eventually, wait_until_in_sync,
};

const TEAMS: ExpectedEnvironment = ExpectedEnvironment {
    name: "teams",
    includes: |namespace| {
        namespace.starts_with("team-") && namespace != "team-x" && !namespace.ends_with("-dev")
    },
};
const REST: ExpectedEnvironment =
    ExpectedEnvironment { name: "rest", includes: |namespace| !namespace.starts_with("kube-") };

const EXPRESSIONS: &str = "environments:
- name: teams
  namespacesRegex: ['^team-']
  excludeNamespaces: [team-x]
  excludeNamespacesRegex: ['-dev$']
- name: rest
  excludeNamespacesRegex: ['^kube-']
";

const NAMESPACES: [&str; 6] = ["team-a", "team-b", "team-x", "team-a-dev", "shop", "kube-system"];

fn one(namespace: &str, name: &str) -> Pod {
    pod(namespace, name).image("registry.example.com/app:1", 'a')
}

async fn both_are_reported(cluster: &Cluster, gate: &Gate) {
    for environment in [TEAMS, REST] {
        assert_no_loss(gate, cluster, environment).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environments_by_expressions_share_one_watch() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add_all(NAMESPACES.map(|namespace| one(namespace, "first")));
    let daemon = DaemonBuilder::new(&cluster, &gate).config(EXPRESSIONS).start();
    both_are_reported(&cluster, &gate).await;
    for namespace in NAMESPACES {
        cluster.add(one(namespace, "second"));
    }
    // New namespaces.
    cluster.add_all(["team-new", "team-new-dev", "kube-new"].map(|namespace| one(namespace, "first")));
    both_are_reported(&cluster, &gate).await;
    for namespace in NAMESPACES {
        cluster.delete(namespace, "first");
    }
    cluster.delete_namespace("team-b");
    both_are_reported(&cluster, &gate).await;
    // The same by a list.
    cluster.listen(false);
    cluster.delete_namespace("team-new");
    cluster.add_all(["team-c", "team-c-dev", "kube-new-2"].map(|namespace| one(namespace, "first")));
    cluster.compact();
    cluster.listen(true);
    both_are_reported(&cluster, &gate).await;

    assert!(cluster.api_requests().iter().all(|request| request.namespace.is_none()), "one watch feeds all");
    eventually("one watch is open", async || cluster.open_watches() == 1).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn named_namespaces_are_watched_one_by_one_and_need_only_roles() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    let named = ["shop", "pay", "batch"];
    cluster.add_all(NAMESPACES.map(|namespace| one(namespace, "other")));
    cluster.add_all(["shop", "pay"].map(|namespace| one(namespace, "first")));
    cluster.create_namespace("batch");
    cluster.allow_only(named.into_iter().flat_map(|namespace| grants(Some(namespace))));
    let three =
        ExpectedEnvironment { includes: |namespace| matches!(namespace, "shop" | "pay" | "batch"), ..PROD };
    let daemon = DaemonBuilder::new(&cluster, &gate).args(["--namespace", "shop,pay,batch"]).start();
    assert_no_loss(&gate, &cluster, three).await;
    for n in 0..3 {
        for namespace in named {
            cluster.add(one(namespace, &format!("job-{n}")));
        }
        assert_no_loss(&gate, &cluster, three).await;
        cluster.delete(named[n], &format!("job-{n}"));
        assert_no_loss(&gate, &cluster, three).await;
    }
    let is_named = |request: &ApiRequest| {
        request.namespace.as_deref().is_some_and(|namespace| named.contains(&namespace))
    };
    assert!(cluster.api_requests().iter().all(is_named), "{:#?}", cluster.api_requests());
    eventually("three watches are open", async || cluster.open_watches() == 3).await;
    // The empty namespace was looked up: its list equals that of a missing namespace.
    assert!(
        cluster.count(|request| !request.is_about_pods() && request.namespace.as_deref() == Some("batch"))
            > 0
    );
    assert!(!daemon.stop().await.iter().any(|line| line.contains("warning")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclude_self_skips_only_the_pod_with_the_agents_uid() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add(one("shop", "web-1"));
    cluster.add(one("shop", "agent-0").uid("7b0c"));
    let others = cluster.expected_report(|_| true).into_iter().filter(|pod| pod.name != "agent-0");
    let others: std::collections::BTreeSet<_> = others.collect();
    let daemon = DaemonBuilder::new(&cluster, &gate)
        .args(["--exclude-self"])
        .env("SUPERCARGO_POD_NAME", "agent-0")
        .env("SUPERCARGO_POD_UID", "7b0c")
        .start();
    let is_accepted = async || gate.accepted("prod").len() >= 2;
    eventually("reports are accepted", is_accepted).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == others));
    // The pod changes, and is relisted.
    cluster.modify("shop", "agent-0", Pod::being_deleted);
    force_relist(&cluster).await;
    daemon.wait_for_line("the cluster: recovered after").await;
    let before = gate.accepted("prod").len();
    eventually("reports are accepted", async || gate.accepted("prod").len() > before + 1).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == others));
    // Its successor is not this process.
    cluster.delete("shop", "agent-0");
    cluster.add(one("shop", "agent-0").uid("7b0d"));
    wait_until_in_sync(&gate, &cluster, PROD).await;
    daemon.stop().await;
}
