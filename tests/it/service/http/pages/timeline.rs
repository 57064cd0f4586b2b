//! The timeline of an environment: snapshots, changes, gaps and retention.

use std::time::Duration;

use serde_json::{Value, json};
use service::Limits;

use crate::service::bootstrap;
use crate::service::http::pages::Browser;
use crate::service::http::pages::environment::{shows, time_of, to_the_second, with_policy};
use crate::service::report;
use crate::service::support::browser::main_element;
use crate::service::{Database, Options, READER, REPORTER, STRANGER, TestService, digest, eventually, pod};

const PAGE: &str = "/ui/acme/environments/prod/timeline";

const DAY: i64 = 86_400_000_000;

/// The entry of one snapshot.
#[track_caller]
fn snapshot(page: &str, number: i64) -> &str {
    let (_, rest) =
        page.split_once(&format!("id=\"snapshot-{number}\"")).unwrap_or_else(|| panic!("{number}: {page}"));
    rest.split_once("</article>").unwrap().0
}

#[track_caller]
fn assert_contains(text: &str, expected: &[&str], unexpected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for unexpected in unexpected {
        assert!(!text.contains(unexpected), "{unexpected}: {text}");
    }
}

/// Reports three snapshots: web, which is scaled; web, scaled again, and db; db.
async fn report_three(service: &TestService) {
    let (web, db) = (|name: &str| pod(name, "registry/web:1", 'a'), pod("db-0", "registry/db:1", 'b'));
    for (pods, status) in [
        (vec![web("web-1")], 201),
        (vec![web("web-1"), web("web-2")], 200),
        (vec![web("web-1"), web("web-2"), web("web-3"), db.clone()], 201),
        (vec![db], 201),
    ] {
        service.report(REPORTER, "prod", report(&pods)).await.expect(status);
    }
}

async fn snapshots_are_listed_newest_first_with_their_changes(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    report_three(&service).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    // Links lead to the page.
    shows(&mut browser, "/ui/acme", &[&format!("href=\"{PAGE}\"")]).await;
    let environment = PAGE.trim_end_matches("/timeline");
    let expected = [format!("href=\"{PAGE}\""), format!("<a href=\"{PAGE}#snapshot-3\">3</a>")];
    shows(&mut browser, environment, &expected.each_ref().map(String::as_str)).await;
    let text = shows(&mut browser, PAGE, &["3 snapshots", &format!("href=\"{environment}\"")]).await;
    assert!(!text.contains("role=\"status\"") && !text.contains("class=\"gap\""), "{text}");
    let places = [3, 2, 1].map(|number| text.find(&format!("id=\"snapshot-{number}\"")).unwrap());
    assert!(places.is_sorted(), "{text}");
    let received = |number| format!("SELECT received_at FROM snapshots WHERE snapshot = {number}");
    let [one, two, three] = [1, 2, 3].map(received);
    let one = to_the_second(time_of(&service, &one).await);
    let at = jiff::Timestamp::from_microsecond(time_of(&service, &two).await).unwrap();
    let at = format!("{environment}?at={}", at.to_string().replace(':', "%3A"));
    let superseded = to_the_second(time_of(&service, &three).await);
    let artifact = |digit| format!("href=\"/ui/acme/artifacts/{}\"", digest(digit));
    assert_contains(
        snapshot(&text, 1),
        &[
            "badge bad\">non-compliant",
            "Started 1",
            "registry/web:1",
            &artifact('a'),
            "<code>aaaaaaaaaaaa",
            "Scaled 1",
            "1 → 2 pods",
            &format!("<time datetime=\"{one}\""),
            "by <bdi>reporter</bdi>",
        ],
        &["Exited", "registry/db:1", "Compare with 0", "so far"],
    );
    assert_contains(
        snapshot(&text, 2),
        &[
            "Started 1",
            &artifact('b'),
            "Scaled 1",
            "2 → 3 pods",
            &at,
            &format!("<time datetime=\"{superseded}\""),
        ],
        &["Exited", "1 → 2"],
    );
    let compared = format!("{environment}/compare?from=2&amp;to=3");
    assert_contains(
        snapshot(&text, 3),
        &[
            "Exited 1",
            "registry/web:1",
            &compared,
            "not yet",
            "so far",
            ": <bdi>unit of the flow cart is missing</bdi>",
        ],
        &["Started", "Scaled"],
    );
    // The page of the environment at that time has the content of the snapshot.
    shows(&mut browser, &at, &["2 artifacts in 4 pods", &format!("{PAGE}#snapshot-2")]).await;
}

