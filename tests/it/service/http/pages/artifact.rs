//! The page of an artifact.

use serde_json::json;

use crate::service::report;
use crate::service::rules::operations::{artifact, report_artifact};
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, READER, STRANGER, TestService, digest, form, pod};

const POLICY: &str = "    environments:
      - {name: prod, policy: {attestations: [{flow: cart, name: unit}]}}";

fn path(digit: char) -> String {
    format!("/ui/acme/artifacts/{}", digest(digit))
}

async fn artifact_shows_origin_attestations_approvals_and_runs(database: Database) {
    let approved = format!(
        "    flows:
      - name: cart
        approvals: [{{number: 7, artifact: {}, base: {}, name: cart, description: for the sale, environment: prod,
                      state: APPROVED,
                      approvals: [{{by: kim, at: 2026-09-01T12:00:00Z, comment: fine, url: \"https://x.example.com\"}}]}}]",
        digest('a'),
        digest('b')
    );
    let options = Options { bootstrap: bootstrap(1, &format!("{POLICY}\n{approved}")), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let unit = |failures: u32| {
        form(&json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('a'),
            "junit_results": [{"failures": failures, "errors": 0, "total": 4}],
            "git_commit_info": {"sha1": "c".repeat(40)},
            "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
        }))
    };
    service.attest(ADMIN, "cart", "t-1", unit(0)).await.expect(201);
    service.attest(ADMIN, "cart", "t-1", unit(1)).await.expect(201);
    let pods = [pod("one", "shop/cart:1", 'a'), pod("two", "shop/cart:1", 'a')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    service.report(ADMIN, "test", report(&pods)).await.expect(201);
    service.report(ADMIN, "test", report(&[])).await.expect(201);
    let page = Browser::read_page(&service, &path('a')).await;
    assert_contains(
        &page,
        &[
            "shop/cart:1 must not run in prod: unit failed, 1 of 4, trail t-1",
            &format!("sha256:{}", digest('a')),
            &format!(r#"<a href="https://github.com/acme/cart/commit/{}" rel="noreferrer">"#, "c".repeat(40)),
            r#"<a href="https://github.com/acme/cart" rel="noreferrer"><bdi>acme/cart</bdi></a>"#,
            // The current run and the reason of its verdict.
            "non-compliant",
            "/ui/acme/environments/prod",
            "<td>2</td>",
            "unit",
            // Both attestations; the first is superseded.
            "4 tests: 1 failed, 3 passed",
            "4 tests: 4 passed",
            "superseded",
            "/ui/acme/flows/cart/trails/t-1/attestations/",
            // The approval.
            "approved",
            "for the sale",
            "<bdi>kim</bdi>, <time datetime=\"2026-09-01T12:00:00Z\">",
            // The past run.
            "/ui/acme/environments/test?at=",
            "<a href=\"/ui/acme/environments/test/timeline#snapshot-1\">1</a>",
        ],
    );
    assert_eq!(page.matches("superseded").count(), 1, "{page}");
    let (failed, passed) = (page.find("1 failed, 3 passed"), page.find("4 passed"));
    assert!(failed < passed, "the latest attestation is not first: {page}");
    let (now, before) = page.split_once("Past runs").unwrap();
    assert!(!now.contains("environments/test") && before.contains("environments/test"), "{page}");
    assert!(!before.contains("environments/prod"), "{page}");
}

async fn artifact_has_its_latest_name(database: Database) {
    let service = TestService::start(database).await;
    for name in ["cart:2", "older/cart:1", "registry/cart:2"] {
        for pods in [&[pod("one", name, 'a')][..], &[]] {
            service.report(ADMIN, "prod", report(pods)).await.expect(201);
        }
    }
    let page = Browser::read_page(&service, &path('a')).await;
    let names =
        ["registry/cart:2", "older/cart:1", "cart:2"].map(|name| format!("<li><bdi>{name}</bdi></li>"));
    assert_contains(&page, &["<h1><bdi>registry/cart:2</bdi></h1>", &names.concat()]);
}

async fn latest_entries_of_long_lists_are_shown(database: Database) {
    let approvals = (1..=101).map(|number| {
        let (artifact, base) = (digest('a'), digest('b'));
        format!("{{number: {number}, artifact: {artifact}, base: {base}, name: x, description: wanted, state: PENDING}}")
    });
    let approvals =
        format!("    flows: [{{name: cart, approvals: [{}]}}]", approvals.collect::<Vec<_>>().join(", "));
    let options = Options { bootstrap: bootstrap(1, &approvals), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for number in 0..102 {
        let attested = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": [],
            "git_commit_info": {"sha1": "c".repeat(40)}, "repo_info": {"name": format!("acme/cart-{number}")},
        });
        service.attest(ADMIN, "cart", "t", form(&attested)).await.expect(201);
    }
    let page = Browser::read_page(&service, &path('a')).await;
    assert_contains(
        &page,
        &["the latest 100 origins", "the latest 100 attestations", "the latest 100 approvals"],
    );
    assert_eq!((page.matches("<bdi>wanted").count(), page.matches("<bdi>acme/cart-").count()), (100, 101));
    assert!(
        page.contains("acme/cart-101<") && page.contains("acme/cart-0<") && !page.contains("acme/cart-1<"),
        "{page}"
    );
}

async fn run_report_attestation_or_approval_is_sufficient_for_a_page(database: Database) {
    let approved = format!(
        "    flows: [{{name: cart, approvals: [{{number: 1, artifact: {}, base: {}, name: x, state: PENDING}}]}}]",
        digest('c'),
        digest('d')
    );
    let options = Options { bootstrap: bootstrap(1, &approved), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(ADMIN, "prod", report(&[pod("one", "cart", 'a')])).await.expect(201);
    let attested =
        json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('b')});
    service.attest(ADMIN, "cart", "t", form(&attested)).await.expect(201);
    assert_contains(
        &Browser::read_page(&service, &path('a')).await,
        &["cart", "unknown", "No attestations."],
    );
    assert_contains(
        &Browser::read_page(&service, &path('b')).await,
        &["unit", "failed", "The artifact is not running."],
    );
    assert_contains(
        &Browser::read_page(&service, &path('c')).await,
        &["pending", "The artifact is not running."],
    );
    let mut reported = artifact('f', "t");
    reported["build_url"] = json!("https://ci.example.com/7");
    report_artifact(&service, ADMIN, &reported).await.expect(201);
    assert_contains(
        &Browser::read_page(&service, &path('f')).await,
        &["registry/cart:1", "/ui/acme/flows/cart/trails/t", "https://ci.example.com/7", "No attestations."],
    );
    let mut reader = Browser::signed_in(&service, READER).await;
    for path in [path('e'), "/ui/acme/artifacts/abc".to_owned(), path('a').to_uppercase()] {
        assert_eq!(reader.get(&path).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [path('a'), path('a').replace("acme", "stranger")] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
}

async fn long_names_are_truncated(database: Database) {
    let service = TestService::start(database).await;
    let name = format!("registry/{}:1", "n".repeat(200_000));
    service.report(ADMIN, "prod", report(&[pod("one", &name, 'a')])).await.expect(201);
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("one", &name, 'a')])).await.expect(201);
    let environment = "/ui/acme/environments/prod";
    for path in [
        environment,
        &format!("{environment}/timeline"),
        &format!("{environment}/compare?from=2&to=3"),
        "/ui/acme/search?q=registry",
        "/ui/acme/search?q=one",
        &path('a'),
    ] {
        let page = Browser::read_page(&service, path).await;
        assert_contains(&page.replace("<wbr>", ""), &["registry/nnn", "…"]);
        assert!(page.len() < 20_000, "{path}: {}", page.len());
    }
}

crate::service::on_both!(
    latest_entries_of_long_lists_are_shown,
    artifact_shows_origin_attestations_approvals_and_runs,
    artifact_has_its_latest_name,
    run_report_attestation_or_approval_is_sufficient_for_a_page,
);

crate::service::on_sqlite!(long_names_are_truncated);
