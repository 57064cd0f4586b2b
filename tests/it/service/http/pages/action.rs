//! The pages of actions and their deliveries.

use std::time::Duration;

use model::retry::Backoff;
use service::{Delivery, Limits};

use crate::fake::{Reply, Server};
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, READER, REPORTER, STRANGER, TestService, digest, pod};

const PATH: &str = "/ui/acme/actions/7";

/// One action with these targets, for `prod` and an unknown environment.
fn action(generation: i64, name: &str, targets: &str) -> String {
    bootstrap(
        generation,
        &format!(
            "    environments: [{{name: prod, policy: {{attestations: [{{flow: cart, name: unit}}]}}}}]
    actions:
      - number: 7
        name: {name:?}
        environments: [prod, elsewhere]
        triggers: [ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT, ON_NON_COMPLIANT_ENV]
        targets: [{targets}]"
        ),
    )
}

fn webhook(name: &str) -> String {
    format!("{{name: {name:?}, type: WEBHOOK, url: {{file: ops.url}}, secrets: [{{file: secret}}]}}")
}

fn options(bootstrap: String, url: &str) -> Options {
    let backoff =
        Backoff { initial: Duration::from_millis(5), max: Duration::from_millis(20), ..Backoff::default() };
    let delivery = Delivery { backoff, interval: Duration::from_millis(20), ..Delivery::default() };
    let files = vec![
        ("ops.url", format!("{url}/hook?key=credential")),
        ("secret", "whsec-0123456789abcdef0123456789".to_owned()),
    ];
    let limits = Limits { delivery, ..Limits::default() };
    Options { limits, bootstrap, allowed_internal: &["127.0.0.1/32"], files, ..Options::default() }
}

