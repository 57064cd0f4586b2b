//! Overloaded API servers, and servers with a wrong clock. The daemon honors Retry-After up to a limit, and uses its
//! own clock.

use std::time::{Duration, Instant, SystemTime};

use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault, pod};
use crate::daemon::support::gate::{self, Gate};
use crate::daemon::support::rules::{always, first_n, on, percent};
use crate::daemon::support::shop::{
    gate_with_service, order, run_orders, shop, start_synced, start_with_faults,
};
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, eventually, eventually_or, run_concurrently};

/// Five minutes at the default time scale of the tests.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3);
const YEAR: Duration = Duration::from_hours(365 * 24);

/// Times of the list and watch requests.
fn request_times(cluster: &Cluster) -> Vec<Instant> {
    cluster
        .api_requests()
        .iter()
        .filter(|request| request.is_about_pods())
        .map(|request| request.at)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overloaded_api_server_is_retried_until_it_responds() {
    run_concurrently([None, Some(0)], |retry_after| async move {
        let (cluster, gate) = (shop(20), gate_with_service().await);
        cluster.scale_timeouts(10);
        let daemon = start_with_faults(&cluster, &gate, [percent(80, Fault::Overloaded(retry_after))]).await;
        // Repeatedly, since each watch ends soon.
        let is_over = async || cluster.count(ApiRequest::is_watch) >= 15;
        eventually("watches are opened", is_over).await;
        run_orders(&cluster, &gate, 4..=5).await;
        assert_no_loss(&gate, &cluster, PROD).await;
        let line = daemon.wait_for_line("429 Too Many Requests").await;
        assert!(line.contains("Too many requests, please try again later."), "{line}");
        daemon.wait_for_line("the cluster: recovered after").await;
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_of_the_api_server_is_honored() {
    let (cluster, gate) = (shop(20), gate_with_service().await);
    let daemon = start_with_faults(&cluster, &gate, [first_n(2, Fault::Overloaded(Some(1)))]).await;
    let times = request_times(&cluster);
    let second = Duration::from_secs(1);
    assert!(times[1] - times[0] >= second && times[2] - times[1] >= second, "{times:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_dates_are_limited_to_five_minutes_and_past_dates_ignored() {
    let (cluster, gate) = (shop(5), Gate::without_service());
    let now = SystemTime::now();
    let date = httpdate::fmt_http_date;
    cluster.inject(first_n(1, Fault::OverloadedUntil(date(now + YEAR))));
    gate.inject(first_n(1, gate::Fault::StatusUntil(503, date(now + YEAR))));
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    let times = request_times(&cluster);
    assert!(times[1] - times[0] >= MAX_RETRY_AFTER, "{times:?}");
    let arrived: Vec<_> = gate.reports().iter().map(|report| report.arrived).collect();
    assert!(arrived[1] - arrived[0] >= MAX_RETRY_AFTER, "{arrived:?}");

    let before = arrived.len();
    cluster.inject(first_n(2, Fault::OverloadedUntil(date(now - YEAR))));
    gate.inject(first_n(2, gate::Fault::StatusUntil(503, date(now - YEAR))));
    cluster.restart();
    cluster.add(order(1));
    assert_no_loss(&gate, &cluster, PROD).await;
    let refused = gate.reports()[before..].iter().filter(|report| report.status == Some(503)).count();
    assert_eq!(refused, 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_with_future_or_old_creation_times_are_reported_unchanged() {
    let (cluster, gate) = (Cluster::start(), gate_with_service().await);
    let of =
        |name: &str, created| pod("shop", name).image("registry.example.com/app:1", 'a').created(created);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let year = YEAR.as_secs().cast_signed();
    cluster.add_all([
        of("old", 1),
        of("last-year", now - year),
        of("soon", now + 60),
        of("far", 4_102_444_800),
    ]);
    let daemon = start_synced(&cluster, &gate, DaemonBuilder::new(&cluster, &gate)).await;
    // Creation times distinguish pods of the same name.
    for (name, created) in [("old", 2), ("soon", now + 2 * year), ("far", 4_102_444_801)] {
        cluster.delete("shop", name);
        cluster.add(of(name, created));
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    let before = gate.accepted("prod").len();
    eventually("heartbeats", async || gate.accepted("prod").len() >= before + 2).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    assert!(daemon.is_ready().await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_api_server_outage_withholds_reports() {
    let (cluster, gate) = (shop(5), gate_with_service().await);
    let daemon = start_synced(
        &cluster,
        &gate,
        DaemonBuilder::new(&cluster, &gate).env("RUST_LOG", "supercargo=debug"),
    )
    .await;
    cluster.inject(on(ApiRequest::is_about_pods, always(Fault::Broken)));
    cluster.restart();
    cluster.delete("shop", "web-00005");
    daemon.wait_for_line("prod: not reported: no response from the API server for the cluster").await;
    daemon.wait_for_line("prod: still not reported").await;
    daemon.wait_for_nth_line("prod: still not reported", 2).await;
    daemon.wait_for_line("the cluster: still failing after").await;
    assert_eq!(daemon.begun_while_withheld("prod"), <[String; 0]>::default());
    let (status, checks) = daemon.readyz().await;
    assert_eq!(status, 503);
    assert!(checks.contains("500 Internal Server Error"), "{checks}");
    cluster.clear_faults();
    assert_no_loss(&gate, &cluster, PROD).await;
    let details = || format!("{:#?}", daemon.log());
    eventually_or("the daemon is ready", async || daemon.is_ready().await, details).await;
    daemon.stop().await;
}
