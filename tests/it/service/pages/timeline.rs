//! An environment's snapshots: what changed with each, and when nobody knows.

use std::time::Duration;

use serde_json::{Value, json};
use supercargo::service::Policy;

use super::Browser;
use super::environment::{judging, shows, time_of, to_the_second};
use crate::service::browser::said;
use crate::service::{
    Database, Options, READER, REPORTER, Running, STRANGER, bootstrap, digest, eventually, pod, report,
};

const PAGE: &str = "/ui/acme/environments/prod/timeline";

const DAY: i64 = 86_400_000_000;

/// What a page says of one snapshot.
#[track_caller]
fn snapshot(page: &str, number: i64) -> &str {
    let (_, rest) =
        page.split_once(&format!("id=\"snapshot-{number}\"")).unwrap_or_else(|| panic!("{number}: {page}"));
    rest.split_once("</article>").unwrap().0
}

#[track_caller]
fn holds(text: &str, expected: &[&str], not_there: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for not_there in not_there {
        assert!(!text.contains(not_there), "{not_there}: {text}");
    }
}

/// Three snapshots: web alone, which is scaled; web, scaled again, and db; db alone.
async fn three(service: &Running) {
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

async fn snapshots_are_told_newest_first_with_what_changed(database: Database) {
    let service = judging(database, &Policy::default()).await;
    three(&service).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    // The ways there.
    shows(&mut browser, "/ui/acme", &[&format!("href=\"{PAGE}\"")]).await;
    let environment = PAGE.trim_end_matches("/timeline");
    let ways = [format!("href=\"{PAGE}\""), format!("<a href=\"{PAGE}#snapshot-3\">3</a>")];
    shows(&mut browser, environment, &ways.each_ref().map(String::as_str)).await;
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
    holds(
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
        &["Exited", "registry/db:1", "Compared with 0", "so far"],
    );
    holds(
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
    holds(
        snapshot(&text, 3),
        &["Exited 1", "registry/web:1", &compared, "not yet", "so far"],
        &["Started", "Scaled", "registry/db:1"],
    );
    // What ran then is what the snapshot says.
    shows(&mut browser, &at, &["2 artifacts in 4 pods", &format!("{PAGE}#snapshot-2")]).await;
}

async fn what_was_scaled_before_the_latest_times_is_left_off(database: Database) {
    let service = judging(database, &Policy::default()).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let pods = [pod("web-1", "registry/web:1", 'a'), pod("web-2", "registry/web:1", 'a')];
    let said = "this is what the latest 50 times changed";
    for times in 0..=51 {
        let pods = pods.get(..=times % 2).unwrap();
        assert!(service.report(REPORTER, "prod", report(pods)).await.status.is_success());
        if times >= 50 {
            let text = browser.get(PAGE).await.text;
            holds(&text, &["50 steps", "Scaled 1"], &[]);
            assert_eq!(text.contains(said), times > 50, "{text}");
        }
    }
    // A report that scales many is many events, and one time.
    let one = "UPDATE events SET occurred_at = (SELECT MAX(occurred_at) FROM events)";
    service.database.execute(one).await;
    let text = browser.get(PAGE).await.text;
    holds(&text, &["51 steps"], &["There was more before"]);
}

async fn silences_stand_where_they_were(database: Database) {
    let policy = Policy { silent_after: Duration::from_micros(1), ..Policy::default() };
    let service = judging(database, &policy).await;
    for (digit, status) in [('a', 201), ('a', 200), ('a', 200), ('b', 201)] {
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(status);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let last = to_the_second(time_of(&service, "SELECT last_report_at FROM environments").await);
    let text = shows(&mut browser, PAGE, &["Silent since", "nobody knows what has run since"]).await;
    assert_eq!(text.matches("class=\"gap\"").count(), 2, "{text}");
    let (_, rest) = text.split_once("id=\"snapshot-2\"").unwrap();
    let (between, _) = rest.split_once("id=\"snapshot-1\"").unwrap();
    let from = to_the_second(time_of(&service, "SELECT MAX(from_at) FROM gaps").await);
    let said = format!("Nobody reported the environment from <time datetime=\"{from}\"");
    holds(between, &[&said, "nobody knows what ran."], &["so far"]);
    holds(
        snapshot(&text, 1),
        &["with 2 silences of 0 s together", "the same artifacts were reported before and after"],
        &["Nobody reported"],
    );
    assert_eq!(snapshot(&text, 1).matches("the same artifacts were reported").count(), 2, "{text}");
    holds(snapshot(&text, 2), &[&last], &["silence"]);
}

async fn the_list_ends_where_the_retention_does(database: Database) {
    let policy = Policy { retention_interval: Duration::from_millis(20), ..Policy::default() };
    let bootstrap = bootstrap(1, "    retention: 1000d");
    let service = Running::start_with(database, Options { policy, bootstrap, ..Options::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    three(&service).await;
    shows(&mut browser, PAGE, &["The first report came at", "nobody knows what ran before"]).await;
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
    // An artifact that exited with the second, too.
    let exited = format!(
        "INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot, organization, name, started_at, ended_at)
         SELECT environment, report_hash, 1, 1, 'acme', 'gone', 1, {} FROM snapshots WHERE snapshot = 2",
        second - 1_001 * DAY
    );
    service.database.execute(&exited).await;
    let gone = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE name = 'gone'
                UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots";
    eventually("what ended goes", async || service.database.rows(gone).await == ["0", "2"]).await;
    let horizon = to_the_second(time_of(&service, "SELECT horizon_at FROM environments").await);
    let text =
        shows(&mut browser, PAGE, &["2 snapshots", "is past the retention and was removed", &horizon]).await;
    holds(snapshot(&text, 2), &["Started 1", "registry/db:1", "No longer known"], &["Compared with 1"]);
    holds(snapshot(&text, 3), &["Exited 1", "registry/web:1"], &["No longer known"]);
    assert!(!text.contains("id=\"snapshot-1\""), "{text}");
    let compare = |from, to| format!("/ui/acme/environments/prod/compare?from={from}&to={to}");
    let answer = browser.get(&compare(1, 3)).await;
    assert_eq!(answer.status, 404);
    holds(
        &answer.text,
        &["Snapshot 1 is past the retention", "the first that is kept is 2", "name=\"from\""],
        &[],
    );
    // The pods of the second are counted where all of it is still there.
    let text = shows(&mut browser, &compare(2, 3), &["2 artifacts in 4 pods", "1 artifact in 1 pod"]).await;
    assert!(text.contains(&format!("counted at <time datetime=\"{horizon}\"")), "{text}");
}

async fn pages_are_bounded_and_wrong_ones_are_refused(database: Database) {
    let service = Running::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    assert_eq!(browser.get(PAGE).await.status, 404);
    for number in 1..=21 {
        let digit = if number % 2 == 0 { 'a' } else { 'b' };
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(201);
    }
    let first =
        shows(&mut browser, PAGE, &["21 snapshots, page 1 of 2", "?page=2", "id=\"snapshot-2\""]).await;
    holds(&first, &["id=\"snapshot-21\"", "rel=\"next\""], &["id=\"snapshot-1\"", "The first report"]);
    for page in ["2", "999999999999999999"] {
        let last =
            shows(&mut browser, &format!("{PAGE}?page={page}"), &["page 2 of 2", "The first report"]).await;
        holds(&last, &["id=\"snapshot-1\""], &["id=\"snapshot-2\"", "rel=\"next\""]);
    }
    for query in ["page=0", "page=none", "page=1&page=1", "order=up"] {
        assert_eq!(browser.get(&format!("{PAGE}?{query}")).await.status, 400, "{query}");
    }
    let missing = browser.get("/ui/acme/environments/nowhere/timeline").await;
    assert_eq!(missing.status, 404);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let theirs = stranger.get(PAGE).await;
    assert_eq!((theirs.status, said(&theirs)), (missing.status, said(&missing)));
}

async fn an_environment_that_was_only_declared_has_no_snapshot(database: Database) {
    let service = judging(database, &Policy::default()).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(&mut browser, PAGE, &["there is no snapshot yet"]).await;
    assert!(!text.contains("name=\"from\""), "{text}");
    let answer = browser.get("/ui/acme/environments/prod/compare?from=1&to=2").await;
    assert_eq!(answer.status, 404);
    holds(&answer.text, &["there is no snapshot yet"], &[]);
}

/// Ten thousand pods, each of another artifact; the first is of an artifact of its own.
pub(super) fn many(first: &str) -> String {
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

async fn ten_thousand_artifacts_are_not_all_listed(database: Database) {
    let service = Running::start(database).await;
    for first in [&digest('e'), &digest('f')] {
        service.report(REPORTER, "prod", many(first)).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(&mut browser, PAGE, &["and 9992 more"]).await;
    assert!(text.len() < 30_000, "{}", text.len());
    holds(snapshot(&text, 1), &["Started 10000", "?at="], &["Exited"]);
    holds(snapshot(&text, 2), &["Started 1", "Exited 1"], &["more"]);
    let compare = "/ui/acme/environments/prod/compare?from=1&to=2";
    let text =
        shows(&mut browser, compare, &["1 only in 1", "1 only in 2", "9999 the same", "Page 1 of 101"]).await;
    assert!(text.len() < 300_000, "{}", text.len());
    assert_eq!(text.matches("<td class=\"image\"").count(), 100);
    let last = shows(&mut browser, &format!("{compare}&only=same&page=100"), &["Page 100 of 100"]).await;
    assert_eq!(last.matches("<td class=\"image\"").count(), 99);
}

crate::service::on_both!(
    what_was_scaled_before_the_latest_times_is_left_off,
    snapshots_are_told_newest_first_with_what_changed,
    silences_stand_where_they_were,
    the_list_ends_where_the_retention_does,
);

crate::service::on_sqlite!(
    pages_are_bounded_and_wrong_ones_are_refused,
    an_environment_that_was_only_declared_has_no_snapshot,
    ten_thousand_artifacts_are_not_all_listed,
);
