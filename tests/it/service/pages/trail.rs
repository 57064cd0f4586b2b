//! The page of a trail.

use serde_json::json;

use crate::service::browser::{Browser, shows};
use crate::service::running::{Options, bootstrap};
use crate::service::{ADMIN, Database, READER, Running, STRANGER, digest, form};

const FLOWS: &str = "    flows:
      - name: cart
        template:
          attestations: [{name: unit, type: junit}]
          artifacts: [{name: image, attestations: [{name: e2e, type: junit}]}]";

const PATH: &str = "/ui/acme/flows/cart/trails/t-1";

async fn a_trail_shows_what_counts(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = Running::start_with(database, options).await;
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
    let page = Browser::looks(&service, PATH).await;
    shows(
        &page,
        &[
            "non-compliant",
            "By version 1 of the flow's template.",
            // What is asked for and not there.
            "<bdi>e2e</bdi>",
            "missing",
            "14 tests: 2 failed, 1 with an error, 1 skipped, 10 passed",
            r#"<rect class="failed""#,
            r#"<a href="https://git.example.com/c" rel="noreferrer"><code"#,
            "Sell more",
            "Kim",
            "main",
            r#"<th scope="col">"#,
        ],
    );

    // It says what the list says.
    let passing = |name: &str, targets: &[&str]| {
        form(&json!({"attestation_name": name, "target_artifacts": targets,
                     "junit_results": [{"failures": 0, "errors": 0, "total": 1}]}))
    };
    service.attest(ADMIN, "cart", "t-1", passing("unit", &[])).await.expect(201);
    service.attest(ADMIN, "cart", "t-1", passing("e2e", &["image"])).await.expect(201);
    service.attest(ADMIN, "cart", "t-1", passing("lint", &[])).await.expect(201);
    assert_eq!(service.read("/trails/acme").await["data"][0]["is_compliant"], true);
    let page = Browser::looks(&service, PATH).await;
    assert!(!page.contains("non-compliant") && !page.contains("missing"), "{page}");
    shows(&page, &["not asked for", "superseded"]);
    // Each attestation has a place on the page, and a page of its own.
    for attested in service.read("/attestations/acme/cart").await["data"].as_array().unwrap() {
        let id = attested["attestation_id"].as_str().unwrap();
        shows(&page, &[&format!("id=\"{id}\""), &format!("href=\"{PATH}/attestations/{id}\"")]);
        shows(&Browser::looks(&service, &format!("{PATH}/attestations/{id}")).await, &["Results"]);
    }
}

async fn a_trail_that_is_not_there_or_another_s_is_not_found(database: Database) {
    let service = Running::start(database).await;
    let unit = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    shows(&Browser::looks(&service, PATH).await, &["The flow has no template", "0 tests", "non-compliant"]);
    let mut reader = Browser::signed_in(&service, READER).await;
    for path in ["/ui/acme/flows/cart/trails/t-2", "/ui/acme/flows/web/trails/t-1", "/ui/acme/flows/cart"] {
        assert_eq!(reader.get(path).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [PATH.to_owned(), PATH.replace("acme", "stranger")] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
}

async fn lists_read_no_more_of_an_attestation_than_they_show(database: Database) {
    let service = Running::start(database).await;
    // Longer than what is read together; it stands in no repository.
    let suites = vec![json!({"failures": 0, "errors": 1, "skipped": 2, "total": 10}); 2_000];
    let unit = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": suites,
        "git_commit_info": {"sha1": "c".repeat(40), "url": "https://git.example.com/c"},
    });
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    let later =
        json!({"attestation_name": "later", "artifact_fingerprint": digest('a'), "junit_results": []});
    service.attest(ADMIN, "cart", "t-1", form(&later)).await.expect(201);
    let said = "20000 tests: 2000 with an error, 4000 skipped, 14000 passed";
    let artifact = format!("/ui/acme/artifacts/{}", digest('a'));
    let page = Browser::looks(&service, &artifact).await;
    shows(&page, &[said, r#"<a href="https://git.example.com/c" rel="noreferrer"><code"#]);
    // What is not shown is not even looked at.
    let unreadable = "UPDATE attestations SET git_commit_info = NULL, user_data = '-', external_urls = '-'";
    service.database.execute(unreadable).await;
    for path in [PATH, &artifact] {
        shows(&Browser::looks(&service, path).await, &[said, "0 tests"]);
    }
}

async fn of_many_targets_and_addresses_the_first_are_listed(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = Running::start_with(database, options).await;
    let (targets, addresses): (Vec<_>, serde_json::Map<_, _>) = (0..150)
        .map(|n| (format!("a-{n:03}"), (format!("link-{n:03}"), json!("https://example.com"))))
        .unzip();
    let unit = json!({"attestation_name": "unit", "target_artifacts": targets, "external_urls": addresses,
                      "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
    service.attest(ADMIN, "cart", "t-1", form(&unit)).await.expect(201);
    let page = Browser::looks(&service, PATH).await;
    // What is missing first, of the trail and of an artifact with a later name.
    shows(
        &page,
        &[
            "<bdi>e2e</bdi>",
            "<bdi>a-097</bdi>",
            "These are the first 100 of 152 that are asked for or there.",
        ],
    );
    assert!(page.matches("missing").count() == 2 && !page.contains("a-098"), "{page}");
    let listed = service.read("/attestations/acme/cart").await;
    let id = listed["data"][0]["attestation_id"].as_str().unwrap();
    let page = Browser::looks(&service, &format!("{PATH}/attestations/{id}")).await;
    shows(
        &page,
        &["first 100 of 150 names", "first 100 of 150 addresses", "<bdi>a-099</bdi>", "<bdi>link-099</bdi>"],
    );
    assert!(!page.contains("a-100") && !page.contains("link-100"), "{page}");
}

crate::service::on_both!(
    of_many_targets_and_addresses_the_first_are_listed,
    lists_read_no_more_of_an_attestation_than_they_show,
    a_trail_shows_what_counts,
);

crate::service::on_sqlite!(a_trail_that_is_not_there_or_another_s_is_not_found);
