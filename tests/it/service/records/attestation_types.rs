//! Attestations of other types than JUnit, and fields of other clients.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::{ADMIN, ATTESTER, Database, READER, Response, TestService, digest, form, pod};

async fn attest(service: &TestService, kind: &str, data: &Value) -> Response {
    let path = format!("/attestations/acme/cart/trail/t/{kind}");
    Response::from_request(service.request(Method::POST, ATTESTER, &path).multipart(form(data))).await
}

fn junit(repository: &Value) -> Value {
    json!({"attestation_name": "unit", "junit_results": [{"failures": 0, "errors": 0, "total": 1}],
           "repo_info": repository})
}

async fn each_type_is_recorded_with_its_data_and_verdict(database: Database) {
    let service = TestService::start(database).await;
    service.attest(ATTESTER, "cart", "t", form(&junit(&json!(null)))).await.expect(201);
    for (kind, own, listed_type, is_compliant) in [
        ("generic", json!({"is_compliant": false}), "generic", json!(false)),
        (
            "custom",
            json!({"type_name": "cov", "attestation_data": {"lines": 95.5}}),
            "custom:cov",
            json!(null),
        ),
        ("system", json!({"type_name": "sbom", "attestation_data": {"format": "spdx"}}), "sbom", json!(null)),
        (
            "system",
            json!({"type_name": "decision", "control": "C-1", "attestation_data": {"is_compliant": true}}),
            "decision",
            json!(true),
        ),
        ("snyk", json!({"snyk_results": {"results": [{"high_count": 2}]}}), "snyk", json!(null)),
        ("jira", json!({"jira_results": [{"issue_id": "A-1", "issue_exists": false}]}), "jira", json!(false)),
        ("sonar", json!({"sonar_results": {"qualityGate": {"status": "OK"}}}), "sonar", json!(true)),
        (
            "pull_request",
            json!({"git_provider": "github", "pull_requests": [{"url": "https://x"}]}),
            "pull_request",
            json!(true),
        ),
    ] {
        let mut data = json!({"attestation_name": listed_type, "artifact_fingerprint": digest('a')});
        data.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        attest(&service, kind, &data).await.expect(201);
        let attestation = &service.read("/attestations/acme/cart").await["data"][0];
        assert_eq!(attestation["attestation_type"], listed_type);
        assert_eq!(attestation["is_compliant"], is_compliant, "{kind}");
        let trail = &service.read("/trails/acme").await["data"][0];
        let statuses = trail["compliance_status"]["attestations_statuses"].as_array().unwrap();
        let status = statuses.iter().find(|status| status["attestation_name"] == listed_type).unwrap();
        assert_eq!(status["is_compliant"], is_compliant, "{kind}");
        let url = attestation["html_url"].as_str().unwrap().strip_prefix(&service.base).unwrap().to_owned();
        let page = Browser::read_page(&service, &url).await;
        if kind != "generic" {
            let member = own.as_object().unwrap().keys().next().unwrap().as_str();
            assert!(page.contains(member), "{kind}: {page}");
        }
    }
}

