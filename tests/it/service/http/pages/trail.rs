//! The page of a trail.

use serde_json::json;

use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, READER, STRANGER, TestService, digest, form};

const FLOWS: &str = "    flows:
      - name: cart
        template:
          attestations: [{name: unit, type: junit}]
          artifacts: [{name: image, attestations: [{name: e2e, type: junit}]}]";

const PATH: &str = "/ui/acme/flows/cart/trails/t-1";

async fn trail_shows_required_attestations_and_results(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let unit = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [
            {"name": "fine suite", "failures": 0, "errors": 0, "total": 5},
            {"name": "broken suite", "failures": 2, "errors": 1, "skipped": 1, "total": 9},
        ],
        "git_commit_info": {"sha1": "c".repeat(40), "message": "Sell more", "author": "Kim", "branch": "main",
                            "url": "https://git.example.com/c"},
    });
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    let page = Browser::read_page(&service, PATH).await;
    assert_contains(
        &page,
        &[
            "non-compliant",
            "Version 1 of the template of the flow.",
            // A missing attestation.
            "<bdi>e2e</bdi>",
            "missing",
            "14 tests: 2 failed, 1 with errors, 1 skipped, 10 passed",
            r#"<rect class="failed""#,
            r#"<a href="https://git.example.com/c" rel="noreferrer"><code"#,
            "Sell more",
            "Kim",
            "main",
            r#"<th scope="col">"#,
        ],
    );

    // The compliance equals that of the list.
    let passing = |name: &str, targets: &[&str]| {
        form(&json!({"attestation_name": name, "target_artifacts": targets,
                     "junit_results": [{"failures": 0, "errors": 0, "total": 1}]}))
    };
    service.attest(ADMIN, "cart", "t-1", passing("unit", &[])).await.expect(201);
    service.attest(ADMIN, "cart", "t-1", passing("e2e", &["image"])).await.expect(201);
    service.attest(ADMIN, "cart", "t-1", passing("lint", &[])).await.expect(201);
    assert_eq!(service.read("/trails/acme").await["data"][0]["is_compliant"], true);
    let page = Browser::read_page(&service, PATH).await;
    assert!(!page.contains("non-compliant") && !page.contains("missing"), "{page}");
    assert_contains(&page, &["not required", "superseded"]);
    // Each attestation has an anchor and a page.
    for attested in service.read("/attestations/acme/cart").await["data"].as_array().unwrap() {
        let id = attested["attestation_id"].as_str().unwrap();
        assert_contains(&page, &[&format!("id=\"{id}\""), &format!("href=\"{PATH}/attestations/{id}\"")]);
        assert_contains(
            &Browser::read_page(&service, &format!("{PATH}/attestations/{id}")).await,
            &["Results"],
        );
    }
}

async fn missing_or_foreign_trail_is_not_found(database: Database) {
    let service = TestService::start(database).await;
    let unit = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    assert_contains(
        &Browser::read_page(&service, PATH).await,
        &["The flow has no template", "0 tests", "non-compliant"],
    );
    let mut reader = Browser::signed_in(&service, READER).await;
    for path in ["/ui/acme/flows/cart/trails/t-2", "/ui/acme/flows/web/trails/t-1", "/ui/acme/flows/cart"] {
        assert_eq!(reader.get(path).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [PATH.to_owned(), PATH.replace("acme", "stranger")] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
}

async fn lists_read_only_the_columns_that_they_show(database: Database) {
    let service = TestService::start(database).await;
    // Larger than the rows of a list, and without a repository.
    let suites = vec![json!({"failures": 0, "errors": 1, "skipped": 2, "total": 10}); 2_000];
    let unit = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": suites,
        "git_commit_info": {"sha1": "c".repeat(40), "url": "https://git.example.com/c"},
    });
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    let later =
        json!({"attestation_name": "later", "artifact_fingerprint": digest('a'), "junit_results": []});
    service.attest(ADMIN, "cart", "t-1", form(&later)).await.expect(201);
    let summary = "20000 tests: 2000 with errors, 4000 skipped, 14000 passed";
    let artifact = format!("/ui/acme/artifacts/{}", digest('a'));
    let page = Browser::read_page(&service, &artifact).await;
    assert_contains(&page, &[summary, r#"<a href="https://git.example.com/c" rel="noreferrer"><code"#]);
    // Columns that are not shown may be unreadable.
    let unreadable = "UPDATE attestations SET git_commit_info = NULL, user_data = '-', external_urls = '-'";
    service.database.execute(unreadable).await;
    for path in [PATH, &artifact] {
        assert_contains(&Browser::read_page(&service, path).await, &[summary, "0 tests"]);
    }
}

async fn first_targets_and_urls_of_long_lists_are_shown(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let (targets, addresses): (Vec<_>, serde_json::Map<_, _>) = (0..150)
        .map(|n| (format!("a-{n:03}"), (format!("link-{n:03}"), json!("https://example.com"))))
        .unzip();
    let unit = json!({"attestation_name": "unit", "target_artifacts": targets, "external_urls": addresses,
                      "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    let page = Browser::read_page(&service, PATH).await;
    // Missing attestations first, those of the trail and those of an artifact.
    assert_contains(
        &page,
        &["<bdi>e2e</bdi>", "<bdi>a-097</bdi>", "Only the first 100 of 152 attestations are shown."],
    );
    assert!(page.matches("missing").count() == 2 && !page.contains("a-098"), "{page}");
    let listed = service.read("/attestations/acme/cart").await;
    let id = listed["data"][0]["attestation_id"].as_str().unwrap();
    let page = Browser::read_page(&service, &format!("{PATH}/attestations/{id}")).await;
    assert_contains(
        &page,
        &["first 100 of 150 names", "first 100 of 150 URLs", "<bdi>a-099</bdi>", "<bdi>link-099</bdi>"],
    );
    assert!(!page.contains("a-100") && !page.contains("link-100"), "{page}");
}

crate::service::on_both!(
    first_targets_and_urls_of_long_lists_are_shown,
    lists_read_only_the_columns_that_they_show,
    trail_shows_required_attestations_and_results,
);

crate::service::on_sqlite!(missing_or_foreign_trail_is_not_found);
