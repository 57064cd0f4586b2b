//! Lists that fail: the API server is restarted while they are read, pages fail, tokens expire,
//! streaming lists are not known. Nothing is reported of half a list, and nothing is lost by one.

use crate::daemon::cluster::{Ask, Cluster, Fault};
use crate::daemon::gate::Gate;
use crate::daemon::rules::{always, every_nth, on, the_first};
use crate::daemon::shop::{at_rest, force_a_list, gate, shop, survive, trade, web, without_streaming_lists};
use crate::daemon::{Daemon, PROD, Starting, all_holds, at_once, eventually, holds_what_the_cluster_holds};

/// More than two pages.
const PAGES: usize = 1100;

/// How many lists in pages began.
fn lists(cluster: &Cluster) -> usize {
    cluster.count(|ask| ask.is_list() && !ask.is_later_page())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_restarted_while_a_streaming_list_is_read_is_listed_again() {
    let (cluster, gate) = (shop(50), gate().await);
    cluster.misbehave(on(Ask::is_streaming_list, the_first(1, Fault::StallAfter(3000))));
    let daemon = Daemon::start(&cluster, &gate);
    eventually("it lists", async || cluster.count(Ask::is_streaming_list) == 1).await;
    cluster.restart();
    trade(&cluster, &gate, 1..=1).await;

    // And while it is listed again, when there is something to lose.
    cluster.misbehave(on(Ask::is_streaming_list, the_first(1, Fault::StallAfter(3000))));
    let before = cluster.count(Ask::is_streaming_list);
    force_a_list(&cluster).await;
    eventually("it lists again", async || cluster.count(Ask::is_streaming_list) > before).await;
    cluster.delete("shop", "web-00050");
    cluster.restart();
    trade(&cluster, &gate, 2..=2).await;
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_restarted_between_two_pages_is_listed_on() {
    let (cluster, gate) = (shop(PAGES), gate().await);
    without_streaming_lists(&cluster);
    cluster.misbehave(on(Ask::is_later_page, the_first(1, Fault::StallAfter(3000))));
    let daemon = Daemon::start(&cluster, &gate);
    eventually("it reads pages", async || cluster.count(Ask::is_later_page) == 1).await;
    cluster.restart();
    trade(&cluster, &gate, 1..=1).await;

    cluster.misbehave(on(Ask::is_later_page, the_first(1, Fault::StallAfter(3000))));
    let before = cluster.count(Ask::is_later_page);
    force_a_list(&cluster).await;
    eventually("it reads pages again", async || cluster.count(Ask::is_later_page) > before).await;
    cluster.delete("shop", "web-01100");
    cluster.restart();
    trade(&cluster, &gate, 2..=2).await;
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_which_every_third_page_fails_lose_nothing() {
    let (cluster, gate) = (shop(PAGES), gate().await);
    without_streaming_lists(&cluster);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    for (n, fault) in
        [Fault::Broken, Fault::Reset, Fault::CutAfter(5000), Fault::EndAfter(5000), Fault::Garbage]
            .into_iter()
            .enumerate()
    {
        cluster.misbehave(on(Ask::is_list, every_nth(3, fault)));
        let before = lists(&cluster);
        cluster.add(web(2000 + n));
        cluster.delete("shop", &format!("web-{:05}", 500 + n));
        force_a_list(&cluster).await;
        eventually("it lists again", async || lists(&cluster) > before).await;
        holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
        cluster.behave();
        without_streaming_lists(&cluster);
    }
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_streaming_lists_is_listed_in_pages_and_not_asked_for_one_again() {
    at_once([Fault::NoStreamingLists, Fault::BadRequest], |fault| async {
        let (cluster, gate) = (shop(PAGES), Gate::alone());
        let daemon = survive(&cluster, &gate, [on(Ask::is_streaming_list, always(fault))]).await;
        let before = lists(&cluster);
        force_a_list(&cluster).await;
        eventually("it lists again", async || lists(&cluster) > before).await;
        trade(&cluster, &gate, 4..=4).await;
        all_holds(&gate, &cluster, PROD).await;
        let refused = daemon.count("supercargo_agent_watch_restarts_total", "refused").await;
        assert_eq!(refused, 1);
        assert!(cluster.count(Ask::is_later_page) >= 4);
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streaming_lists_that_stall_end_early_or_are_garbage_are_read_in_pages_instead() {
    let faults = [
        Fault::Silent,
        Fault::StallAfter(5000),
        Fault::EndAfter(5000),
        Fault::CutAfter(5000),
        Fault::Garbage,
        Fault::HalfAFrameAfter(3),
        Fault::CloseAfterFrames(3),
    ];
    at_once(faults, |fault| async {
        let (cluster, gate) = (shop(40), Gate::alone());
        let daemon = survive(&cluster, &gate, [on(Ask::is_streaming_list, always(fault))]).await;
        assert!(lists(&cluster) > 0);
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_garbage_are_read_again_until_they_can_be_read() {
    let (cluster, gate) = (shop(40), gate().await);
    let is_any_list = |ask: &Ask| ask.is_list() || ask.is_streaming_list();
    let daemon = survive(&cluster, &gate, [on(is_any_list, the_first(4, Fault::Garbage))]).await;
    daemon.says("is not what was asked for").await;
    daemon.says("the cluster: back after").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_between_two_pages_whose_token_then_expires_is_gone() {
    let (cluster, gate) = (shop(PAGES), gate().await);
    without_streaming_lists(&cluster);
    let stall = || on(Ask::is_later_page, always(Fault::Stall));
    cluster.misbehave(stall());
    let daemon = Daemon::start(&cluster, &gate);
    // One of the first page, at the first list: nobody has reported it.
    eventually("a page was read", async || cluster.count(Ask::is_later_page) > 0).await;
    cluster.delete("shop", "web-00007");
    cluster.compact();
    cluster.behave();
    without_streaming_lists(&cluster);
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;

    // And one that was reported, at another list.
    cluster.misbehave(stall());
    let before = cluster.count(Ask::is_later_page);
    force_a_list(&cluster).await;
    eventually("a page was read again", async || cluster.count(Ask::is_later_page) > before).await;
    cluster.delete("shop", "web-00008");
    cluster.add(web(2001));
    cluster.compact();
    cluster.behave();
    all_holds(&gate, &cluster, PROD).await;
    assert!(daemon.count("supercargo_agent_watch_restarts_total", "expired").await >= 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_list_that_comes_to_no_end_is_said_to() {
    let (cluster, gate) = (shop(3), gate().await);
    // It is not silent for long enough to be given up, until it is.
    cluster.misbehave(always(Fault::StallAfter(500)));
    let daemon = Starting::between(&cluster, &gate).hasten(100).start();
    let says = "prod: reports are withheld: its pods have not all been listed yet";
    eventually("it is said", async || daemon.said().iter().any(|line| line.contains(says))).await;
    cluster.behave();
    all_holds(&gate, &cluster, PROD).await;
    let over = "prod: no longer withheld";
    eventually("its end too", async || daemon.said().iter().any(|line| line.contains(over))).await;
    daemon.stop().await;
}
