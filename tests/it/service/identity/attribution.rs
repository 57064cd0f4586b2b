//! Tokens behind reports, sign-ins and changes: on pages and in the audit log.

use serde_json::json;

use crate::service::bootstrap;
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::Options;
use crate::service::{ADMIN, ATTESTER, Database, READER, REPORTER, STRANGER, TestService, digest, form, pod};

async fn reports_of_another_token_are_shown_with_its_name(database: Database) {
    let service = TestService::start(database).await;
    let body = report(&[pod("p", "cart:1", 'a')]);
    for (token, status) in [(REPORTER, 201), (REPORTER, 200), (ADMIN, 200), (ADMIN, 200), (REPORTER, 200)] {
        service.report(token, "prod", body.clone()).await.expect(status);
    }
    let page = Browser::read_page(&service, "/ui/acme/environments/prod/timeline").await;
    assert_contains(&page, &["by <bdi>reporter</bdi>", "Also reported</dt><dd>by <bdi>admin</bdi>, first "]);
    let confirmations =
        service.database.rows("SELECT reported_by FROM confirmations ORDER BY reported_by").await;
    assert_eq!(confirmations, ["admin", "reporter"], "one row per token, and none for repeated reports");
    // A pod under the same digest is shown with the token that reported it, once there are several.
    let path = "/ui/acme/environments/prod";
    assert!(!Browser::read_page(&service, path).await.contains("reported by"));
    let pods = [pod("p", "cart:1", 'a'), pod("hidden", "cart:1", 'a')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(200);
    let page = Browser::read_page(&service, path).await;
    assert_contains(&page, &["reported by <bdi>admin</bdi>", "reported by <bdi>reporter</bdi>"]);
}

async fn audit_log_names_the_token_behind_each_change(database: Database) {
    let flows = "    flows: [{name: secure, repositories: [acme/secure]}]";
    let options = Options { bootstrap: bootstrap(1, flows), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
                      "repo_info": {"name": "acme/secure"}});
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(403);
    for _ in 0..2 {
        Browser::signed_in(&service, READER).await;
    }
    for (token, status) in [(READER, 403), (STRANGER, 403), (ATTESTER, 403), (REPORTER, 403)] {
        service.get(token, "/audit/acme").await.expect(status);
    }
    let log = service.get(ADMIN, "/audit/acme?per_page=500").await.expect(200).json();
    let entries: Vec<_> = log["data"].as_array().unwrap().iter().collect();
    assert_eq!(log["pagination"]["total"], entries.len());
    let listed: Vec<_> = entries
        .iter()
        .map(|entry| format!("{}: {}", entry["actor"].as_str().unwrap(), entry["change"].as_str().unwrap()))
        .collect();
    let newest = [
        "token reader: signed in",
        "token attester: attestation in cart refused: the repository \"acme/secure\" belongs to another flow",
        "token admin: reported environment prod: snapshot 1",
    ];
    assert_eq!(listed[..3], newest, "one entry for equal ones within an hour");
    assert!(
        listed[3..].iter().all(|entry| entry.starts_with("bootstrap file, generation 1: ")),
        "{listed:?}"
    );
    assert!(entries[0]["at"].as_f64().unwrap() > 1_790_000_000.0);
    // Pages and periods.
    let second = service.get(ADMIN, "/audit/acme?per_page=1&page=2").await.expect(200).json();
    assert_eq!(second["data"], json!([entries[1]]));
    let past = service.get(ADMIN, "/audit/acme?to_timestamp=1790000000").await.expect(200).json();
    assert_eq!(past["data"], json!([]));
    service
        .get(ADMIN, "/audit/acme?from_timestamp=-1")
        .await
        .assert_field_error("from_timestamp", "since 1970");
    // The page is for admins only.
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    let page = admin.get("/ui/acme/audit").await;
    assert_eq!(page.status, 200);
    assert_contains(
        &page.text,
        &["token attester", "belongs to another flow", "signed in", "aria-current=\"page\""],
    );
    let mut reader = Browser::signed_in(&service, READER).await;
    assert_eq!(reader.get("/ui/acme/audit").await.status, 404);
    assert!(!reader.get("/ui/acme").await.text.contains("Audit log"));
    assert_eq!(admin.get("/ui/stranger/audit").await.status, 404);
}

crate::service::on_both!(
    reports_of_another_token_are_shown_with_its_name,
    audit_log_names_the_token_behind_each_change,
);
