//! What happens to pods themselves: a node is started again, a name is used again, all are replaced.

use crate::daemon::cluster::{Cluster, Pod, pod};
use crate::daemon::gate::{Gate, Report};
use crate::daemon::shop::{at_rest, force_a_list, gate, running, shop, web};
use crate::daemon::{PROD, Starting, all_holds, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_whose_image_ids_are_gone_for_a_minute_keep_their_digests() {
    let (cluster, gate) = (shop(10), gate().await);
    cluster.add(
        pod("shop", "mesh")
            .image("registry.example.com/proxy:1", 'b')
            .init_image("registry.example.com/setup:1", 'c')
            .ephemeral_image("registry.example.com/debug:1", 'd'),
    );
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    let before = cluster.expected_report(|_| true);
    let names: Vec<_> = before.iter().map(|pod| pod.name.clone()).collect();
    // The node is back, and the kubelet rebuilds each status without an image ID.
    for name in &names {
        cluster.modify("shop", name, Pod::without_image_ids);
    }
    let has_heard = async || daemon.count("supercargo_agent_watch_events_total", "modified").await >= 11;
    eventually("it hears of all", has_heard).await;
    heartbeats(&gate, 2).await;
    // A list says the same, and no more.
    force_a_list(&cluster).await;
    daemon.says("the cluster: back after").await;
    heartbeats(&gate, 2).await;
    all_holds(&gate, &cluster, PROD).await;
    assert!(gate.accepted("prod").iter().all(|report| *report.pods == before));

    // The containers are started anew, one of them with another image behind the same name.
    for name in names.iter().filter(|name| *name != "mesh") {
        cluster.modify("shop", name, |mut pod| {
            pod.containers.clear();
            pod.image("registry.example.com/web:1", if name == "web-00003" { 'e' } else { 'a' })
        });
    }
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

/// So many more reports are accepted, though nothing changes.
async fn heartbeats(gate: &Gate, more: usize) {
    let before = gate.accepted("prod").len();
    eventually("heartbeats", async || gate.accepted("prod").len() >= before + more).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_whose_name_comes_again_with_another_uid_is_another_pod() {
    let (cluster, gate) = (shop(5), gate().await);
    let stateful = |digest: char| {
        pod("shop", "db-0").image("registry.example.com/db:1", digest).owner("StatefulSet", "db")
    };
    cluster.add(stateful('a'));
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    // While it is watched, and so fast that no report can say so of the second one.
    for digest in ['b', 'c'] {
        cluster.delete("shop", "db-0");
        cluster.add(stateful(digest));
    }
    all_holds(&gate, &cluster, PROD).await;
    // While nobody listens, so that a watch tells of it at once, and then a list alone.
    for is_compacted in [false, true] {
        cluster.listen(false);
        cluster.delete("shop", "db-0");
        // The first has forgotten its digest; it must not have that of the one before.
        cluster.add(stateful('d').without_image_ids());
        if is_compacted {
            cluster.compact();
        }
        cluster.listen(true);
        all_holds(&gate, &cluster, PROD).await;
        cluster.modify("shop", "db-0", |mut pod| {
            pod.containers.clear();
            pod.image("registry.example.com/db:1", 'e')
        });
        all_holds(&gate, &cluster, PROD).await;
    }
    daemon.stop().await;
}

/// A cluster that is moved to other nodes: ten pages of pods, and five times the departed pods that are reported one by
/// one. `cargo bench --bench scale` measures larger clusters.
const MANY: usize = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pods_replaced_at_once_are_replaced_in_the_report() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add_all((0..MANY).map(web));
    let daemon = Starting::between(&cluster, &gate).hasten(20).start();
    // To compare them all again and again would leave the daemon no processor.
    let reported = async |first: usize| {
        let name = web(first).name;
        let is = |report: Report| {
            report.pods.len() == MANY && report.pods.first().is_some_and(|pod| pod.name == name)
        };
        eventually("it is reported", async || gate.last_accepted("prod").is_some_and(is)).await;
    };
    reported(0).await;
    // By events,
    cluster.replace_all((MANY..2 * MANY).map(web));
    reported(MANY).await;
    // and by a list alone.
    cluster.listen(false);
    cluster.replace_all((0..MANY).map(web));
    cluster.compact();
    cluster.listen(true);
    reported(0).await;
    all_holds(&gate, &cluster, PROD).await;
    assert_eq!(daemon.count("supercargo_agent_relist_differences_total", "").await, 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_ran_in_a_pod_for_a_moment_is_reported() {
    let (cluster, gate) = (shop(2), gate().await);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate).hasten(20)).await;
    // Three images within the time that changes wait for company.
    for n in [2_001, 2_002, 2_001] {
        cluster.modify("shop", "web-00001", running(n));
    }
    all_holds(&gate, &cluster, PROD).await;
    let ran: std::collections::BTreeSet<_> =
        gate.every_accepted_pod("prod").into_iter().flat_map(|pod| pod.digests).collect();
    for n in [2_001, 2_002] {
        assert!(ran.iter().any(|(_, digest)| digest.ends_with(&format!("{n:x}"))), "{n:x} is not in {ran:?}");
    }
    daemon.stop().await;
}
