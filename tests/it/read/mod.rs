//! `list` and `get`: what is asked, and how the answer looks, in a pipe.

pub mod answers;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use self::answers::{COMMIT, FINGERPRINT};
use crate::fake::{Reply, Server};
use crate::program::{Outcome, Program, TOKEN, once, supercargo};
use crate::service::{ADMIN, Database, Running, digest, form, pod, report};

/// A service that answers everything so.
fn answering(answer: &Value) -> Server {
    let answer = answer.to_string();
    Server::start(move |_| Reply::json(200, answer.clone()))
}

fn run(server: &Server, line: &str) -> Outcome {
    supercargo().service(server).args(line.split(' ')).run()
}

/// How long ago the answers' times are, taken out of a table: it grows from day to day.
fn timeless(text: &str) -> String {
    regex::Regex::new(r"\b\d+d ago( +(?<next>\S))?")
        .unwrap()
        .replace_all(text, "AGO $next")
        .replace("AGO \n", "AGO\n")
}

/// The table, and JSON and YAML that hold what was sent, all of it.
fn shown(answer: &Value, sent: &Value, line: &str, asks: &str) -> String {
    let server = answering(answer);
    let json = run(&server, &format!("{line} -o json"));
    assert_eq!(&serde_json::from_str::<Value>(&json.says(0, &[]).stdout).unwrap(), sent, "{line}");
    let yaml = run(&server, &format!("{line} --output yaml"));
    assert_eq!(&serde_saphyr::from_str::<Value>(&yaml.says(0, &[]).stdout).unwrap(), sent, "{line}");
    let table = run(&server, line);
    table.says(0, &[]);
    for seen in server.seen() {
        let query = if seen.query.is_empty() { String::new() } else { format!("?{}", seen.query) };
        assert_eq!(format!("{} {}{query}", seen.method, seen.path), format!("GET /api/v2/{asks}"), "{line}");
    }
    timeless(&table.stdout)
}

#[test]
fn a_list_of_trails_is_a_table_and_keeps_what_is_not_known() {
    let answer = json!({"data": [answers::trail("a"), answers::trail("b")], "pagination": null, "more": 1});
    assert_eq!(
        shown(&answer, &answer, "list trails", "trails/acme?page=1&per_page=20"),
        "\
FLOW  TRAIL  COMPLIANCE     COMMIT   BY  MODIFIED
cart  a      non-compliant  4f1c2e7  ci  AGO
cart  b      non-compliant  4f1c2e7  ci  AGO
"
    );
    // A bare list has the same form.
    let bare = json!([answers::trail("a")]);
    let line = format!(
        "list trails --flow cart --flow-tag team=a&b=c --fingerprint {FINGERPRINT} --page 3 --per-page 500"
    );
    let asks = format!(
        "trails/acme?flow=cart&flow_tag=team%3Da%26b%3Dc&fingerprint={FINGERPRINT}&page=3&per_page=500"
    );
    shown(&bare, &json!({"data": bare}), &line, &asks);
}

#[test]
fn a_list_of_attestations_takes_days_and_times() {
    let answer = json!({"data": [answers::attestation("id-1")], "pagination": {"total": 1}});
    let line = "list attestations cart --from 2026-10-03 --to 2026-10-03";
    let asks = "attestations/acme/cart?from_timestamp=1790985600&to_timestamp=1791071999&page=1&per_page=20";
    assert_eq!(
        shown(&answer, &answer, line, asks),
        "\
NAME        TYPE   COMPLIANCE  BY  RECEIVED  ID
unit-tests  junit  compliant   ci  AGO id-1
"
    );
}

