//! What the daemon says of itself: `/livez`, `/readyz` and `/metrics`.

use crate::daemon::cluster::{Ask, Cluster, Fault};
use crate::daemon::rules::{always, on};
use crate::daemon::shop::{at_rest, gate, shop, trade, without_streaming_lists};
use crate::daemon::{Daemon, PROD, Starting, all_holds, eventually, holds_what_the_cluster_holds};

/// The states of the watch that are said to hold.
async fn states(daemon: &Daemon) -> Vec<String> {
    let is_state = |key: &str| key.starts_with("supercargo_agent_watch_state{");
    let metrics = daemon.metrics().await;
    metrics.into_iter().filter(|(key, value)| is_state(key) && *value > 0.0).map(|(key, _)| key).collect()
}

fn state(name: &str) -> String {
    format!("supercargo_agent_watch_state{{watch=\"cluster\",state=\"{name}\"}}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_lives_at_once_and_is_ready_when_its_first_list_is_complete_and_says_what_is_missing() {
    let (cluster, gate) = (shop(5), gate().await);
    cluster.misbehave(on(Ask::is_about_pods, always(Fault::Forbidden)));
    let daemon = Daemon::start(&cluster, &gate);
    assert_eq!(daemon.livez().await, (200, "ok\n".to_owned()));
    daemon.says("403 Forbidden").await;
    let (status, text) = daemon.readyz().await;
    assert_eq!(status, 503);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!((lines[0], lines[3]), ("[+]running ok", "readyz check failed"));
    let why = |line: &str, start: &str| {
        assert!(line.starts_with(start) && line.contains("was answered with 403 Forbidden"), "{line}");
    };
    why(lines[1], "[-]list cluster failed: the first list is not complete: GET http");
    why(lines[2], "[-]watch cluster failed: nothing was heard yet: GET http");
    eventually("it waits", async || states(&daemon).await == [state("waiting")]).await;
    assert!(daemon.metric("supercargo_agent_withheld", "unlisted").await > 0.0);

    cluster.behave();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    assert_eq!(daemon.readyz().await, (200, "ok\n".to_owned()));
    let all = ["[+]running ok", "[+]list cluster ok", "[+]watch cluster ok", "readyz check passed"];
    assert_eq!(daemon.checks().await, all);
    assert_eq!(states(&daemon).await, [state("watching")]);
    assert_eq!(daemon.count("supercargo_agent_withheld", "").await, 0);
    daemon.stop().await;
}

/// The counter of this type of events.
async fn events(daemon: &Daemon, kind: &str) -> usize {
    daemon.count("supercargo_agent_watch_events_total", &format!("type=\"{kind}\"")).await
}

async fn restarts(daemon: &Daemon, reason: &str) -> usize {
    let labels = format!("watch=\"cluster\",reason=\"{reason}\"");
    daemon.count("supercargo_agent_watch_restarts_total", &labels).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_metrics_count_events_by_type_and_restarts_by_reason_and_measure_silence() {
    let (cluster, gate) = (shop(5), gate().await);
    without_streaming_lists(&cluster);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    assert_eq!(daemon.count("supercargo_agent_artifacts", "environment=\"prod\"").await, 5);
    trade(&cluster, &gate, 1..=3).await;
    for kind in ["added", "modified", "deleted"] {
        assert_eq!(events(&daemon, kind).await, 3, "{kind}");
    }
    eventually("a bookmark", async || events(&daemon, "bookmark").await > 0).await;

    // Each of these is made to happen, and counted.
    assert_eq!(restarts(&daemon, "refused").await, 1, "streaming lists are");
    let ended = restarts(&daemon, "ended").await;
    cluster.end_watches();
    eventually("it ended", async || restarts(&daemon, "ended").await > ended).await;
    // The next one is open, and has brought something, when it is cut.
    trade(&cluster, &gate, 4..=4).await;
    cluster.restart();
    eventually("it broke off", async || restarts(&daemon, "broken_off").await > 0).await;
    cluster.listen(false);
    eventually("nobody is there", async || restarts(&daemon, "unreachable").await > 0).await;
    cluster.compact();
    cluster.listen(true);
    eventually("it expired", async || restarts(&daemon, "expired").await > 0).await;
    assert_eq!(events(&daemon, "error").await, restarts(&daemon, "expired").await);
    silence(&cluster, &daemon).await;
    cluster.behave();
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

async fn silence(cluster: &Cluster, daemon: &Daemon) {
    let silence = async || daemon.metric("supercargo_agent_watch_silence_seconds", "watch=\"cluster\"").await;
    cluster.mute();
    let before = silence().await;
    eventually("it grows", async || silence().await > before + 0.5).await;
    eventually("it is noticed", async || restarts(daemon, "silent").await > 0).await;
    // It is over with the next list, whatever watches say.
    eventually("it is over", async || silence().await < 0.5).await;
}
