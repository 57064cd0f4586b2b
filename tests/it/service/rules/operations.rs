//! Environments, flows, trails, artifacts and allow-list entries that operations create.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use service::Limits;

use crate::service::records::log::log;
use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{
    ADMIN, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod,
};

pub(crate) async fn put(service: &TestService, token: &str, path: &str, body: &Value) -> Response {
    Response::from_request(
        service
            .request(Method::PUT, token, path)
            .header("Content-Type", "application/json")
            .body(body.to_string()),
    )
    .await
}

pub(crate) async fn put_form(
    service: &TestService,
    token: &str,
    path: &str,
    data: &Value,
    template: Option<&str>,
) -> Response {
    let mut sent = form(data);
    if let Some(template) = template {
        sent = sent.part("template_file", Part::text(template.to_owned()).file_name("template.yaml"));
    }
    Response::from_request(service.request(Method::PUT, token, path).multipart(sent)).await
}

pub(crate) async fn report_artifact(service: &TestService, token: &str, body: &Value) -> Response {
    Response::from_request(
        service
            .request(Method::POST, token, "/artifacts/acme/cart")
            .header("Content-Type", "application/json")
            .body(body.to_string()),
    )
    .await
}

pub(crate) fn artifact(digit: char, trail: &str) -> Value {
    json!({"fingerprint": digest(digit), "filename": "registry/cart:1", "git_commit": "c".repeat(40),
           "git_commit_info": {"sha1": "c".repeat(40), "branch": ""}, "build_url": "proj/_build/1",
           "commit_url": "https://git.example.com/c", "repo_url": "https://git.example.com/acme/cart",
           "template_reference_name": "app", "trail_name": trail})
}

const TEMPLATE: &str = "
version: 1
trail:
  attestations: [{name: review, type: pull_request}]
  artifacts: [{name: app, attestations: [{name: unit, type: junit}]}]
";

pub(crate) async fn begin(service: &TestService, trail: &str) {
    put_form(service, ATTESTER, "/flows/acme/template_file", &json!({"name": "cart"}), Some(TEMPLATE)).await;
    put_form(service, ATTESTER, "/trails/acme/cart", &json!({"name": trail}), None).await.expect(201);
}