#[test]
fn a_service_that_makes_up_an_endless_list_or_millions_of_values_fills_no_memory() {
    let pages = AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let page = pages.fetch_add(1, Ordering::Relaxed);
        let items: Vec<_> = (0..200_000).map(|n| format!(r#"{{"name":"{page}-{n}"}}"#)).collect();
        let more = r#""pagination":{"total":9000000000000000,"page_count":90000000000000}"#;
        Reply::json(200, format!(r#"{{"data":[{}],{more}}}"#, items.join(",")))
    });
    run(&server, "list trails --all").says(6, &["lists more than 500000", "ask for less at a time"]);
    assert_eq!(server.seen().len(), 3);

    for value in ["{}", "[[]]"] {
        let server =
            Server::start(move |_| Reply::json(200, format!("[{}0]", format!("{value},").repeat(6_000_000))));
        run(&server, "list trails").says(6, &["200 OK with JSON of too many values"]);
    }
}

#[test]
fn notifications_and_an_action_are_shown_in_both_variants() {
    let answer = json!([answers::notification()]);
    assert_eq!(
        shown(&answer, &answer, "list notifications", "organizations/acme/environments_notifications"),
        "\
NUMBER  NAME           STATE    ENVIRONMENTS   TRIGGERS                              TARGETS                                                  LAST SUCCESS
7       tell the team  failing  prod, staging  ON_NON_COMPLIANT_ENV, ON_A_FULL_MOON  SLACK #alerts, WEBHOOK https://hooks.example.com, EMAIL  -
"
    );
    let answer = answers::action();
    assert_eq!(
        shown(&answer, &answer, "get action 7", "actions/acme/7"),
        "\
number        7
name          tell the team
type          flow
state         -
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

#[test]
fn approvals_are_shown_in_both_variants() {
    let answer = json!([answers::approval_of_artifact()]);
    let line = format!("list approvals cart {FINGERPRINT}");
    assert_eq!(
        shown(&answer, &answer, &line, &format!("artifacts/acme/cart/{FINGERPRINT}/approvals")),
        "\
NUMBER  STATE     ARTIFACT    DIGEST        ENVIRONMENT  BY   MODIFIED
12      APPROVED  cart:5.3.1  4f9c5e0a7b3d  any          kim  AGO
"
    );
    let answer = answers::approval();
    assert_eq!(
        shown(&answer, &answer, "get approval cart 12", "approvals/acme/cart/12"),
        format!(
            "\
number       12
state        APPROVED
artifact     cart:5.3.1
digest       {FINGERPRINT}
after        {}
environment  prod
description  may go
created      AGO
modified     AGO
said         kim, AGO : \"looks good\"
commit       {COMMIT}
",
            "b".repeat(64)
        )
    );
}

#[test]
fn what_runs_of_a_repository_is_joined_with_its_commit_and_environment() {
    let answer = answers::live_artifacts();
    let asks = "repos/acme/live-artifacts/acme%2Fcart?provider=gitlab";
    let said = shown(&answer, &answer, "get live-artifacts acme/cart --provider gitlab", asks);
    assert_eq!(
        said,
        "\
ENVIRONMENT  ARTIFACT                         DIGEST        COMMIT   COMPLIANCE     SNAPSHOT  SINCE
prod         registry.example.com/cart:5.3.1  4f9c5e0a7b3d  4f1c2e7  NON-COMPLIANT  2         AGO
e9           gone                             -             -        A-NEW-WORD     -         -
"
    );
}

#[test]
fn words_that_people_would_type_are_understood() {
    let (live, list) = (answers::live_artifacts(), json!([]));
    for (line, answer) in [
        ("get live acme/cart", &live),
        ("list live acme/cart", &live),
        ("list live-artifacts acme/cart", &live),
        ("ls trails", &list),
        ("get trails", &list),
        ("list trail", &list),
        ("list attestation cart", &list),
        ("list actions", &list),
        ("get notifications", &list),
    ] {
        run(&answering(answer), line).says(0, &[]);
    }
}

#[test]
fn all_pages_are_read_and_each_item_is_shown_once_though_the_list_grows() {
    let server = Server::start(|seen| {
        let names: &[&str] = match seen.query.as_str() {
            "page=1&per_page=2" => &["d", "c"],
            // One more came meanwhile.
            "page=2&per_page=2" => &["c", "b"],
            "page=3&per_page=2" => &["a"],
            other => panic!("{other}"),
        };
        let data: Vec<_> = names.iter().map(|name| answers::trail(name)).collect();
        Reply::json(200, json!({"data": data, "pagination": {"total": 5, "page_count": 3}}).to_string())
    });
    let all = run(&server, "list trails --all --per-page 2 -o json");
    // No progress in a pipe.
    assert_eq!(all.says(0, &[]).stderr, "");
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let names: Vec<_> = all["data"].as_array().unwrap().iter().map(|trail| &trail["name"]).collect();
    assert_eq!(names, ["d", "c", "b", "a"]);
    let page = run(&server, "list trails --per-page 2");
    page.says(0, &["page 1 of 3, 5 trails in all; --page N shows another, --all all of them"]);
}

#[test]
fn that_there_is_nothing_is_said_and_is_no_failure() {
    let (list, live) = (json!([]), json!({"live_artifacts": []}));
    for (line, answer, says) in [
        ("list trails", &list, "there is no trail"),
        ("list trails --all", &list, "there is no trail"),
        ("list trails --page 2", &list, "page 2 has no trail"),
        ("list attestations cart", &list, "there is no attestation"),
        ("list notifications", &list, "there is no notification"),
        ("get live-artifacts acme/cart", &live, "nothing of this repository runs anywhere"),
    ] {
        let outcome = run(&answering(answer), line);
        assert_eq!(outcome.says(0, &[says]).stdout, "", "{line}");
    }
    let filtered = format!("list trails --flow nope --flow-tag team=shop --fingerprint {FINGERPRINT}");
    let asked = format!(
        "there is no trail of the flow \"nope\" of a flow with the tag team=shop with the artifact {FINGERPRINT}; \
         without that, this lists those of all flows"
    );
    run(&answering(&list), &filtered).says(0, &[&asked]);
    run(&answering(&list), "list attestations cart --from 2026-10-01")
        .says(0, &["there is no attestation of that time"]);
    let json = run(&answering(&list), "list trails -o json");
    assert_eq!(json.says(0, &["there is no trail"]).stdout, "{\n  \"data\": []\n}\n");
}

#[test]
fn each_status_has_its_exit_code_and_what_to_do_about_it() {
    for (status, code, says) in [
        (400, 5, "400 Bad Request: no"),
        (401, 3, "check that it belongs to the organization \"acme\""),
        (403, 3, "check that it belongs to the organization \"acme\""),
        (404, 4, "check the base URL"),
        (405, 5, "405 Method Not Allowed"),
        (422, 5, "422 Unprocessable Entity"),
        (501, 6, "501 Not Implemented"),
        (302, 6, "a redirect to nowhere, which is not followed"),
        (204, 6, "204 No Content, where 200 OK was expected"),
    ] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        let outcome = run(&server, "list attestations cart");
        assert_eq!(outcome.says(code, &[says]).stdout, "", "{status}");
        assert_eq!(server.seen().len(), 1, "{status} does not mend itself");
    }
    for status in [408, 409, 429, 500, 503] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "busy"}"#));
        run(&server, "list trails --timeout 400ms").says(6, &["gave up after 1 try", "busy"]);
    }
}

#[test]
fn what_to_do_about_something_that_is_not_there_depends_on_what_it_is() {
    let server = Server::start(|_| Reply::json(404, r#"{"message": "no such thing"}"#));
    for (line, says) in [
        ("list trails --flow cart", "the flow \"cart\", which some services want to be created first"),
        ("list notifications", "and the organization \"acme\""),
        ("get action 1", "the number: `supercargo list notifications` shows those that there are"),
        ("get approval cart 7", "and the approval 7 of the flow \"cart\"\n"),
        (
            "get live-artifacts acme/typo",
            "known once something was attested with it: attest junit --repository",
        ),
    ] {
        let outcome = run(&server, line);
        outcome.says(4, &["hint: check the base URL http://127.0.0.1", "the organization \"acme\"", says]);
        assert_eq!(outcome.stderr.contains("created first"), line.contains("--flow"), "{outcome:#?}");
    }
}

/// Against the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_of_a_page_is_no_base_url() {
    let service = Running::start(Database::sqlite()).await;
    let page = format!("{}/ui", service.base);
    tokio::task::spawn_blocking(move || {
        let hint = format!("hint: check the base URL {page}: ");
        let service = ["--base-url", &page, "--org", "acme"];
        let list = supercargo().args(["list", "trails"]).args(service).env("SUPERCARGO_TOKEN", ADMIN);
        list.run().says(6, &["404 Not Found with text/html", &hint]);
        let agent = once().args(["--environment", "prod"]).args(service).env("SUPERCARGO_TOKEN", ADMIN);
        agent.recorded_pods().run().says(6, &["405 Method Not Allowed with text/html", &hint]);
    })
    .await
    .unwrap();
}

#[test]
fn a_service_that_cannot_answer_for_the_moment_is_asked_again() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::json(503, "{}").with("retry-after", "1"),
        _ => Reply::json(200, json!([answers::trail("a")]).to_string()),
    });
    let outcome = run(&server, "list trails");
    assert!(outcome.says(0, &["503 Service Unavailable", "trying again in"]).stdout.contains("cart  a"));
}

