//! Named policies: created, attached and detached by operation or by the bootstrap file, and the verdicts that follow.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::test_service::bootstrap;
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, REPORTER, Response, STRANGER, TestService, digest, form,
    in_words, pod,
};

const SCHEMA: &str = "_schema: https://example.com/schemas/policy/environment/v1";

/// A policy file with these artifacts.
pub(crate) fn policy_file(artifacts: &str) -> String {
    format!("{SCHEMA}\nartifacts: {{{artifacts}}}\n")
}

pub(crate) const UNIT: &str = "attestations: [{name: unit, type: junit}]";
pub(crate) const TESTED: &str = "provenance: {required: true}, attestations: [{name: unit, type: junit}]";

pub(crate) fn policy_form(payload: &Value, file: &str) -> Form {
    let part = Part::bytes(file.as_bytes().to_vec()).file_name("policy.yaml");
    Form::new().text("payload", payload.to_string()).part("policy_file", part)
}

pub(crate) async fn put(service: &TestService, token: &str, name: &str, artifacts: &str) -> Response {
    let payload = json!({"name": name, "description": "d", "comment": "c", "type": "env"});
    let form = policy_form(&payload, &policy_file(artifacts));
    Response::from_request(service.request(Method::PUT, token, "/policies/acme").multipart(form)).await
}

async fn change(service: &TestService, method: Method, environment: &str, names: &[&str]) -> Response {
    let path = format!("/environments/acme/{environment}/policies");
    // As the public client sends it.
    let request = service.request(method, ADMIN, &path).body(json!({ "policy_names": names }).to_string());
    Response::from_request(request).await
}

pub(crate) async fn attach(service: &TestService, environment: &str, names: &[&str]) -> Response {
    change(service, Method::POST, environment, names).await
}

