//! Failing watches: ended early, silent, undecodable or expired. The live set stays in sync with the cluster.

use std::time::Duration;

use crate::daemon::support::cluster::{ApiRequest, Fault, Rule};
use crate::daemon::support::rules::{always, first_n, on};
use crate::daemon::support::shop::{
    gate_with_service, order, run_orders, running, shop, start_synced, start_with_faults, web,
    without_streaming_lists,
};
use crate::daemon::{
    Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, run_concurrently, wait_until_in_sync,
};

const RESTARTS: &str = "supercargo_agent_watch_restarts_total";

/// Asserts that orders are reported despite this fault of watches, and returns the number of restarts for the reason.
async fn restarts_with(rule: Rule, reason: &str) -> usize {
    let (cluster, gate) = (shop(20), gate_with_service().await);
    // A streaming list continues as a watch, which would bypass the fault.
    without_streaming_lists(&cluster);
    let daemon = start_with_faults(&cluster, &gate, [on(ApiRequest::is_watch, rule)]).await;
    let restarts = daemon.count(RESTARTS, &format!("reason=\"{reason}\"")).await;
    daemon.stop().await;
    restarts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_closed_every_second_lose_no_pod() {
    let ended = restarts_with(always(Fault::CloseAfter(Duration::from_millis(10))), "ended").await;
    assert!(ended >= 5, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_closed_after_each_event_lose_no_pod() {
    let ended = restarts_with(always(Fault::CloseAfterFrames(1)), "ended").await;
    // Three rounds of three events each. The first two events may precede the first list, and the last end is not awaited.
    assert!(ended >= 6, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_watches_are_replaced_by_lists() {
    let expired = restarts_with(always(Fault::Expired), "expired").await;
    // The first list shows one of the six states; relists show the others.
    assert!(expired >= 5, "{expired}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_missing_from_a_bookmark_only_watch_arrive_in_the_next() {
    let ended = restarts_with(first_n(1, Fault::BookmarksOnly), "ended").await;
    assert!(ended >= 1, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_watches_time_out() {
    let silent = restarts_with(first_n(3, Fault::Silent), "silent").await;
    assert!(silent >= 3, "{silent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_watches_are_restarted() {
    let garbled = restarts_with(first_n(5, Fault::Garbage), "garbled").await;
    assert!(garbled >= 5, "{garbled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_cut_within_a_message_resume_after_the_last_whole_one() {
    let faults = [
        (Fault::HalfAFrameAfter(0), "broken_off"),
        (Fault::HalfAFrameAfter(1), "broken_off"),
        (Fault::CutAfter(500), "broken_off"),
        (Fault::EndAfter(500), "broken_off"),
        (Fault::StallAfter(500), "silent"),
    ];
    run_concurrently(faults, |(fault, reason)| async move {
        let restarts = restarts_with(first_n(3, fault.clone()), reason).await;
        assert!(restarts >= 3, "{fault:?}: {restarts}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_open_connection_is_detected_and_loses_no_pod() {
    let (cluster, gate) = (shop(20), gate_with_service().await);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    run_orders(&cluster, &gate, 1..=1).await;
    cluster.mute();
    cluster.add(order(2));
    cluster.delete("shop", "web-00020");
    // The watches stay open and silent; only paged lists show the changes.
    wait_until_in_sync(&gate, &cluster, PROD).await;
    assert!(daemon.count(RESTARTS, "silent").await >= 1);
    cluster.clear_faults();
    run_orders(&cluster, &gate, 3..=3).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanently_silent_watches_are_logged() {
    let (cluster, gate) = (shop(3), gate_with_service().await);
    // A streaming list continues as a watch.
    without_streaming_lists(&cluster);
    cluster.inject(on(ApiRequest::is_watch, always(Fault::Silent)));
    let daemon = Daemon::start(&cluster, &gate);
    let expected = "timed out after";
    eventually("the timeout is logged", async || daemon.log().iter().any(|line| line.contains(expected)))
        .await;
    cluster.add(web(4));
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_server_restored_from_a_backup_is_relisted() {
    let (cluster, gate) = (shop(20), gate_with_service().await);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    let backup = cluster.backup();
    // Enough changes that the restored server does not soon reach this resourceVersion again.
    cluster.add_all((100..400).map(web));
    cluster.delete("shop", "web-00020");
    cluster.modify("shop", "web-00001", running(9));
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let lists = |request: &ApiRequest| request.is_list() || request.is_streaming_list();
    let before = cluster.count(lists);
    cluster.restore_from_backup(backup);
    cluster.add(order(1));
    eventually("the relist starts", async || cluster.count(lists) > before).await;
    wait_until_in_sync(&gate, &cluster, PROD).await;
    run_orders(&cluster, &gate, 2..=2).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    // The watch from a future resourceVersion was silent, which caused the relist.
    assert!(cluster.revision() < 600);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_deleted_during_an_outage_is_removed_by_event_or_relist() {
    for is_compacted in [false, true] {
        let (cluster, gate) = (shop(20), gate_with_service().await);
        let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
        cluster.listen(false);
        daemon.wait_for_line("the cluster: failed to ").await;
        cluster.delete("shop", "web-00020");
        cluster.add(order(1));
        if is_compacted {
            cluster.compact();
        }
        cluster.listen(true);
        assert_no_loss(&gate, &cluster, PROD).await;
        daemon.wait_for_line("the cluster: recovered after").await;
        let expired = daemon.count(RESTARTS, "expired").await;
        assert_eq!(expired >= 1, is_compacted, "{expired}");
        daemon.stop().await;
    }
}
