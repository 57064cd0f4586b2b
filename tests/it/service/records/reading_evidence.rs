//! Operations that read flows, trails, artifacts and attestations, and tags.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::report;
use crate::service::rules::operations::{artifact, begin, put, put_form, report_artifact};
use crate::service::support::test_service::bootstrap;
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod,
};

const SHA: &str = "cccccccccccccccccccccccccccccccccccccccc";

async fn attest(service: &TestService, trail: &str, name: &str, failures: u32, target: Value) {
    let mut data = json!({
        "attestation_name": name,
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    data.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
    service.attest(ATTESTER, "cart", trail, form(&data)).await.expect(201);
}

fn target(digit: char) -> Value {
    json!({"artifact_fingerprint": digest(digit)})
}

/// A trail in which the artifact `a` was reported and tested; it runs in `prod`.
async fn built(database: Database) -> TestService {
    let service = TestService::start(database).await;
    begin(&service, "build-1").await;
    report_artifact(&service, ATTESTER, &artifact('a', "build-1")).await.expect(201);
    attest(&service, "build-1", "unit", 1, target('a')).await;
    attest(&service, "build-1", "unit", 0, target('a')).await;
    service.report(ADMIN, "prod", report(&[pod("p", "registry/cart:1", 'a')])).await.expect(201);
    service
}

/// The texts of a field of the items of a list.
fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

#[track_caller]
fn assert_fields(object: &Value, expected: &Value) {
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&object[field], value, "{field}: {object:#}");
    }
}

/// Expects 404 with this message, and 403 for a token of another organization.
async fn assert_missing(service: &TestService, cases: &[(&str, &str)]) {
    for (path, message) in cases {
        let response = service.get(READER, path).await.expect(404);
        let json = response.json();
        assert!(json["message"].as_str().unwrap().contains(message), "{path}: {json}");
        service.get(STRANGER, path).await.expect(403);
    }
}

async fn flows_are_listed_by_name_and_page(database: Database) {
    let flows = "    flows: [{name: Web, tags: {team: shop}, template: {attestations: [{name: unit, type: junit}]}}, {name: api}]";
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(1, flows), ..Options::default() })
            .await;
    let cart = json!({"name": "cart", "description": "The cart"});
    put_form(&service, ATTESTER, "/flows/acme/template_file", &cart, None).await.expect(201);
    let all = service.read("/flows/acme").await;
    let mut names = texts(&all, "name");
    names.sort_unstable();
    assert_eq!(names, ["Web", "api", "cart"]);
    for (query, expected) in [
        ("search_by_name=We", &["Web"][..]),
        ("search_by_name=we", &[]),
        ("search_by_name=we&case_sensitive=false", &["Web"]),
        ("search_by_name=A%25&case_sensitive=false", &[]),
        ("search_by_name=", &texts(&all, "name")),
    ] {
        assert_eq!(texts(&service.read(&format!("/flows/acme?{query}")).await, "name"), expected, "{query}");
    }
    for (page, count) in [(1, 2), (2, 1), (3, 0)] {
        let listed = service.read(&format!("/flows/acme?page={page}&per_page=2")).await;
        assert_eq!(listed["data"].as_array().unwrap().len(), count);
        let expected = json!({"total": 3, "page": page, "per_page": 2, "page_count": 2});
        assert_eq!(listed["pagination"], expected);
    }
    let web = service.read("/flows/acme/Web").await;
    let none = json!(null);
    assert_fields(
        &web,
        &json!({"name": "Web", "description": "", "org": "acme", "tags": {"team": "shop"},
                                "latest_activity_at": none, "latest_state": none}),
    );
    let template = web["template"].as_str().unwrap();
    assert!(template.starts_with("version: 1\n"), "{template}");
    // A template that was read can be sent.
    let copied = json!({"name": "cart", "description": "The cart"});
    put_form(&service, ATTESTER, "/flows/acme/template_file", &copied, Some(template)).await.expect(200);
    let cart = service.read("/flows/acme/cart").await;
    assert_fields(&cart, &json!({"template": template, "description": "The cart", "tags": {}}));
    put_form(&service, ATTESTER, "/trails/acme/cart", &json!({"name": "t"}), None).await.expect(201);
    assert_eq!(service.read("/flows/acme/cart").await["latest_state"], "INCOMPLETE");
    attest(&service, "t", "unit", 1, json!({})).await;
    let cart = service.read("/flows/acme/cart").await;
    let changed_at = &service.read("/trails/acme").await["data"][0]["last_modified_at"];
    assert_fields(&cart, &json!({"latest_state": "NON-COMPLIANT", "latest_activity_at": changed_at}));
    let message = "flow nowhere not found";
    assert_missing(&service, &[("/flows/acme/nowhere", message), ("/flows/acme/template_file", "not found")])
        .await;
    for (query, parameter) in
        [("page=0", "page"), ("per_page=501", "per_page"), ("case_sensitive=1", "case_sensitive")]
    {
        service.get(READER, &format!("/flows/acme?{query}")).await.assert_field_error(parameter, "");
    }
    assert_eq!(service.get(STRANGER, "/flows/stranger").await.expect(200).json(), json!([]));
}