async fn environment_is_created_described_and_read(database: Database) {
    let service = TestService::start_with(
        database,
        Options {
            bootstrap: bootstrap(1, "    environments: [{name: declared, policy: {approval: true}}]"),
            ..Options::default()
        },
    )
    .await;
    let path = "/environments/acme/prod";
    for token in [REPORTER, READER] {
        service.get(token, path).await.expect(404);
    }
    let sent = |description: &str| json!({"name": "prod", "type": "K8S", "description": description});
    assert_eq!(put(&service, REPORTER, "/environments/acme", &sent("Shop")).await.expect(201).text, "\"OK\"");
    put(&service, REPORTER, "/environments/acme", &sent("")).await.expect(200);
    let fresh = service.get(REPORTER, path).await.expect(200).json();
    for (field, value) in [
        ("name", json!("prod")),
        ("type", json!("K8S")),
        ("description", json!("Shop")),
        ("state", json!(null)),
        ("last_reported_at", json!(null)),
        ("tags", json!({})),
        ("policies", json!([])),
    ] {
        assert_eq!(fresh[field], value, "{field}");
    }
    assert_eq!(
        fresh["html_url"],
        format!("{}/ui{path}", service.base).replace("/environments/acme", "/acme/environments")
    );
    service.report(REPORTER, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    assert!(service.read(path).await["last_reported_at"].is_number());
    let declared = service.read("/environments/acme/declared").await;
    assert_eq!(declared["policies"], json!(["environment:declared"]));
    // Names outside of the scope get the same response, whether they exist or not.
    for name in ["declared", "nowhere"] {
        service.get(REPORTER, &format!("/environments/acme/{name}")).await.expect(403);
    }
    for (body, field, why) in [
        (json!({"name": "x", "type": "k8s"}), "type", "unknown variant"),
        (json!({"name": "a/b", "type": "K8S"}), "name", "letter or digit"),
        (json!({"name": "..", "type": "K8S"}), "name", "letter or digit"),
        (json!({"name": "x", "type": "K8S", "require_provenance": true}), "require_provenance", "policy"),
        (json!({"name": "x", "type": "K8S", "include_scaling": true}), "include_scaling", "not supported"),
        (
            json!({"name": "x", "type": "K8S", "included_environments": ["y"]}),
            "included_environments",
            "parts",
        ),
        (json!({"name": "x", "type": "K8S", "description": 7}), "description", "expected a string"),
    ] {
        put(&service, ADMIN, "/environments/acme", &body).await.assert_field_error(field, why);
    }
    let declared = json!({"name": "declared", "type": "K8S"});
    let rejected = put(&service, ADMIN, "/environments/acme", &declared).await.expect(400);
    assert!(rejected.text.contains("the bootstrap file declares the environment"), "{rejected:?}");
    let other = json!({"name": "other", "type": "K8S"});
    put(&service, REPORTER, "/environments/acme", &other).await.expect(403);
    put(&service, STRANGER, "/environments/acme", &other).await.expect(403);
    assert_eq!(
        service.database.rows("SELECT name FROM environments ORDER BY name").await,
        ["declared", "prod"]
    );
}

async fn flow_and_trail_are_created_with_their_template(database: Database) {
    let service = TestService::start(database).await;
    let flow = json!({"name": "cart", "description": "The cart"});
    put_form(&service, ATTESTER, "/flows/acme/template_file", &flow, Some(TEMPLATE)).await.expect(201);
    put_form(&service, ATTESTER, "/flows/acme/template_file", &flow, Some(TEMPLATE)).await.expect(200);
    let trail = json!({"name": "t", "description": "Build 1", "user_data": [1], "origin_url": "proj/_build/1",
                       "git_commit_info": {"sha1": "c".repeat(40)}, "external_urls": {"ticket": {"href": "https://x"}},
                       "repo_info": {"name": "acme/cart", "provider": "github", "id": "7"}});
    put_form(&service, ATTESTER, "/trails/acme/cart", &trail, None).await.expect(201);
    // The trail keeps its template.
    put_form(&service, ATTESTER, "/flows/acme/template_file", &flow, Some("version: 1")).await.expect(200);
    put_form(&service, ATTESTER, "/trails/acme/cart", &json!({"name": "t"}), None).await.expect(200);
    let listed = &service.read("/trails/acme").await["data"][0];
    for field in ["name", "description", "user_data", "origin_url", "external_urls"] {
        assert_eq!(listed[field], trail[field], "{field}");
    }
    assert_eq!(listed["git_commit_info"]["sha1"], "c".repeat(40));
    assert_eq!(listed["repo_ids"].as_array().unwrap().len(), 1);
    assert_eq!(listed["template"]["version"], 1);
    assert_eq!(listed["is_compliant"], false);
    let missing = &listed["compliance_status"]["attestations_statuses"][0];
    assert_eq!(
        (&missing["attestation_name"], &missing["attestation_type"]),
        (&json!("review"), &json!("pull_request"))
    );
    let (own, template) = (json!({"name": "own"}), Some("version: 1\ntrail: {}"));
    put_form(&service, ATTESTER, "/trails/acme/cart", &own, template).await.expect(201);
    let own = &service.read("/trails/acme").await["data"][0];
    assert_eq!((&own["name"], &own["is_compliant"]), (&json!("own"), &json!(true)));
    // The list of older clients.
    let listed = json!({"name": "cart", "description": "", "template": ["artifact", "unit"]});
    put(&service, ATTESTER, "/flows/acme", &listed).await.expect(200);
    put_form(&service, ATTESTER, "/trails/acme/cart", &json!({"name": "list"}), None).await.expect(201);
    let listed = &service.read("/trails/acme").await["data"][0]["template"]["trail"];
    assert_eq!(
        listed["artifacts"],
        json!([{"name": "artifact", "attestations": [{"name": "unit", "type": "*"}]}])
    );
}

async fn invalid_flow_or_trail_is_rejected_and_nothing_is_recorded(database: Database) {
    let service = TestService::start(database).await;
    let flows = "/flows/acme/template_file";
    for (template, why) in [
        ("", "the file is empty"),
        ("version: 2", "expected 1, got 2"),
        ("version: 1\ntrial: {}", "unknown field"),
        ("version: 1\ntrail: {attestations: [{name: a}]}", "trail.attestations[0]"),
        ("version: 1\ntrail: {artifacts: [{name: a}, {name: a}]}", "occurs twice"),
        ("version: 1\ntrail: {attestations: [{name: '', type: junit}]}", "1 to 255 bytes"),
        ("a: [", "template_file"),
    ] {
        let response =
            put_form(&service, ADMIN, flows, &json!({"name": "cart"}), Some(template)).await.expect(400);
        assert!(response.text.contains(why), "{template}: {response:?}");
    }
    let large = format!("version: 1 # {}", "x".repeat(64 * 1024));
    put_form(&service, ADMIN, flows, &json!({"name": "cart"}), Some(&large)).await.expect(413);
    put_form(&service, ADMIN, flows, &json!({"name": "a/b"}), None)
        .await
        .assert_field_error("name", "no slash");
    put_form(&service, ATTESTER, flows, &json!({"name": "web"}), None).await.expect(403);
    put_form(&service, STRANGER, flows, &json!({"name": "cart"}), None).await.expect(403);
    let file = Form::new().part("payload", Part::text("{}"));
    let other = service.request(Method::PUT, ADMIN, flows).multipart(file);
    Response::from_request(other).await.assert_field_error("payload", "expected data_json or template_file");
    let missing =
        put_form(&service, ADMIN, "/trails/acme/cart", &json!({"name": "t"}), None).await.expect(404);
    assert!(missing.text.contains("create the flow first"), "{missing:?}");
    assert!(service.database.rows("SELECT name FROM flows").await.is_empty());
    put_form(&service, ADMIN, flows, &json!({"name": "cart"}), None).await.expect(201);
    for (data, field) in [
        (json!({"name": "a/b"}), "name"),
        (json!({"name": ".."}), "name"),
        (json!({"name": "t", "git_commit_info": {"sha1": "x"}}), "git_commit_info.sha1"),
        (json!({"name": "t", "external_urls": 1}), "external_urls"),
    ] {
        put_form(&service, ADMIN, "/trails/acme/cart", &data, None)
            .await
            .assert_field_error(field, "expected");
    }
    put_form(&service, ATTESTER, "/trails/acme/web", &json!({"name": "t"}), None).await.expect(403);
    assert!(service.database.rows("SELECT name FROM trails").await.is_empty());
}

async fn attestations_by_name_and_by_fingerprint_meet_at_the_reported_artifact(database: Database) {
    let service = TestService::start_with(
        database,
        Options {
            bootstrap: bootstrap(
                1,
                "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]",
            ),
            ..Options::default()
        },
    )
    .await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let unit = |more: Value| {
        let mut data = json!({"attestation_name": "unit",
                              "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        form(&data)
    };
    let compliance = async || {
        let environment = service.read("/environments/acme/prod").await;
        environment["state"].as_bool()
    };
    let status = async || {
        let trails = service.read(&format!("/trails/acme?fingerprint={}", digest('a'))).await;
        trails["data"][0]["compliance_status"]["artifacts_statuses"]["app"].clone()
    };
    // By name, before the artifact is reported.
    begin(&service, "t-1").await;
    service.attest(ATTESTER, "cart", "t-1", unit(json!({"target_artifacts": ["app"]}))).await.expect(201);
    assert_eq!(compliance().await, Some(false));
    report_artifact(&service, ATTESTER, &artifact('a', "t-1")).await.expect(201);
    assert_eq!(compliance().await, Some(true));
    let app = status().await;
    assert_eq!((&app["is_compliant"], &app["artifact_fingerprint"]), (&json!(true), &json!(digest('a'))));
    // By fingerprint, before and after it is reported.
    for (trail, is_reported_first) in [("t-2", false), ("t-3", true)] {
        begin(&service, trail).await;
        if is_reported_first {
            report_artifact(&service, ATTESTER, &artifact('b', trail)).await.expect(201);
        }
        let by_fingerprint = unit(json!({"artifact_fingerprint": digest('b')}));
        service.attest(ATTESTER, "cart", trail, by_fingerprint).await.expect(201);
        if !is_reported_first {
            report_artifact(&service, ATTESTER, &artifact('b', trail)).await.expect(201);
        }
        let listed = &service.read("/trails/acme").await["data"][0];
        assert_eq!(listed["name"], trail);
        let app = &listed["compliance_status"]["artifacts_statuses"]["app"];
        assert_eq!(app["is_compliant"], true, "{listed}");
    }
    // By name, after it is reported.
    begin(&service, "t-4").await;
    report_artifact(&service, ATTESTER, &artifact('d', "t-4")).await.expect(201);
    service.attest(ATTESTER, "cart", "t-4", unit(json!({"target_artifacts": ["app"]}))).await.expect(201);
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'd')])).await.expect(201);
    assert_eq!(compliance().await, Some(true));
}

