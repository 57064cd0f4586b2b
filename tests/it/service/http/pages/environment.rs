//! The page of an environment: running and past artifacts, with verdicts and reasons.

use std::time::Duration;

use serde_json::{Value, json};
use service::Limits;

use crate::service::bootstrap;
use crate::service::http::pages::Browser;
use crate::service::report;
use crate::service::support::browser::main_element;
use crate::service::{
    ADMIN, Database, Options, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod,
};

const PAGE: &str = "/ui/acme/environments/prod";

/// A service with an environment `prod`, which requires the unit tests of the flow `cart`.
pub(crate) async fn with_policy(database: Database, limits: &Limits) -> TestService {
    let more = "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]
    flows: [{name: cart}]";
    TestService::start_with(
        database,
        Options { bootstrap: bootstrap(1, more), limits: *limits, ..Options::default() },
    )
    .await
}

pub(crate) async fn attest(service: &TestService, digit: char, failures: u32) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest(digit),
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

pub(crate) fn owned(mut pod: Value, kind: &str, name: &str) -> Value {
    pod["owners"] =
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
    pod
}

/// Requests a page and checks that it contains these texts.
pub(crate) async fn shows(browser: &mut Browser<'_>, path: &str, expected: &[&str]) -> String {
    let Response { status, text, .. } = browser.get(path).await;
    assert_eq!(status, 200, "{path}: {text}");
    // Line break opportunities are not part of a name.
    let text = text.replace("<wbr>", "");
    for expected in expected {
        assert!(text.contains(expected), "{path}: {expected}: {text}");
    }
    text
}

/// The result of a query that selects one time.
pub(crate) async fn time_of(service: &TestService, sql: &str) -> i64 {
    service.database.rows(&format!("SELECT CAST(({sql}) AS TEXT)")).await[0].parse().unwrap()
}

fn at(micros: i64) -> String {
    format!("{PAGE}?at={}", jiff::Timestamp::from_microsecond(micros).unwrap())
}

/// A time as shown on pages.
fn written(micros: i64) -> String {
    to_the_second(micros).replace('T', " ").replace('Z', " UTC")
}

pub(crate) fn to_the_second(micros: i64) -> String {
    jiff::Timestamp::from_second(micros.div_euclid(1_000_000)).unwrap().to_string()
}

