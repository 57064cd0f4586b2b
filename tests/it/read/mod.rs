//! `list` and `get` with output to a pipe: requests, tables, JSON and YAML.

pub mod responses;
mod unknown_names;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::fake::{Reply, Server};
use crate::program::{Outcome, Program, TOKEN, once, supercargo};
use crate::read::responses::{COMMIT, FINGERPRINT};
use crate::service::report;
use crate::service::rules::policies::{UNIT, put};
use crate::service::{ADMIN, ATTESTER, Database, TestService, digest, form, pod};

/// A service that sends this response to every request.
fn service_with(response: &Value) -> Server {
    let response = response.to_string();
    Server::start(move |_| Reply::json(200, response.clone()))
}

fn run(server: &Server, line: &str) -> Outcome {
    supercargo().service(server).args(line.split(' ')).run()
}

/// Replaces ages in a table, which change from day to day.
fn without_ages(text: &str) -> String {
    regex::Regex::new(r"\b\d+d ago( +(?<next>\S))?")
        .unwrap()
        .replace_all(text, "AGO $next")
        .replace("AGO \n", "AGO\n")
}

/// Runs a command, asserts its requests and its JSON and YAML output, and returns the table.
fn table_of(answer: &Value, expected: &Value, line: &str, path: &str) -> String {
    let server = service_with(answer);
    let json = run(&server, &format!("{line} -o json"));
    assert_eq!(&serde_json::from_str::<Value>(&json.expect(0, &[]).stdout).unwrap(), expected, "{line}");
    let yaml = run(&server, &format!("{line} --output yaml"));
    assert_eq!(&serde_saphyr::from_str::<Value>(&yaml.expect(0, &[]).stdout).unwrap(), expected, "{line}");
    let table = run(&server, line);
    table.expect(0, &[]);
    for request in server.requests() {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        assert_eq!(
            format!("{} {}{query}", request.method, request.path),
            format!("GET /api/v2/{path}"),
            "{line}"
        );
    }
    without_ages(&table.stdout)
}

#[test]
fn trails_are_a_table_and_json_keeps_unknown_fields() {
    let answer =
        json!({"data": [responses::trail("a"), responses::trail("b")], "pagination": null, "more": 1});
    assert_eq!(
        table_of(&answer, &answer, "list trails", "trails/acme?page=1&per_page=20"),
        "\
FLOW  TRAIL  COMPLIANCE     COMMIT   BY  MODIFIED
cart  a      non-compliant  4f1c2e7  ci  AGO
cart  b      non-compliant  4f1c2e7  ci  AGO
"
    );
    // A bare array is wrapped in `data`.
    let bare = json!([responses::trail("a")]);
    let line = format!(
        "list trails --flow cart --flow-tag team=a&b=c --fingerprint {FINGERPRINT} --page 3 --per-page 500"
    );
    let path = format!(
        "trails/acme?flow=cart&flow_tag=team%3Da%26b%3Dc&fingerprint={FINGERPRINT}&page=3&per_page=500"
    );
    table_of(&bare, &json!({"data": bare}), &line, &path);
}

#[test]
fn attestations_are_filtered_by_days() {
    let answer = json!({"data": [responses::attestation("id-1")], "pagination": {"total": 1}});
    let line = "list attestations cart --from 2026-10-03 --to 2026-10-03";
    let path = "attestations/acme/cart?from_timestamp=1790985600&to_timestamp=1791071999&page=1&per_page=20";
    assert_eq!(
        table_of(&answer, &answer, line, path),
        "\
NAME        TYPE   RESULT  BY  RECEIVED  ID
unit-tests  junit  passed  ci  AGO id-1
"
    );
}