#[test]
fn an_answer_of_another_shape_is_named_by_where_it_differs() {
    let with = |mut item: Value, field: &str, value: Option<Value>| {
        match value {
            Some(value) => item[field] = value,
            None => drop(item.as_object_mut().unwrap().remove(field)),
        }
        json!([item])
    };
    for (line, answer, says) in [
        (
            "list notifications",
            with(answers::notification(), "triggers", None),
            "[0]: missing field `triggers`",
        ),
        (
            "list notifications",
            with(answers::notification(), "number", Some(json!(1.5))),
            "[0]: number: 1.5 is no",
        ),
        ("list trails", with(answers::trail("a"), "name", None), "data[0]: missing field `name`"),
        ("list trails", json!({"trails": []}), "missing field `data`"),
        ("list trails", json!("nothing"), "JSON of another shape"),
        ("get action 7", json!({"number": 7}), "missing field `name`"),
        ("get live-artifacts acme/cart", json!({}), "missing field `live_artifacts`"),
    ] {
        run(&answering(&answer), line).says(6, &["was not answered by the compliance service", says]);
    }
    let page = Server::start(|_| Reply::text(200, "<html>Please sign in"));
    run(&page, "list trails").says(6, &["<html>Please sign in"]);
}

#[test]
fn an_answer_that_is_too_large_is_not_read_to_its_end() {
    let server = Server::start(|_| Reply::json(200, vec![b' '; 65 * 1024 * 1024]));
    run(&server, "list trails").says(6, &["200 OK with a body of more than 65536 KiB"]);
}

