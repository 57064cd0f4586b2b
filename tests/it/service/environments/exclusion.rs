//! Reports whose agent excluded pods, and environments that forbid it.

use reqwest::Method;
use serde_json::Value;

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::bootstrap;
use crate::service::{Database, REPORTER, Response, TestService, pod};

const PAGE: &str = "/ui/acme/environments/prod";
const EXCLUDED: &str = "Excluded by annotation";

/// Reports a pod of `prod`, with these headers `Supercargo-Excluded-Pods`.
async fn send(service: &TestService, excluded: &[&str]) -> Response {
    let request = service.request(Method::PUT, REPORTER, "/environments/acme/prod/report/K8S?create=true");
    let request = request.header("Content-Type", "application/json").body(report(&[pod("p", "cart:1", 'a')]));
    let add =
        |request: reqwest::RequestBuilder, value: &&str| request.header("Supercargo-Excluded-Pods", *value);
    Response::from_request(excluded.iter().fold(request, add)).await
}

async fn excluded_pods(service: &TestService) -> Value {
    service.read("/environments/acme/prod").await["excluded_pods"].clone()
}

async fn excluded_pods_of_the_last_report_are_shown(database: Database) {
    let service = TestService::start(database).await;
    for (headers, status, number) in
        [(&[][..], 201, 0), (&["2"], 200, 2), (&["2"], 200, 2), (&["1"], 200, 1), (&["0"], 200, 0)]
    {
        send(&service, headers).await.expect(status);
        assert_eq!(excluded_pods(&service).await, number);
        let page = Browser::read_page(&service, PAGE).await;
        if number == 0 {
            assert!(!page.contains(EXCLUDED), "{page}");
        } else {
            let pods = if number == 1 { "1 pod" } else { "2 pods" };
            assert_contains(&page, &[EXCLUDED, &format!("<dd>{pods}</dd>")]);
        }
        let outcome = service.program(crate::service::READER, "get environment prod").await;
        let line = outcome.stdout.lines().find(|line| line.starts_with("excluded pods"));
        assert_eq!(line.and_then(|line| line.split_whitespace().last()), Some(number.to_string().as_str()));
    }
}

async fn invalid_number_of_excluded_pods_is_rejected(database: Database) {
    let service = TestService::start(database).await;
    for headers in [&[""][..], &["-1"], &["two"], &["1.5"], &["4294967296"], &["1", "0"]] {
        send(&service, headers)
            .await
            .expect(400)
            .assert_field_error("supercargo-excluded-pods", "a number of pods");
    }
}

async fn report_that_excludes_pods_is_rejected_where_the_bootstrap_file_forbids_it(database: Database) {
    let service = TestService::start(database).await;
    send(&service, &["2"]).await.expect(201);
    service.reload(&bootstrap(2, "    environments: [{name: prod, forbidExclusion: true}]")).await;
    // The same bytes as those of the last report.
    for number in ["2", "3"] {
        let message = send(&service, &[number]).await.expect(400).json()["message"].clone();
        let expected = format!(
            "environment \"prod\" forbids excluded pods, and the report excludes {number} pods: run its agent without --allow-exclusion (allowExclusion), or remove forbidExclusion from the bootstrap file"
        );
        assert_eq!(message, expected);
    }
    assert_eq!(excluded_pods(&service).await, 2);
    for headers in [&[][..], &["0"]] {
        send(&service, headers).await.expect(200);
        assert_eq!(excluded_pods(&service).await, 0);
    }
    service.reload(&bootstrap(3, "    environments: [{name: prod}]")).await;
    send(&service, &["1"]).await.expect(200);
    let changes = "SELECT change FROM audit WHERE change LIKE 'forbidExclusion%' ORDER BY id";
    let expected = ["true", "false"].map(|is| format!("forbidExclusion of the environment prod is {is}"));
    assert_eq!(service.database.rows(changes).await, expected);
}

crate::service::on_both!(
    excluded_pods_of_the_last_report_are_shown,
    invalid_number_of_excluded_pods_is_rejected,
    report_that_excludes_pods_is_rejected_where_the_bootstrap_file_forbids_it,
);
