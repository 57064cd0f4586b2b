//! The gate before a deployment: whether an artifact may run.

use reqwest::multipart::Part;
use serde_json::{Value, json};

use crate::service::rules::operations::{artifact, begin, put, put_form, report_artifact};
use crate::service::rules::policies::{TESTED, UNIT, attach, attest, put as put_policy, run, verdicts};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{
    ADMIN, APPROVER, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest,
    eventually, form,
};

fn path(digit: char, query: &str) -> String {
    format!("/asserts/acme/fingerprint/{}?{query}", digest(digit))
}

async fn gate(service: &TestService, digit: char, query: &str) -> Value {
    service.get(READER, &path(digit, query)).await.expect(200).json()
}

async fn is_compliant(service: &TestService, digit: char, query: &str) -> bool {
    gate(service, digit, query).await["compliant"].as_bool().unwrap()
}

async fn expect_not_found(service: &TestService, digit: char, query: &str, place: &str) {
    let refused = service.get(READER, &path(digit, query)).await.expect(404).json();
    let expected = format!("artifact \"{}\" not found in {place} of organization \"acme\"", digest(digit));
    assert_eq!(refused["message"], expected);
}

const PROD: &str = "environment_name=prod";

async fn untested_artifact_is_stopped_and_tested_one_passes_before_it_runs(database: Database) {
    let service = TestService::start(database).await;
    put(&service, ADMIN, "/environments/acme", &json!({"name": "prod", "type": "K8S"})).await.expect(201);
    attest(&service, "cart", "t1", "lint", 'a', 0).await;
    attest(&service, "web", "t2", "unit", 'b', 0).await;
    // Without a policy, nothing is checked.
    let unchecked = gate(&service, 'a', PROD).await;
    assert_eq!(unchecked["compliant"], true);
    assert_eq!(unchecked["message"], "no policy is attached to the environment prod: nothing was checked");
    put_policy(&service, ADMIN, "tested", TESTED).await.expect(201);
    attach(&service, "prod", &["tested"]).await.expect(200);
    let stopped = gate(&service, 'a', PROD).await;
    let attestation = |name: &str, id: &Value| {
        json!({"attestation_name": name, "attestation_type": "junit", "attestation_id": id, "status": "COMPLETE",
               "is_compliant": true, "unexpected": false})
    };
    let status = json!({
        "status": "COMPLIANT",
        "attestations_statuses": [
            attestation("lint", &stopped["flows"][0]["compliance_status"]["attestations_statuses"][0]["attestation_id"]),
        ],
    });
    let context = |attestation: Value| json!({"flow_name": "cart", "trail_name": null, "attestation_name": attestation, "artifact_status": null});
    let mut both = status.clone();
    both["status"] = json!("NON_COMPLIANT");
    assert_eq!(
        stopped,
        json!({
            "scope": "environment", "environment": "prod", "compliant": false,
            "html_url": format!("{}/ui/acme/artifacts/{}", service.base, digest('a')),
            "policy_evaluations": [{
                "policy_name": "tested", "policy_version": 1, "status": "NON_COMPLIANT",
                "reasons": [{
                    "type": "missing_attestation", "flow_name": "cart",
                    "attestation_name": "unit", "attestation_type": "junit",
                    "rule": {"policy_name": "tested", "policy_version": 1, "number": 2},
                    "text": "tested v1: unit (junit) of the flow cart is missing",
                }],
                "rule_evaluations": [
                    {"rule": {"type": "provenance", "definition": {"required": true, "exceptions": []}},
                     "satisfied": true, "ignored": false,
                     "resolutions": [{"type": "rule_satisfied", "context": context(json!(null))}]},
                    {"rule": {"type": "attestation", "definition":
                        {"name": "unit", "type": "junit", "if": null, "must_be_compliant": true}},
                     "satisfied": false, "ignored": false,
                     "resolutions": [{"type": "missing_attestation", "context": context(json!(null))}]},
                ],
            }],
            "flows": [{"flow": "cart", "trail": "t1", "compliance_status": status}],
            "compliance_status": both,
        })
    );
    let passed = gate(&service, 'b', PROD).await;
    assert_eq!(
        (&passed["compliant"], &passed["policy_evaluations"][0]["status"]),
        (&json!(true), &json!("COMPLIANT"))
    );
    // The verdicts of the running artifacts are the same.
    run(&service, "prod", "ab").await;
    assert_eq!(
        verdicts(&service).await,
        [
            r#"prod NON-COMPLIANT ["tested v1: unit (junit) of the flow cart is missing"]"#,
            "prod COMPLIANT []",
        ]
    );
    // Other flows do not count.
    assert!(is_compliant(&service, 'b', "environment_name=prod&flow_name=web").await);
    expect_not_found(&service, 'b', "environment_name=prod&flow_name=cart", "flow \"cart\"").await;
    // By policies instead of an environment, in the order of the request.
    put_policy(&service, ADMIN, "linted", "attestations: [{name: lint, type: '*', for_control: C-1}]")
        .await
        .expect(201);
    let named = gate(&service, 'b', "policy_name=tested&policy_name=linted").await;
    assert_eq!((&named["scope"], &named["compliant"]), (&json!("policy"), &json!(false)));
    let order: Vec<_> =
        named["policy_evaluations"].as_array().unwrap().iter().map(|one| &one["policy_name"]).collect();
    assert_eq!(order, ["tested", "linted"]);
    let rule = &named["policy_evaluations"][1]["rule_evaluations"][0];
    assert_eq!(rule["resolutions"][0]["context"]["for_control"], "C-1");
    assert!(is_compliant(&service, 'b', "policy_name=tested").await);
}

