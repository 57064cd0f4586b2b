//! Operation 4: what runs of a repository.

use serde_json::{Value, json};

use super::running::Options;
use super::{ADMIN, Answer, Database, READER, Running, digest, form, pod, report};

async fn attest(service: &Running, repository: Value, digit: char) {
    let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest(digit),
                      "git_commit_info": {"sha1": digit.to_string().repeat(40)}, "repo_info": repository});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

fn digits(live: &Value) -> Vec<char> {
    let artifacts = live["live_artifacts"].as_array().unwrap().iter();
    artifacts.map(|artifact| artifact["artifact_id"].as_str().unwrap().chars().next().unwrap()).collect()
}

async fn a_repository_s_artifacts_are_found_in_every_environment(database: Database) {
    let options = Options { public_url: Some("https://evidence.example.com/base"), ..Options::default() };
    let service = Running::start_with(database, options).await;
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
    // Links lead to the public URL, whatever the request's Host said.
    let request = service.request(reqwest::Method::GET, READER, "/repos/acme/live-artifacts/group/sub/cart");
    let answer = Answer::of(request.header("Host", "evil.example.com")).await.expect(200);
    assert!(!answer.text.contains("evil"), "{answer:?}");
    let link = live["_links"]["self"]["href"].as_str().unwrap();
    let path = link.strip_prefix("https://evidence.example.com/base/api/v2").unwrap();
    assert_eq!(service.read(path).await, live);
    let trails = artifact["_links"]["trails"]["href"].as_str().unwrap();
    let path = trails.strip_prefix("https://evidence.example.com/base/api/v2").unwrap();
    assert_eq!(service.read(path).await["data"][0]["name"], "t");
}

async fn a_name_that_two_providers_share_needs_the_provider(database: Database) {
    let service = Running::start(database).await;
    attest(&service, json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}), 'a').await;
    attest(&service, json!({"name": "acme/cart", "provider": "gitlab"}), 'b').await;
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a'), pod("q", "b", 'b')])).await.expect(201);
    let path = "/repos/acme/live-artifacts/acme/cart";
    service.get(READER, path).await.blames("provider", "one of github, gitlab");
    service.get(READER, &format!("{path}?provider=")).await.blames("provider", "one of github, gitlab");
    for (provider, digit) in [("github", 'a'), ("gitlab", 'b')] {
        assert_eq!(digits(&service.read(&format!("{path}?provider={provider}")).await), [digit]);
    }
    service.get(READER, &format!("{path}?provider=bitbucket")).await.expect(404);
}

async fn a_repository_is_one_whether_its_provider_was_said_or_not(database: Database) {
    let service = Running::start(database).await;
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

async fn an_attestation_that_could_mean_two_repositories_is_refused_and_another_s_is_not_taken(
    database: Database,
) {
    let service = Running::start(database).await;
    let internal = "https://git.corp.example/acme/cart";
    attest(&service, json!({"name": "acme/cart", "url": internal}), 'a').await;
    attest(&service, json!({"name": "acme/cart", "url": "https://github.com/acme/cart"}), 'b').await;
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a'), pod("q", "b", 'b')])).await.expect(201);
    let path = "/repos/acme/live-artifacts/acme/cart";
    // The one at no provider is asked for without one, and has stayed what it was.
    assert_eq!(digits(&service.read(path).await), ['a']);
    let of_github = service.read(&format!("{path}?provider=github")).await;
    assert_eq!(digits(&of_github), ['b']);
    // Its own address leads back to it.
    let own = of_github["_links"]["self"]["href"].as_str().unwrap().split_once("/api/v2").unwrap().1;
    assert_eq!(service.read(own).await, of_github);
    let data = json!({"attestation_name": "unit", "junit_results": [], "repo_info": {"name": "acme/cart"}});
    let refused = service.attest(ADMIN, "cart", "t", form(&data)).await.expect(409).json();
    let why = refused["errors"]["repo_info.provider"].as_str().unwrap();
    assert!(why.contains("one of github"), "{refused}");
}

async fn what_does_not_run_and_what_was_never_attested_differ(database: Database) {
    let service = Running::start(database).await;
    attest(&service, json!({"name": "acme/cart"}), 'a').await;
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    assert_eq!(live["live_artifacts"], json!([]));
    assert_eq!(live["_embedded"], json!({"artifacts": [], "environments": []}));
    for path in ["acme/nothing", "cart", "acme", "ACME/cart"] {
        service.get(READER, &format!("/repos/acme/live-artifacts/{path}")).await.expect(404);
    }
    service.get(READER, "/repos/acme/live-artifacts/acme//cart").await.blames("repo_name", "empty");
}

async fn the_latest_commit_that_an_artifact_was_attested_for_is_shown(database: Database) {
    let service = Running::start(database).await;
    let repository = json!({"name": "acme/cart", "url": "https://github.com/acme/cart"});
    for commit in ["1", "2"] {
        let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
                          "git_commit_info": {"sha1": commit.repeat(40)}, "repo_info": repository});
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    // One that names no commit takes nothing away.
    let data = json!({"attestation_name": "scan", "junit_results": [], "artifact_fingerprint": digest('a'),
                      "repo_info": repository});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "a", 'a')])).await.expect(201);
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let artifact = &live["_embedded"]["artifacts"][0];
    assert_eq!(artifact["commit_sha"], "2".repeat(40));
    assert_eq!(artifact["commit_url"], format!("https://github.com/acme/cart/commit/{}", "2".repeat(40)));
}

super::on_both!(
    a_repository_s_artifacts_are_found_in_every_environment,
    a_name_that_two_providers_share_needs_the_provider,
    a_repository_is_one_whether_its_provider_was_said_or_not,
    an_attestation_that_could_mean_two_repositories_is_refused_and_another_s_is_not_taken,
    what_does_not_run_and_what_was_never_attested_differ,
    the_latest_commit_that_an_artifact_was_attested_for_is_shown,
);
