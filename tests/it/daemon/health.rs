//! The daemon's `/livez`, `/readyz` and `/metrics`.

use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault};
use crate::daemon::support::rules::{always, on};
use crate::daemon::support::shop::{
    gate_with_service, run_orders, shop, start_synced, without_streaming_lists,
};
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};

/// Watch states whose gauge is set.
async fn states(daemon: &Daemon) -> Vec<String> {
    let is_state = |key: &str| key.starts_with("supercargo_agent_watch_state{");
    let metrics = daemon.metrics().await;
    metrics.into_iter().filter(|(key, value)| is_state(key) && *value > 0.0).map(|(key, _)| key).collect()
}

fn state(name: &str) -> String {
    format!("supercargo_agent_watch_state{{watch=\"cluster\",state=\"{name}\"}}")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_is_answered_beside_idle_connections() {
    let (cluster, gate) = (shop(1), gate_with_service().await);
    let daemon = Daemon::start(&cluster, &gate);
    let address = daemon.admin().await.strip_prefix("http://").unwrap().parse().unwrap();
    crate::idle_connections::assert_probe_is_answered_beside_idle_connections(address).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_is_live_at_once_and_ready_after_the_first_list() {
    let (cluster, gate) = (shop(5), gate_with_service().await);
    cluster.inject(on(ApiRequest::is_about_pods, always(Fault::Forbidden)));
    let daemon = Daemon::start(&cluster, &gate);
    assert_eq!(daemon.livez().await, (200, "ok\n".to_owned()));
    daemon.wait_for_line("403 Forbidden").await;
    let (status, text) = daemon.readyz().await;
    assert_eq!(status, 503);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!((lines[0], lines[3]), ("[+]running ok", "readyz check failed"));
    let assert_failed_check = |line: &str, start: &str| {
        assert!(line.starts_with(start) && line.contains(": 403 Forbidden: pods is forbidden"), "{line}");
    };
    assert_failed_check(
        lines[1],
        "[-]list cluster failed: the first list is not complete: failed to watch pods at the cluster scope: GET http",
    );
    assert_failed_check(
        lines[2],
        "[-]watch cluster failed: no response from the API server yet: failed to watch pods at the cluster scope: GET http",
    );
    eventually("the watch is waiting", async || states(&daemon).await == [state("waiting")]).await;
    assert!(daemon.metric("supercargo_agent_withheld", "unlisted").await > 0.0);

    cluster.clear_faults();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    assert_eq!(daemon.readyz().await, (200, "ok\n".to_owned()));
    let all = ["[+]running ok", "[+]list cluster ok", "[+]watch cluster ok", "readyz check passed"];
    assert_eq!(daemon.checks().await, all);
    assert_eq!(states(&daemon).await, [state("watching")]);
    assert_eq!(daemon.count("supercargo_agent_withheld", "").await, 0);
    daemon.stop().await;
}

/// Number of watch events of this type.
async fn events(daemon: &Daemon, kind: &str) -> usize {
    daemon.count("supercargo_agent_watch_events_total", &format!("type=\"{kind}\"")).await
}

async fn restarts(daemon: &Daemon, reason: &str) -> usize {
    let labels = format!("watch=\"cluster\",reason=\"{reason}\"");
    daemon.count("supercargo_agent_watch_restarts_total", &labels).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_metrics_count_events_and_restarts_and_measure_silence() {
    let (cluster, gate) = (shop(5), gate_with_service().await);
    without_streaming_lists(&cluster);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    assert_eq!(daemon.count("supercargo_agent_artifacts", "environment=\"prod\"").await, 5);
    run_orders(&cluster, &gate, 1..=3).await;
    for kind in ["added", "modified", "deleted"] {
        assert_eq!(events(&daemon, kind).await, 3, "{kind}");
    }
    eventually("a bookmark", async || events(&daemon, "bookmark").await > 0).await;

    // Cause each restart reason.
    assert_eq!(restarts(&daemon, "refused").await, 1, "the streaming list is refused");
    let ended = restarts(&daemon, "ended").await;
    cluster.end_watches();
    eventually("the watch ended", async || restarts(&daemon, "ended").await > ended).await;
    // The next watch has received events when it is cut.
    run_orders(&cluster, &gate, 4..=4).await;
    cluster.restart();
    eventually("the watch broke off", async || restarts(&daemon, "broken_off").await > 0).await;
    cluster.listen(false);
    eventually("the server is unreachable", async || restarts(&daemon, "unreachable").await > 0).await;
    cluster.compact();
    cluster.listen(true);
    eventually("the watch expired", async || restarts(&daemon, "expired").await > 0).await;
    assert_eq!(events(&daemon, "error").await, restarts(&daemon, "expired").await);
    silence(&cluster, &daemon).await;
    cluster.clear_faults();
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

async fn silence(cluster: &Cluster, daemon: &Daemon) {
    let silence = async || daemon.metric("supercargo_agent_watch_silence_seconds", "watch=\"cluster\"").await;
    cluster.mute();
    let before = silence().await;
    eventually("the silence grows", async || silence().await > before + 0.5).await;
    eventually("the silence is noticed", async || restarts(daemon, "silent").await > 0).await;
    // The next list ends the silence, even if watches stay silent.
    eventually("the silence ends", async || silence().await < 0.5).await;
}
