//! Changes of pods: node reboots, reused names, replacement of all pods.

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::{Gate, Report};
use crate::daemon::support::shop::{force_relist, gate_with_service, running, shop, start_synced, web};
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_keep_their_digests_while_image_ids_are_missing() {
    let (cluster, gate) = (shop(10), gate_with_service().await);
    cluster.add(
        pod("shop", "mesh")
            .image("registry.example.com/proxy:1", 'b')
            .init_image("registry.example.com/setup:1", 'c')
            .ephemeral_image("registry.example.com/debug:1", 'd'),
    );
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    let before = cluster.expected_report(|_| true);
    let names: Vec<_> = before.iter().map(|pod| pod.name.clone()).collect();
    // After a reboot, the kubelet rebuilds each status without an image ID.
    for name in &names {
        cluster.modify("shop", name, Pod::without_image_ids);
    }
    let has_all_events = async || daemon.count("supercargo_agent_watch_events_total", "modified").await >= 11;
    eventually("all events arrive", has_all_events).await;
    heartbeats(&gate, 2).await;
    // A relist has the same missing IDs.
    force_relist(&cluster).await;
    daemon.wait_for_line("the cluster: recovered after").await;
    heartbeats(&gate, 2).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == before));

    // The containers restart, one of them with another digest for the same image name.
    for name in names.iter().filter(|name| *name != "mesh") {
        cluster.modify("shop", name, |mut pod| {
            pod.containers.clear();
            pod.image("registry.example.com/web:1", if name == "web-00003" { 'e' } else { 'a' })
        });
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

/// Waits for further accepted reports without changes.
async fn heartbeats(gate: &Gate, more: usize) {
    let before = gate.accepted("prod").len();
    eventually("heartbeats", async || gate.accepted("prod").len() >= before + more).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_with_a_reused_name_and_another_uid_is_a_new_pod() {
    let (cluster, gate) = (shop(5), gate_with_service().await);
    let stateful = |digest: char| {
        pod("shop", "db-0").image("registry.example.com/db:1", digest).owner("StatefulSet", "db")
    };
    cluster.add(stateful('a'));
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    // During the watch, faster than the second pod can be reported.
    for digest in ['b', 'c'] {
        cluster.delete("shop", "db-0");
        cluster.add(stateful(digest));
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    // While the API server is down: first seen by the watch, then only by a list.
    for is_compacted in [false, true] {
        cluster.listen(false);
        cluster.delete("shop", "db-0");
        // Without image IDs, the new pod must not inherit the previous pod's digest.
        cluster.add(stateful('d').without_image_ids());
        if is_compacted {
            cluster.compact();
        }
        cluster.listen(true);
        assert_no_loss(&gate, &cluster, PROD).await;
        cluster.modify("shop", "db-0", |mut pod| {
            pod.containers.clear();
            pod.image("registry.example.com/db:1", 'e')
        });
        assert_no_loss(&gate, &cluster, PROD).await;
    }
    daemon.stop().await;
}

/// Ten pages of pods, and five times the limit of individually reported departed pods. `cargo bench --bench scale`
/// measures larger clusters.
const MANY: usize = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pods_replaced_at_once_are_replaced_in_the_report() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add_all((0..MANY).map(web));
    let daemon = DaemonBuilder::new(&cluster, &gate).time_scale(20).start();
    // Comparing all pods on every poll would starve the daemon.
    let reported = async |first: usize| {
        let name = web(first).name;
        let is = |report: Report| {
            report.pods.len() == MANY && report.pods.first().is_some_and(|pod| pod.name == name)
        };
        eventually("the replacement is reported", async || gate.last_accepted("prod").is_some_and(is)).await;
    };
    reported(0).await;
    // By events.
    cluster.replace_all((MANY..2 * MANY).map(web));
    reported(MANY).await;
    // By a list.
    cluster.listen(false);
    cluster.replace_all((0..MANY).map(web));
    cluster.compact();
    cluster.listen(true);
    reported(0).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    assert_eq!(daemon.count("supercargo_agent_relist_differences_total", "").await, 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_that_ran_briefly_in_a_pod_is_reported() {
    let (cluster, gate) = (shop(2), gate_with_service().await);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate).time_scale(20)).await;
    // Three images within the debounce time.
    for n in [2_001, 2_002, 2_001] {
        cluster.modify("shop", "web-00001", running(n));
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    let ran: std::collections::BTreeSet<_> =
        gate.every_accepted_pod("prod").into_iter().flat_map(|pod| pod.digests).collect();
    for n in [2_001, 2_002] {
        assert!(ran.iter().any(|(_, digest)| digest.ends_with(&format!("{n:x}"))), "{n:x} is not in {ran:?}");
    }
    daemon.stop().await;
}
