//! Failing lists: restarts of the API server, failing pages, expired tokens, no streaming lists. An incomplete list is
//! never reported, and loses no pod.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::rules::{always, every_nth, first_n, on};
use crate::daemon::support::shop::{
    force_relist, gate_with_service, run_orders, running, shop, start_synced, start_with_faults, web,
    without_streaming_lists,
};
use crate::daemon::{
    Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, run_concurrently, wait_until_in_sync,
};

/// More than two pages.
const PAGES: usize = 1100;

/// Number of paged lists that were started.
fn lists(cluster: &Cluster) -> usize {
    cluster.count(|request| request.is_list() && !request.is_later_page())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streaming_list_is_retried_after_an_api_server_restart() {
    let (cluster, gate) = (shop(50), gate_with_service().await);
    cluster.inject(on(ApiRequest::is_streaming_list, first_n(1, Fault::StallAfter(3000))));
    let daemon = Daemon::start(&cluster, &gate);
    eventually("the list starts", async || cluster.count(ApiRequest::is_streaming_list) == 1).await;
    cluster.restart();
    run_orders(&cluster, &gate, 1..=1).await;

    // The same during a relist, when pods could be lost.
    cluster.inject(on(ApiRequest::is_streaming_list, first_n(1, Fault::StallAfter(3000))));
    let before = cluster.count(ApiRequest::is_streaming_list);
    force_relist(&cluster).await;
    eventually("the relist starts", async || cluster.count(ApiRequest::is_streaming_list) > before).await;
    cluster.delete("shop", "web-00050");
    cluster.restart();
    run_orders(&cluster, &gate, 2..=2).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paged_list_survives_an_api_server_restart() {
    let (cluster, gate) = (shop(PAGES), gate_with_service().await);
    without_streaming_lists(&cluster);
    cluster.inject(on(ApiRequest::is_later_page, first_n(1, Fault::StallAfter(3000))));
    let daemon = Daemon::start(&cluster, &gate);
    eventually("pages are read", async || cluster.count(ApiRequest::is_later_page) == 1).await;
    cluster.restart();
    run_orders(&cluster, &gate, 1..=1).await;

    cluster.inject(on(ApiRequest::is_later_page, first_n(1, Fault::StallAfter(3000))));
    let before = cluster.count(ApiRequest::is_later_page);
    force_relist(&cluster).await;
    eventually("pages are read again", async || cluster.count(ApiRequest::is_later_page) > before).await;
    cluster.delete("shop", "web-01100");
    cluster.restart();
    run_orders(&cluster, &gate, 2..=2).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_pages_lose_no_pod() {
    let (cluster, gate) = (shop(PAGES), gate_with_service().await);
    without_streaming_lists(&cluster);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    for (n, fault) in
        [Fault::Broken, Fault::Reset, Fault::CutAfter(5000), Fault::EndAfter(5000), Fault::Garbage]
            .into_iter()
            .enumerate()
    {
        cluster.inject(on(ApiRequest::is_list, every_nth(3, fault)));
        let before = lists(&cluster);
        cluster.add(web(2000 + n));
        cluster.delete("shop", &format!("web-{:05}", 500 + n));
        force_relist(&cluster).await;
        eventually("the relist starts", async || lists(&cluster) > before).await;
        wait_until_in_sync(&gate, &cluster, PROD).await;
        cluster.clear_faults();
        without_streaming_lists(&cluster);
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_streaming_lists_are_detected_once_and_replaced_by_pages() {
    run_concurrently([Fault::NoStreamingLists, Fault::BadRequest], |fault| async {
        let (cluster, gate) = (shop(PAGES), Gate::without_service());
        let daemon =
            start_with_faults(&cluster, &gate, [on(ApiRequest::is_streaming_list, always(fault))]).await;
        let before = lists(&cluster);
        force_relist(&cluster).await;
        eventually("the relist starts", async || lists(&cluster) > before).await;
        run_orders(&cluster, &gate, 4..=4).await;
        assert_no_loss(&gate, &cluster, PROD).await;
        let refused = daemon.count("supercargo_agent_watch_restarts_total", "refused").await;
        assert_eq!(refused, 1);
        assert!(cluster.count(ApiRequest::is_later_page) >= 4);
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_streaming_list_falls_back_to_pages() {
    let faults = [
        Fault::Silent,
        Fault::StallAfter(5000),
        Fault::EndAfter(5000),
        Fault::CutAfter(5000),
        Fault::Garbage,
        Fault::HalfAFrameAfter(3),
        Fault::CloseAfterFrames(3),
    ];
    run_concurrently(faults, |fault| async {
        let (cluster, gate) = (shop(40), Gate::without_service());
        let daemon =
            start_with_faults(&cluster, &gate, [on(ApiRequest::is_streaming_list, always(fault))]).await;
        assert!(lists(&cluster) > 0);
        daemon.stop().await;
    })
    .await;
}

/// The stream is never silent: it has bookmarks, or only changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_reported_from_pages_if_the_server_ignores_initial_events() {
    run_concurrently([Duration::from_millis(10), Duration::from_hours(1)], |bookmarks| async move {
        let (cluster, gate) = (shop(40), Gate::without_service());
        cluster.keep_watches_open();
        cluster.bookmarks_every(bookmarks);
        cluster.inject(on(ApiRequest::is_streaming_list, always(Fault::IgnoredInitialEvents)));
        let daemon = Daemon::start(&cluster, &gate);
        let digests = AtomicUsize::new(0);
        eventually("the pods are listed in pages", async || {
            cluster.modify("shop", "web-00001", running(digests.fetch_add(1, Ordering::Relaxed) % 10));
            lists(&cluster) > 0
        })
        .await;
        cluster.bookmarks_every(Duration::from_millis(300));
        run_orders(&cluster, &gate, 1..=2).await;
        assert_no_loss(&gate, &cluster, PROD).await;
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_lists_are_retried() {
    let (cluster, gate) = (shop(40), gate_with_service().await);
    let is_any_list = |request: &ApiRequest| request.is_list() || request.is_streaming_list();
    let daemon = start_with_faults(&cluster, &gate, [on(is_any_list, first_n(4, Fault::Garbage))]).await;
    daemon.wait_for_line("unexpected response").await;
    daemon.wait_for_line("the cluster: recovered after").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_deleted_between_pages_is_removed_after_the_token_expires() {
    let (cluster, gate) = (shop(PAGES), gate_with_service().await);
    without_streaming_lists(&cluster);
    let stall = || on(ApiRequest::is_later_page, always(Fault::Stall));
    cluster.inject(stall());
    let daemon = Daemon::start(&cluster, &gate);
    // A pod of the first page of the first list, not reported yet.
    eventually("a page was read", async || cluster.count(ApiRequest::is_later_page) > 0).await;
    cluster.delete("shop", "web-00007");
    cluster.compact();
    cluster.clear_faults();
    without_streaming_lists(&cluster);
    wait_until_in_sync(&gate, &cluster, PROD).await;

    // A reported pod, during a relist.
    cluster.inject(stall());
    let before = cluster.count(ApiRequest::is_later_page);
    force_relist(&cluster).await;
    eventually("a page was read again", async || cluster.count(ApiRequest::is_later_page) > before).await;
    cluster.delete("shop", "web-00008");
    cluster.add(web(2001));
    cluster.compact();
    cluster.clear_faults();
    assert_no_loss(&gate, &cluster, PROD).await;
    assert!(daemon.count("supercargo_agent_watch_restarts_total", "expired").await >= 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_first_list_is_logged_as_withheld() {
    let (cluster, gate) = (shop(3), gate_with_service().await);
    // The list stalls for less than the silence timeout at first.
    cluster.inject(always(Fault::StallAfter(500)));
    let daemon = DaemonBuilder::new(&cluster, &gate).time_scale(100).start();
    let expected = "prod: not reported: the first list of the cluster is not complete";
    eventually("the warning is logged", async || daemon.log().iter().any(|line| line.contains(expected)))
        .await;
    cluster.clear_faults();
    assert_no_loss(&gate, &cluster, PROD).await;
    let over = "prod: no longer withheld";
    eventually("its end is logged", async || daemon.log().iter().any(|line| line.contains(over))).await;
    daemon.stop().await;
}