async fn only_the_latest_scalings_are_included(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let pods = [pod("web-1", "registry/web:1", 'a'), pod("web-2", "registry/web:1", 'a')];
    let note = "Only the latest 50 changes are included.";
    for times in 0..=51 {
        let pods = pods.get(..=times % 2).unwrap();
        assert!(service.report(REPORTER, "prod", report(pods)).await.status.is_success());
        if times >= 50 {
            let text = browser.get(PAGE).await.text;
            assert_contains(&text, &["50 steps", "Scaled 1"], &[]);
            assert_eq!(text.contains(note), times > 50, "{text}");
        }
    }
    // A report that scales many artifacts causes many events with the same time.
    let one = "UPDATE events SET occurred_at = (SELECT MAX(occurred_at) FROM events)";
    service.database.execute(one).await;
    let text = browser.get(PAGE).await.text;
    assert_contains(&text, &["51 steps"], &["are included"]);
}

async fn gaps_are_listed_in_order(database: Database) {
    let limits = Limits { silent_after: Duration::from_micros(1), ..Limits::default() };
    let service = with_policy(database, &limits).await;
    for (digit, status) in [('a', 201), ('a', 200), ('a', 200), ('b', 201)] {
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(status);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let last = to_the_second(time_of(&service, "SELECT last_report_at FROM environments").await);
    let text = shows(&mut browser, PAGE, &["No reports since", "The running artifacts are unknown."]).await;
    assert_eq!(text.matches("class=\"gap\"").count(), 2, "{text}");
    let (_, rest) = text.split_once("id=\"snapshot-2\"").unwrap();
    let (between, _) = rest.split_once("id=\"snapshot-1\"").unwrap();
    let from = to_the_second(time_of(&service, "SELECT MAX(from_at) FROM gaps").await);
    let gap = format!("Gap: no reports from <time datetime=\"{from}\"");
    assert_contains(between, &[&gap, "The running artifacts are unknown."], &["so far"]);
    assert_contains(
        snapshot(&text, 1),
        &["with 2 gaps of 0 s in total", "The same artifacts were reported before and after"],
        &["The running artifacts are unknown"],
    );
    assert_eq!(snapshot(&text, 1).matches("The same artifacts were reported").count(), 2, "{text}");
    assert_contains(snapshot(&text, 2), &[&last], &["gap"]);
    // The first gap is 7 s longer; that at the end of the snapshot does not count.
    for earlier in [
        "UPDATE snapshots SET received_at = received_at - 7000000 WHERE snapshot = 1",
        "UPDATE gaps SET from_at = from_at - 7000000 WHERE from_at = (SELECT MIN(from_at) FROM gaps)",
    ] {
        service.database.execute(earlier).await;
    }
    let text = browser.get(PAGE).await.text;
    assert_contains(snapshot(&text, 1), &["with 2 gaps of 7 s in total"], &[]);
}

async fn timeline_ends_at_the_retention_horizon(database: Database) {
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    let bootstrap = bootstrap(1, "    retention: 1000d");
    let service =
        TestService::start_with(database, Options { limits, bootstrap, ..Options::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    report_three(&service).await;
    shows(&mut browser, PAGE, &["The first report was received at"]).await;
    // The second was received before the horizon, and superseded after it.
    let second = time_of(&service, "SELECT received_at FROM snapshots WHERE snapshot = 2").await;
    let third = time_of(&service, "SELECT received_at FROM snapshots WHERE snapshot = 3").await;
    for (table, columns) in [
        ("snapshots", &["received_at", "confirmed_at", "superseded_at"][..]),
        ("artifact_runs", &["started_at", "ended_at"]),
        ("pod_runs", &["started_at", "ended_at"]),
        ("events", &["occurred_at"]),
    ] {
        for column in columns {
            let age = 1_001 * DAY;
            let sql = format!("UPDATE {table} SET {column} = {column} - {age} WHERE {column} < {third}");
            service.database.execute(&sql).await;
        }
    }
    // An artifact that exited with the second snapshot.
    let exited = format!(
        "INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name, pods,
                                    namespaces, started_at, ended_at)
         SELECT organization, environment, report_hash, 1, 1, 'gone', 1, '[]', 1, {} FROM snapshots WHERE snapshot = 2",
        second - 1_001 * DAY
    );
    service.database.execute(&exited).await;
    let gone = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE name = 'gone'
                UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots";
    eventually("ended rows are removed", async || service.database.rows(gone).await == ["0", "2"]).await;
    let horizon = to_the_second(time_of(&service, "SELECT horizon_at FROM environments").await);
    let text = shows(&mut browser, PAGE, &["2 snapshots", "were removed by retention", &horizon]).await;
    assert_contains(
        snapshot(&text, 2),
        &["Started 1", "registry/db:1", "Removed by retention."],
        &["Compare with 1"],
    );
    assert_contains(snapshot(&text, 3), &["Exited 1", "registry/web:1"], &["Removed by retention."]);
    assert!(!text.contains("id=\"snapshot-1\""), "{text}");
    let compare = |from, to| format!("/ui/acme/environments/prod/compare?from={from}&to={to}");
    let answer = browser.get(&compare(1, 3)).await;
    assert_eq!(answer.status, 404);
    assert_contains(
        &answer.text,
        &["Snapshot 1 was removed by retention", "the first available is 2", "name=\"from\""],
        &[],
    );
    // The pods of the second snapshot are counted at the horizon.
    let text = shows(&mut browser, &compare(2, 3), &["2 artifacts in 4 pods", "1 artifact in 1 pod"]).await;
    assert!(text.contains(&format!("2 artifacts in 4 pods at <time datetime=\"{horizon}\"")), "{text}");
}

async fn snapshots_are_paginated_and_invalid_pages_are_rejected(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    assert_eq!(browser.get(PAGE).await.status, 404);
    for number in 1..=21 {
        let digit = if number % 2 == 0 { 'a' } else { 'b' };
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(201);
    }
    let first =
        shows(&mut browser, PAGE, &["21 snapshots, page 1 of 2", "?page=2", "id=\"snapshot-2\""]).await;
    assert_contains(
        &first,
        &["id=\"snapshot-21\"", "rel=\"next\""],
        &["id=\"snapshot-1\"", "The first report"],
    );
    for page in ["2", "999999999999999999"] {
        let last =
            shows(&mut browser, &format!("{PAGE}?page={page}"), &["page 2 of 2", "The first report"]).await;
        assert_contains(&last, &["id=\"snapshot-1\""], &["id=\"snapshot-2\"", "rel=\"next\""]);
    }
    for query in ["page=0", "page=none", "page=1&page=1", "order=up"] {
        assert_eq!(browser.get(&format!("{PAGE}?{query}")).await.status, 400, "{query}");
    }
    let missing = browser.get("/ui/acme/environments/nowhere/timeline").await;
    assert_eq!(missing.status, 404);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let theirs = stranger.get(PAGE).await;
    assert_eq!((theirs.status, main_element(&theirs)), (missing.status, main_element(&missing)));
}

async fn declared_environment_has_no_snapshots(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(&mut browser, PAGE, &["No snapshots: this environment was never reported."]).await;
    assert!(!text.contains("name=\"from\""), "{text}");
    let answer = browser.get("/ui/acme/environments/prod/compare?from=1&to=2").await;
    assert_eq!(answer.status, 404);
    assert_contains(&answer.text, &["No snapshots: this environment was never reported."], &[]);
}

/// A report of 10,000 pods with different artifacts; `first` is the digest of the first.
pub(crate) fn ten_thousand(first: &str) -> String {
    let pods: Vec<Value> = (0..10_000)
        .map(|number| {
            let image = format!("registry.example.com/group/project/image-{number}:1.2.3");
            let mut pod = pod(&format!("app-{number:05}-x"), &image, 'a');
            let artifact = if number == 0 { first.to_owned() } else { format!("{number:064x}") };
            pod["digests"][&image] = json!(artifact);
            pod
        })
        .collect();
    report(&pods)
}

async fn lists_of_ten_thousand_artifacts_are_truncated(database: Database) {
    let service = TestService::start(database).await;
    for first in [&digest('e'), &digest('f')] {
        service.report(REPORTER, "prod", ten_thousand(first)).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(&mut browser, PAGE, &["and 9992 more"]).await;
    assert!(text.len() < 30_000, "{}", text.len());
    assert_contains(snapshot(&text, 1), &["Started 10000", "?at="], &["Exited"]);
    assert_contains(snapshot(&text, 2), &["Started 1", "Exited 1"], &["more"]);
    let compare = "/ui/acme/environments/prod/compare?from=1&to=2";
    let text =
        shows(&mut browser, compare, &["1 only in 1", "1 only in 2", "9999 unchanged", "Page 1 of 101"])
            .await;
    assert!(text.len() < 300_000, "{}", text.len());
    assert_eq!(text.matches("<td class=\"image\"").count(), 100);
    let last = shows(&mut browser, &format!("{compare}&only=same&page=100"), &["Page 100 of 100"]).await;
    assert_eq!(last.matches("<td class=\"image\"").count(), 99);
}

crate::service::on_both!(
    only_the_latest_scalings_are_included,
    snapshots_are_listed_newest_first_with_their_changes,
    gaps_are_listed_in_order,
    timeline_ends_at_the_retention_horizon,
);

crate::service::on_sqlite!(
    snapshots_are_paginated_and_invalid_pages_are_rejected,
    declared_environment_has_no_snapshots,
    lists_of_ten_thousand_artifacts_are_truncated,
);