async fn trail_is_read_with_state_and_events(database: Database) {
    let service = built(database).await;
    let deployed_at = service.read("/flows/acme/cart").await["last_deployment_at"].clone();
    attest(&service, "build-1", "lint", 0, json!({"target_artifacts": ["web"]})).await;
    attest(&service, "build-1", "review", 0, json!({})).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    let trail = service.read("/trails/acme/cart/build-1").await;
    // The type of the review is another one.
    assert_fields(
        &trail,
        &json!({"name": "build-1", "compliance_state": "INCOMPLETE", "is_compliant": false}),
    );
    assert_fields(&trail["compliance_status"], &json!({"status": "INCOMPLETE"}));
    assert_fields(&trail["compliance_status"]["artifacts_statuses"]["app"], &json!({"status": "COMPLIANT"}));
    let listed = service.read("/trails/acme").await["data"][0].clone();
    assert_fields(&listed, &json!({"compliance_state": "INCOMPLETE", "events": []}));
    let commit = json!({"sha1": SHA, "message": "", "author": "", "branch": "", "timestamp": 0});
    assert_eq!(trail["git_commit_info"]["sha1"], SHA);
    assert_fields(&trail["git_commit_info"], &commit);
    let events: Vec<String> = trail["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or("-").to_owned();
            let [kind, name, target, place] =
                ["type", "template_reference_name", "target_artifact", "environment_name"].map(text);
            format!("{kind} {name} {target} {place} {} {}", event["is_compliant"], event["snapshot_index"])
        })
        .collect();
    assert_eq!(
        events,
        [
            "trail_reported - - - null null",
            "artifact_creation_reported app - - null null",
            "artifact_attestation_reported unit app - false null",
            "artifact_attestation_reported unit app - true null",
            "artifact_started_running app - prod null 1",
            "trail_attestation_for_artifact_reported lint web - true null",
            "trail_attestation_reported review - - true null",
            "artifact_stopped_running app - prod null 1",
        ]
    );
    assert_fields(&trail["events"][4], &json!({"timestamp": deployed_at}));
    assert_fields(&service.read("/flows/acme/cart").await, &json!({"last_deployment_at": null}));
    for event in trail["events"].as_array().unwrap() {
        if let Some(id) = event["attestation_id"].as_str() {
            let found = service.read(&format!("/attestations/acme?attestation_id={id}")).await;
            assert_eq!(found["data"][0]["attestation_id"], id);
        }
    }
    assert_missing(
        &service,
        &[
            ("/trails/acme/cart/nowhere", "trail \"nowhere\" of flow \"cart\" not found"),
            ("/trails/acme/nowhere/t", "flow nowhere not found"),
            ("/trails/acme?flow=nowhere", "flow nowhere not found"),
        ],
    )
    .await;
    service.get(READER, "/trails/acme/cart/build-1?page=1").await.assert_field_error("page", "unknown");
    put_form(&service, ATTESTER, "/trails/acme/cart", &json!({"name": "build-1"}), None).await.expect(200);
    let trail = service.read("/trails/acme/cart/build-1").await;
    let last = trail["events"].as_array().unwrap().last().unwrap();
    assert_fields(last, &json!({"type": "trail_updated", "timestamp": trail["last_modified_at"]}));
}

