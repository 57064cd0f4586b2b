//! Which pods go to which environment, and what the API server is asked for that.

use crate::daemon::cluster::{Ask, Cluster, Pod, grants, pod};
use crate::daemon::gate::Gate;
use crate::daemon::shop::{force_a_list, gate};
use crate::daemon::{Environment, PROD, Starting, all_holds, eventually, holds_what_the_cluster_holds};

const TEAMS: Environment = Environment {
    name: "teams",
    takes: |namespace| {
        namespace.starts_with("team-") && namespace != "team-x" && !namespace.ends_with("-dev")
    },
};
const REST: Environment = Environment { name: "rest", takes: |namespace| !namespace.starts_with("kube-") };

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

async fn both_hold(cluster: &Cluster, gate: &Gate) {
    for environment in [TEAMS, REST] {
        all_holds(gate, cluster, environment).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environments_by_expressions_and_exclusions_come_out_of_one_watch_as_pods_come_and_go() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add_all(NAMESPACES.map(|namespace| one(namespace, "first")));
    let daemon = Starting::between(&cluster, &gate).config(EXPRESSIONS).start();
    both_hold(&cluster, &gate).await;
    for namespace in NAMESPACES {
        cluster.add(one(namespace, "second"));
    }
    // Namespaces that were not there before.
    cluster.add_all(["team-new", "team-new-dev", "kube-new"].map(|namespace| one(namespace, "first")));
    both_hold(&cluster, &gate).await;
    for namespace in NAMESPACES {
        cluster.delete(namespace, "first");
    }
    cluster.delete_namespace("team-b");
    both_hold(&cluster, &gate).await;
    // The same by a list alone.
    cluster.listen(false);
    cluster.delete_namespace("team-new");
    cluster.add_all(["team-c", "team-c-dev", "kube-new-2"].map(|namespace| one(namespace, "first")));
    cluster.compact();
    cluster.listen(true);
    both_hold(&cluster, &gate).await;

    assert!(cluster.asked().iter().all(|ask| ask.namespace.is_none()), "one watch feeds all");
    eventually("one watch is open", async || cluster.open_watches() == 1).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_namespaces_are_watched_one_by_one_and_a_role_in_each_is_enough() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    let named = ["shop", "pay", "batch"];
    cluster.add_all(NAMESPACES.map(|namespace| one(namespace, "other")));
    cluster.add_all(["shop", "pay"].map(|namespace| one(namespace, "first")));
    cluster.create_namespace("batch");
    cluster.allow_only(named.into_iter().flat_map(|namespace| grants(Some(namespace))));
    let three = Environment { takes: |namespace| matches!(namespace, "shop" | "pay" | "batch"), ..PROD };
    let daemon = Starting::between(&cluster, &gate).args(["--namespace", "shop,pay,batch"]).start();
    all_holds(&gate, &cluster, three).await;
    for n in 0..3 {
        for namespace in named {
            cluster.add(one(namespace, &format!("job-{n}")));
        }
        all_holds(&gate, &cluster, three).await;
        cluster.delete(named[n], &format!("job-{n}"));
        all_holds(&gate, &cluster, three).await;
    }
    let of = |ask: &Ask| ask.namespace.as_deref().is_some_and(|namespace| named.contains(&namespace));
    assert!(cluster.asked().iter().all(of), "{:#?}", cluster.asked());
    eventually("three watches are open", async || cluster.open_watches() == 3).await;
    // The empty one was looked up, since it lists as one that does not exist.
    assert!(cluster.count(|ask| !ask.is_about_pods() && ask.namespace.as_deref() == Some("batch")) > 0);
    assert!(!daemon.stop().await.iter().any(|line| line.contains("warning")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pod_that_the_agent_runs_in_is_left_out_and_the_next_of_its_name_is_not() {
    let (cluster, gate) = (Cluster::start(), gate().await);
    cluster.add(one("shop", "web-1"));
    cluster.add(one("shop", "agent-0").uid("7b0c"));
    let others = cluster.expected_report(|_| true).into_iter().filter(|pod| pod.name != "agent-0");
    let others: std::collections::BTreeSet<_> = others.collect();
    let daemon = Starting::between(&cluster, &gate)
        .args(["--exclude-self"])
        .env("SUPERCARGO_POD_NAME", "agent-0")
        .env("SUPERCARGO_POD_UID", "7b0c")
        .start();
    let is_accepted = async || gate.accepted("prod").len() >= 2;
    eventually("it reports", is_accepted).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == others));
    // It changes, and is listed again.
    cluster.modify("shop", "agent-0", Pod::being_deleted);
    force_a_list(&cluster).await;
    daemon.says("the cluster: back after").await;
    let before = gate.accepted("prod").len();
    eventually("it reports", async || gate.accepted("prod").len() > before + 1).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == others));
    // One that takes its place is not this process.
    cluster.delete("shop", "agent-0");
    cluster.add(one("shop", "agent-0").uid("7b0d"));
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}