pub(crate) async fn attest(
    service: &TestService,
    flow: &str,
    trail: &str,
    name: &str,
    digit: char,
    failures: u32,
) {
    let data = json!({
        "attestation_name": name, "artifact_fingerprint": digest(digit),
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, flow, trail, form(&data)).await.expect(201);
}

/// The compliance and reasons of all open verdicts, by environment and artifact.
pub(crate) async fn verdicts(service: &TestService) -> Vec<String> {
    let verdicts = "SELECT e.name || ' ' || v.compliance || ' ' || v.reasons FROM verdicts v
                      JOIN environments e ON e.id = v.environment WHERE v.until_at IS NULL
                    ORDER BY e.name, v.fingerprint";
    in_words(service.database.rows(verdicts).await)
}

pub(crate) async fn run(service: &TestService, environment: &str, digits: &str) {
    let pods: Vec<_> = digits
        .chars()
        .map(|digit| pod(&format!("p-{digit}"), &format!("shop/cart:{digit}"), digit))
        .collect();
    service.report(ADMIN, environment, report(&pods)).await.expect(201);
}

async fn policy_is_created_attached_changed_and_detached(database: Database) {
    let service = TestService::start(database).await;
    run(&service, "prod", "ab").await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    put(&service, ADMIN, "prod-rules", TESTED).await.expect(201);
    attach(&service, "prod", &["prod-rules"]).await.expect(200);
    // Attached policies stay.
    attach(&service, "prod", &["prod-rules"]).await.expect(200);
    assert_eq!(
        verdicts(&service).await,
        [
            "prod COMPLIANT []",
            r#"prod NON-COMPLIANT ["prod-rules v1: no flow holds the artifact","prod-rules v1: unit (junit) is missing"]"#,
        ]
    );
    // An attestation in whichever flow.
    attest(&service, "web", "t1", "unit", 'b', 0).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []", "prod COMPLIANT []"]);
    // The same file and description create no version; others do.
    put(&service, ADMIN, "prod-rules", TESTED).await.expect(200);
    put(&service, ADMIN, "prod-rules", "attestations: [{name: scan, type: snyk}]").await.expect(200);
    let policy = service.read("/policies/acme/prod-rules").await;
    assert_eq!(policy["consuming_envs"], json!(["prod"]));
    let versions: Vec<_> =
        policy["versions"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(versions, [json!(1), json!(2)]);
    assert_eq!(policy["versions"][0]["policy_yaml"], policy_file(TESTED));
    assert_eq!(
        (&policy["versions"][1]["created_by"], &policy["description"]),
        (&json!("admin"), &json!("d"))
    );
    assert!(policy["created_at"].is_f64() && policy["versions"][0]["timestamp"].is_f64(), "{policy}");
    let reason =
        |flow| format!(r#"prod NON-COMPLIANT ["prod-rules v2: scan (snyk) of the flow {flow} is missing"]"#);
    assert_eq!(verdicts(&service).await, [reason("cart"), reason("web")]);
    let list = service.read("/policies/acme").await;
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["versions"].as_array().unwrap().len(), 2);
    assert_eq!(list[0]["versions"][0].get("policy_yaml"), None);
    assert!(list[0]["versions"][1]["policy_yaml"].is_string());
    change(&service, Method::DELETE, "prod", &["prod-rules"]).await.expect(200);
    assert_eq!(service.read("/policies/acme/prod-rules").await["consuming_envs"], json!([]));
    assert_eq!(service.database.rows("SELECT compliance FROM environments").await, ["UNKNOWN"]);
    change(&service, Method::DELETE, "prod", &["prod-rules"]).await.expect(404);
    let events = "SELECT kind FROM events WHERE kind LIKE '%_ENV' ORDER BY occurred_at, id";
    let expected = ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV", "ON_NON_COMPLIANT_ENV"];
    assert_eq!(service.database.rows(events).await, expected);
    let content =
        service.database.rows("SELECT content FROM events WHERE kind = 'ON_NON_COMPLIANT_ENV'").await;
    assert!(
        content.concat().contains(r#""attestation_name":"scan","attestation_type":"snyk""#),
        "{content:?}"
    );
    assert!(content.concat().contains(r#""cause":{"type":"POLICY","by":"admin"}"#), "{content:?}");
    let audit =
        "SELECT change FROM audit WHERE actor = 'token admin' AND change LIKE '%prod-rules%' ORDER BY at, id";
    assert_eq!(
        service.database.rows(audit).await,
        [
            "the policy prod-rules has version 1",
            "attached prod-rules to the environment prod",
            "the policy prod-rules has version 2",
            "detached prod-rules from the environment prod",
        ]
    );
}

async fn trail_compliance_changes_with_attestations_and_with_the_template(database: Database) {
    let file = |generation, template: &str, tags: &str| {
        bootstrap(
            generation,
            &format!("    flows: [{{name: cart, template: {{{template}}}, tags: {{{tags}}}}}]"),
        )
    };
    let needs_unit = "attestations: [{name: unit, type: junit}]";
    let options = Options { bootstrap: file(1, needs_unit, ""), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    run(&service, "prod", "ab").await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    attest(&service, "cart", "t1", "lint", 'b', 0).await;
    let rule = "trail-compliance: {required: true, exceptions: [{if: '${{ flow.tags.level == \"low\" }}'}]}";
    put(&service, ADMIN, "trails", rule).await.expect(201);
    attach(&service, "prod", &["trails"]).await.expect(200);
    let compliant = vec!["prod COMPLIANT []"; 2];
    let not = vec![r#"prod NON-COMPLIANT ["trails v1: the trail t1 of the flow cart is not compliant"]"#; 2];
    assert_eq!(verdicts(&service).await, compliant);
    // An attestation to the trail changes the verdict of all of its artifacts.
    attest(&service, "cart", "t1", "unit", 'a', 1).await;
    assert_eq!(verdicts(&service).await, not);
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    assert_eq!(verdicts(&service).await, compliant);
    let needs_more = "attestations: [{name: unit, type: junit}, {name: e2e, type: junit}]";
    service.reload(&file(2, needs_more, "")).await;
    assert_eq!(verdicts(&service).await, not);
    service.reload(&file(3, needs_more, "level: low")).await;
    assert_eq!(verdicts(&service).await, compliant);
}

async fn trail_compliance_applies_to_artifacts_that_were_only_reported_in_the_trail(database: Database) {
    let flow = "    flows: [{name: cart, template: {attestations: [{name: review, type: junit}]}}]";
    let options = Options { bootstrap: bootstrap(1, flow), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let review = async |trail: &str, failures: u32| {
        let data = json!({
            "attestation_name": "review",
            "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
        });
        service.attest(ADMIN, "cart", trail, form(&data)).await.expect(201);
    };
    let report_in = async |trail: &str| {
        let reported = json!({"fingerprint": digest('a'), "filename": "cart:1", "git_commit": "c".repeat(40),
                              "build_url": "https://x", "commit_url": "https://x", "trail_name": trail});
        let request = service.request(Method::POST, ADMIN, "/artifacts/acme/cart");
        let request = request.header("Content-Type", "application/json").body(reported.to_string());
        Response::from_request(request).await.expect(201);
    };
    review("t1", 1).await;
    report_in("t1").await;
    put(&service, ADMIN, "trails", "trail-compliance: {required: true}").await.expect(201);
    run(&service, "prod", "a").await;
    attach(&service, "prod", &["trails"]).await.expect(200);
    let not = r#"prod NON-COMPLIANT ["trails v1: the trail t1 of the flow cart is not compliant"]"#;
    assert_eq!(verdicts(&service).await, [not]);
    review("t1", 0).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    review("t1", 1).await;
    assert_eq!(verdicts(&service).await, [not]);
    // The trail of the latest report counts.
    review("t2", 0).await;
    report_in("t2").await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    report_in("t1").await;
    assert_eq!(verdicts(&service).await, [not]);
    // A later report without a trail, and a trail of another flow that complies, do not hide it.
    let without_trail = json!({"fingerprint": digest('a'), "filename": "cart:1", "git_commit": "c".repeat(40),
                               "build_url": "https://x", "commit_url": "https://x"});
    let request = service.request(Method::POST, ADMIN, "/artifacts/acme/cart");
    let request = request.header("Content-Type", "application/json").body(without_trail.to_string());
    Response::from_request(request).await.expect(201);
    attest(&service, "web", "t1", "unit", 'a', 0).await;
    assert_eq!(verdicts(&service).await, [not]);
}

async fn namespaces_and_approvals_are_evaluated(database: Database) {
    let approval = |by: &str| {
        let sign_off = format!("{{by: {by}, at: 2026-09-01T12:00:00Z}}");
        let artifact = format!("artifact: {}, base: {}, name: cart", digest('a'), digest('b'));
        bootstrap(
            if by == "kim" { 2 } else { 3 },
            &format!(
                "    flows: [{{name: cart, approvals: [{{number: 1, {artifact}, state: APPROVED, approvals: [{sign_off}]}}]}}]"
            ),
        )
    };
    let service = TestService::start(database).await;
    run(&service, "prod", "a").await;
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "git_commit_info": {"sha1": "0123456789012345678901234567890123456789", "author": "Kim <kim@example.com>"},
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let scan = "attestations: [{name: scan, type: snyk, if: '${{ \"shop\" in namespaces }}'}]";
    put(&service, ADMIN, "shop", scan).await.expect(201);
    put(&service, ADMIN, "pay", &scan.replace("\"shop\"", "\"pay\"")).await.expect(201);
    put(&service, ADMIN, "four-eyes", "approval: {not_author: true}").await.expect(201);
    attach(&service, "prod", &["pay"]).await.expect(200);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    attach(&service, "prod", &["shop"]).await.expect(200);
    let missing = r#"prod NON-COMPLIANT ["shop v1: scan (snyk) of the flow cart is missing"]"#;
    assert_eq!(verdicts(&service).await, [missing]);
    // The pod moves to another namespace.
    let mut moved = pod("p-a", "shop/cart:a", 'a');
    moved["namespace"] = json!("web");
    service.report(ADMIN, "prod", report(&[moved])).await.expect(200);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    attach(&service, "prod", &["four-eyes"]).await.expect(200);
    let open = r#"prod NON-COMPLIANT ["four-eyes v1: not approved by others than the author"]"#;
    assert_eq!(verdicts(&service).await, [open]);
    service.reload(&approval("kim")).await;
    assert_eq!(verdicts(&service).await, [open]);
    service.reload(&approval("lee")).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
}

/// The verdict on an artifact whose commit several requests name, each a flow, an attestation and an author.
async fn approval_by_the_author_does_not_count_whoever_else_is_named(database: Database) {
    const ADMINISTRATOR: &str = "Admin <admin@example.com>";
    let service = TestService::start(database).await;
    let cases = [
        // Nobody is named, or only by another flow, also with the origin.
        (
            vec![("cart", "unit", "")],
            "not approved: the author of the commit is unknown: the flow cart names none",
        ),
        (
            vec![("cart", "unit", ""), ("other", "unit", "Nobody")],
            "not approved: the author of the commit is unknown: the flow cart names none",
        ),
        (
            vec![("cart", "unit", ""), ("cart", "unit", "Nobody")],
            "not approved: the author of the commit is unknown: the flow cart names none",
        ),
        (
            vec![("other", "unit", "Nobody"), ("cart", "unit", "")],
            "not approved: the author of the commit is unknown: the flow cart names none",
        ),
        (vec![("cart", "unit", ADMINISTRATOR)], "not approved by others than the author"),
        (vec![("cart", "unit", "Lee <lee@example.com>")], ""),
        // Another attestation, one that supersedes the first, and another flow before and after.
        (
            vec![("cart", "unit", ADMINISTRATOR), ("cart", "lint", "Nobody")],
            "not approved: the author of the commit is Admin <admin@example.com> in the flow cart, but Nobody in the flow cart",
        ),
        (
            vec![("cart", "unit", ADMINISTRATOR), ("cart", "unit", "Nobody")],
            "not approved: the author of the commit is Admin <admin@example.com> in the flow cart, but Nobody in the flow cart",
        ),
        (
            vec![("cart", "unit", ADMINISTRATOR), ("other", "unit", "Nobody")],
            "not approved: the author of the commit is Admin <admin@example.com> in the flow cart, but Nobody in the flow other",
        ),
        (
            vec![("other", "unit", "Nobody"), ("cart", "unit", ADMINISTRATOR)],
            "not approved: the author of the commit is Nobody in the flow other, but Admin <admin@example.com> in the flow cart",
        ),
        // One person, also without the address.
        (vec![("cart", "unit", "Lee <lee@example.com>"), ("other", "unit", "Lee")], ""),
        (
            vec![("report", "", "Nobody"), ("cart", "unit", ADMINISTRATOR)],
            "not approved: the author of the commit is Nobody in the flow cart, but Admin <admin@example.com> in the flow cart",
        ),
    ];
    let digits = &"0123456789abcdef"[..cases.len()];
    run(&service, "prod", digits).await;
    put(&service, ADMIN, "four-eyes", "approval: {not_author: true}").await.expect(201);
    attach(&service, "prod", &["four-eyes"]).await.expect(200);
    for (digit, (named, expected)) in digits.chars().zip(&cases) {
        for (flow, name, author) in named {
            let commit = json!({"sha1": "0123456789012345678901234567890123456789", "author": author});
            if *flow == "report" {
                let body =
                    json!({"fingerprint": digest(digit), "filename": "cart", "git_commit_info": commit});
                let request = service.request(Method::POST, ADMIN, "/artifacts/acme/cart");
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                Response::from_request(request).await.expect(201);
                continue;
            }
            let data = json!({
                "attestation_name": name, "artifact_fingerprint": digest(digit), "git_commit_info": commit,
                "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
                "repo_info": {"name": format!("acme/{flow}")},
            });
            service.attest(ADMIN, flow, "t", form(&data)).await.expect(201);
        }
        let approve = json!({"artifact_fingerprint": digest(digit), "approvals": [{"state": "APPROVED"}]});
        let request = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
        let request = request.header("Content-Type", "application/json").body(approve.to_string());
        Response::from_request(request).await.expect(201);
        let verdict = format!(
            "SELECT compliance || ' ' || reasons FROM verdicts WHERE until_at IS NULL AND fingerprint = {}",
            service.database.bytes(&digest(digit))
        );
        let verdict = in_words(service.database.rows(&verdict).await);
        let expected = if expected.is_empty() {
            "COMPLIANT []".to_owned()
        } else {
            format!("NON-COMPLIANT [\"four-eyes v1: {expected}\"]")
        };
        assert_eq!(verdict, [expected], "{named:?}");
    }
    let path = format!("/ui/acme/artifacts/{}", digest('6'));
    let page = crate::service::support::browser::Browser::read_page(&service, &path).await;
    assert!(page.contains("but Nobody in the flow cart"), "{page}");
}

/// Moves the attestation `unit` in the flow `cart`, and the expiry that followed from it, back by one hour.
async fn attestation_expires(service: &TestService) {
    for statement in [
        "UPDATE latest_attestations SET created_at = created_at - 3600000000",
        "UPDATE environments SET compliant_until = compliant_until - 3600000000, evaluate_at = evaluate_at - 3600000000",
    ] {
        service.database.execute(statement).await;
    }
    crate::service::eventually("the attestation expires", async || {
        verdicts(service).await.concat().contains("fresh v1: unit (junit) of the flow cart is too old since ")
    })
    .await;
}

async fn attestation_that_becomes_too_old_makes_the_environment_non_compliant(database: Database) {
    let service = TestService::start_with(database, Options::evaluating_often()).await;
    run(&service, "prod", "a").await;
    put(&service, ADMIN, "fresh", "attestations: [{name: unit, type: junit, max_age: 1h}]").await.expect(201);
    attach(&service, "prod", &["fresh"]).await.expect(200);
    attest(&service, "cart", "t", "unit", 'a', 0).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    attestation_expires(&service).await;
}

/// The artifact becomes part of a flow whose attestations expire, and stays compliant until then.
async fn attestation_that_is_required_only_now_becomes_too_old(database: Database) {
    let service = TestService::start_with(database, Options::evaluating_often()).await;
    run(&service, "prod", "a").await;
    let fresh = "attestations: [{name: unit, type: junit, max_age: 1h, if: '${{ flow.name == \"cart\" }}'}]";
    put(&service, ADMIN, "fresh", fresh).await.expect(201);
    attach(&service, "prod", &["fresh"]).await.expect(200);
    attest(&service, "other", "t", "unit", 'a', 0).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    assert_eq!(service.database.rows("SELECT evaluate_at FROM environments").await, [""], "nothing expires");
    attest(&service, "cart", "t", "unit", 'a', 0).await;
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    attestation_expires(&service).await;
}

async fn image_pattern_of_the_allow_list_covers_images_by_name(database: Database) {
    let file = |generation, image: &str| {
        bootstrap(
            generation,
            &format!(
                "    environments: [{{name: prod, policy: {{approval: true}},
                                    allowed: [{{image: \"{image}\", reason: system, author: kim}}]}}]"
            ),
        )
    };
    let options = Options { bootstrap: file(1, "shop/**"), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    run(&service, "prod", "a").await;
    assert_eq!(verdicts(&service).await, [r#"prod COMPLIANT ["allowed by kim: system"]"#]);
    let page =
        crate::service::support::browser::Browser::read_page(&service, "/ui/acme/environments/prod").await;
    assert!(page.contains("on the allow-list; allowed by kim: system"), "{page}");
    service.reload(&file(2, "web/**")).await;
    assert_eq!(verdicts(&service).await, [r#"prod NON-COMPLIANT ["environment:prod v1: not approved"]"#]);
    // An attestation keeps it allowed.
    service.reload(&file(3, "shop/cart")).await;
    attest(&service, "cart", "t", "unit", 'a', 1).await;
    assert_eq!(verdicts(&service).await, [r#"prod COMPLIANT ["allowed by kim: system"]"#]);
}

async fn declared_policy_is_the_files_and_a_removed_one_is_detached(database: Database) {
    let declared = |generation, policies: &str, attached: &str| {
        bootstrap(
            generation,
            &format!(
                "    policies: [{policies}]\n    environments: [{{name: prod, policies: [{attached}]}}]"
            ),
        )
    };
    let inline = |artifacts: &str| {
        format!("{{name: inline, description: d, text: {}}}", json!(policy_file(artifacts)))
    };
    let files = vec![("unit.yaml", policy_file(UNIT))];
    let both = format!("{}, {{name: from-file, file: unit.yaml}}", inline("approval: {count: 1}"));
    let options = Options { bootstrap: declared(1, &both, "inline, from-file"), files, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    run(&service, "prod", "a").await;
    assert_eq!(
        verdicts(&service).await,
        [r#"prod NON-COMPLIANT ["from-file v1: unit (junit) is missing","inline v1: not approved"]"#]
    );
    let page =
        crate::service::support::browser::Browser::read_page(&service, "/ui/acme/environments/prod").await;
    for version in ["/from-file\"><bdi>from-file v1</bdi>", "/inline\"><bdi>inline v1</bdi>"] {
        assert!(page.contains(version), "{page}");
    }
    // Operations on what the file declares are refused.
    let refused = put(&service, ADMIN, "inline", UNIT).await.expect(400);
    assert!(refused.text.contains("the bootstrap file declares the policy"), "{refused:?}");
    let refused = change(&service, Method::DELETE, "prod", &["inline"]).await.expect(400);
    assert!(refused.text.contains("the bootstrap file attaches the policy"), "{refused:?}");
    // An attachment by operation stays after a reload, unless its policy is removed.
    put(&service, ADMIN, "own", "provenance: {required: true}").await.expect(201);
    attach(&service, "prod", &["own"]).await.expect(200);
    service.reload(&declared(2, &inline("approval: {count: 2}"), "")).await;
    assert_eq!(verdicts(&service).await, [r#"prod NON-COMPLIANT ["own v1: no flow holds the artifact"]"#]);
    let list = service.read("/policies/acme").await;
    let names: Vec<_> = list.as_array().unwrap().iter().map(|policy| policy["name"].clone()).collect();
    assert_eq!(names, [json!("inline"), json!("own")]);
    service.get(READER, "/policies/acme/from-file").await.expect(404);
    // The file takes a policy over; its versions continue.
    let own = format!("{{name: own, text: {}}}", json!(policy_file(UNIT)));
    service.reload(&declared(3, &own, "own")).await;
    assert_eq!(verdicts(&service).await, [r#"prod NON-COMPLIANT ["own v2: unit (junit) is missing"]"#]);
    let changes =
        "SELECT change FROM audit WHERE actor LIKE 'bootstrap%' AND change LIKE '%own%' ORDER BY at, id";
    assert_eq!(
        service.database.rows(changes).await,
        ["the policy own has version 2", "the policy own is attached to the environment prod",]
    );
    service.reload(&declared(4, "", "")).await;
    assert_eq!(service.database.rows("SELECT compliance FROM environments").await, ["UNKNOWN"]);
    put(&service, ADMIN, "own", UNIT).await.expect(201);
    let versions = service.read("/policies/acme/own").await["versions"].as_array().unwrap().len();
    assert_eq!(versions, 3);
}

async fn invalid_policy_is_rejected_and_nothing_is_recorded(database: Database) {
    let service = TestService::start(database).await;
    let payload = json!({"name": "p", "description": "", "comment": "", "type": "env"});
    let send = async |form: Form| {
        Response::from_request(service.request(Method::PUT, ADMIN, "/policies/acme").multipart(form)).await
    };
    let rules: Vec<_> = (0..1_000).map(|n| format!("    - {{name: a{n}, type: junit}}\n")).collect();
    let rules = rules.concat();
    for (file, expected) in [
        ("artifacts: {}".to_owned(), "missing field `_schema`"),
        (policy_file("attestation: []"), "line 2"),
        (policy_file("attestations: [{type: junit, if: '${{ flow.name = 1 }}'}]"), "at character 15"),
        (
            policy_file(
                "attestations: [{type: junit, if: '${{ matches(flow.name, \"(a{1000}){1000}\") }}'}]",
            ),
            "invalid regular expression",
        ),
        (
            format!("{SCHEMA}\nartifacts:\n  attestations:\n{rules}"),
            "expected at most 100 attestations, got 1000",
        ),
        (format!("{SCHEMA}\nx: &x [*x]"), "invalid policy file"),
        ("\u{0}".to_owned(), "without NUL"),
    ] {
        send(policy_form(&payload, &file)).await.assert_field_error("policy_file", expected);
    }
    send(policy_form(&payload, &"a".repeat(200 * 1024))).await.expect(413);
    let part = || Part::bytes(policy_file(UNIT).into_bytes()).file_name("policy.yaml");
    send(Form::new().part("policy_file", part())).await.assert_field_error("payload", "missing part");
    send(Form::new().text("payload", payload.to_string()))
        .await
        .assert_field_error("policy_file", "missing part");
    for (payload, field) in [
        (json!({"name": "a/b"}), "name"),
        (json!({"name": "p", "type": "flow"}), "type"),
        (json!({"name": "p", "description": 1}), "description"),
    ] {
        send(policy_form(&payload, &policy_file(UNIT))).await.assert_field_error(field, "");
    }
    assert_eq!(service.read("/policies/acme").await, json!([]));
    // Names that do not exist, and too many of them.
    run(&service, "prod", "a").await;
    attach(&service, "prod", &["p"]).await.expect(404);
    attach(&service, "prod", &[]).await.assert_field_error("policy_names", "at least one");
    attach(&service, "prod", &["a/b"]).await.expect(400);
    let names: Vec<String> = (0..11).map(|n| format!("p{n}")).collect();
    for name in &names {
        put(&service, ADMIN, name, UNIT).await.expect(201);
    }
    attach(&service, "nowhere", &["p0"]).await.expect(404);
    attach(&service, "prod", &["p0", "missing"]).await.expect(404);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    attach(&service, "prod", &names).await.assert_field_error("policy_names", "at most 10");
    assert_eq!(service.database.rows("SELECT policy FROM policy_attachments").await, Vec::<String>::new());
    attach(&service, "prod", &names[..10]).await.expect(200);
}

async fn each_operation_requires_its_role_and_organization(database: Database) {
    let service = TestService::start(database).await;
    put(&service, ADMIN, "p", UNIT).await.expect(201);
    run(&service, "prod", "a").await;
    for token in [READER, REPORTER, ATTESTER, STRANGER] {
        put(&service, token, "p", TESTED).await.expect(403);
        for method in [Method::POST, Method::DELETE] {
            let path = "/environments/acme/prod/policies";
            let request =
                service.request(method, token, path).body(json!({"policy_names": ["p"]}).to_string());
            Response::from_request(request).await.expect(403);
        }
        let expected = if token == READER { 200 } else { 403 };
        service.get(token, "/policies/acme").await.expect(expected);
        service.get(token, "/policies/acme/p").await.expect(expected);
    }
    // Another organization has its own policies.
    service.get(STRANGER, "/policies/stranger/p").await.expect(404);
    assert_eq!(service.get(STRANGER, "/policies/stranger").await.json(), json!([]));
}

async fn policy_that_is_attached_while_it_is_replaced_applies_in_its_last_version(database: Database) {
    let service = TestService::start(database).await;
    put(&service, ADMIN, "p", "provenance: {required: true}").await.expect(201);
    for n in 0..4 {
        run(&service, &format!("env-{n}"), "a").await;
    }
    let attached = async {
        for n in 0..4 {
            attach(&service, &format!("env-{n}"), &["p"]).await.expect(200);
        }
    };
    let replaced = async {
        for count in 1..5 {
            put(&service, ADMIN, "p", &format!("approval: {{count: {count}}}")).await.expect(200);
        }
    };
    tokio::join!(attached, replaced);
    let expected: Vec<_> =
        (0..4).map(|n| format!(r#"env-{n} NON-COMPLIANT ["p v5: approved by 0 of 4 persons"]"#)).collect();
    crate::service::eventually("the queue is empty", async || verdicts(&service).await == expected).await;
}

async fn policy_name_with_a_space_is_shown_with_its_failures_and_its_link(database: Database) {
    let service = TestService::start(database).await;
    put(&service, ADMIN, "prod rules", UNIT).await.expect(201);
    run(&service, "prod", "a").await;
    attach(&service, "prod", &["prod rules"]).await.expect(200);
    let page =
        crate::service::support::browser::Browser::read_page(&service, "/ui/acme/policies/prod%20rules")
            .await;
    assert!(page.contains("unit (junit) is missing"), "{page}");
    let page =
        crate::service::support::browser::Browser::read_page(&service, "/ui/acme/environments/prod").await;
    assert!(page.contains("/prod%20rules\"><bdi>prod rules v1</bdi>"), "{page}");
    let snapshot = service.read("/snapshots/acme/prod/-1").await;
    let artifact = &snapshot["artifacts"][0];
    assert_eq!(artifact["reasons_for_incompliance"], json!(["prod rules v1: unit (junit) is missing"]));
    let rule = json!({"policy_name": "prod rules", "policy_version": 1, "number": 1});
    assert_eq!(artifact["reasons"][0]["rule"], rule);
}

crate::service::on_both!(
    policy_is_created_attached_changed_and_detached,
    trail_compliance_changes_with_attestations_and_with_the_template,
    trail_compliance_applies_to_artifacts_that_were_only_reported_in_the_trail,
    namespaces_and_approvals_are_evaluated,
    approval_by_the_author_does_not_count_whoever_else_is_named,
    attestation_that_becomes_too_old_makes_the_environment_non_compliant,
    attestation_that_is_required_only_now_becomes_too_old,
    image_pattern_of_the_allow_list_covers_images_by_name,
    declared_policy_is_the_files_and_a_removed_one_is_detached,
    invalid_policy_is_rejected_and_nothing_is_recorded,
    policy_that_is_attached_while_it_is_replaced_applies_in_its_last_version,
    policy_name_with_a_space_is_shown_with_its_failures_and_its_link,
);

crate::service::on_sqlite!(each_operation_requires_its_role_and_organization);
