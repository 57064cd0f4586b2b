//! Operation 4: live artifacts of a repository.

use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::Options;
use crate::service::{ADMIN, Database, READER, Response, TestService, digest, form, pod};

async fn attest(service: &TestService, repository: Value, digit: char) {
    let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest(digit),
                      "git_commit_info": {"sha1": digit.to_string().repeat(40)}, "repo_info": repository});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

fn digits(live: &Value) -> Vec<char> {
    let artifacts = live["live_artifacts"].as_array().unwrap().iter();
    artifacts.map(|artifact| artifact["artifact_id"].as_str().unwrap().chars().next().unwrap()).collect()
}

async fn artifacts_of_a_repository_are_found_in_every_environment(database: Database) {
    let options = Options { public_url: Some("https://evidence.example.com/base"), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(
        &service,
        json!({"name": "group/sub/cart", "url": "https://gitlab.example.com/group/sub/cart"}),
        'a',
    )
    .await;
    attest(&service, json!({"name": "acme/other"}), 'b').await;
    for environment in ["prod", "test"] {
        let pods = [pod("p", "cart:1", 'a'), pod("q", "other:1", 'b'), pod("r", "unknown:1", 'c')];
        service.report(ADMIN, environment, report(&pods)).await.expect(201);
    }
    let live = service.read("/repos/acme/live-artifacts/group/sub/cart").await;
    assert_eq!(digits(&live), ['a', 'a']);
    assert_eq!(live, service.read("/repos/acme/live-artifacts/group%2Fsub%2Fcart").await);
    let item = &live["live_artifacts"][0];
    assert_eq!((&item["artifact_name"], &item["compliance"]), (&json!("cart:1"), &json!("UNKNOWN")));
    let embedded = &live["_embedded"];
    let environments: Vec<_> =
        embedded["environments"].as_array().unwrap().iter().map(|e| &e["name"]).collect();
    assert_eq!(environments, ["prod", "test"]);
    assert_eq!(embedded["environments"][0]["id"], item["environment_id"]);
    assert_eq!(embedded["environments"][0]["type"], "K8S");
    let artifact = &embedded["artifacts"][0];
    assert_eq!(artifact["id"], item["artifact_id"]);
    assert_eq!(artifact["fingerprint"], digest('a'));
    let commit = format!("https://gitlab.example.com/group/sub/cart/-/commit/{}", "a".repeat(40));
    assert_eq!(artifact["commit_url"], commit);
    // Links use the public URL, not the Host header of the request.
    let request = service.request(reqwest::Method::GET, READER, "/repos/acme/live-artifacts/group/sub/cart");
    let response = Response::from_request(request.header("Host", "evil.example.com")).await.expect(200);
    assert!(!response.text.contains("evil"), "{response:?}");
    let link = live["_links"]["self"]["href"].as_str().unwrap();
    let path = link.strip_prefix("https://evidence.example.com/base/api/v2").unwrap();
    assert_eq!(service.read(path).await, live);
    let trails = artifact["_links"]["trails"]["href"].as_str().unwrap();
    let path = trails.strip_prefix("https://evidence.example.com/base/api/v2").unwrap();
    assert_eq!(service.read(path).await["data"][0]["name"], "t");
}

async fn repository_is_found_by_its_name_as_in_a_url_and_as_people_write_it(database: Database) {
    let service = TestService::start(database).await;
    let remote = "https://acme.visualstudio.com/DefaultCollection/Web%20Shop/_git";
    for (name, digit) in [("acme/Web%20Shop/cart", 'a'), ("acme/Web Shop/cart", 'b')] {
        attest(&service, json!({"name": name, "url": format!("{remote}/cart")}), digit).await;
    }
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a'), pod("q", "b", 'b')])).await.expect(201);
    // As people copy it, and encoded once more.
    for name in ["acme/Web%20Shop/cart", "acme/Web%2520Shop/cart"] {
        let live = service.read(&format!("/repos/acme/live-artifacts/{name}")).await;
        assert_eq!(digits(&live), ['a', 'b'], "{name}");
        let page = "https://dev.azure.com/acme/Web%20Shop/_git/cart";
        let commit = format!("{page}/commit/{}", "a".repeat(40));
        assert_eq!(live["_embedded"]["artifacts"][0]["commit_url"], commit);
        let path = format!("/ui/acme/artifacts/{}", digest('a'));
        assert_contains(&Browser::read_page(&service, &path).await, &[page, &commit]);
    }
    for name in ["acme%2FWeb%20Shop%2Fcart", "acme%2FWeb%2520Shop%2Fcart"] {
        let events = service.read(&format!("/environments/acme/prod/events?repo_name={name}")).await;
        assert_eq!(events.as_array().unwrap().len(), 2, "{events}");
    }
    let shown = service.program(READER, "get live-artifacts acme/Web%20Shop/cart").await;
    assert!(shown.stdout.contains("prod"), "{shown:?}");
}

async fn repository_name_of_two_providers_requires_the_provider(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}), 'a').await;
    attest(&service, json!({"name": "acme/cart", "provider": "gitlab"}), 'b').await;
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a'), pod("q", "b", 'b')])).await.expect(201);
    let path = "/repos/acme/live-artifacts/acme/cart";
    service.get(READER, path).await.assert_field_error("provider", "expected one of github, gitlab");
    service
        .get(READER, &format!("{path}?provider="))
        .await
        .assert_field_error("provider", "expected one of github, gitlab");
    for (provider, digit) in [("github", 'a'), ("gitlab", 'b')] {
        assert_eq!(digits(&service.read(&format!("{path}?provider={provider}")).await), [digit]);
    }
    service.get(READER, &format!("{path}?provider=bitbucket")).await.expect(404);
}