async fn action_shows_deliveries_and_their_results(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let chat = "{name: room, type: SLACK, url: {file: ops.url}, channel: {name: \"#ops\"}}";
    let mail = "{name: people, type: EMAIL, recipients: [oncall@example.com]}";
    let targets = format!("{}, {chat}, {mail}", webhook("pager"));
    let smtp = "smtp: {host: mail.example.com, from: supercargo@example.com}";
    let file = format!("{smtp}\n{}", action(1, "tell ops", &targets));
    let service = TestService::start_with(database, options(file, &receiver.url())).await;
    let page = Browser::read_page(&service, PATH).await;
    assert_contains(&page, &["no deliveries", "No deliveries.", "never"]);

    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    // The mail server does not exist.
    eventually("the results of all deliveries are shown", async || {
        let page = Browser::read_page(&service, PATH).await;
        page.matches(">sent</span>").count() == 4 && page.contains("failing")
    })
    .await;
    let page = Browser::read_page(&service, PATH).await;
    assert_contains(
        &page,
        &[
            "tell ops",
            r#"<a href="/ui/acme/environments/prod"><bdi>prod</bdi></a>"#,
            "<bdi>elsewhere</bdi>, neither declared nor reported",
            "<code>ON_EXITED_ARTIFACT</code>: an artifact no longer runs",
            "<code>ON_NON_COMPLIANT_ENV</code>",
            ", by <bdi>bootstrap</bdi>",
            "WEBHOOK",
            "SLACK",
            "EMAIL",
            "<bdi>#ops</bdi>",
            "<bdi>oncall@example.com</bdi>",
            "working",
            &format!(r#"<a href="/ui/acme/artifacts/{}"><bdi>cart:1</bdi></a>"#, digest('a')),
        ],
    );
    assert_contains(&page, &[">pending</span>"]);
    let list = Browser::read_page(&service, "/ui/acme/actions").await;
    assert_contains(&list, &[&format!(r#"<a href="{PATH}"><bdi>tell ops</bdi></a>"#), "failing"]);
    let front = Browser::read_page(&service, "/ui/acme").await;
    assert_contains(&front, &[&format!(r#"Notifications of <a href="{PATH}"><bdi>tell ops</bdi></a> fail"#)]);
    assert_contains(&Browser::read_page(&service, "/ui/acme").await, &[r#"<a href="/ui/acme/actions">"#]);
    // Secrets are hidden from an admin too, although the operation returns them.
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    for path in ["/ui/acme/actions", PATH] {
        let page = admin.get(path).await;
        assert_eq!(page.status, 200);
        for secret in ["credential", "whsec", "/hook"] {
            assert!(!page.text.contains(secret), "{secret}: {}", page.text);
        }
    }
    let shown = service.get(ADMIN, "/actions/acme/7").await.expect(200).text;
    assert!(shown.contains("credential"), "{shown}");
}

async fn failed_delivery_shows_the_error_and_the_next_attempt(database: Database) {
    let receiver = Server::start(|_| Reply::text(503, "no"));
    let mut options = options(action(1, "tell ops", &webhook("pager")), &receiver.url());
    options.limits.delivery.backoff = Backoff::default();
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("delivery fails", async || {
        Browser::read_page(&service, PATH).await.contains("HTTP status 503")
    })
    .await;
    let page = Browser::read_page(&service, PATH).await;
    assert_contains(&page, &["failing", ">pending</span> next attempt <time", "<td>1</td>"]);
    // A removed target keeps its past deliveries; the pending one is dropped.
    service.reload(&action(2, "tell others", &webhook("other"))).await;
    let page = Browser::read_page(&service, PATH).await;
    assert_contains(
        &page,
        &[
            "tell others",
            "<bdi>pager</bdi>, since removed",
            ">dropped</span>",
            "the target was removed",
            "no deliveries",
        ],
    );
}

async fn older_deliveries_are_on_the_next_page(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let targets = format!("{}, {}", webhook("pager"), webhook("other"));
    let service =
        TestService::start_with(database, options(action(1, "ops", &targets), &receiver.url())).await;
    // 30 artifacts, each replaced by the next: 60 events with the exits and the environment.
    for number in 0..30 {
        let digit = char::from_digit(number % 16, 16).unwrap();
        let pods = [pod("p", &format!("cart:{number}"), digit)];
        service.report(REPORTER, "prod", report(&pods)).await.expect(201);
        // More than ten waiting events of a kind would be merged.
        let waiting = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE attempts = 0";
        let is_short = async || service.database.rows(waiting).await[0].parse::<i64>().unwrap() < 20;
        eventually("the queue is short", is_short).await;
    }
    let (mut browser, mut path) = (Browser::signed_in(&service, READER).await, PATH.to_owned());
    let (mut pages, mut seen) = (0, 0);
    loop {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200);
        pages += 1;
        let rows = page.text.matches("<code>ON_").count() - 3;
        assert!((1..=50).contains(&rows), "{rows}");
        seen += rows;
        assert_eq!(page.text.contains("Newest"), pages > 1);
        let Some((start, _)) = page.text.split_once("\" rel=\"next\">Older") else { break };
        start.rsplit_once("href=\"").unwrap().1.clone_into(&mut path);
    }
    assert_eq!((pages, seen), (3, 120));
    // Newest first.
    let first = browser.get(PATH).await.text;
    assert!(first.contains("cart:29") && !first.contains("cart:0<"), "{first}");
    for (query, status) in [("?before=x", 400), ("?page=2", 400)] {
        let answer = browser.get(&format!("{PATH}{query}")).await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.text.starts_with("<!DOCTYPE html>"), "{}", answer.text);
    }
}

async fn missing_or_foreign_action_is_not_found(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let file = action(1, "ops", &webhook("pager"));
    let service = TestService::start_with(database, options(file, &receiver.url())).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    for path in ["8", "0", "-7", "x", "99999999999999999999"] {
        assert_eq!(reader.get(&format!("/ui/acme/actions/{path}")).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [PATH.to_owned(), PATH.replace("acme", "stranger"), "/ui/acme/actions".to_owned()] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
    assert_contains(
        &stranger.get("/ui/stranger/actions").await.text,
        &["The bootstrap file has no actions."],
    );
    // An action that was removed from the file is not found, as in the operation.
    assert_eq!(reader.get(PATH).await.status, 200);
    service.reload(&bootstrap(2, "")).await;
    service.get(READER, "/actions/acme/7").await.expect(404);
    assert_eq!(reader.get(PATH).await.status, 404);
}

crate::service::on_both!(action_shows_deliveries_and_their_results, older_deliveries_are_on_the_next_page,);

crate::service::on_sqlite!(
    failed_delivery_shows_the_error_and_the_next_attempt,
    missing_or_foreign_action_is_not_found,
);
