//! The pages of policies, and the rules with their results on the pages of environments and artifacts.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use crate::service::bootstrap;
use crate::service::report;
use crate::service::rules::policies;
use crate::service::support::browser::{Browser, assert_contains, main_element};
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, Response, STRANGER, TestService, digest, form, pod,
};

const FILE: &str = "_schema: https://example.com/schemas/policy/environment/v1
artifacts:
  provenance: {required: true, exceptions: [{if: \"${{ artifact.name == 'pause' }}\"}]}
  attestations: [{name: unit, type: junit, max_age: 30d}]
  approval: {count: 2, not_author: true}
";

async fn put(service: &TestService, file: &str) {
    let payload = json!({"name": "rules", "description": "for production", "comment": "stricter"});
    let part = Part::bytes(file.as_bytes().to_vec()).file_name("policy.yaml");
    let form = Form::new().text("payload", payload.to_string()).part("policy_file", part);
    let put = service.request(Method::PUT, ADMIN, "/policies/acme").multipart(form);
    let response = Response::from_request(put).await;
    assert!(response.status.is_success(), "{response:?}");
}

async fn policy_is_shown_with_rules_versions_environments_and_failures(database: Database) {
    let service = TestService::start(database).await;
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    put(&service, "_schema: x/v1").await;
    put(&service, FILE).await;
    let path = "/environments/acme/prod/policies";
    let attach =
        service.request(Method::POST, ADMIN, path).body(json!({"policy_names": ["rules"]}).to_string());
    Response::from_request(attach).await.expect(200);
    let mut reader = Browser::signed_in(&service, READER).await;
    let list = main_element(&reader.get("/ui/acme/policies").await);
    let environment = "<a href=\"/ui/acme/environments/prod\"><bdi>prod</bdi></a>";
    assert_contains(
        &list,
        &[
            "<a href=\"/ui/acme/policies/rules\"><bdi>rules</bdi></a>",
            "<td>2</td>",
            "for production",
            environment,
        ],
    );
    let page = main_element(&reader.get("/ui/acme/policies/rules").await);
    let failing = format!("href=\"/ui/acme/artifacts/{}\"", digest('a'));
    assert_contains(
        &page,
        &[
            "Rules of version 2",
            "<li id=\"rule-1\"><bdi>a flow must hold the artifact, except if ",
            "artifact.name == 'pause'",
            "unit (junit) must pass, be at most 30d old",
            "2 persons other than the author must approve the artifact",
            "_schema: https://example.com",
            environment,
            &failing,
            "no flow holds the artifact",
            "unit (junit) is missing",
            "stricter",
            "<bdi>admin</bdi>",
        ],
    );
    // The rules with their results, of all artifacts and of one.
    let of_environment = main_element(&reader.get("/ui/acme/environments/prod").await);
    assert_contains(&of_environment, &["<h2>Rules</h2>", "<bdi>rules v2</bdi>", "2 artifacts"]);
    service
        .attest(
            ATTESTER,
            "cart",
            "t",
            form(&json!({
                "attestation_name": "unit", "artifact_fingerprint": digest('a'),
                "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
            })),
        )
        .await
        .expect(201);
    let of_environment = main_element(&reader.get("/ui/acme/environments/prod").await);
    assert_contains(&of_environment, &["1 artifact<", "2 artifacts"]);
    let of_artifact = main_element(&reader.get(&format!("/ui/acme/artifacts/{}", digest('a'))).await);
    assert_contains(
        &of_artifact,
        &[
            "<h2>Rules</h2>",
            ">fulfilled<",
            ">not fulfilled<",
            "approved by 0 of 2 persons by others than the author",
        ],
    );
    let page = main_element(&reader.get("/ui/acme/policies/rules").await);
    assert_eq!(page.matches("unit (junit) is missing").count(), 1, "{page}");
    // Without a session of the organization, nothing is shown.
    for path in ["/ui/acme/policies", "/ui/acme/policies/rules"] {
        assert_eq!(Browser::signed_in(&service, STRANGER).await.get(path).await.status, 404);
        assert_eq!(Browser::new(&service).get(path).await.status, 303);
    }
    assert_eq!(reader.get("/ui/acme/policies/none").await.status, 404);
}

async fn failures_of_another_policy_do_not_hide_those_of_a_policy(database: Database) {
    let service = TestService::start(database).await;
    let mut pods: Vec<_> = (0..101).map(|n| pod(&format!("p-{n}"), &format!("all:{n:03}"), 'a')).collect();
    for (n, pod) in pods.iter_mut().enumerate() {
        pod["digests"] = json!({ format!("all:{n:03}"): format!("{n:064x}") });
    }
    pods.push(pod("q", "web:1", 'b'));
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    let only = |name: &str| format!("attestations: [{{name: unit, type: junit, if: \"${{{{ {name} }}}}\"}}]");
    policies::put(&service, ADMIN, "all", &only("artifact.name != 'web:1'")).await.expect(201);
    policies::put(&service, ADMIN, "web", &only("artifact.name == 'web:1'")).await.expect(201);
    policies::attach(&service, "prod", &["all", "web"]).await.expect(200);
    let mut reader = Browser::signed_in(&service, READER).await;
    let page = main_element(&reader.get("/ui/acme/policies/web").await);
    assert_eq!(page.matches("unit (junit) is missing").count(), 1, "{page}");
    assert_contains(&page, &[&format!("href=\"/ui/acme/artifacts/{}\"", digest('b'))]);
    assert!(!page.contains("Only the first"), "{page}");
    let page = main_element(&reader.get("/ui/acme/policies/all").await);
    assert_eq!(page.matches("unit (junit) is missing").count(), 100);
    assert_contains(&page, &["Only the first 100 non-compliant artifacts are shown"]);
}

async fn short_form_of_the_bootstrap_file_is_a_policy(database: Database) {
    let policy = |more: &str| {
        let policy = format!("{{attestations: [{{flow: cart, name: unit{more}}}], approval: true}}");
        format!("    environments: [{{name: prod, policy: {policy}}}]")
    };
    let options = Options { bootstrap: bootstrap(1, &policy("")), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    service.reload(&bootstrap(2, &policy(", min_tests: 3"))).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    let link = "<a href=\"/ui/acme/policies/environment:prod\"><bdi>environment:prod";
    assert_contains(&main_element(&reader.get("/ui/acme/policies").await), &[link, "<td>2</td>"]);
    assert_contains(&main_element(&reader.get("/ui/acme/environments/prod").await), &[link]);
    let page = main_element(&reader.get("/ui/acme/policies/environment:prod").await);
    let unit = "unit of the flow cart must pass, have at least 3 tests that ran";
    let shown = ["Rules of version 2", unit, "1 person must approve the artifact", "bootstrap file"];
    assert_contains(&page, &shown);
    assert_contains(&page, &["unit of the flow cart is missing", "not approved"]);
    let policy = service.read("/policies/acme/environment:prod").await;
    assert_eq!(policy["versions"].as_array().unwrap().len(), 2);
    let detach = service.request(Method::DELETE, ADMIN, "/environments/acme/prod/policies");
    let detach = detach.body(json!({"policy_names": ["environment:prod"]}).to_string());
    let refused = Response::from_request(detach).await.expect(400);
    assert!(refused.text.contains("the bootstrap file attaches the policy"), "{refused:?}");
}

crate::service::on_both!(
    failures_of_another_policy_do_not_hide_those_of_a_policy,
    short_form_of_the_bootstrap_file_is_a_policy,
    policy_is_shown_with_rules_versions_environments_and_failures
);
