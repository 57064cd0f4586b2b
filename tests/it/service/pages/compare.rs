//! Two snapshots side by side.

use supercargo::service::Policy;

use super::Browser;
use super::environment::{attest, judging, shows};
use crate::service::browser::said;
use crate::service::{Database, READER, REPORTER, Running, STRANGER, digest, pod, report};

const PAGE: &str = "/ui/acme/environments/prod/compare";

/// The rows under one heading.
#[track_caller]
fn under<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = format!("scope=\"rowgroup\" colspan=\"5\">{heading}</th>");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("{heading}: {page}"));
    rest.split_once("</tbody>").unwrap().0
}

/// The cells that say in how many pods something runs, by snapshot.
fn pods((one, in_one): (i64, &str), (other, in_other): (i64, &str)) -> String {
    format!("<td data-name=\"Pods in {one}\">{in_one}</td><td data-name=\"Pods in {other}\">{in_other}</td>")
}

/// In the first snapshot `gone`, `web` in one pod, `lib`, `same`; in the second nothing; in the third `new`,
/// `web` in two pods, `lib`, which passes its tests by then, and `same`.
async fn three(service: &Running) {
    let (web, lib, same) =
        (|name: &str| pod(name, "web:1", 'a'), pod("lib", "lib:1", 'b'), pod("same", "same:1", 'c'));
    let first = [pod("gone", "gone:1", 'd'), web("web-1"), lib.clone(), same.clone()];
    service.report(REPORTER, "prod", report(&first)).await.expect(201);
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    attest(service, 'b', 0).await;
    let last = [pod("new", "new:1", 'e'), web("web-1"), web("web-2"), lib, same];
    service.report(REPORTER, "prod", report(&last)).await.expect(201);
}

async fn two_snapshots_stand_side_by_side(database: Database) {
    let service = judging(database, &Policy::default()).await;
    three(&service).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let text = shows(
        &mut browser,
        &format!("{PAGE}?from=1&to=3"),
        &[
            ">1 only in 1<",
            ">1 only in 3<",
            ">1 in another number of pods<",
            ">1 judged otherwise<",
            ">1 the same<",
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
    let only = under(&text, "Only in 1");
    assert!(only.contains("gone:1") && only.contains(&pods((1, "1"), (3, "–"))), "{only}");
    assert!(only.contains("unit of the flow cart is missing") && !only.contains("new:1"), "{only}");
    let only = under(&text, "Only in 3");
    assert!(only.contains("new:1") && only.contains(&pods((1, "–"), (3, "1"))), "{only}");
    let scaled = under(&text, "In both, in another number of pods");
    assert!(scaled.contains("web:1") && scaled.contains(&pods((1, "1"), (3, "2"))), "{scaled}");
    let judged = under(&text, "In both, judged otherwise");
    let (bad, good) = (judged.find("badge bad"), judged.find("badge good"));
    assert!(judged.contains("lib:1") && bad.is_some() && bad < good, "{judged}");
    assert!(under(&text, "In both, the same").contains("same:1"));
    // The other way round.
    let text = shows(&mut browser, &format!("{PAGE}?from=3&to=1"), &[">1 only in 3<"]).await;
    let scaled = under(&text, "In both, in another number of pods");
    assert!(scaled.contains(&pods((3, "2"), (1, "1"))), "{scaled}");
    assert!(under(&text, "Only in 1").contains(&pods((3, "–"), (1, "1"))), "{text}");
    // A part of it, an empty snapshot, and one beside itself.
    let text = shows(&mut browser, &format!("{PAGE}?from=1&to=3&only=pods"), &["web:1"]).await;
    assert!(!text.contains("gone:1") && text.contains("aria-current"), "{text}");
    shows(&mut browser, &format!("{PAGE}?from=2&to=1"), &[">4 only in 1<", "0 artifacts in 0 pods"]).await;
    shows(&mut browser, &format!("{PAGE}?from=3&to=3"), &["This is one snapshot", ">4 the same<"]).await;
}

async fn numbers_that_cannot_be_compared_get_a_clear_answer(database: Database) {
    let service = Running::start(database).await;
    for digit in ['a', 'b'] {
        service.report(REPORTER, "prod", report(&[pod("p", "image", digit)])).await.expect(201);
    }
    let mut browser = Browser::signed_in(&service, READER).await;
    // Without numbers it asks for them.
    for query in ["", "?from=&to=", "?from=1"] {
        let fields =
            ["name=\"from\" type=\"number\" required min=\"1\" max=\"2\" value=\"1\"", "name=\"to\""];
        shows(&mut browser, &format!("{PAGE}{query}"), &fields).await;
    }
    for (query, status, expected) in [
        ("from=1&to=9", 404, "There is no snapshot 9: the last is 2."),
        ("from=9223372036854775807&to=1", 404, "There is no snapshot 9223372036854775807"),
        ("from=one&to=2", 400, "a whole number from 1 was expected"),
        ("from=1&to=0", 400, "a whole number from 1 was expected"),
        ("from=1&to=99999999999999999999", 400, "a whole number from 1 was expected"),
        ("from=1&to=2&only=most", 400, "one of from, to, pods, verdict, same was expected"),
        ("from=1&to=2&page=0", 400, "a whole number from 1 was expected"),
    ] {
        let answer = browser.get(&format!("{PAGE}?{query}")).await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.text.contains(expected), "{query}: {}", answer.text);
        // What was asked for can be mended.
        assert!(status != 404 || answer.text.contains("name=\"from\""), "{query}: {}", answer.text);
    }
    let missing = browser.get("/ui/acme/environments/nowhere/compare?from=1&to=2").await;
    assert_eq!(missing.status, 404);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let theirs = stranger.get(&format!("{PAGE}?from=1&to=2")).await;
    assert_eq!((theirs.status, said(&theirs)), (missing.status, said(&missing)));
}

crate::service::on_both!(two_snapshots_stand_side_by_side);

crate::service::on_sqlite!(numbers_that_cannot_be_compared_get_a_clear_answer);
