//! The comparison of two snapshots.

use service::Limits;

use crate::service::http::pages::Browser;
use crate::service::http::pages::environment::{attest, shows, with_policy};
use crate::service::report;
use crate::service::support::browser::main_element;
use crate::service::{Database, READER, REPORTER, STRANGER, TestService, digest, pod};

const PAGE: &str = "/ui/acme/environments/prod/compare";

/// The rows of the group with this heading.
#[track_caller]
fn rows_under<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = format!("scope=\"rowgroup\" colspan=\"5\">{heading}</th>");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("{heading}: {page}"));
    rest.split_once("</tbody>").unwrap().0
}

/// The cells with the number of pods in each snapshot.
fn pod_cells(one: i64, in_one: &str, other: i64, in_other: &str) -> String {
    format!("<td data-name=\"Pods in {one}\">{in_one}</td><td data-name=\"Pods in {other}\">{in_other}</td>")
}

/// Reports three snapshots. First: `gone`, `web` in one pod, `lib`, `same`. Second: empty. Third: `new`, `web` in two pods,
/// `lib`, which passes its tests by then, and `same`.
async fn report_three(service: &TestService) {
    let (web, lib, same) =
        (|name: &str| pod(name, "web:1", 'a'), pod("lib", "lib:1", 'b'), pod("same", "same:1", 'c'));
    let first = [pod("gone", "gone:1", 'd'), web("web-1"), lib.clone(), same.clone()];
    service.report(REPORTER, "prod", report(&first)).await.expect(201);
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    attest(service, 'b', 0).await;
    let last = [pod("new", "new:1", 'e'), web("web-1"), web("web-2"), lib, same];
    service.report(REPORTER, "prod", report(&last)).await.expect(201);
}

async fn snapshots_are_compared_by_artifact(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    report_three(&service).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(
        &mut browser,
        &format!("{PAGE}?from=1&to=3"),
        &[
            ">1 only in 1<",
            ">1 only in 3<",
            ">1 with different numbers of pods<",
            ">1 with different verdicts<",
            ">1 unchanged<",
            "4 artifacts in 4 pods",
            "4 artifacts in 5 pods",
            "badge bad\">non-compliant",
            &format!("href=\"{PAGE}?from=3&amp;to=1\""),
            "href=\"/ui/acme/environments/prod/timeline\"",
            "href=\"/ui/acme/environments/prod\"",
            &format!("href=\"/ui/acme/artifacts/{}\"", digest('c')),
        ],
    )
    .await;
    assert_eq!(text.matches("href=\"/ui/acme/environments/prod?at=").count(), 2, "{text}");
    let only = rows_under(&text, "Only in 1");
    assert!(only.contains("gone:1") && only.contains(&pod_cells(1, "1", 3, "–")), "{only}");
    assert!(only.contains("unit of the flow cart is missing") && !only.contains("new:1"), "{only}");
    let only = rows_under(&text, "Only in 3");
    assert!(only.contains("new:1") && only.contains(&pod_cells(1, "–", 3, "1")), "{only}");
    let scaled = rows_under(&text, "In both, with different numbers of pods");
    assert!(scaled.contains("web:1") && scaled.contains(&pod_cells(1, "1", 3, "2")), "{scaled}");
    let evaluated = rows_under(&text, "In both, with different verdicts");
    let (bad, good) = (evaluated.find("badge bad"), evaluated.find("badge good"));
    assert!(evaluated.contains("lib:1") && bad.is_some() && bad < good, "{evaluated}");
    assert!(rows_under(&text, "Unchanged").contains("same:1"));
    // Swapped.
    let text = shows(&mut browser, &format!("{PAGE}?from=3&to=1"), &[">1 only in 3<"]).await;
    let scaled = rows_under(&text, "In both, with different numbers of pods");
    assert!(scaled.contains(&pod_cells(3, "2", 1, "1")), "{scaled}");
    assert!(rows_under(&text, "Only in 1").contains(&pod_cells(3, "–", 1, "1")), "{text}");
    // One difference only, an empty snapshot, and a snapshot compared with itself.
    let text = shows(&mut browser, &format!("{PAGE}?from=1&to=3&only=pods"), &["web:1"]).await;
    assert!(!text.contains("gone:1") && text.contains("aria-current"), "{text}");
    shows(&mut browser, &format!("{PAGE}?from=2&to=1"), &[">4 only in 1<", "0 artifacts in 0 pods"]).await;
    shows(&mut browser, &format!("{PAGE}?from=3&to=3"), &["Both are the same snapshot.", ">4 unchanged<"])
        .await;
}

async fn invalid_snapshot_numbers_are_rejected_with_a_reason(database: Database) {
    let service = TestService::start(database).await;
    for digit in ['a', 'b'] {
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    // The page without numbers has the form.
    for query in ["", "?from=&to=", "?from=1"] {
        let fields =
            ["name=\"from\" type=\"number\" required min=\"1\" max=\"2\" value=\"1\"", "name=\"to\""];
        shows(&mut browser, &format!("{PAGE}{query}"), &fields).await;
    }
    for (query, status, expected) in [
        ("from=1&to=9", 404, "Snapshot 9 does not exist; the latest is 2."),
        ("from=9223372036854775807&to=1", 404, "Snapshot 9223372036854775807 does not exist"),
        ("from=one&to=2", 400, "expected an integer from 1"),
        ("from=1&to=0", 400, "expected an integer from 1"),
        ("from=1&to=99999999999999999999", 400, "expected an integer from 1"),
        ("from=1&to=2&only=most", 400, "expected one of from, to, pods, verdict, same"),
        ("from=1&to=2&page=0", 400, "expected an integer from 1"),
    ] {
        let answer = browser.get(&format!("{PAGE}?{query}")).await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.text.contains(expected), "{query}: {}", answer.text);
        // The form allows to correct the numbers.
        assert!(status != 404 || answer.text.contains("name=\"from\""), "{query}: {}", answer.text);
    }
    let missing = browser.get("/ui/acme/environments/nowhere/compare?from=1&to=2").await;
    assert_eq!(missing.status, 404);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let theirs = stranger.get(&format!("{PAGE}?from=1&to=2")).await;
    assert_eq!((theirs.status, main_element(&theirs)), (missing.status, main_element(&missing)));
}

crate::service::on_both!(snapshots_are_compared_by_artifact);

crate::service::on_sqlite!(invalid_snapshot_numbers_are_rejected_with_a_reason);