async fn repository_is_the_same_with_and_without_provider(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, json!({"name": "acme/cart"}), 'a').await;
    attest(&service, json!({"name": "acme/cart", "url": "git@github.com:acme/cart.git"}), 'b').await;
    attest(&service, json!({"name": "acme/cart"}), 'c').await;
    let pods = [pod("p", "a", 'a'), pod("q", "b", 'b'), pod("r", "c", 'c')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    for query in ["", "?provider=github"] {
        let live = service.read(&format!("/repos/acme/live-artifacts/acme/cart{query}")).await;
        assert_eq!(digits(&live), ['a', 'b', 'c'], "{query}");
    }
}

async fn ambiguous_repository_is_rejected(database: Database) {
    let service = TestService::start(database).await;
    let internal = "https://git.corp.example/acme/cart";
    attest(&service, json!({"name": "acme/cart", "url": internal}), 'a').await;
    attest(&service, json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}), 'b').await;
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a'), pod("q", "b", 'b')])).await.expect(201);
    let path = "/repos/acme/live-artifacts/acme/cart";
    // A query without provider finds the repository without one, which is unchanged.
    assert_eq!(digits(&service.read(path).await), ['a']);
    let on_github = service.read(&format!("{path}?provider=github")).await;
    assert_eq!(digits(&on_github), ['b']);
    // The `self` link leads back to the same repository.
    let own = on_github["_links"]["self"]["href"].as_str().unwrap().split_once("/api/v2").unwrap().1;
    assert_eq!(service.read(own).await, on_github);
    let data = json!({"attestation_name": "unit", "junit_results": [], "repo_info": {"name": "acme/cart"}});
    let rejected = service.attest(ADMIN, "cart", "t", form(&data)).await.expect(400).json();
    let message = rejected["errors"]["repo_info.provider"].as_str().unwrap();
    assert!(message.contains("one of github"), "{rejected}");
}

async fn repository_without_live_artifacts_is_empty_and_unknown_one_gets_404(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, json!({"name": "acme/cart"}), 'a').await;
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    assert_eq!(live["live_artifacts"], json!([]));
    assert_eq!(live["_embedded"], json!({"artifacts": [], "environments": []}));
    for path in ["acme/nothing", "cart", "acme", "ACME/cart"] {
        service.get(READER, &format!("/repos/acme/live-artifacts/{path}")).await.expect(404);
    }
    service
        .get(READER, "/repos/acme/live-artifacts/acme//cart")
        .await
        .assert_field_error("repo_name", "empty");
}

async fn first_attested_commit_of_an_artifact_is_returned(database: Database) {
    let service = TestService::start(database).await;
    let repository = json!({"name": "acme/cart", "url": "https://github.com/acme/cart"});
    for commit in ["1", "2"] {
        let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
                          "git_commit_info": {"sha1": commit.repeat(40)}, "repo_info": repository});
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    // An attestation without a commit changes nothing.
    let data = json!({"attestation_name": "scan", "junit_results": [], "artifact_fingerprint": digest('a'),
                      "repo_info": repository});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a')])).await.expect(201);
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let artifact = &live["_embedded"]["artifacts"][0];
    assert_eq!(artifact["commit_sha"], "1".repeat(40));
    assert_eq!(artifact["commit_url"], format!("https://github.com/acme/cart/commit/{}", "1".repeat(40)));
}

crate::service::on_both!(
    artifacts_of_a_repository_are_found_in_every_environment,
    repository_is_found_by_its_name_as_in_a_url_and_as_people_write_it,
    repository_name_of_two_providers_requires_the_provider,
    repository_is_the_same_with_and_without_provider,
    ambiguous_repository_is_rejected,
    repository_without_live_artifacts_is_empty_and_unknown_one_gets_404,
    first_attested_commit_of_an_artifact_is_returned,
);