async fn events_that_are_left_out_are_said(database: Database) {
    let service = TestService::start(database).await;
    for n in 0..101 {
        let data = json!({"artifact_fingerprint": digest('a'), "description": n.to_string()});
        attest(&service, "t", "unit", 0, data).await;
    }
    let events = service.read("/trails/acme/cart/t").await["events"].clone();
    assert_eq!(events.as_array().unwrap().len(), 102);
    assert_eq!(events[1]["type"], "older_events_omitted");
    let path = format!("/artifacts/acme/cart/fingerprint/{}", digest('a'));
    assert_eq!(service.read(&path).await["history"][0]["event"], "Older events are not listed");
    // Each names the one that it superseded.
    let named = service.read("/attestations/acme/cart/trail/t/unit").await;
    assert_eq!(named.as_array().unwrap().len(), 20);
    let older = named[19]["overridden_attestation_id"].as_str().unwrap();
    let found = service.read(&format!("/attestations/acme?attestation_id={older}")).await;
    assert_fields(&found["data"][0], &json!({"is_superseded": true}));
}

async fn artifacts_are_listed_by_flow_and_repository(database: Database) {
    let service = built(database).await;
    // Attested, but not reported; another flow attests it too.
    let origin =
        json!({"name": "acme/cart", "provider": "github", "id": "1", "url": "https://github.com/acme/cart"});
    let data =
        json!({"artifact_fingerprint": digest('b'), "repo_info": origin, "git_commit_info": {"sha1": SHA}});
    attest(&service, "build-2", "unit", 1, data).await;
    attest(&service, "build-2", "lint", 0, target('b')).await;
    let other = json!({"attestation_name": "scan", "junit_results": [], "artifact_fingerprint": digest('b')});
    service.attest(ADMIN, "web", "t", form(&other)).await.expect(201);
    let listed = service.read("/artifacts/acme?flow_name=cart&page=1&per_page=15").await;
    assert_eq!(texts(&listed, "fingerprint"), [digest('b'), digest('a')]);
    assert_fields(
        &listed[1],
        &json!({"filename": "registry/cart:1", "git_commit": SHA, "state": "INCOMPLETE", "trail_name": "build-1",
                "flow_name": "cart", "template_reference_name": "app", "build_url": "proj/_build/1",
                "commit_url": "https://git.example.com/c"}),
    );
    assert_fields(
        &listed[0],
        &json!({"filename": "", "git_commit": SHA, "state": "NON-COMPLIANT", "trail_name": "build-2",
                "template_reference_name": null, "build_url": ""}),
    );
    let (b, web) = (digest('b'), service.read("/artifacts/acme?flow_name=web").await);
    assert_eq!(texts(&web, "fingerprint"), [b.as_str()]);
    for (query, expected) in [
        ("flow_name=cart&per_page=1&page=2", &[digest('a')][..]),
        ("flow_name=cart&page=9", &[]),
        ("repo_name=acme/cart", &[digest('b')]),
        ("repo_name=acme%2Fcart&flow_name=cart&per_page=1", &[digest('b')]),
        ("repo_name=acme/cart&page=2", &[]),
    ] {
        let listed = service.read(&format!("/artifacts/acme?{query}")).await;
        assert_eq!(texts(&listed, "fingerprint"), expected, "{query}");
    }
    put(&service, ATTESTER, "/flows/acme", &json!({"name": "cart"})).await.expect(200);
    put_form(&service, ADMIN, "/flows/acme/template_file", &json!({"name": "new"}), None).await.expect(201);
    assert_eq!(service.read("/artifacts/acme?flow_name=new").await, json!([]));
    assert_missing(
        &service,
        &[
            ("/artifacts/acme?flow_name=nowhere", "flow nowhere not found"),
            ("/artifacts/acme?repo_name=nowhere", "repository nowhere not found"),
        ],
    )
    .await;
    for (query, parameter) in
        [("", "flow_name"), ("flow_name=a/b", "flow_name"), ("flow_name=cart&page=0", "page")]
    {
        service.get(READER, &format!("/artifacts/acme?{query}")).await.assert_field_error(parameter, "");
    }
}

