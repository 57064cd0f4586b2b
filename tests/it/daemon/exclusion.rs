//! Pods with the annotation `supercargo.dev/exclude`: left out and counted where that is permitted.

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::gate_with_service;
use crate::daemon::{Daemon, DaemonBuilder, eventually};
use crate::service::support::test_service::bootstrap;
use crate::service::{Database, Options, TestService};

fn web(name: &str) -> Pod {
    pod("shop", name).image("registry.example.com/web:1", 'a')
}

/// Waits until the service has these running pods and this number of excluded ones.
async fn wait_for(gate: &Gate, environment: &str, pods: &[&str], excluded: u64) {
    eventually(&format!("{environment} has {pods:?} and excludes {excluded}"), async || {
        if gate.accepted_count(environment) == 0 {
            return false;
        }
        let stored = gate.stored_running_pods(environment).await;
        let names: Vec<_> = stored.iter().map(|pod| pod.name.as_str()).collect();
        let overview = gate.service().read(&format!("/environments/acme/{environment}")).await;
        names == pods && overview["excluded_pods"] == excluded
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotated_pods_are_left_out_and_counted_only_in_environments_that_permit_it() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    cluster.add_all([web("a"), web("b").excluded(true)]);
    let environments = "environments: [{name: prod, allowExclusion: true}, {name: whole}]";
    let daemon = DaemonBuilder::new(&cluster, &gate).config(environments).start();
    wait_for(&gate, "prod", &["a"], 1).await;
    wait_for(&gate, "whole", &["a", "b"], 0).await;
    let skipped = "environment=\"prod\",reason=\"excluded\"";
    assert_eq!(daemon.count("supercargo_agent_skipped_pods", skipped).await, 1);
    // Only the number changes.
    cluster.add(web("c").excluded(true));
    wait_for(&gate, "prod", &["a"], 2).await;
    wait_for(&gate, "whole", &["a", "b", "c"], 0).await;
    // A running pod loses the annotation, and another one gets it.
    cluster.modify("shop", "b", |pod| pod.excluded(false));
    cluster.modify("shop", "a", |pod| pod.excluded(true));
    wait_for(&gate, "prod", &["b"], 2).await;
    let log = daemon.stop().await;
    assert!(log.iter().any(|line| line.contains("left out: 1 pod excluded")), "{log:#?}");

    let daemon = DaemonBuilder::new(&cluster, &gate).args(["--allow-exclusion"]).start();
    daemon.wait_for_reports("unchanged", 1).await;
    wait_for(&gate, "prod", &["b"], 2).await;
    daemon.stop().await;
    let daemon = Daemon::start(&cluster, &gate);
    wait_for(&gate, "prod", &["a", "b", "c"], 0).await;
    daemon.stop().await;
}

/// The pod ends before a report contains it, so only the number can show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_excluded_pod_is_rejected_where_exclusion_is_forbidden() {
    let bootstrap = bootstrap(1, "    environments: [{name: prod, forbidExclusion: true}]");
    let options = Options { bootstrap, ..Options::default() };
    let gate = Gate::with_service(TestService::start_with(Database::sqlite(), options).await);
    let cluster = Cluster::start();
    cluster.add(web("a"));
    let daemon = DaemonBuilder::new(&cluster, &gate).args(["--allow-exclusion"]).start();
    wait_for(&gate, "prod", &["a"], 0).await;
    cluster.add(web("job").excluded(true));
    cluster.delete("shop", "job");
    daemon.wait_for_reports("refused", 1).await;
    let line = daemon.wait_for_line("forbids excluded pods").await;
    for text in ["400 Bad Request", "the report excludes 1 pod", "--allow-exclusion", "forbidExclusion"] {
        assert!(line.contains(text), "{line}");
    }
    daemon.stop().await;
}