#[test]
fn what_a_service_says_can_neither_steer_a_terminal_nor_show_the_token() {
    let answer = json!([answers::trail("\u{1b}[2J\u{202e}evil")]);
    assert!(run(&answering(&answer), "list trails").stdout.contains("\\u{1b}[2J\\u{202e}evil"));
    let echo = Server::start(|_| Reply::json(403, json!({"message": format!("no {TOKEN}")}).to_string()));
    let outcome = run(&echo, "list trails -vvv");
    assert!(!outcome.says(3, &["no [token]"]).stderr.contains(TOKEN));
}

#[test]
fn what_cannot_be_asked_is_refused_before_anybody_is_asked() {
    let server = answering(&json!([]));
    for (line, words) in [
        ("list trails --page 0", &["--page"][..]),
        ("list trails --per-page 501", &["--per-page", "501"]),
        ("list trails --all --page 2", &["--all", "--page"]),
        ("list trails --flow-tag team", &["--flow-tag", "key=value"]),
        ("list trails --fingerprint abc", &["--fingerprint", "64"]),
        ("list trails --flow a/b", &["--flow", "a/b"]),
        ("list attestations acme/cart", &["holds a slash, as a repository's name does; a flow's has none"]),
        ("list attestations cart --from yesterday", &["--from", "2026-10-03"]),
        ("list attestations cart --from 2026-10-04 --to 2026-10-03", &["--from is later than --to"]),
        (
            "get live-artifacts https://github.com/acme/cart",
            &["is a URL; a name with its owners, as acme/cart"],
        ),
        ("list approvals cart xyz", &["64"]),
        ("get action seven", &["seven"]),
        ("get live-artifacts acme/cart --provider sourceforge", &["github, gitlab, bitbucket"]),
        ("get live-artifacts ../cart", &["relative path"]),
        ("list", &["trails", "attestations", "notifications", "approvals"]),
        ("list trails -o xml", &["table, json, yaml"]),
    ] {
        run(&server, line).says(2, words);
    }
    assert!(server.seen().is_empty());
}

#[test]
fn whoever_stops_reading_has_had_enough() {
    let server = answering(&json!(vec![answers::trail("a"); 2_000]));
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

/// Against the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_attested_and_reported_is_read_back() {
    let service = Running::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit-tests",
        "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "s", "failures": 0, "errors": 0, "skipped": 0, "total": 3, "duration": 1, "timestamp": 1}],
        "git_commit_info": {"sha1": COMMIT},
        "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-1", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("cart-1", "cart", 'a')])).await.expect(201);
    let url = service.base.clone();
    let run = move |line: &str| -> Outcome {
        let program: Program = supercargo().env("SUPERCARGO_BASE_URL", &url);
        program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", ADMIN).args(line.split(' ')).run()
    };
    tokio::task::spawn_blocking(move || {
        let table = |line: &str| run(line).says(0, &[]).stdout.clone();
        assert!(
            table("list trails").contains("cart  build-1  compliant   4f1c2e7"),
            "{}",
            table("list trails")
        );
        assert!(table("list trails --all").contains("build-1"));
        assert!(table("list attestations cart").contains("unit-tests  junit  compliant"));
        let live = table("get live-artifacts acme/cart");
        assert!(
            live.contains("prod") && live.contains(&digest('a')[..12]) && live.contains("UNKNOWN"),
            "{live}"
        );
        let json: Value = serde_json::from_str(&table("list attestations cart -o json")).unwrap();
        assert_eq!(json["pagination"]["total"], 1);
        run("list attestations none").says(4, &["there is no flow \"none\""]);
    })
    .await
    .unwrap();
}
