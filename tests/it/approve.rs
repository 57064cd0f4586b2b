//! `approve` and `approval withdraw`.

use serde_json::{Value, json};

use crate::fake::{Reply, Server};
use crate::program::{Outcome, supercargo};
use crate::read::responses::{self, FINGERPRINT};
use crate::service::bootstrap;
use crate::service::report;
use crate::service::{ADMIN, APPROVER, Database, Options, READER, TestService, digest, pod};

fn run(server: &Server, line: &str) -> Outcome {
    supercargo().service(server).args(line.split(' ')).run()
}

#[test]
fn requests_have_the_form_of_the_interface() {
    let mut approval = responses::approval();
    approval["created_by"] = json!("kim");
    approval["withdrawal"] = json!({"withdrawn_by": "jo", "comment": "broken", "timestamp": 1_789_000_000});
    for status in [200, 201] {
        let answer = approval.to_string();
        let server = Server::start(move |_| Reply::json(status, answer.clone()));
        let line = format!("approve cart sha256:{FINGERPRINT} --environment prod --comment fine -o json");
        let outcome = run(&server, &line);
        assert_eq!(serde_json::from_str::<Value>(&outcome.expect(0, &[]).stdout).unwrap(), approval);
        let table = run(&server, "approval withdraw cart 12 --comment broken");
        let table = &table.expect(0, &[]).stdout;
        assert!(table.contains("token        kim") && table.contains(": \"broken\""), "{table}");
        let sent: Vec<_> = server
            .requests()
            .iter()
            .map(|request| {
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                (format!("{} {}", request.method, request.path), body)
            })
            .collect();
        let decision = json!({"state": "APPROVED", "comment": "fine"});
        assert_eq!(
            sent,
            [
                (
                    "POST /api/v2/approvals/acme/cart".to_owned(),
                    json!({"artifact_fingerprint": FINGERPRINT, "environment": "prod", "approvals": [decision]})
                ),
                ("PUT /api/v2/approvals/acme/cart/12/withdraw".to_owned(), json!({"comment": "broken"})),
            ]
        );
    }
}

#[test]
fn failed_approval_has_an_exit_code_and_a_hint() {
    let lines =
        [format!("approve cart {FINGERPRINT} --environment prod"), "approval withdraw cart 12".to_owned()];
    for (status, code, texts) in [
        (400, 5, ["400 Bad Request: no"; 2]),
        (403, 3, ["has the required role"; 2]),
        (404, 4, ["the flow \"cart\" and the environment \"prod\"", "the approval 12 of the flow \"cart\""]),
        (202, 6, ["expected 200 OK or 201 Created, got 202 Accepted"; 2]),
    ] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        for (line, text) in lines.iter().zip(texts) {
            assert_eq!(run(&server, line).expect(code, &[text]).stdout, "");
        }
    }
    let server = Server::start(|_| Reply::json(200, "{}"));
    for line in &lines {
        run(&server, line).expect(6, &["unexpected JSON"]);
    }
    let server = Server::start(|_| Reply::json(503, r#"{"message": "busy"}"#));
    for line in &lines {
        run(&server, &format!("{line} --timeout 400ms")).expect(6, &["gave up after 1 attempt", "busy"]);
    }
}

#[test]
fn invalid_arguments_are_rejected_before_a_request() {
    let server = Server::start(|_| Reply::json(200, "{}"));
    for (line, text) in [
        (format!("approve cart {FINGERPRINT}"), "--environment <NAME>"),
        ("approve cart abc --environment prod".to_owned(), "64 hexadecimal digits"),
        (format!("approve cart {FINGERPRINT} --environment a/b"), "a/b"),
        (format!("approve -- -x {FINGERPRINT}"), "-x"),
        ("approval withdraw cart 0".to_owned(), "0"),
        ("approval".to_owned(), "withdraw"),
    ] {
        run(&server, &line).expect(2, &[text]);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approver_approves_and_withdraws_with_the_real_service() {
    let more = "    environments: [{name: prod, policy: {approval: true}}, {name: stage}]\n    flows: [{name: cart}]";
    let options = Options { bootstrap: bootstrap(1, more), ..Options::default() };
    let service = TestService::start_with(Database::sqlite(), options).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'a')])).await.expect(201);
    let url = service.base.clone();
    let run = move |token: &str, line: &str| {
        let program = supercargo().env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
        program.env("SUPERCARGO_TOKEN", token).args(line.split(' ')).run()
    };
    tokio::task::spawn_blocking(move || {
        let (prod, stage) = ("--environment prod", "--environment stage");
        let approve = |environment: &str| format!("approve cart {} {environment}", digest('a'));
        let made = run(APPROVER, &format!("{} --comment fine", approve(prod)));
        let made = &made.expect(0, &[]).stdout;
        for text in
            ["number       1", "approved", "cart:2", "signed off   kim, ", ": \"fine\"", "token        kim"]
        {
            assert!(made.contains(text), "{text}: {made}");
        }
        run(READER, &approve(prod))
            .expect(3, &["requires a token with role approve or admin, got role read"]);
        run(APPROVER, &approve(stage)).expect(3, &["does not list this environment"]);
        run(ADMIN, &approve("--environment prdo")).expect(4, &["environment prdo not found"]);
        let withdrawn = run(APPROVER, "approval withdraw cart 1 --comment broken -o json");
        let withdrawn: Value = serde_json::from_str(&withdrawn.expect(0, &[]).stdout).unwrap();
        assert_eq!(
            (&withdrawn["state"], &withdrawn["withdrawal"]["comment"]),
            (&json!("UNAPPROVED"), &json!("broken"))
        );
        run(APPROVER, "approval withdraw cart 2").expect(4, &["approval 2 of flow \"cart\" not found"]);
    })
    .await
    .unwrap();
}