async fn running_artifacts_are_listed_with_verdict_and_reason_failures_first(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    attest(&service, 'a', 0).await;
    attest(&service, 'b', 1).await;
    let pods = [
        owned(pod("web-1", "registry/web:1", 'a'), "ReplicaSet", "web-7d9f8b6c5d"),
        owned(pod("web-2", "registry/web:1", 'a'), "ReplicaSet", "web-66b6c48dd5"),
        owned(pod("db-0", "registry/db:1", 'b'), "StatefulSet", "db"),
        pod("alone", "registry/tool:1", 'c'),
    ];
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    // A link leads to the page.
    let first = shows(
        &mut browser,
        "/ui/acme",
        &[&format!("href=\"{PAGE}\""), "and 1 more", " failed</bdi>, for <span"],
    )
    .await;
    assert!(!first.contains("no policy") && !first.contains("wait"), "{first}");
    let text = shows(
        &mut browser,
        PAGE,
        &[
            "3 artifacts in 4 pods",
            "<bdi>shop</bdi> / <span title=\"Deployment web (inferred)\"><bdi>deploy/web</bdi></span>",
            "<bdi>shop</bdi> / <span title=\"StatefulSet db\"><bdi>sts/db</bdi></span>",
            "<bdi>shop</bdi> / pods without an owner",
            "2 pods",
            "<td class=\"results\"><div>3 passed</div></td>",
            "<td class=\"results\"><div>1 of 3 failed</div></td>",
            "meets the policy",
            "unit of the flow cart failed",
            "unit of the flow cart is missing",
            ">2 non-compliant<",
            ">1 compliant<",
            "<code>aaaaaaaaaaaa…</code>",
            &format!("<a href=\"/ui/acme/artifacts/{}\"><bdi>registry/web:1</bdi></a>", digest('a')),
            &format!("<code class=\"whole\">{}</code>", digest('a')),
        ],
    )
    .await;
    assert!(!text.contains(" style=") && !text.contains("<script>"), "{text}");
    let places = ["unit of the flow cart is missing", "unit of the flow cart failed", "meets the policy"];
    assert!(places.map(|reason| text.find(reason).unwrap()).is_sorted(), "{text}");
    assert!(browser.get(PAGE).await.text.contains("<bdi>registry/<wbr>web:1</bdi>"));
    // The search and the filter are in the URL.
    for (query, there, not_there) in [
        ("?q=DB&compliance=&at=", "sts/db", "deploy/web"),
        ("?q=web-2", "pod <bdi>web-2</bdi>", "sts/db"),
        ("?q=deployment", "registry/web:1", "registry/db:1"),
        ("?q=cccccc", "registry/tool:1", "registry/db:1"),
        ("?q=web_2", "No artifact matches", "registry/web:1"),
        ("?compliance=compliant", "registry/web:1", "registry/db:1"),
        ("?compliance=non-compliant&q=registry/d", "registry/db:1", "registry/tool:1"),
        ("?compliance=unknown", "No artifact matches", "registry/tool:1"),
    ] {
        let text = shows(&mut browser, &format!("{PAGE}{query}"), &[there]).await;
        assert!(!text.contains(not_there), "{query}: {not_there}: {text}");
    }
    // A silent environment is not shown as compliant.
    service.database.execute("UPDATE environments SET last_report_at = last_report_at - 200000000").await;
    let silent = [
        "no reports for longer than",
        "was compliant; not confirmed since",
        ">1 unknown<",
        ">2 non-compliant<",
    ];
    let text = shows(&mut browser, PAGE, &silent).await;
    assert!(!text.contains("badge good"), "{text}");
}

async fn past_artifacts_have_the_verdicts_of_then_and_of_today(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    attest(&service, 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("q", "cart:2", 'b')])).await.expect(201);
    let first = time_of(&service, "SELECT MIN(received_at) FROM snapshots").await;
    let second = time_of(&service, "SELECT MAX(received_at) FROM snapshots").await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let expected =
        ["cart:1", "1 artifact in 1 pod", "unit of the flow cart is missing", "meets the policy", "Today"];
    for moment in [first, first + 1] {
        let text = shows(&mut browser, &at(moment), &expected).await;
        assert!(!text.contains("cart:2") && !text.contains("role=\"status\""), "{text}");
        // No live status.
        assert!(text.contains("back to now") && !text.contains("Last report"), "{text}");
        let [bad, good] = [("Then", "bad"), ("Today", "good")]
            .map(|(name, class)| format!("data-name=\"{name}\"><span class=\"badge {class}\">"));
        assert!(text.find(&bad).unwrap() < text.find(&good).unwrap(), "{text}");
    }
    // Just before its end the artifact ran, and was compliant.
    let text = shows(&mut browser, &at(second - 1), &["cart:1", "meets the policy"]).await;
    assert!(!text.contains("cart:2") && !text.contains("is missing"), "{text}");
    let text = shows(&mut browser, &at(second), &["cart:2"]).await;
    assert!(!text.contains("cart:1"), "{text}");
    // The form keeps the filter.
    let text = shows(&mut browser, &format!("{}&q=nothing", at(first)), &["No artifact matches"]).await;
    // Rounded up to the next millisecond.
    let field = format!("value=\"{}", to_the_second(first + 999).trim_end_matches('Z'));
    assert!(text.contains("value=\"nothing\"") && text.contains(&field), "{text}");
}

async fn artifacts_have_their_commit_on_the_page_and_on_the_timeline(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    let attested = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0, "skipped": 1}],
        "git_commit_info": {"sha1": "c".repeat(40)},
        "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
    });
    service.attest(ADMIN, "cart", "t", form(&attested)).await.expect(201);
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let sha = "c".repeat(40);
    let commit = format!(
        "<a href=\"https://github.com/acme/cart/commit/{sha}\" rel=\"noreferrer\"><code title=\"{sha}\"><bdi>ccccccc</bdi></code></a>"
    );
    let mut browser = Browser::signed_in(&service, READER).await;
    shows(&mut browser, PAGE, &[&commit, "2 passed, 1 skipped"]).await;
    shows(&mut browser, &format!("{PAGE}/timeline"), &[&format!(", commit {commit}")]).await;
}