#[test]
fn endless_lists_and_huge_responses_are_rejected() {
    let pages = AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let page = pages.fetch_add(1, Ordering::Relaxed);
        let items: Vec<_> = (0..200_000).map(|n| format!(r#"{{"name":"{page}-{n}"}}"#)).collect();
        let more = r#""pagination":{"total":9000000000000000,"page_count":90000000000000}"#;
        Reply::json(200, format!(r#"{{"data":[{}],{more}}}"#, items.join(",")))
    });
    run(&server, "list trails --all").expect(6, &["more than 500000 items", "list one page at a time"]);
    assert_eq!(server.requests().len(), 3);

    for value in ["{}", "[[]]"] {
        let server =
            Server::start(move |_| Reply::json(200, format!("[{}0]", format!("{value},").repeat(6_000_000))));
        run(&server, "list trails").expect(6, &["200 OK with more than 10000000 JSON values"]);
    }
}

#[test]
fn notifications_and_an_action_are_printed_in_both_variants() {
    let answer = json!([responses::notification()]);
    assert_eq!(
        table_of(&answer, &answer, "list actions", "organizations/acme/environments_notifications"),
        "\
NUMBER  NAME           STATE    ENVIRONMENTS   TRIGGERS                              TARGETS                                                  LAST SUCCESS
7       tell the team  failing  prod, staging  ON_NON_COMPLIANT_ENV, ON_A_FULL_MOON  SLACK #alerts, WEBHOOK https://hooks.example.com, EMAIL  -
"
    );
    let answer = responses::action();
    assert_eq!(
        table_of(&answer, &answer, "get action 7", "actions/acme/7"),
        "\
number        7
name          tell the team
type          flow
state         no deliveries
environments  -
flows         cart
triggers      ON_SCALED_ARTIFACT
target        -
last success  -
last failure  -
created by    jo
created       -
modified      AGO
"
    );
}

/// A snapshot with an artifact of each state.
fn snapshot() -> Value {
    let artifact = |name: &str, compliance: &str, reasons: Value, pods: Value| {
        json!({
            "name": name, "fingerprint": FINGERPRINT, "compliant": compliance == "COMPLIANT",
            "compliance": compliance, "reasons": reasons, "pods": pods, "annotation": {"now": 2},
            "flow_name": "shop", "git_commit": COMMIT,
        })
    };
    let owner = |kind: &str, name: &str| json!({"namespace": "shop", "owner": {"kind": kind, "name": name, "is_inferred": true}});
    let missing = |policy: &str| {
        json!({"type": "missing_attestation", "attestation_name": "unit-tests", "flow_name": "cart",
               "rule": {"policy_name": policy, "policy_version": 1, "number": 1}})
    };
    let allowed = json!([{"type": "allowed", "author": "kim", "comment": "its publisher tests it"}]);
    json!({
        "environment": "prod", "index": 15.0, "is_latest": true, "as_of": 1_790_000_000.0,
        "compliance": "NON-COMPLIANT", "compliant": false, "warning": null, "new": 1,
        "artifacts": [
            artifact("mirror.example.com/web:1", "COMPLIANT", json!([]), json!({"w": owner("Deployment", "web")})),
            artifact("redis:8.2", "COMPLIANT", allowed, json!({"r": owner("StatefulSet", "redis")})),
            artifact("probe:2", "UNKNOWN", json!([]), json!({"probe-x": {"namespace": "ops"}})),
            artifact("reg:5000/shop/cart:5.3.1", "NON-COMPLIANT", json!([missing("a"), missing("b")]),
                     json!({"c": owner("Deployment", "cart"), "d": owner("CronJob", "bill")})),
        ],
    })
}

#[test]
fn snapshot_is_a_row_per_artifact_with_failures_first() {
    let answer = snapshot();
    assert_eq!(
        table_of(&answer, &answer, "get snapshot prod", "snapshots/acme/prod/~0"),
        "\
prod #15: non-compliant, 1 of 4
WORKLOAD            IMAGE            COMMIT   COMPLIANCE
cj/bill and 1 more  shop/cart:5.3.1  4f1c2e7  non-compliant: unit-tests of the flow cart is missing
pod/probe-x         probe:2          4f1c2e7  unknown
sts/redis           redis:8.2        4f1c2e7  compliant, allowed
deploy/web          web:1            4f1c2e7  compliant
"
    );
    let server = service_with(&answer);
    let wide = run(&server, "get snapshot prod -o wide");
    let cart = "shop       shop/cart:5.3.1  4f1c2e7  non-compliant: unit-tests of the flow cart is missing  \
                2     shop  4f9c5e0a7b3d  reg:5000/shop/cart:5.3.1  a v1: unit-tests of the flow cart is missing; b v1: ";
    assert!(wide.expect(0, &[]).stdout.contains(cart), "{}", wide.stdout);
    let markdown = run(&server, "get snapshot prod -o markdown");
    assert!(markdown.stdout.starts_with("prod \\#15: non-compliant, 1 of 4\n\n| WORKLOAD |"), "{markdown:?}");
}

#[test]
fn non_compliant_artifacts_of_a_snapshot_are_selected() {
    let server = service_with(&snapshot());
    let selected = run(&server, "get snapshot prod --non-compliant");
    let names = ["shop/cart:5.3.1", "web:1"].map(|name| selected.stdout.contains(name));
    assert_eq!((selected.stdout.lines().count(), names), (3, [true, false]), "{selected:?}");
    let json = run(&server, "get snapshot prod --non-compliant -o json");
    let json: Value = serde_json::from_str(&json.expect(0, &[]).stdout).unwrap();
    assert_eq!(json["artifacts"].as_array().unwrap().len(), 1);
    let mut compliant = snapshot();
    compliant["compliance"] = json!("COMPLIANT");
    compliant["artifacts"].as_array_mut().unwrap().retain(|artifact| artifact["compliant"] == true);
    let none = run(&service_with(&compliant), "get snapshot prod --non-compliant");
    assert_eq!(none.expect(0, &[]).stdout, "prod #15: compliant, 2 artifacts\n");
}

#[test]
fn snapshot_of_a_past_moment_names_the_moment_in_utc() {
    let server = service_with(&snapshot());
    let moment = "prod #15 as of 2026-09-21 14:13:20 UTC: non-compliant, 1 of 4";
    let shown = run(&server, "get snapshot prod@2026-09-21T14:13:20");
    assert_eq!(shown.expect(0, &[]).stdout.lines().next(), Some(moment));
    // So does an earlier snapshot.
    let mut earlier = snapshot();
    earlier["is_latest"] = json!(false);
    let shown = run(&service_with(&earlier), "get snapshot prod#15");
    assert_eq!(shown.stdout.lines().next(), Some(moment));
}

#[test]
fn short_digest_is_read_as_the_only_match_and_an_ambiguous_one_lists_them() {
    let other = FINGERPRINT.replace("4f9c5e0a7b3d", "4f9c5e0ffffff");
    let other = &other[..64];
    let server = Server::start({
        let other = other.to_owned();
        move |request| {
            let matches = match request.path.rsplit('/').next() {
                Some("4f9c5e0a7") => json!([FINGERPRINT]),
                Some("4f9c5e0") => json!([FINGERPRINT, other]),
                Some("ddddddd") => json!([]),
                _ => return Reply::json(200, r#"{"artifacts": [], "data": []}"#),
            };
            let artifacts = json!([{"fingerprint": FINGERPRINT, "name": "cart:5.3.1"}]);
            let found =
                json!({"resolved_to": {"fingerprints": {"matches": matches}}, "artifacts": artifacts});
            Reply::json(200, found.to_string())
        }
    });
    run(&server, "get artifact 4f9c5e0a7").expect(0, &[]);
    run(&server, "list trails --fingerprint sha256:4F9C5E0A7").expect(0, &[]);
    let paths: Vec<_> = server.requests().into_iter().map(|sent| sent.path + "?" + &sent.query).collect();
    assert_eq!(paths[1], format!("/api/v2/search/acme/sha/{FINGERPRINT}?"));
    assert_eq!(paths[3], format!("/api/v2/trails/acme?fingerprint={FINGERPRINT}&page=1&per_page=20"));
    for line in ["get artifact 4f9c5e0", "list approvals cart 4f9c5e0", "list trails --fingerprint 4f9c5e0"] {
        let list = format!("starts with 4f9c5e0: {FINGERPRINT} (cart:5.3.1), {other}\n");
        run(&server, line).expect(2, &[&list]);
    }
    run(&server, "get artifact ddddddd").expect(4, &["no artifact has a digest that starts with ddddddd"]);
    run(&server, "get artifact 4f9c5e").expect(2, &["at least its first 7 digits"]);
}

#[test]
fn approvals_are_printed_in_both_variants() {
    let answer = json!([responses::artifact_approval()]);
    let line = format!("list approvals cart {FINGERPRINT}");
    assert_eq!(
        table_of(&answer, &answer, &line, &format!("artifacts/acme/cart/{FINGERPRINT}/approvals")),
        "\
NUMBER  STATE     ARTIFACT    DIGEST        ENVIRONMENT  BY   MODIFIED
12      approved  cart:5.3.1  4f9c5e0a7b3d  any          kim  AGO
"
    );
    let answer = responses::approval();
    assert_eq!(
        table_of(&answer, &answer, "get approval cart 12", "approvals/acme/cart/12"),
        format!(
            "\
number       12
state        approved
artifact     cart:5.3.1
digest       {FINGERPRINT}
after        {}
environment  prod
description  may go
created      AGO
modified     AGO
signed off   kim, AGO : \"looks good\"
commit       {COMMIT}
",
            "b".repeat(64)
        )
    );
}

#[test]
fn live_artifacts_are_joined_with_commit_and_environment() {
    let answer = responses::live_artifacts();
    let path = "repos/acme/live-artifacts/acme%2Fcart?provider=gitlab";
    let table = table_of(&answer, &answer, "get live-artifacts acme/cart --provider gitlab", path);
    assert_eq!(
        table,
        "\
ENVIRONMENT  ARTIFACT                         DIGEST        COMMIT   COMPLIANCE     SNAPSHOT  SINCE
prod         registry.example.com/cart:5.3.1  4f9c5e0a7b3d  4f1c2e7  non-compliant  2         AGO
e9           gone                             -             -        a-new-word     -         -
"
    );
}

/// One row of each list, and the fields of each object.
#[test]
fn flows_artifacts_policies_and_search_results_are_tables() {
    let flow = json!({"name": "cart", "description": "", "latest_state": "INCOMPLETE", "tags": {"team": "shop"},
                      "latest_activity_at": 1_790_000_000, "new": 1});
    let artifact = json!({"filename": "cart:1", "fingerprint": FINGERPRINT, "git_commit": COMMIT, "state": "COMPLIANT",
                          "created_at": 1_790_000_000});
    let policy = json!({"name": "rules", "description": "strict", "created_at": 1_790_000_000,
                        "consuming_envs": ["prod", "test"],
                        "versions": [{"version": 1, "comment": "a"},
                                     {"version": 2, "comment": "b", "created_by": "bob", "timestamp": 1_790_000_000}]});
    let found = json!({"resolved_to": {"commits": {"has_more": true}}, "artifacts": [
        {"name": "cart:1", "fingerprint": FINGERPRINT, "flow": "cart", "git_commit": COMMIT,
         "compliance_state": "COMPLIANT", "running_in": ["prod", "test"], "exited_from": []},
        {"name": "cart:2", "fingerprint": FINGERPRINT, "has_provenance": false},
    ]});
    let trail = json!({"name": "t", "compliance_state": "NON-COMPLIANT", "events": [
        {"type": "trail_reported", "timestamp": 1_790_000_000},
        {"type": "artifact_attestation_reported", "timestamp": 1_790_000_000, "template_reference_name": "unit",
         "target_artifact": "app", "is_compliant": false},
        {"type": "artifact_started_running", "timestamp": 1_790_000_000, "environment_name": "prod", "snapshot_index": 7},
    ]});
    let attestation = json!({"data": [{"attestation_name": "unit", "attestation_type": "junit", "is_compliant": true,
                                       "has_audit_package": true}]});
    let table = |answer: &Value, line: &str, path: &str| table_of(answer, answer, line, path);
    let expected = "\
NAME  DESCRIPTION  COMPLIANCE  ACTIVITY  TAGS
cart  -            incomplete  AGO team=shop
";
    assert_eq!(table(&json!([flow]), "list flows", "flows/acme"), expected);
    let path = "flows/acme?search_by_name=CA&case_sensitive=false";
    assert_eq!(table(&json!([flow]), "list flows --name CA", path), expected);
    let expected = "\
ARTIFACT  DIGEST        COMMIT   COMPLIANCE  CREATED
cart:1    4f9c5e0a7b3d  4f1c2e7  compliant   AGO
";
    let (list, page) = (json!({"data": [artifact]}), "page=1&per_page=20");
    let path = format!("artifacts/acme?flow_name=cart&{page}");
    assert_eq!(table(&list, "list artifacts --flow cart", &path), expected);
    let path = format!("artifacts/acme?repo_name=acme%2Fcart&{page}");
    assert_eq!(table(&list, "list artifacts --repository acme/cart", &path), expected);
    assert_eq!(
        table(&json!([policy]), "list policies", "policies/acme"),
        "\
NAME   DESCRIPTION  ENVIRONMENTS  VERSIONS  CREATED
rules  strict       prod, test    2         AGO
"
    );
    assert_eq!(
        table(&policy, "get policy rules", "policies/acme/rules"),
        "\
name          rules
description   strict
environments  prod, test
created       AGO
version       2
changed       AGO
by            bob
comment       b
"
    );
    let rows = "\
ARTIFACT  DIGEST        FLOW  COMMIT   COMPLIANCE  RUNNING IN  EXITED FROM
cart:1    4f9c5e0a7b3d  cart  4f1c2e7  compliant   prod, test  -
cart:2    4f9c5e0a7b3d  -     -        -           -           -
";
    assert_eq!(table(&found, "search 4f1c2e7", "search/acme/sha/4f1c2e7"), rows);
    run(&service_with(&found), "search 4F1C2E7").expect(0, &["more artifacts match: enter more digits"]);
    let path = format!("search/acme/sha/{FINGERPRINT}");
    assert_eq!(table(&found, &format!("get artifact sha256:{FINGERPRINT}"), &path), rows);
    assert_eq!(
        table(&trail, "get trail cart t", "trails/acme/cart/t"),
        "\
cart/t: non-compliant
WHEN     EVENT                          NAME  TARGET  ATTESTATION  COMPLIANCE     ENVIRONMENT  SNAPSHOT
AGO trail_reported                 -     -       -            -              -            -
AGO artifact_attestation_reported  unit  app     -            non-compliant  -            -
AGO artifact_started_running       -     -       -            -              prod         7
"
    );
    let (line, path) = ("get attestation 0197-ab", "attestations/acme?attestation_id=0197-ab");
    let shown = table_of(&attestation, &attestation["data"][0], line, path);
    assert!(
        shown.starts_with("name           unit\ntype           junit\nresult         passed\n"),
        "{shown}"
    );
    let missing = run(&service_with(&json!({"data": []})), line);
    assert_eq!(missing.expect(4, &["attestation \"0197-ab\" not found"]).stdout, "");
}

#[test]
fn all_pages_are_read_without_duplicates_while_the_list_grows() {
    let requests = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let names: &[&str] = match request.query.as_str() {
            "page=1&per_page=2" => &["d", "c"],
            // Another item was added in between.
            "page=2&per_page=2" => &["c", "b"],
            "page=3&per_page=2" => &["a"],
            other => panic!("{other}"),
        };
        let trail = |name: &&str| {
            let mut trail = responses::trail(name);
            // A trail is evaluated for each response.
            trail["compliance_status"]["evaluated_at"] = json!(requests.fetch_add(1, Ordering::Relaxed));
            trail
        };
        let data: Vec<_> = names.iter().map(trail).collect();
        Reply::json(200, json!({"data": data, "pagination": {"total": 5, "page_count": 3}}).to_string())
    });
    let all = run(&server, "list trails --all --per-page 2 -o json");
    // Progress is not printed to a pipe.
    assert_eq!(all.expect(0, &[]).stderr, "");
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let names: Vec<_> = all["data"].as_array().unwrap().iter().map(|trail| &trail["name"]).collect();
    assert_eq!(names, ["d", "c", "b", "a"]);
    let page = run(&server, "list trails --per-page 2");
    page.expect(0, &["page 1 of 3, 5 trails in total; use --page N or --all for more"]);
}

#[test]
fn empty_result_prints_a_note_and_succeeds() {
    let (list, live) = (json!([]), json!({"live_artifacts": []}));
    for (line, answer, expected_text) in [
        ("list trails", &list, "no trail found"),
        ("list trails --all", &list, "no trail found"),
        ("list trails --page 2", &list, "no trail found on page 2"),
        ("list attestations cart", &list, "no attestation found"),
        ("list actions", &list, "no action found"),
        ("get live-artifacts acme/cart", &live, "no artifact of this repository is running"),
    ] {
        let outcome = run(&service_with(answer), line);
        assert_eq!(outcome.expect(0, &[expected_text]).stdout, "", "{line}");
    }
    let filtered = format!("list trails --flow nope --flow-tag team=shop --fingerprint {FINGERPRINT}");
    let note = format!(
        "no trail found in the flow \"nope\" in flows with the tag team=shop with the artifact {FINGERPRINT}; \
         remove the filter to list all trails"
    );
    run(&service_with(&list), &filtered).expect(0, &[&note]);
    run(&service_with(&list), "list attestations cart --from 2026-10-01")
        .expect(0, &["no attestation found in this period"]);
    let json = run(&service_with(&list), "list trails -o json");
    assert_eq!(json.expect(0, &["no trail found"]).stdout, "{\n  \"data\": []\n}\n");
}

#[test]
fn error_status_has_an_exit_code_and_a_hint() {
    for (status, code, expected_text) in [
        (400, 5, "400 Bad Request: no"),
        (401, 3, "belongs to the organization \"acme\""),
        (403, 3, "belongs to the organization \"acme\""),
        (404, 4, "`supercargo list flows` lists the flows of the organization \"acme\""),
        (405, 5, "405 Method Not Allowed"),
        (422, 5, "422 Unprocessable Entity"),
        (501, 6, "501 Not Implemented"),
        (302, 6, "redirect to an unknown location is not followed"),
        (204, 6, "expected 200 OK, got 204 No Content"),
    ] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        let outcome = run(&server, "list attestations cart");
        assert_eq!(outcome.expect(code, &[expected_text]).stdout, "", "{status}");
        assert_eq!(server.requests().len(), 1, "{status} must not be retried");
    }
    for status in [408, 409, 429, 500, 503] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "busy"}"#));
        run(&server, "list trails --timeout 400ms").expect(6, &["gave up after 1 attempt", "busy"]);
    }
}

