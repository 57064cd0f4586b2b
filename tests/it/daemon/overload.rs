//! API servers that have too much to do, or whose clock is wrong: the daemon waits as long as it is asked
//! to, within reason, and goes by a clock of its own.

use std::time::{Duration, Instant, SystemTime};

use crate::daemon::cluster::{Ask, Cluster, Fault, pod};
use crate::daemon::gate::{self, Gate};
use crate::daemon::rules::{always, on, percent, the_first};
use crate::daemon::shop::{at_rest, gate, order, shop, survive, trade};
use crate::daemon::{PROD, Starting, all_holds, at_once, eventually, eventually_or};

/// The longest Retry-After that is believed: five minutes, of which the tests' daemon has a hundredth.
const BELIEVED: Duration = Duration::from_secs(3);
const YEAR: Duration = Duration::from_hours(365 * 24);

/// When pods were asked for.
fn asked(cluster: &Cluster) -> Vec<Instant> {
    cluster.asked().iter().filter(|ask| ask.is_about_pods()).map(|ask| ask.at).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_turns_most_requests_away_is_asked_until_it_answers() {
    at_once([None, Some(0)], |retry_after| async move {
        let (cluster, gate) = (shop(20), gate().await);
        cluster.hasten_timeouts(10);
        let daemon = survive(&cluster, &gate, [percent(80, Fault::Overloaded(retry_after))]).await;
        // Again and again, since each watch ends after a moment.
        let is_over = async || cluster.count(Ask::is_watch) >= 15;
        eventually("it watches", is_over).await;
        trade(&cluster, &gate, 4..=5).await;
        all_holds(&gate, &cluster, PROD).await;
        let line = daemon.says("429 Too Many Requests").await;
        assert!(line.contains("Too many requests, please try again later."), "{line}");
        daemon.says("the cluster: back after").await;
        daemon.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_asks_for_a_pause_is_given_one() {
    let (cluster, gate) = (shop(20), gate().await);
    let daemon = survive(&cluster, &gate, [the_first(2, Fault::Overloaded(Some(1)))]).await;
    let asked = asked(&cluster);
    let second = Duration::from_secs(1);
    assert!(asked[1] - asked[0] >= second && asked[2] - asked[1] >= second, "{asked:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_until_next_year_is_believed_for_five_minutes_and_one_until_last_year_not_at_all() {
    let (cluster, gate) = (shop(5), Gate::alone());
    let now = SystemTime::now();
    let date = httpdate::fmt_http_date;
    cluster.misbehave(the_first(1, Fault::OverloadedUntil(date(now + YEAR))));
    gate.misbehave(the_first(1, gate::Fault::SaysUntil(503, date(now + YEAR))));
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    let times = asked(&cluster);
    assert!(times[1] - times[0] >= BELIEVED, "{times:?}");
    let arrived: Vec<_> = gate.reports().iter().map(|report| report.arrived).collect();
    assert!(arrived[1] - arrived[0] >= BELIEVED, "{arrived:?}");

    let before = arrived.len();
    cluster.misbehave(the_first(2, Fault::OverloadedUntil(date(now - YEAR))));
    gate.misbehave(the_first(2, gate::Fault::SaysUntil(503, date(now - YEAR))));
    cluster.restart();
    cluster.add(order(1));
    all_holds(&gate, &cluster, PROD).await;
    let refused = gate.reports()[before..].iter().filter(|report| report.told == Some(503)).count();
    assert_eq!(refused, 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_were_created_in_the_future_or_long_ago_are_reported_as_they_are() {
    let (cluster, gate) = (Cluster::start(), gate().await);
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
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    // They come and go like others, and are told apart by these times.
    for (name, created) in [("old", 2), ("soon", now + 2 * year), ("far", 4_102_444_801)] {
        cluster.delete("shop", name);
        cluster.add(of(name, created));
    }
    all_holds(&gate, &cluster, PROD).await;
    let before = gate.accepted("prod").len();
    eventually("heartbeats", async || gate.accepted("prod").len() >= before + 2).await;
    all_holds(&gate, &cluster, PROD).await;
    assert!(daemon.is_ready().await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_away_for_long_leaves_no_report_of_what_is_not_known_any_more() {
    let (cluster, gate) = (shop(5), gate().await);
    let daemon = at_rest(&cluster, &gate, Starting::between(&cluster, &gate)).await;
    cluster.misbehave(on(Ask::is_about_pods, always(Fault::Broken)));
    cluster.restart();
    cluster.delete("shop", "web-00005");
    daemon.says("prod: reports are withheld: the cluster has not been heard of for too long").await;
    daemon.says("prod: reports are still withheld").await;
    let reports = gate.reports().len();
    daemon.says_again("prod: reports are still withheld", 2).await;
    daemon.says("the cluster: still failing after").await;
    assert_eq!(gate.reports().len(), reports);
    let (status, checks) = daemon.readyz().await;
    assert_eq!(status, 503);
    assert!(checks.contains("500 Internal Server Error"), "{checks}");
    cluster.behave();
    all_holds(&gate, &cluster, PROD).await;
    let why = || format!("{:#?}", daemon.said());
    eventually_or("it is ready", async || daemon.is_ready().await, why).await;
    daemon.stop().await;
}