async fn allow_list_approvals_and_names_count_as_in_the_evaluation(database: Database) {
    let environments = "    flows: [{name: cart}]
    environments:
      - {name: prod, policy: {approval: true}, allowed: [{image: 'shop/cart', reason: system, author: kim}]}
      - {name: stage, policy: {approval: true}}";
    let options = Options { bootstrap: bootstrap(1, environments), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    expect_not_found(&service, 'a', PROD, "any flow").await;
    // An artifact that ran elsewhere is known, with its name.
    run(&service, "dev", "a").await;
    let allowed = gate(&service, 'a', PROD).await;
    assert_eq!(
        (&allowed["compliant"], &allowed["message"]),
        (&json!(true), &json!("allowed by kim: system"))
    );
    let policy = &allowed["policy_evaluations"][0];
    assert_eq!((&policy["policy_name"], &policy["policy_version"]), (&json!("environment:prod"), &json!(1)));
    assert_eq!(policy["reasons"][0]["text"], "environment:prod v1: not approved");
    assert!(!is_compliant(&service, 'a', "environment_name=stage").await);
    service.report(ADMIN, "dev", r#"{"artifacts": []}"#).await.expect(201);
    assert!(is_compliant(&service, 'a', PROD).await);
    // An entry for one artifact makes it known.
    let entry =
        json!({"artifact_fingerprint": digest('b'), "artifact_name": "postgres", "description": "vendor"});
    expect_not_found(&service, 'b', "environment_name=stage", "any flow").await;
    put(&service, ADMIN, "/allowlists/acme/stage", &entry).await.expect(201);
    assert!(is_compliant(&service, 'b', "environment_name=stage").await);
    expect_not_found(&service, 'b', PROD, "any flow").await;
    // An approval is for its environment.
    let approval = json!({"artifact_fingerprint": digest('c'), "environment": "prod", "approvals": [{"state": "APPROVED"}]});
    let approve = service.request(reqwest::Method::POST, APPROVER, "/approvals/acme/cart");
    let approve = approve.header("Content-Type", "application/json").body(approval.to_string());
    Response::from_request(approve).await.expect(201);
    assert!(is_compliant(&service, 'c', PROD).await);
    assert!(!is_compliant(&service, 'c', "environment_name=stage").await);
    put_policy(&service, ADMIN, "approved", "approval: {count: 1}").await.expect(201);
    assert!(!is_compliant(&service, 'c', "policy_name=approved").await);
    // Namespaces are known where the artifact runs.
    let named = "attestations: [{name: scan, type: snyk, if: '${{ \"shop\" in namespaces }}'}]";
    put_policy(&service, ADMIN, "shop", named).await.expect(201);
    attach(&service, "stage", &["shop"]).await.expect(200);
    put_policy(
        &service,
        ADMIN,
        "named",
        "attestations: [{name: s, type: snyk, if: '${{ matches(artifact.name, \"^registry/\") }}'}]",
    )
    .await
    .expect(201);
    report_artifact(&service, ATTESTER, &artifact_without_trail('d')).await.expect(201);
    let unknown = gate(&service, 'd', "policy_name=shop").await;
    assert_eq!(unknown["compliant"], true);
    assert_eq!(unknown["message"], "the artifact does not run there: conditions on namespaces see none");
    assert!(!is_compliant(&service, 'd', "policy_name=named").await);
    run(&service, "stage", "d").await;
    let reasons = &gate(&service, 'd', "environment_name=stage").await["policy_evaluations"][1]["reasons"];
    assert_eq!(reasons[0]["text"], "shop v1: scan (snyk) of the flow cart is missing");
}

fn artifact_without_trail(digit: char) -> Value {
    let mut artifact = artifact(digit, "");
    artifact
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["trail_name", "template_reference_name"].contains(&&**name));
    artifact
}

async fn artifact_is_checked_against_the_templates_of_its_flows(database: Database) {
    let service = TestService::start(database).await;
    let statuses = async |digit| {
        let answer = gate(&service, digit, "").await;
        assert_eq!(answer["scope"], "flow");
        let flows = answer["flows"].as_array().unwrap().iter().map(|flow| {
            let statuses = flow["compliance_status"]["attestations_statuses"].as_array().unwrap();
            let statuses = statuses.iter().map(|one| {
                let text = |field: &str| one[field].as_str().unwrap().to_owned();
                format!(
                    " {}={}{}",
                    text("attestation_name"),
                    text("status"),
                    if one["is_compliant"] == true { "" } else { "!" }
                )
            });
            let trail = flow["trail"].as_str().unwrap_or("-");
            format!("{} {trail}{}", flow["flow"].as_str().unwrap(), statuses.collect::<String>())
        });
        (answer["compliant"] == true, flows.collect::<Vec<_>>())
    };
    expect_not_found(&service, 'a', "", "any flow").await;
    begin(&service, "t1").await;
    report_artifact(&service, ATTESTER, &artifact('a', "t1")).await.expect(201);
    assert_eq!(statuses('a').await, (false, vec!["cart t1 review=MISSING! unit=MISSING!".to_owned()]));
    // Another artifact of the trail has its own attestations of the same name.
    report_artifact(&service, ATTESTER, &json!({"fingerprint": digest('b'), "trail_name": "t1", "template_reference_name": "web",
                       "filename": "registry/web:1", "git_commit": "c".repeat(40), "build_url": "https://x", "commit_url": "https://x"}))
        .await.expect(201);
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    attest(&service, "cart", "t1", "unit", 'b', 1).await;
    let review =
        service.request(reqwest::Method::POST, ADMIN, "/attestations/acme/cart/trail/t1/pull_request");
    let review = review
        .multipart(crate::service::form(&json!({"attestation_name": "review", "pull_requests": [
        {"merge_commit": "c", "url": "https://x", "state": "MERGED", "approvers": ["kim"]}]})));
    Response::from_request(review).await.expect(201);
    assert_eq!(statuses('a').await, (true, vec!["cart t1 review=COMPLETE unit=COMPLETE".to_owned()]));
    assert_eq!(statuses('b').await, (false, vec!["cart t1 review=COMPLETE unit=COMPLETE!".to_owned()]));
    // An attestation in a later trail of the flow counts too, and an unexpected one if it fails.
    attest(&service, "cart", "nightly", "scan", 'a', 1).await;
    assert_eq!(
        statuses('a').await,
        (false, vec!["cart t1 review=COMPLETE unit=COMPLETE scan=COMPLETE!".to_owned()])
    );
    attest(&service, "cart", "nightly", "scan", 'a', 0).await;
    // Each flow counts, unless the request names one.
    put_form(
        &service,
        ADMIN,
        "/flows/acme/template_file",
        &json!({"name": "web"}),
        Some("version: 1\ntrail: {attestations: [{name: e2e, type: junit}]}"),
    )
    .await
    .expect(201);
    attest(&service, "web", "w1", "e2e", 'a', 1).await;
    let (is_compliant_everywhere, flows) = statuses('a').await;
    assert_eq!((is_compliant_everywhere, flows[1].as_str()), (false, "web w1 e2e=COMPLETE!"));
    assert!(is_compliant(&service, 'a', "flow_name=cart").await);
    assert!(!is_compliant(&service, 'a', "flow_name=web").await);
    let unknown = service.get(READER, &path('a', "flow_name=other")).await.expect(404).json();
    assert_eq!(unknown["message"], "flow other not found");
    // A flow with an empty template requires nothing.
    put_form(&service, ADMIN, "/flows/acme/template_file", &json!({"name": "empty"}), Some("version: 1"))
        .await
        .expect(201);
    let mut reported = artifact_without_trail('c');
    reported["filename"] = json!("c");
    let report = service.request(reqwest::Method::POST, ADMIN, "/artifacts/acme/empty");
    let report = report.header("Content-Type", "application/json").body(reported.to_string());
    Response::from_request(report).await.expect(201);
    assert_eq!(statuses('c').await, (true, vec!["empty -".to_owned()]));
}

async fn template_that_changes_by_operation_changes_the_verdicts(database: Database) {
    let service = TestService::start_with(database, Options::evaluating_often()).await;
    run(&service, "prod", "a").await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    put_policy(&service, ADMIN, "trails", "trail-compliance: {required: true}").await.expect(201);
    attach(&service, "prod", &["trails"]).await.expect(200);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    let template =
        |name: &str| format!("version: 1\ntrail: {{attestations: [{{name: {name}, type: junit}}]}}");
    let flow = json!({"name": "cart"});
    let change = async |name: &str| {
        put_form(&service, ATTESTER, "/flows/acme/template_file", &flow, Some(&template(name)))
            .await
            .expect(200);
    };
    change("e2e").await;
    let not = r#"prod NON-COMPLIANT ["trails v1: the trail t1 of the flow cart is not compliant"]"#;
    eventually("the verdict follows the template", async || verdicts(&service).await == [not]).await;
    assert!(!is_compliant(&service, 'a', PROD).await);
    change("unit").await;
    eventually("the verdict follows the template", async || {
        verdicts(&service).await == ["prod COMPLIANT []"]
    })
    .await;
}

async fn invalid_request_is_rejected_with_the_parameter(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    put_policy(&service, ADMIN, "p", UNIT).await.expect(201);
    let many = "policy_name=p&".repeat(11);
    for (query, field, why) in [
        ("environment_name=nowhere", "environment_name", "environment nowhere not found"),
        ("environment_name=a/b", "environment_name", "letter or digit"),
        ("environment_name=prod&policy_name=p", "policy_name", "no policy together with environment_name"),
        ("policy_name=p&policy_name=q", "policy_name", "policy q not found"),
        ("policy_name=", "policy_name", ""),
        (many.trim_end_matches('&'), "policy_name", "at most 10 policies"),
        ("flow_name=a&flow_name=b", "flow_name", "must not occur twice"),
        ("flow_name=%20", "flow_name", ""),
        ("flow=cart", "flow", "expected one of environment_name, flow_name, policy_name"),
    ] {
        service.get(READER, &path('a', query)).await.assert_field_error(field, why);
    }
    for fingerprint in ["abc".to_owned(), digest('A'), format!("sha256:{}", digest('a'))] {
        let refused = service.get(READER, &format!("/asserts/acme/fingerprint/{fingerprint}")).await;
        refused.assert_field_error("fingerprint", "expected 64 lowercase hex digits");
    }
    for (token, expected) in
        [(ADMIN, 200), (READER, 200), (APPROVER, 200), (ATTESTER, 403), (REPORTER, 403), (STRANGER, 403)]
    {
        service.get(token, &path('a', "policy_name=p")).await.expect(expected);
    }
    // Another organization has its own artifacts.
    let foreign = path('a', "").replace("/acme/", "/stranger/");
    service.get(STRANGER, &foreign).await.expect(404);
    service.get("guessed", &path('a', "")).await.expect(401);
}

async fn failed_tests_of_a_refused_artifact_are_named(database: Database) {
    const RESULTS: &str = r#"<testsuite name="s"><testcase classname="com.acme.PriceTest" name="rounds"><failure/></testcase>
        <testcase classname="PriceTest" name="adds"><error/></testcase><testcase classname="A" name="b"/></testsuite>"#;
    let service = TestService::start(database).await;
    put_policy(&service, ADMIN, "tested", TESTED).await.expect(201);
    attach_to_new(&service, "prod", "tested").await;
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "s", "total": 3, "failures": 1, "errors": 1}],
    });
    let form = form(&data).part("attachment_file", Part::text(RESULTS).file_name("r.xml"));
    service.attest(ADMIN, "cart", "t1", form).await.expect(201);
    run(&service, "prod", "a").await;
    let answer = gate(&service, 'a', PROD).await;
    assert_eq!(answer["artifact_name"], "shop/cart:a");
    let reason = &answer["policy_evaluations"][0]["reasons"][0];
    let expected = "tested v1: unit (junit) failed, 2 of 3 (PriceTest.rounds, PriceTest.adds), trail t1";
    assert_eq!(reason["text"], expected);
    let id = reason["attestation"]["attestation_id"].as_str().unwrap();
    let page = format!("{}/ui/acme/flows/cart/trails/t1/attestations/{id}", service.base);
    assert_eq!(
        reason["attestation"],
        json!({"attestation_id": id, "trail_name": "t1", "html_url": page, "tests": 3, "failed": 2,
               "failed_tests": ["PriceTest.rounds", "PriceTest.adds"]})
    );
    // The recorded reason does not change with the attestation.
    assert_eq!(
        verdicts(&service).await,
        [r#"prod NON-COMPLIANT ["tested v1: unit (junit) of the flow cart failed"]"#]
    );
    // Another one, without a file, is the latest.
    attest(&service, "cart", "t2", "unit", 'a', 1).await;
    let answer = gate(&service, 'a', PROD).await;
    let text = answer["policy_evaluations"][0]["reasons"][0]["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("tested v1: unit (junit) failed, 1 of ") && text.ends_with(", trail t2"),
        "{text}"
    );
}

async fn attach_to_new(service: &TestService, environment: &str, policy: &str) {
    let body = json!({"name": environment, "type": "K8S"});
    put(service, ADMIN, "/environments/acme", &body).await.expect(201);
    attach(service, environment, &[policy]).await.expect(200);
}

crate::service::on_both!(
    failed_tests_of_a_refused_artifact_are_named,
    untested_artifact_is_stopped_and_tested_one_passes_before_it_runs,
    allow_list_approvals_and_names_count_as_in_the_evaluation,
    artifact_is_checked_against_the_templates_of_its_flows,
    template_that_changes_by_operation_changes_the_verdicts,
);

crate::service::on_sqlite!(invalid_request_is_rejected_with_the_parameter);