#[test]
fn not_found_hint_names_the_missing_object() {
    let server = Server::start(|_| Reply::json(404, r#"{"message": "no such thing"}"#));
    for (line, hint) in [
        (
            "list trails --flow cart",
            "`supercargo list flows` lists the flows of the organization \"acme\"; some services",
        ),
        ("list actions", "check the base URL http://127.0.0.1"),
        ("get action 1", "check the number and the organization \"acme\"; `supercargo list actions` lists"),
        ("get approval cart 7", "check the approval 7 of the flow \"cart\" and the organization \"acme\"\n"),
        (
            "get live-artifacts acme/typo",
            "check the name and the organization \"acme\"; a repository is known once an attestation names it",
        ),
        (
            "get environment typo",
            "`supercargo list environments` lists the environments of the organization \"acme\"",
        ),
    ] {
        run(&server, line).expect(4, &["404 Not Found: no such thing", &format!("hint: {hint}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_url_as_base_url_is_explained() {
    let service = TestService::start(Database::sqlite()).await;
    let page = format!("{}/ui", service.base);
    tokio::task::spawn_blocking(move || {
        let hint = format!("hint: check the base URL {page}: ");
        let service = ["--base-url", &page, "--org", "acme"];
        let list = supercargo().args(["list", "trails"]).args(service).env("SUPERCARGO_TOKEN", ADMIN);
        list.run().expect(6, &["404 Not Found with text/html", &hint]);
        let agent = once().args(["--environment", "prod"]).args(service).env("SUPERCARGO_TOKEN", ADMIN);
        agent.recorded_pods().run().expect(6, &["404 Not Found with text/html", &hint]);
    })
    .await
    .unwrap();
}

#[test]
fn unavailable_service_is_retried() {
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| match attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::json(503, "{}").with("retry-after", "1"),
        _ => Reply::json(200, json!([responses::trail("a")]).to_string()),
    });
    let outcome = run(&server, "list trails");
    assert!(outcome.expect(0, &["503 Service Unavailable", "retrying in"]).stdout.contains("cart  a"));
}

#[test]
fn unexpected_json_error_names_the_field() {
    for (line, answer, expected_text) in [
        ("list actions", json!([responses::notification(), 7]), "[1]: invalid type: integer `7`"),
        ("list actions", json!({"data": []}), "unexpected JSON"),
        ("list trails", json!([responses::trail("a"), "b"]), "data[1]: invalid type: string \"b\""),
        ("list trails", json!({"trails": []}), "missing field `data`"),
        ("list trails", json!("nothing"), "unexpected JSON"),
        (
            "list trails",
            json!({"data": [], "pagination": {"total": 1.5}}),
            "pagination.total: expected a non-negative integer, got 1.5",
        ),
        ("get action 7", json!([]), "unexpected JSON"),
        (
            "get live-artifacts acme/cart",
            json!({"live_artifacts": [{"environment_id": "e", "artifact_id": 1}]}),
            "live_artifacts[0].artifact_id: invalid type",
        ),
        ("get live-artifacts acme/cart", json!({}), "missing field `live_artifacts`"),
    ] {
        run(&service_with(&answer), line).expect(6, &["unexpected response: ", expected_text]);
    }
    let page = Server::start(|_| Reply::text(200, "<html>Please sign in"));
    run(&page, "list trails").expect(6, &["<html>Please sign in"]);
}

#[test]
fn oversized_response_is_rejected() {
    let server = Server::start(|_| Reply::json(200, vec![b' '; 65 * 1024 * 1024]));
    run(&server, "list trails").expect(6, &["200 OK with a body of more than 65536 KiB"]);
}

#[test]
fn control_characters_are_escaped_and_tokens_redacted() {
    let answer = json!([responses::trail("\u{1b}[2J\u{202e}evil")]);
    assert!(run(&service_with(&answer), "list trails").stdout.contains("\\u{1b}[2J\\u{202e}evil"));
    let echo = Server::start(|_| Reply::json(403, json!({"message": format!("no {TOKEN}")}).to_string()));
    let outcome = run(&echo, "list trails -vvv");
    assert!(!outcome.expect(3, &["no [token]"]).stderr.contains(TOKEN));
}

#[test]
fn invalid_arguments_are_rejected_before_a_request() {
    let server = service_with(&json!([]));
    for (line, texts) in [
        ("list trails --page 0", &["--page"][..]),
        ("list trails --per-page 501", &["--per-page", "501"]),
        ("list trails --all --page 2", &["--all", "--page"]),
        ("list trails --flow-tag team", &["--flow-tag", "key=value"]),
        ("list trails --fingerprint abc", &["--fingerprint", "7 digits"]),
        ("list trails --flow a/b", &["--flow", "a/b"]),
        ("list attestations acme/cart", &["expected a flow name, which has no slash, got a repository name"]),
        ("list attestations cart --from yesterday", &["--from", "2026-10-03"]),
        ("list attestations cart --from 2026-10-04 --to 2026-10-03", &["--from must not be later than --to"]),
        (
            "get live-artifacts https://github.com/acme/cart",
            &["expected a name with its owners, for example acme/cart, got a URL"],
        ),
        ("list approvals cart xyz", &["7 digits"]),
        ("list artifacts --flow cart --repository acme/cart", &["--flow", "--repository"]),
        ("list artifacts --flow cart --all --page 2", &["--all", "--page"]),
        ("list artifacts", &["--flow"]),
        ("list flows --name", &["--name"]),
        ("get policy a/b", &["a/b"]),
        ("get trail cart", &["<TRAIL>"]),
        ("get trail cart a/b", &["a/b"]),
        ("get artifact 4f9c", &["7 digits"]),
        ("get attestation ../x", &["expected the identifier of an attestation"]),
        ("get action seven", &["seven"]),
        ("get live-artifacts acme/cart --provider=", &["--provider", "1 to 255 bytes"]),
        ("get live-artifacts ../cart", &["relative path"]),
        ("list", &["trails", "actions", "attestations", "approvals"]),
        ("list trails -o xml", &["table, wide, json, yaml"]),
    ] {
        run(&server, line).expect(2, texts);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let server = service_with(&json!(vec![responses::trail("a"); 2_000]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_supercargo"))
        .env_clear()
        .env("SUPERCARGO_BASE_URL", server.url())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", TOKEN)
        .args(["list", "trails", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attested_and_reported_data_is_read_back() {
    let service = TestService::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit-tests",
        "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "s", "failures": 0, "errors": 0, "skipped": 0, "total": 3, "duration": 1, "timestamp": 1}],
        "git_commit_info": {"sha1": COMMIT},
        "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-1", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("cart-1", "cart", 'a')])).await.expect(201);
    put(&service, ADMIN, "rules", UNIT).await.expect(201);
    let url = service.base.clone();
    let run_as = move |token: &str, line: &str| -> Outcome {
        let program: Program = supercargo().env("SUPERCARGO_BASE_URL", &url);
        program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", token).args(line.split(' ')).run()
    };
    tokio::task::spawn_blocking(move || {
        let run = |line: &str| run_as(ADMIN, line);
        let table = |line: &str| run(line).expect(0, &[]).stdout.clone();
        assert!(
            table("list trails").contains("cart  build-1  compliant   4f1c2e7"),
            "{}",
            table("list trails")
        );
        assert!(table("list trails --all").contains("build-1"));
        assert!(table("list attestations cart").contains("unit-tests  junit  passed"));
        let live = table("get live-artifacts acme/cart");
        assert!(
            live.contains("prod") && live.contains(&digest('a')[..12]) && live.contains("unknown"),
            "{live}"
        );
        let json: Value = serde_json::from_str(&table("list attestations cart -o json")).unwrap();
        assert_eq!(json["pagination"]["total"], 1);
        run("list attestations none").expect(4, &["flow none not found"]);
        let id = json["data"][0]["attestation_id"].as_str().unwrap();
        let (attestation, artifact) =
            (format!("get attestation {id}"), format!("get artifact {}", digest('a')));
        for (line, expected) in [
            ("list flows", "cart"),
            ("list artifacts --flow cart", "aaaaaaaaaaaa  4f1c2e7"),
            ("list artifacts --repository acme/cart --all", "aaaaaaaaaaaa  4f1c2e7"),
            ("list policies", "rules  d            -             1"),
            ("get policy rules", "version       1\n"),
            ("get trail cart build-1", "artifact_attestation_reported  unit-tests"),
            (attestation.as_str(), "type           junit\n"),
            (artifact.as_str(), "prod"),
            ("search 4f1c2e7d", "prod"),
        ] {
            assert!(table(line).contains(expected), "{line}: {}", table(line));
            let json = run(&format!("{line} -o json"));
            serde_json::from_str::<Value>(&json.expect(0, &[]).stdout).unwrap();
            run_as(ATTESTER, line).expect(3, &["requires a token with role read or admin"]);
        }
        for line in [
            "list artifacts --flow none",
            "get policy none",
            "get trail cart none",
            "get trail none build-1",
            "get attestation 0197ab00-0000-7000-8000-000000000000",
            &format!("get artifact {}", digest('f')),
            "search fffff",
        ] {
            run(line).expect(4, &[if line.contains("ffff") { "no artifact has" } else { "not found" }]);
        }
    })
    .await
    .unwrap();
}