async fn fields_of_newer_clients_are_kept_and_returned(database: Database) {
    let service = TestService::start(database).await;
    let repository = json!({
        "name": "grp/sub/app", "id": "7", "provider": "forge", "namespace_path": ["grp", "sub"],
        "additional_info": {"project_key": "PRJ"}, "later": [1],
    });
    let mut data = junit(&repository);
    data["origin_url"] = json!("proj/_build/results?buildId=8");
    data["git_commit_info"] = json!({"sha1": "c".repeat(40), "branch": "", "signature": "x"});
    data["later"] = json!({"a": 1});
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
    let attestation = &service.read("/attestations/acme/cart").await["data"][0];
    assert_eq!(attestation["repo_info"], repository);
    assert_eq!(attestation["origin_url"], "proj/_build/results?buildId=8");
    let stored = service.database.rows("SELECT other_fields FROM attestations").await;
    assert_eq!(stored, [r#"{"later":{"a":1}}"#]);
    let stored = service.database.rows("SELECT git_commit_info FROM attestations").await;
    assert_eq!(serde_json::from_str::<Value>(&stored[0]).unwrap(), data["git_commit_info"]);
}

async fn large_data_of_a_type_is_returned(database: Database) {
    let service = TestService::start(database).await;
    service.attest(ATTESTER, "cart", "t", form(&junit(&json!(null)))).await.expect(201);
    let data =
        json!({"attestation_name": "large", "type_name": "cov", "attestation_data": "x".repeat(70_000)});
    attest(&service, "custom", &data).await.expect(201);
    let read = service.read("/attestations/acme/cart/trail/t/large").await;
    assert_eq!(read[0]["other_fields"]["attestation_data"], data["attestation_data"]);
}

async fn invalid_attestation_of_a_type_is_rejected_and_not_recorded(database: Database) {
    let service = TestService::start(database).await;
    let missing = attest(&service, "generic", &json!({"attestation_name": "g", "is_compliant": true}))
        .await
        .expect(404);
    assert!(missing.text.contains("begin the trail first"), "{missing:?}");
    service.attest(ATTESTER, "cart", "t", form(&junit(&json!(null)))).await.expect(201);
    let unknown = attest(&service, "pullrequest", &json!({"attestation_name": "g"})).await.expect(404);
    assert!(unknown.text.contains("unknown variant `pullrequest`, expected one of `junit`"), "{unknown:?}");
    for (kind, own, field, why) in [
        ("generic", json!({}), "data_json", ""),
        ("generic", json!({"is_compliant": "yes"}), "is_compliant", "expected a boolean"),
        ("custom", json!({"type_name": ""}), "type_name", "1 to 255"),
        ("system", json!({"type_name": "junit"}), "type_name", "unknown variant"),
        (
            "system",
            json!({"type_name": "decision", "attestation_data": {"is_compliant": 1}}),
            "attestation_data.is_compliant",
            "boolean",
        ),
        ("snyk", json!({"snyk_results": []}), "snyk_results", ""),
        ("jira", json!({"jira_results": [7]}), "jira_results[0]", ""),
        ("sonar", json!({"sonar_results": {"qualityGate": "OK"}}), "sonar_results.qualityGate", ""),
        ("pull_request", json!({"pull_requests": {}}), "pull_requests", "expected a sequence"),
    ] {
        let mut data = json!({"attestation_name": "x"});
        data.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let response = attest(&service, kind, &data).await.expect(400);
        assert!(response.text.contains(field) && response.text.contains(why), "{kind}: {response:?}");
    }
    assert_eq!(service.read("/attestations/acme/cart").await["pagination"]["total"], 1);
}

async fn repository_is_found_by_identifier_names_and_provider_of_its_vendor(database: Database) {
    let service = TestService::start(database).await;
    let named = |name: &str, id: &str, provider: &str| json!({"name": name, "id": id, "provider": provider});
    for (digit, repository) in [
        ('a', named("ws/app", "1", "bitbucket_cloud")),
        // The same repository under a new name, and another one with its former name.
        ('b', named("ws/renamed", "1", "bitbucket_cloud")),
        ('c', named("ws/app", "2", "bitbucket_cloud")),
        ('d', named("ws/app", "3", "forge")),
    ] {
        let mut data = junit(&repository);
        data["artifact_fingerprint"] = json!(digest(digit));
        service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
    }
    let pods: Vec<_> = ['a', 'b', 'c', 'd'].map(|digit| pod(&format!("p-{digit}"), "i", digit)).into();
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    for (query, expected) in [
        ("ws/renamed", Ok(vec!['a', 'b'])),
        ("ws/renamed?provider=bitbucket", Ok(vec!['a', 'b'])),
        ("ws/app?provider=bitbucket_cloud:1", Ok(vec!['a', 'b'])),
        ("ws/app?provider=bitbucket_cloud:2", Ok(vec!['c'])),
        ("ws/app?provider=forge", Ok(vec!['d'])),
        ("ws/app?provider=bitbucket", Err("expected one of bitbucket_cloud:1, bitbucket_cloud:2")),
        ("ws/app", Err("expected one of bitbucket_cloud:1, bitbucket_cloud:2, forge")),
    ] {
        let response = service.get(READER, &format!("/repos/acme/live-artifacts/{query}")).await;
        match expected {
            Ok(digits) => {
                let live = response.expect(200).json();
                let mut found: Vec<_> = live["_embedded"]["artifacts"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|artifact| artifact["fingerprint"].as_str().unwrap().chars().next().unwrap())
                    .collect();
                found.sort_unstable();
                assert_eq!(found, digits, "{query}");
            }
            Err(why) => response.assert_field_error("provider", why),
        }
    }
}

async fn identifier_of_an_owned_repository_is_rejected_under_another_name(database: Database) {
    let service = TestService::start(database).await;
    service
        .attest(
            ADMIN,
            "cart",
            "t",
            form(&junit(&json!({"name": "acme/cart", "id": "1", "provider": "github"}))),
        )
        .await
        .expect(201);
    let more = "    flows: [{name: cart, repositories: [acme/cart]}]";
    service.reload(&crate::service::bootstrap(2, more)).await;
    let other = junit(&json!({"name": "acme/other", "id": "1", "provider": "github"}));
    let rejected = service.attest(ADMIN, "web", "t", form(&other)).await.expect(403);
    assert!(rejected.text.contains("belongs to another flow"), "{rejected:?}");
}

crate::service::on_both!(
    each_type_is_recorded_with_its_data_and_verdict,
    fields_of_newer_clients_are_kept_and_returned,
    repository_is_found_by_identifier_names_and_provider_of_its_vendor,
);

crate::service::on_sqlite!(
    large_data_of_a_type_is_returned,
    invalid_attestation_of_a_type_is_rejected_and_not_recorded,
    identifier_of_an_owned_repository_is_rejected_under_another_name,
);