async fn reports_of_artifacts_and_templates_are_in_the_log(database: Database) {
    let service = TestService::start(database).await;
    begin(&service, "t").await;
    let unit = json!({"attestation_name": "unit", "target_artifacts": ["app"],
                      "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
    service.attest(ATTESTER, "cart", "t", form(&unit)).await.expect(201);
    let mut reported = artifact('a', "t");
    reported["repo_info"] = json!({"name": "acme/cart", "url": "https://git.example.com/acme/cart"});
    report_artifact(&service, ATTESTER, &reported).await.expect(201);
    let flow = json!({"name": "cart"});
    put_form(&service, ATTESTER, "/flows/acme/template_file", &flow, Some("version: 1")).await.expect(200);
    let own = Some("version: 1\ntrail: {artifacts: [{name: other}]}");
    put_form(&service, ATTESTER, "/trails/acme/cart", &json!({"name": "own"}), own).await.expect(201);
    let verified = log(&service, &["verify"]).await;
    verified.expect(0, &[]);
    let entries = service.get(ADMIN, "/log/acme").await.expect(200).json();
    let count = |kind: &str| {
        entries["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).count()
    };
    assert_eq!(["artifact", "template", "template-end"].map(count), [1, 3, 2], "{entries}");
    for (change, restore, record) in [
        (
            "UPDATE reported_artifacts SET name = 'other'",
            "UPDATE reported_artifacts SET name = 'registry/cart:1'",
            "artifact",
        ),
        (
            "UPDATE attested_artifacts SET report = NULL",
            "UPDATE attested_artifacts SET report = (SELECT id FROM reported_artifacts)",
            "attestation",
        ),
        (
            "UPDATE latest_attestations SET is_compliant = FALSE",
            "UPDATE latest_attestations SET is_compliant = TRUE",
            "artifact",
        ),
        ("UPDATE claims SET reported_by = 'other'", "UPDATE claims SET reported_by = 'attester'", "artifact"),
        (
            "UPDATE provenance SET reported_by = 'other'",
            "UPDATE provenance SET reported_by = 'attester'",
            "artifact",
        ),
        ("UPDATE claims SET commit_url = 'other'", "", "artifact"),
    ] {
        service.database.execute(change).await;
        log(&service, &["verify"]).await.expect(11, &[&format!("({record} "), "does not match its record"]);
        if !restore.is_empty() {
            service.database.execute(restore).await;
            log(&service, &["verify"]).await.expect(0, &[]);
        }
    }
}

async fn reported_artifact_has_its_origin_and_older_clients_need_no_trail(database: Database) {
    let service = TestService::start(database).await;
    begin(&service, "t").await;
    let mut sent = artifact('a', "t");
    sent["repo_info"] = json!({"name": "acme/cart", "url": "https://github.com/acme/cart", "id": "7"});
    assert_eq!(report_artifact(&service, ATTESTER, &sent).await.expect(201).json(), json!({"message": "OK"}));
    // The first origin counts, also against an attestation.
    let conflicting = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a'),
                             "repo_info": {"name": "evil/cart"}, "git_commit_info": {"sha1": "d".repeat(40)}});
    service.attest(ATTESTER, "cart", "t", form(&conflicting)).await.expect(201);
    service.report(REPORTER, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let found = &live["_embedded"]["artifacts"][0];
    assert_eq!((&found["commit_sha"], &found["provenance_conflicts"]), (&json!("c".repeat(40)), &json!(1)));
    let older = json!({"fingerprint": digest('b'), "filename": "cart.jar", "git_commit": "e".repeat(40),
                       "commits_list": [{"sha1": "e".repeat(40), "parents": []}], "build_url": "b", "commit_url": "c",
                       "repo_url": "r", "repo_info": {"name": "acme/cart", "id": "7"}});
    report_artifact(&service, ATTESTER, &older).await.expect(201);
    for (mut body, field, value, named) in [
        (artifact('a', "t"), "fingerprint", json!("sha256:x"), "fingerprint"),
        (artifact('a', "t"), "filename", json!(""), "filename"),
        (artifact('a', "t"), "trail_name", json!("a/b"), "trail_name"),
        (artifact('a', "t"), "git_commit_info", json!({"sha1": "x"}), "git_commit_info.sha1"),
    ] {
        body[field] = value;
        report_artifact(&service, ATTESTER, &body).await.assert_field_error(named, "expected");
    }
    report_artifact(&service, ATTESTER, &artifact('a', "nowhere")).await.expect(404);
    for (token, path, status) in [
        (ADMIN, "/artifacts/acme/nowhere", 404),
        (ATTESTER, "/artifacts/acme/web", 403),
        (READER, "/artifacts/acme/cart", 403),
    ] {
        let request = service
            .request(Method::POST, token, path)
            .header("Content-Type", "application/json")
            .body(artifact('a', "t").to_string());
        Response::from_request(request).await.expect(status);
    }
    let stored = service.database.rows("SELECT name FROM reported_artifacts ORDER BY created_at, id").await;
    assert_eq!(stored, ["registry/cart:1", "cart.jar"]);
}

async fn allowed_artifact_is_compliant_until_the_file_says_otherwise(database: Database) {
    let policy = |more: &str| {
        format!(
            "    environments: [{{name: prod, policy: {{attestations: [{{flow: cart, name: unit}}]}}{more}}}]"
        )
    };
    let service = TestService::start_with(
        database,
        Options { bootstrap: bootstrap(1, &policy("")), ..Options::default() },
    )
    .await;
    service.report(REPORTER, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    let state = async || service.read("/environments/acme/prod").await["state"].as_bool();
    assert_eq!(state().await, Some(false));
    let entry = |reason: &str| json!({"artifact_fingerprint": digest('a'), "artifact_name": "i", "description": reason});
    let path = "/allowlists/acme/prod";
    put(&service, ADMIN, path, &entry("")).await.assert_field_error("description", "reason");
    put(&service, ADMIN, path, &json!({"description": "x"})).await.expect(400);
    put(&service, REPORTER, path, &entry("x")).await.expect(403);
    put(&service, ADMIN, "/allowlists/acme/nowhere", &entry("x")).await.expect(404);
    put(&service, ADMIN, path, &entry("vendor")).await.expect(201);
    assert_eq!(state().await, Some(true));
    put(&service, ADMIN, path, &entry("vendor image")).await.expect(200);
    // A file that does not mention the artifact keeps the entry.
    service.reload(&bootstrap(2, &policy(""))).await;
    assert_eq!(state().await, Some(true));
    let listed = format!(", allowed: [{{artifact: {}, reason: declared, author: kim}}]", digest('a'));
    service.reload(&bootstrap(3, &policy(&listed))).await;
    let rejected = put(&service, ADMIN, path, &entry("again")).await.expect(400);
    assert!(rejected.text.contains("the bootstrap file declares the allow-list entry"), "{rejected:?}");
    service.reload(&bootstrap(4, &policy(""))).await;
    assert_eq!(state().await, Some(false));
}

async fn bootstrap_file_and_operations_keep_what_is_theirs(database: Database) {
    let declared = "    flows: [{name: file, template: {attestations: [{name: unit, type: junit}]}}]";
    let service = TestService::start_with(
        database,
        Options { bootstrap: bootstrap(1, declared), ..Options::default() },
    )
    .await;
    let flows = "/flows/acme/template_file";
    let rejected =
        put_form(&service, ADMIN, flows, &json!({"name": "file"}), Some("version: 1")).await.expect(400);
    assert!(rejected.text.contains("the bootstrap file declares the flow"), "{rejected:?}");
    let own = put_form(&service, ADMIN, "/trails/acme/file", &json!({"name": "t"}), Some("version: 1"))
        .await
        .expect(400);
    assert!(own.text.contains("the bootstrap file declares the template of the flow"), "{own:?}");
    put_form(&service, ADMIN, "/trails/acme/file", &json!({"name": "t"}), None).await.expect(201);
    put_form(&service, ADMIN, flows, &json!({"name": "cart"}), Some(TEMPLATE)).await.expect(201);
    let open = "SELECT flow FROM flow_templates WHERE closed_at IS NULL ORDER BY flow";
    service.reload(&bootstrap(2, declared)).await;
    assert_eq!(service.database.rows(open).await, ["cart", "file"]);
    // The file takes the flow over, without a template.
    service.reload(&bootstrap(3, "    flows: [{name: cart}]")).await;
    assert!(service.database.rows(open).await.is_empty());
    put_form(&service, ADMIN, flows, &json!({"name": "cart"}), Some(TEMPLATE)).await.expect(400);
    // And returns it.
    service.reload(&bootstrap(4, "")).await;
    put_form(&service, ADMIN, flows, &json!({"name": "cart"}), Some(TEMPLATE)).await.expect(200);
}

async fn each_write_is_audited_and_limited(database: Database) {
    let limits = Limits {
        new_environments: 1,
        new_flows: 1,
        new_trails: 1,
        invalid_tokens: u32::MAX,
        ..Limits::default()
    };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let created = async |name: &str| {
        let environment =
            put(&service, ADMIN, "/environments/acme", &json!({"name": name, "type": "K8S"})).await;
        let flow = put_form(&service, ADMIN, "/flows/acme/template_file", &json!({"name": name}), None).await;
        let trail = put_form(&service, ADMIN, "/trails/acme/one", &json!({"name": name}), None).await;
        [environment, flow, trail].map(|response| response.status.as_u16())
    };
    assert_eq!(created("one").await, [201; 3]);
    assert_eq!(created("two").await, [429; 3]);
    let unit = json!({"attestation_name": "unit", "junit_results": []});
    service.attest(ADMIN, "one", "two", form(&unit)).await.expect(429);
    let audited =
        service.database.rows("SELECT change FROM audit WHERE actor = 'token admin' ORDER BY at, id").await;
    assert_eq!(
        audited,
        ["created the environment one", "created the flow one", "began the trail one of flow one"]
    );
}

async fn readiness_and_the_organization_of_a_token_are_returned(database: Database) {
    let service = TestService::start(database).await;
    let ready = service.http.get(format!("{}/ready", service.base)).send().await.unwrap();
    assert_eq!((ready.status().as_u16(), ready.text().await.unwrap().as_str()), (200, "OK\n"));
    for (token, organization) in [(REPORTER, "acme"), (STRANGER, "stranger")] {
        let found = service.get(token, "/user/default-org").await.expect(200).json();
        assert_eq!(found, json!({"default_org_name": organization}));
    }
    service.get("guessed", "/user/default-org").await.expect(401);
}

crate::service::on_both!(
    environment_is_created_described_and_read,
    flow_and_trail_are_created_with_their_template,
    attestations_by_name_and_by_fingerprint_meet_at_the_reported_artifact,
    reports_of_artifacts_and_templates_are_in_the_log,
    reported_artifact_has_its_origin_and_older_clients_need_no_trail,
    allowed_artifact_is_compliant_until_the_file_says_otherwise,
    bootstrap_file_and_operations_keep_what_is_theirs,
);

crate::service::on_sqlite!(
    invalid_flow_or_trail_is_rejected_and_nothing_is_recorded,
    each_write_is_audited_and_limited,
    readiness_and_the_organization_of_a_token_are_returned,
);