async fn artifact_is_read_by_fingerprint_and_commit(database: Database) {
    let service = built(database).await;
    let path = format!("/artifacts/acme/cart/fingerprint/{}", digest('a'));
    let found = service.read(&path).await;
    assert_fields(
        &found,
        &json!({"id": digest('a'), "filename": "registry/cart:1", "flow_name": "cart", "trail_name": "build-1",
                "git_commit": SHA, "state": "INCOMPLETE", "exited": []}),
    );
    assert_fields(
        &found["running"][0],
        &json!({"environment_name": "prod", "snapshot_index": 1, "compliance": "UNKNOWN", "is_silent": false}),
    );
    assert_eq!(
        texts(&found["history"], "event"),
        [
            "Artifact created in flow cart",
            "Attestation unit failed",
            "Attestation unit passed",
            "Started running in prod"
        ]
    );
    assert_eq!(service.read(&format!("{path}?trail=build-1")).await, found);
    assert_eq!(service.read("/artifacts/acme/cart/fingerprint/aaaaa").await, found);
    let by_commit = service.read(&format!("/artifacts/acme/cart/commit_sha/{SHA}")).await;
    assert_eq!(by_commit, json!([found]));
    let prefix = &SHA[..7].to_uppercase();
    assert_eq!(
        service.read(&format!("/artifacts/acme/cart/commit_sha/{prefix}?trail=build-1")).await,
        by_commit
    );
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    let found = service.read(&path).await;
    assert_fields(&found, &json!({"running": []}));
    assert_fields(&found["exited"][0], &json!({"environment_name": "prod", "snapshot_index": 1}));
    assert_eq!(found["history"][4]["event"], "Stopped running in prod");
    // An artifact without an origin and a report.
    attest(&service, "build-3", "unit", 0, target('d')).await;
    let path_of_d = format!("/artifacts/acme/cart/fingerprint/{}", digest('d'));
    assert_fields(
        &service.read(&path_of_d).await,
        &json!({"git_commit": "unknown", "commit_url": "", "filename": ""}),
    );
    let (missing, in_trail) =
        (format!("/artifacts/acme/cart/fingerprint/{}", digest('e')), format!("{path}?trail=build-3"));
    assert_missing(
        &service,
        &[
            (&missing, "not found in flow \"cart\""),
            (&in_trail, "not found in trail \"build-3\" of flow \"cart\""),
            (&missing.replace("cart", "nowhere"), "flow nowhere not found"),
            (
                "/artifacts/acme/cart/commit_sha/01234567",
                "an artifact of commit \"01234567\" not found in flow \"cart\"",
            ),
            (&format!("{path}?trail=nowhere"), "trail \"nowhere\" of flow \"cart\" not found"),
            ("/artifacts/acme/nowhere/commit_sha/01234567", "flow nowhere not found"),
        ],
    )
    .await;
    for (path, field) in [
        ("fingerprint/abcd", "fingerprint"),
        ("commit_sha/abcd", "commit_sha"),
        ("commit_sha/HEAD~1", "commit_sha"),
    ] {
        service
            .get(READER, &format!("/artifacts/acme/cart/{path}"))
            .await
            .assert_field_error(field, "expected");
    }
}

