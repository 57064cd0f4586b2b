//! Watches that fail: they end too soon, say nothing, say nonsense, or have expired. The set stays what
//! the cluster holds.

use std::time::Duration;

use crate::daemon::cluster::{Ask, Fault, Rule};
use crate::daemon::rules::{always, on, the_first};
use crate::daemon::shop::{
    at_rest, gate, order, running, shop, survive, trade, web, without_streaming_lists,
};
use crate::daemon::{Daemon, PROD, Starting, all_holds, at_once, eventually, holds_what_the_cluster_holds};

const RESTARTS: &str = "supercargo_agent_watch_restarts_total";

/// Trade goes on although watches meet this fault: how often they began again for this reason.
async fn survive_watches(rule: Rule, reason: &str) -> usize {
    let (cluster, gate) = (shop(20), gate().await);
    // A streaming list goes on as a watch, which would be one without the fault.
    without_streaming_lists(&cluster);
    let daemon = survive(&cluster, &gate, [on(Ask::is_watch, rule)]).await;
    let restarts = daemon.count(RESTARTS, &format!("reason=\"{reason}\"")).await;
    daemon.stop().await;
    restarts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_closed_every_second_lose_nothing() {
    let ended = survive_watches(always(Fault::CloseAfter(Duration::from_millis(10))), "ended").await;
    assert!(ended >= 5, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_closed_after_each_event_lose_nothing() {
    let ended = survive_watches(always(Fault::CloseAfterFrames(1)), "ended").await;
    // Three rounds of trade, of three events each: the first two may be older than the first list, and
    // the end behind the last is not waited for.
    assert!(ended >= 6, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_have_expired_are_replaced_by_lists() {
    let expired = survive_watches(always(Fault::Expired), "expired").await;
    // The first list shows one of the six states of the trade, and what showed the others?
    assert!(expired >= 5, "{expired}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_bring_bookmarks_alone_are_made_good_by_the_next() {
    let ended = survive_watches(the_first(1, Fault::BookmarksOnly), "ended").await;
    assert!(ended >= 1, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_are_silent_are_given_up() {
    let silent = survive_watches(the_first(3, Fault::Silent), "silent").await;
    assert!(silent >= 3, "{silent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_garbage_are_begun_again() {
    let garbled = survive_watches(the_first(5, Fault::Garbage), "garbled").await;
    assert!(garbled >= 5, "{garbled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_end_or_break_off_in_a_message_go_on_behind_the_last_whole_one() {
    let faults = [
        (Fault::HalfAFrameAfter(0), "broken_off"),
        (Fault::HalfAFrameAfter(1), "broken_off"),
        (Fault::CutAfter(500), "broken_off"),
        (Fault::EndAfter(500), "broken_off"),
        (Fault::StallAfter(500), "silent"),
    ];
    at_once(faults, |(fault, reason)| async move {
        let restarts = survive_watches(the_first(3, fault.clone()), reason).await;
        assert!(restarts >= 3, "{fault:?}: {restarts}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_open_and_dead_is_noticed_and_nothing_is_lost() {
    let (cluster, gate) = (shop(20), gate().await);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    trade(&cluster, &gate, 1..=1).await;
    cluster.mute();
    cluster.add(order(2));
    cluster.delete("shop", "web-00020");
    // No watch says so, and the API server ends none: lists that are not streams do.
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    assert!(daemon.count(RESTARTS, "silent").await >= 1);
    cluster.behave();
    trade(&cluster, &gate, 3..=3).await;
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_never_bring_anything_are_said_to_although_lists_do() {
    let (cluster, gate) = (shop(3), gate().await);
    // A streaming list goes on as a watch.
    without_streaming_lists(&cluster);
    cluster.misbehave(on(Ask::is_watch, always(Fault::Silent)));
    let daemon = Daemon::start(&cluster, &gate);
    let says = "was met with silence";
    eventually("it is said", async || daemon.said().iter().any(|line| line.contains(says))).await;
    cluster.add(web(4));
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_was_restored_from_a_backup_is_listed_and_its_word_holds() {
    let (cluster, gate) = (shop(20), gate().await);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    let backup = cluster.backup();
    // So much that the restored one takes long to come to this resourceVersion again.
    cluster.add_all((100..400).map(web));
    cluster.delete("shop", "web-00020");
    cluster.modify("shop", "web-00001", running(9));
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let lists = |ask: &Ask| ask.is_list() || ask.is_streaming_list();
    let before = cluster.count(lists);
    cluster.restore_from_backup(backup);
    cluster.add(order(1));
    eventually("it lists", async || cluster.count(lists) > before).await;
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    trade(&cluster, &gate, 2..=2).await;
    all_holds(&gate, &cluster, PROD).await;
    // It was asked for its future first, and listed because it was silent about that.
    assert!(cluster.revision() < 600);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_while_nobody_listens_is_gone_whether_its_event_is_still_known_or_not() {
    for is_compacted in [false, true] {
        let (cluster, gate) = (shop(20), gate().await);
        let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
        cluster.listen(false);
        daemon.says("the cluster: GET").await;
        cluster.delete("shop", "web-00020");
        cluster.add(order(1));
        if is_compacted {
            cluster.compact();
        }
        cluster.listen(true);
        all_holds(&gate, &cluster, PROD).await;
        daemon.says("the cluster: back after").await;
        let expired = daemon.count(RESTARTS, "expired").await;
        assert_eq!(expired >= 1, is_compacted, "{expired}");
        daemon.stop().await;
    }
}