async fn silent_environment_has_no_fulfilled_rule(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    attest(&service, 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    shows(&mut browser, PAGE, &["badge good\">fulfilled"]).await;
    service.database.execute("UPDATE environments SET last_report_at = last_report_at - 200000000").await;
    let text = shows(&mut browser, PAGE, &["not confirmed"]).await;
    assert!(!text.contains("badge good"), "{text}");
}

async fn environment_may_have_the_name_of_its_organization(database: Database) {
    let service = TestService::start_with(database, Options::default()).await;
    service.report(ADMIN, "acme", report(&[])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    let breadcrumbs = "<nav class=\"breadcrumbs\"";
    shows(
        &mut browser,
        "/ui/acme/environments/acme",
        &[breadcrumbs, "<title>acme · acme · supercargo</title>"],
    )
    .await;
    let top = shows(&mut browser, "/ui/acme", &["<title>acme · supercargo</title>"]).await;
    assert!(!top.contains(breadcrumbs), "{top}");
}

async fn allow_list_entry_is_shown_with_author_and_reason(database: Database) {
    let declared = |generation, allowed: &str| {
        let policy = "policy: {attestations: [{flow: cart, name: unit}]}";
        let more = format!(
            "    environments: [{{name: prod, {policy}, allowed: [{allowed}]}}]\n    flows: [{{name: cart}}]"
        );
        bootstrap(generation, &more)
    };
    let entry = |digit, more: &str| format!("{{artifact: {}, author: kim, reason: {more}}}", digest(digit));
    let (a, b) = (entry('a', "audit, expires: 2100-01-01T00:00:00Z"), entry('b', "seen"));
    let options = Options { bootstrap: declared(1, &format!("{a}, {b}")), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b')];
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let first = time_of(&service, "SELECT MIN(received_at) FROM snapshots").await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let of_artifact = format!("/ui/acme/artifacts/{}", digest('a'));
    let of_a = "allowed by kim until 2100-01-01 00:00:00 UTC: audit";
    let both: [&str; 2] = [&format!("on the allow-list; {of_a}"), "on the allow-list; allowed by kim: seen"];
    shows(&mut browser, PAGE, &both).await;
    shows(&mut browser, &of_artifact, &both[..1]).await;
    // The entry was removed. The past keeps it.
    service.reload(&declared(2, &b)).await;
    for path in [PAGE, &of_artifact] {
        let text = shows(&mut browser, path, &["unit of the flow cart is missing"]).await;
        assert!(!text.contains(of_a), "{text}");
    }
    let text = shows(&mut browser, &at(first), &both).await;
    assert_eq!((text.matches(of_a).count(), text.matches("allowed by kim: seen").count()), (1, 2), "{text}");
}

async fn page_warns_about_incomplete_history(database: Database) {
    let limits = Limits { silent_after: Duration::from_micros(1), ..Limits::default() };
    let service = with_policy(database, &limits).await;
    attest(&service, 'a', 0).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    shows(&mut browser, &at(1_700_000_000_000_000), &["never reported"]).await;
    for status in [201, 200] {
        service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(status);
    }
    let first = time_of(&service, "SELECT MIN(received_at) FROM snapshots").await;
    let from = time_of(&service, "SELECT from_at FROM gaps").await;
    let last = time_of(&service, "SELECT last_report_at FROM environments").await;
    for (moment, sentence, lists) in [
        (first - 1, format!("the first report was received at {}", written(first)), false),
        (from + 1, format!("Gap: no reports from {}", written(from)), true),
        (last + 1, format!("No reports since {}", written(last)), true),
        (last + 3_600_000_000, "is in the future".to_owned(), false),
    ] {
        let text = shows(&mut browser, &at(moment), &[&sentence]).await;
        assert_eq!(text.contains("cart:1"), lists, "{sentence}: {text}");
        assert!(!text.contains("badge good"), "{sentence}: {text}");
    }
    let horizon = format!("UPDATE environments SET horizon_at = {}", from + 2);
    service.database.execute(&horizon).await;
    let text = shows(&mut browser, &at(from + 1), &["was removed by retention", "cart:1"]).await;
    assert!(!text.contains("badge good"), "{text}");
}

async fn invalid_parameters_are_rejected_and_unknown_environments_not_found(database: Database) {
    let service = TestService::start(database).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    for time in ["2026-10-03T14:00Z", "2026-10-03T14:00:00Z", "2026-10-03T14:00", "2026-10-03T14:00:00"] {
        shows(&mut browser, &format!("{PAGE}?at={time}"), &["2026-10-03 14:00:00 UTC"]).await;
    }
    for (query, expected) in [
        ("at=noon", "expected a time such as 2026-10-03T14:00Z"),
        ("compliance=good", "expected compliant, non-compliant or unknown"),
        ("page=none", "expected an integer from 1"),
    ] {
        let answer = browser.get(&format!("{PAGE}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text.contains(expected), "{query}: {}", answer.text);
    }
    let missing = browser.get("/ui/acme/environments/nowhere").await;
    assert_eq!(missing.status, 404);
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let theirs = stranger.get(PAGE).await;
    assert_eq!((theirs.status, main_element(&theirs)), (missing.status, main_element(&missing)));
}

async fn ten_thousand_artifacts_are_paginated(database: Database) {
    let service = with_policy(database, &Limits::default()).await;
    let pods: Vec<Value> = (0..10_000)
        .map(|n| {
            let image = format!("registry.example.com/group/project/image-{n}:1.2.3");
            let mut pod =
                owned(pod(&format!("app-{n:05}-x"), &image, 'a'), "ReplicaSet", &format!("app-{n:05}"));
            pod["namespace"] = json!(format!("team-{:02}", n % 50));
            pod["digests"][&image] = json!(format!("{n:064x}"));
            pod
        })
        .collect();
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let now = time_of(&service, "SELECT last_report_at FROM environments").await;
    let mut browser = Browser::signed_in(&service, READER).await;
    for path in [
        PAGE.to_owned(),
        format!("{PAGE}?page=100"),
        format!("{PAGE}?q=app-09999-x"),
        format!("{PAGE}?compliance=non-compliant"),
        at(now),
    ] {
        let text = shows(&mut browser, &path, &["10000 artifacts in 10000 pods"]).await;
        assert!(text.len() < 300_000, "{path}: {} bytes", text.len());
    }
    let first = shows(&mut browser, PAGE, &["10000 artifacts, page 1 of 100", "?page=2", "?page=100"]).await;
    assert_eq!(first.matches("<details").count(), 100);
    let last =
        shows(&mut browser, &format!("{PAGE}?page=100"), &["page 100 of 100", "app-09999", "?page=99"]).await;
    assert_eq!(last.matches("<details").count(), 100);
    assert!(!last.contains(">Next<"), "{last}");
    let found = shows(
        &mut browser,
        &format!("{PAGE}?q=app-09999-x"),
        &[
            "1 artifact",
            "<bdi>team-49</bdi> / <span title=\"ReplicaSet app-09999\"><bdi>rs/app-09999</bdi></span>",
        ],
    )
    .await;
    assert_eq!(found.matches("<details").count(), 1);
}

crate::service::on_both!(
    running_artifacts_are_listed_with_verdict_and_reason_failures_first,
    past_artifacts_have_the_verdicts_of_then_and_of_today,
    artifacts_have_their_commit_on_the_page_and_on_the_timeline,
    allow_list_entry_is_shown_with_author_and_reason,
);

crate::service::on_sqlite!(
    silent_environment_has_no_fulfilled_rule,
    environment_may_have_the_name_of_its_organization,
    page_warns_about_incomplete_history,
    invalid_parameters_are_rejected_and_unknown_environments_not_found,
    ten_thousand_artifacts_are_paginated,
);