async fn search_resolves_prefixes_of_fingerprints_and_commits(database: Database) {
    let service = built(database).await;
    service.report(ADMIN, "stage", report(&[pod("p", "vendor/db:1", 'b')])).await.expect(201);
    let found = service.read(&format!("/search/acme/sha/{}", &digest('a')[..5])).await;
    assert_fields(&found["resolved_to"], &json!({"type": "fingerprint", "full_match": digest('a')}));
    assert_fields(
        &found["resolved_to"]["fingerprints"],
        &json!({"count": 1, "matches": [digest('a')], "has_more": false}),
    );
    assert_fields(&found["resolved_to"]["commits"], &json!({"count": 0, "matches": []}));
    let [only] = found["artifacts"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_fields(
        only,
        &json!({"name": "registry/cart:1", "flow": "cart", "git_commit": SHA, "has_provenance": true,
                "compliance_state": "INCOMPLETE", "running_in": ["prod"], "exited_from": []}),
    );
    let by_commit = service.read(&format!("/search/acme/sha/{SHA}")).await;
    assert_fields(&by_commit["resolved_to"], &json!({"type": "commit", "full_match": SHA}));
    assert_eq!(by_commit["artifacts"], found["artifacts"]);
    report_artifact(&service, ATTESTER, &artifact('e', "build-1")).await.expect(201);
    let reported = service.read("/search/acme/sha/eeeee").await;
    assert_fields(
        &reported["artifacts"][0],
        &json!({"flow": "cart", "has_provenance": true, "running_in": []}),
    );
    let unknown = service.read(&format!("/search/acme/sha/{}", digest('b'))).await;
    assert_fields(
        &unknown["artifacts"][0],
        &json!({"name": "vendor/db:1", "has_provenance": false, "flow": null, "running_in": ["stage"]}),
    );
    // Another artifact whose fingerprint starts like the commit.
    service.report(ADMIN, "stage", report(&[pod("p", "vendor/db:2", 'c')])).await.expect(201);
    let both = service.read("/search/acme/sha/ccccc").await;
    assert_fields(&both["resolved_to"], &json!({"type": "multiple", "full_match": null}));
    assert_eq!(both["artifacts"].as_array().unwrap().len(), 3);
    assert_missing(
        &service,
        &[("/search/acme/sha/01234", "no artifact has a fingerprint or commit that starts with \"01234\"")],
    )
    .await;
    for sha in ["abcd", "abcdefg", &"a".repeat(65)] {
        service
            .get(READER, &format!("/search/acme/sha/{sha}"))
            .await
            .assert_field_error("sha", "5 to 64 hex digits");
    }
    service.get(STRANGER, &format!("/search/stranger/sha/{}", digest('a'))).await.expect(404);
}

async fn search_finds_names_of_each_kind(database: Database) {
    let service = built(database).await;
    let (commit, url) = (&SHA[..7], service.base.clone() + "/ui/acme");
    let (of_artifact, of_trail) =
        (format!("{url}/artifacts/{}", digest('a')), format!("{url}/flows/cart/trails/build-1"));
    for (q, expected) in [
        (
            "CART",
            vec![
                json!({"kind": "image", "name": "registry/cart:1", "fingerprint": digest('a'), "html_url": of_artifact}),
                json!({"kind": "flow", "name": "cart"}),
                json!({"kind": "trail", "name": "build-1", "flow": "cart", "html_url": of_trail}),
            ],
        ),
        ("uild-1", vec![json!({"kind": "trail", "name": "build-1", "flow": "cart", "html_url": of_trail})]),
        (
            "sha256:aaaaaaa",
            vec![
                json!({"kind": "digest", "name": "registry/cart:1", "fingerprint": digest('a'), "html_url": of_artifact}),
            ],
        ),
        (
            commit,
            vec![
                json!({"kind": "commit", "name": SHA, "fingerprint": digest('a'), "html_url": of_artifact}),
                json!({"kind": "trail", "name": "build-1", "flow": "cart", "html_url": of_trail}),
            ],
        ),
        ("nothing", vec![]),
    ] {
        let found = service.read(&format!("/search/acme?q={q}")).await;
        assert_eq!(found, json!({"data": expected, "truncated": []}), "{q}");
    }
    let pods: Vec<_> = (0..51).map(|n| pod(&format!("web-{n}"), "shop/web:1", 'b')).collect();
    service.report(ADMIN, "stage", report(&pods)).await.expect(201);
    let found = service.read("/search/acme?q=web-").await;
    assert_fields(&found, &json!({"truncated": ["pod"]}));
    assert_fields(
        &found["data"][0],
        &json!({"kind": "pod", "html_url": format!("{url}/environments/stage")}),
    );
    assert_fields(
        &found["data"][0]["pod"],
        &json!({"environment": "stage", "ended_at": null, "digests": {"shop/web:1": digest('b')}}),
    );
    // A trail that is named by its commit is listed once.
    attest(&service, SHA, "unit", 0, json!({"git_commit_info": {"sha1": SHA}})).await;
    let found = service.read(&format!("/search/acme?q={commit}")).await;
    assert_eq!(texts(&found["data"], "kind"), ["commit", "trail", "trail"]);
    for query in ["", "?q=", &format!("?q={}", "a".repeat(256))] {
        service
            .get(READER, &format!("/search/acme{query}"))
            .await
            .assert_field_error("q", "1 to 255 characters");
    }
    assert_fields(&service.get(STRANGER, "/search/stranger?q=cart").await.json(), &json!({"data": []}));
}

async fn attestations_are_read_by_name_and_identifier(database: Database) {
    let service = built(database).await;
    attest(
        &service,
        "build-1",
        "junit",
        0,
        json!({"git_commit_info": {"sha1": SHA}, "user_data": {"a": 1.50}}),
    )
    .await;
    attest(&service, "build-1", "e2e", 0, json!({"target_artifacts": ["web"]})).await;
    let trail = "/attestations/acme/cart/trail/build-1";
    let of_artifact = format!("/attestations/acme/cart/artifact/{}", digest('a'));
    for (path, expected) in [
        (format!("{trail}/unit"), &["unit", "unit"][..]),
        (format!("{trail}/app.unit"), &["unit", "unit"]),
        (format!("{trail}/web.unit"), &[]),
        (format!("{trail}/web.e2e"), &["e2e"]),
        // Another operation has this path.
        (format!("{trail}/junit"), &["junit"]),
        (format!("{trail}/snyk"), &[]),
        (format!("{trail}/nothing"), &[]),
        (format!("{of_artifact}/unit"), &["unit", "unit"]),
        (format!("{of_artifact}/app.unit"), &["unit", "unit"]),
        (format!("{of_artifact}/e2e"), &[]),
        (of_artifact.replace(&digest('a'), &digest('f')) + "/unit", &[]),
    ] {
        assert_eq!(texts(&service.read(&path).await, "attestation_name"), expected, "{path}");
    }
    let named = service.read(&format!("{trail}/app.unit")).await;
    assert_fields(
        &named[0],
        &json!({"attestation_type": "junit", "is_compliant": true, "artifact_fingerprint": digest('a'),
                "artifact_fingerprints": [digest('a')], "target_artifacts": ["app"], "flow_name": "cart",
                "trail_name": "build-1", "is_superseded": false, "git_commit_info": null,
                "overridden_attestation_id": named[1]["attestation_id"]}),
    );
    assert_fields(&named[1], &json!({"is_compliant": false, "is_superseded": true}));
    let [id, missing] =
        [named[0]["attestation_id"].as_str().unwrap(), "01900000-0000-7000-8000-000000000000"];
    assert_eq!(
        service.read(&format!("/attestations/acme?attestation_id={id}")).await["data"],
        json!([named[0]])
    );
    let junit = service.read(&format!("{trail}/junit")).await;
    assert_fields(
        &junit[0],
        &json!({"git_commit_info": {"sha1": SHA}, "user_data": {"a": 1.5}, "other_fields": {}}),
    );
    assert_eq!(junit[0]["junit_results"][0]["total"], 3);
    for (token, organization, id) in [(READER, "acme", missing), (STRANGER, "stranger", id)] {
        let path = format!("/attestations/{organization}?attestation_id={id}");
        assert_eq!(service.get(token, &path).await.expect(200).json(), json!({"data": []}));
    }
    for query in ["", "?attestation_id=1"] {
        let response = service.get(READER, &format!("/attestations/acme{query}")).await;
        response.assert_field_error("attestation_id", "");
    }
    assert_missing(
        &service,
        &[
            ("/attestations/acme/cart/trail/nowhere/unit", "trail \"nowhere\" of flow \"cart\" not found"),
            ("/attestations/acme/cart/trail/nowhere/junit", "trail \"nowhere\" of flow \"cart\" not found"),
            ("/attestations/acme/nowhere/trail/t/unit", "flow nowhere not found"),
            (&(of_artifact.replace("cart", "nowhere") + "/unit"), "flow nowhere not found"),
        ],
    )
    .await;
}

async fn tags(service: &TestService, token: &str, object: &str, body: &Value) -> Response {
    let request = service.request(Method::PATCH, token, &format!("/tags/acme/{object}"));
    let request = request.header("Content-Type", "application/json");
    Response::from_request(request.body(body.to_string())).await
}

async fn tags_are_set_removed_and_read(database: Database) {
    let flows = "    flows: [{name: declared, tags: {team: shop}}]\n    environments: [{name: stage}]";
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(1, flows), ..Options::default() })
            .await;
    begin(&service, "t").await;
    let set = json!({"set_tags": {"team": "cart", "tier": "1"}, "remove_tags": []});
    for object in ["env/stage", "flow/cart"] {
        assert_eq!(tags(&service, ADMIN, object, &set).await.expect(200).text, "\"OK\"");
        let change = json!({"set_tags": {"tier": "2", "team": "cart"}, "remove_tags": ["nothing"]});
        tags(&service, ADMIN, object, &change).await.expect(200);
    }
    let expected = json!({"team": "cart", "tier": "2"});
    // The bootstrap file has no tags of these.
    service.reload(&bootstrap(2, flows)).await;
    for path in ["/environments/acme/stage", "/flows/acme/cart"] {
        assert_eq!(service.read(path).await["tags"], expected, "{path}");
    }
    assert_eq!(service.read("/trails/acme/cart/t").await["flow"]["tags"], expected);
    for (query, count) in [("tag=team", 1), ("tag=team:cart", 1), ("tag=team:shop", 0)] {
        let listed = service.read(&format!("/environments/acme?{query}")).await;
        assert_eq!(listed.as_array().unwrap().len(), count, "{query}");
    }
    let removal = json!({"set_tags": null, "remove_tags": ["tier"]});
    for object in ["env/stage", "flow/cart"] {
        tags(&service, ADMIN, object, &removal).await.expect(200);
    }
    assert_eq!(service.read("/environments/acme/stage").await["tags"], json!({"team": "cart"}));
    assert_eq!(service.read("/flows/acme/cart").await["tags"], json!({"team": "cart"}));
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    for change in ["set the tag tier=2 of the flow cart", "removed the tag tier of the environment stage"] {
        assert!(audit.contains(change), "{change}: {audit}");
    }
    let declared = tags(&service, ADMIN, "flow/declared", &set).await.expect(400);
    assert!(declared.text.contains("the bootstrap file declares the flow"), "{declared:?}");
    for object in ["env/nowhere", "flow/nowhere"] {
        tags(&service, ADMIN, object, &set).await.expect(404);
    }
    for token in [ATTESTER, REPORTER, READER, STRANGER] {
        tags(&service, token, "flow/cart", &set).await.expect(403);
    }
    let many: serde_json::Map<_, _> = (0..101).map(|n| (n.to_string(), json!("x"))).collect();
    let many = json!({"set_tags": many});
    tags(&service, ADMIN, "flow/cart", &many).await.assert_field_error("set_tags", "at most 100 tags");
    tags(&service, ADMIN, "flow/cart", &json!({"set_tags": {"": "x"}})).await.expect(400);
}

async fn policies_are_listed_by_page(database: Database) {
    let service = TestService::start(database).await;
    for name in ["one", "two"] {
        crate::service::rules::policies::put(&service, ADMIN, name, crate::service::rules::policies::UNIT)
            .await
            .expect(201);
    }
    for (query, count) in [("", 2), ("?page=2&per_page=1", 1), ("?page=3&per_page=1", 0), ("?page=2", 0)] {
        let listed = service.read(&format!("/policies/acme{query}")).await;
        assert_eq!(listed.as_array().unwrap().len(), count, "{query}");
    }
}

crate::service::on_both! {
    flows_are_listed_by_name_and_page,
    trail_is_read_with_state_and_events,
    artifacts_are_listed_by_flow_and_repository,
    artifact_is_read_by_fingerprint_and_commit,
    search_resolves_prefixes_of_fingerprints_and_commits,
    search_finds_names_of_each_kind,
    attestations_are_read_by_name_and_identifier,
    tags_are_set_removed_and_read,
    policies_are_listed_by_page,
}

crate::service::on_sqlite! {
    events_that_are_left_out_are_said,
}
