//! `wait`: its conditions, retries, timeouts and rejected input.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::fake::{Reply, Request, Server};
use crate::program::{Outcome, TOKEN, supercargo};
use crate::service::report;
use crate::service::{ADMIN, Database, TestService, digest, eventually, form, pod};

/// The fingerprint's prefix that tables show.
fn short(letter: char) -> String {
    digest(letter)[..12].to_owned()
}

/// A live-artifacts response. A letter names each artifact's fingerprint.
fn live(running: &[(char, &str)]) -> String {
    let id = |environment: &str| format!("e-{environment}");
    let artifacts: Vec<Value> =
        running.iter().map(|(letter, _)| json!({"id": letter, "fingerprint": digest(*letter)})).collect();
    let environments: Vec<Value> =
        running.iter().map(|(_, name)| json!({"id": id(name), "name": name})).collect();
    let live: Vec<Value> = running
        .iter()
        .map(|(letter, name)| json!({"environment_id": id(name), "artifact_id": letter}))
        .collect();
    json!({"live_artifacts": live, "_embedded": {"artifacts": artifacts, "environments": environments}})
        .to_string()
}

/// A service of the interface that sends these responses in order, repeating the last. Requests with a provider get a
/// 404, and so does a list of environments.
fn service_with(replies: Vec<MakeReply>) -> Server {
    let requests = AtomicUsize::new(0);
    Server::start(move |request: &Request| {
        if request.query.contains("provider=") || is_list_of_environments(request) {
            return Reply::json(404, r#"{"message": "not found"}"#);
        }
        let n = requests.fetch_add(1, Relaxed);
        replies[n.min(replies.len() - 1)]()
    })
}

fn is_list_of_environments(request: &Request) -> bool {
    request.path == "/api/v2/environments/acme"
}

type MakeReply = fn() -> Reply;

fn run(server: &Server, line: &str) -> Outcome {
    let line = ["ONE", "TWO"]
        .iter()
        .zip(['a', 'b'])
        .fold(line.to_owned(), |line, (name, letter)| line.replace(name, &digest(letter)));
    let every: &[&str] = if line.contains("--every") { &[] } else { &["--every", "1s"] };
    // Longer than any test needs.
    let timeouts: &[&str] = if line.contains("--timeout") { &[] } else { &["--timeout", "1m"] };
    let program = supercargo().service(server).args(["wait", "acme/cart"]);
    program.args(every.iter().chain(timeouts).copied()).args(line.split(' ')).run()
}

#[test]
fn wait_succeeds_when_all_artifacts_run_in_the_environment() {
    let both: Vec<MakeReply> = vec![
        || Reply::json(200, live(&[])),
        || Reply::json(200, live(&[('a', "prod"), ('b', "dev")])),
        || Reply::json(200, live(&[('a', "prod"), ('b', "dev"), ('b', "prod")])),
    ];
    let server = service_with(both.clone());
    let outcome = run(&server, "--fingerprint ONE --fingerprint sha256:TWO --environment prod");
    let waiting = format!("waiting: {} does not run in prod; {}", short('a'), short('b'));
    let last = format!("waiting: {} does not run in prod\n", short('b'));
    assert_eq!(outcome.expect(0, &[&waiting, &last]).stdout, "2 artifacts run in prod\n");

    // Without an environment, one running anywhere is enough.
    let server = service_with(both);
    run(&server, "--fingerprint ONE --fingerprint TWO")
        .expect(0, &["runs nowhere"])
        .expect_result(&["2 artifacts run\n"]);
}

#[test]
fn wait_gone_succeeds_when_no_artifact_runs_any_more() {
    let server = service_with(vec![
        || Reply::json(200, live(&[('a', "prod"), ('a', "dev")])),
        || Reply::json(200, live(&[('a', "dev")])),
        || Reply::json(200, live(&[])),
    ]);
    let outcome = run(&server, "--gone --fingerprint ONE");
    outcome
        .expect(0, &["still runs in dev; ", "still runs in prod"])
        .expect_result(&["1 artifact no longer runs\n"]);
    let server = service_with(vec![|| Reply::json(200, live(&[('a', "dev"), ('b', "prod")]))]);
    run(&server, "--gone --fingerprint ONE --environment prod")
        .expect_result(&["1 artifact does not run in prod, and did not at the first query"]);
}

#[test]
fn wait_timeout_names_missing_artifacts_and_environments() {
    let server = service_with(vec![|| Reply::json(200, live(&[('a', "prod")]))]);
    let outcome = run(&server, "--fingerprint ONE --fingerprint TWO --environment prod,dev --timeout 1500ms");
    let missing = [('a', "dev"), ('b', "prod"), ('b', "dev")]
        .map(|(letter, environment)| format!("{} does not run in {environment}", short(letter)));
    outcome.expect(7, &["timed out after 1s 500ms", &missing.join("; ")]);
    // One request per second.
    let is_poll = |request: &&Request| request.query.is_empty() && !is_list_of_environments(request);
    assert!(server.requests().iter().filter(is_poll).count() <= 2);
}

#[test]
fn unknown_environment_fails_at_once_unless_it_runs_an_artifact() {
    let server = Server::start(|request| {
        if is_list_of_environments(request) {
            Reply::json(200, r#"[{"name": "dev", "type": "K8S"}, {"name": "prod"}]"#)
        } else {
            Reply::json(200, live(&[('a', "new")]))
        }
    });
    for gone in ["", "--gone "] {
        let outcome = run(&server, &format!("{gone}--fingerprint TWO --environment new,prd"));
        outcome.expect(4, &["environment prd not found; did you mean prod?"]);
        assert!(outcome.stdout.is_empty(), "{outcome:#?}");
    }
    run(&server, "--fingerprint TWO --environment prod --timeout 1s").expect(7, &["does not run in prod"]);
    // An environment in the response exists.
    server.clear_requests();
    run(&server, "--fingerprint ONE --environment new").expect_result(&["1 artifact runs in new"]);
    assert!(!server.requests().iter().any(is_list_of_environments));
    // Without an answer it is not known whether the environment exists.
    let server = Server::start(|request| {
        if is_list_of_environments(request) { Reply::text(503, "busy") } else { Reply::json(200, live(&[])) }
    });
    run(&server, "--gone --fingerprint ONE --environment prod --timeout 1s").expect(6, &["503"]);
}

#[test]
fn wait_retries_a_restarting_service_and_fails_on_an_unknown_repository() {
    let server = service_with(vec![
        || Reply::json(200, live(&[])),
        || Reply::Reset,
        || Reply::text(502, "bad gateway"),
        || Reply::text(404, "default backend"),
        || Reply::json(200, live(&[('a', "prod")])),
    ]);
    let outcome = run(&server, "--fingerprint ONE");
    outcome.expect(0, &["no response", "502 Bad Gateway", "404 Not Found", "request failed, retrying in"]);
    outcome.expect_result(&["1 artifact runs"]);

    let server = service_with(vec![|| Reply::json(404, r#"{"message": "no such repository"}"#)]);
    let outcome = run(&server, "--fingerprint ONE");
    outcome.expect(4, &["no such repository", "check the name and the organization \"acme\""]);
    for (status, code, expected_text) in
        [(401, 3, "hint: check that the token from"), (403, 3, "belongs to the organization"), (400, 5, "no")]
    {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        assert!(!run(&server, "--fingerprint ONE").expect(code, &[expected_text]).stderr.contains(TOKEN));
    }
    let server = service_with(vec![|| Reply::text(503, "busy")]);
    run(&server, "--fingerprint ONE --timeout 1s").expect(6, &["503 Service Unavailable"]);
    let server = service_with(vec![|| Reply::Stall]);
    run(&server, "--fingerprint ONE --timeout 1s").expect(6, &["timed out after 1s without a response"]);
    // The timeout error still names what the last successful response lacked.
    let server = service_with(vec![|| Reply::json(200, live(&[])), || Reply::text(503, "busy")]);
    run(&server, "--fingerprint ONE --timeout 4s").expect(7, &["runs nowhere", "503 Service Unavailable"]);
}

#[test]
fn wait_explains_other_providers_and_silent_environments() {
    let needed =
        r#"{"message": "invalid parameter", "errors": {"provider": "expected one of github, gitlab"}}"#;
    let server = Server::start(move |_| Reply::json(400, needed));
    run(&server, "--fingerprint ONE")
        .expect(5, &["hint: set the provider of the repository by --provider: github, gitlab"]);

    // Without a provider, this service returns the repository of one of them.
    let server = Server::start(|request| match request.query.as_str() {
        "provider=gitlab" => Reply::json(200, live(&[('b', "prod")])),
        "" | "provider=github" => Reply::json(200, live(&[('a', "prod")])),
        _ => Reply::json(404, "{}"),
    });
    run(&server, "--fingerprint TWO --timeout 1s")
        .expect(7, &["gitlab also has a repository acme/cart", "select one with --provider"]);
    // Artifacts of the other provider's repository are not gone.
    let outcome = run(&server, "--gone --fingerprint TWO");
    outcome.expect(
        2,
        &["gitlab also has a repository acme/cart", "hint: select the repository with --provider"],
    );
    server.clear_requests();
    let outcome = run(&server, "--provider gitlab --fingerprint TWO");
    assert!(!outcome.expect_result(&["1 artifact runs"]).stderr.contains("also has"));
    assert_eq!(server.requests().len(), 1);
    // An artifact that starts between two requests does not belong to another provider.
    let requests = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.query.as_str() {
        "" if requests.fetch_add(1, Relaxed) == 0 => Reply::json(200, live(&[('b', "prod")])),
        "" | "provider=github" => Reply::json(200, live(&[('b', "prod"), ('a', "prod")])),
        _ => Reply::json(404, "{}"),
    });
    let outcome = run(&server, "--fingerprint ONE");
    assert!(!outcome.expect_result(&["1 artifact runs"]).stderr.contains("also has"));
    // Artifacts of a silent environment do not count as running.
    for (more, hint) in [
        (r#""is_silent":true"#, "hint: no agent reports prod: check whether its agent is running"),
        (r#""is_silent":true,"last_report_at":1700000000"#, "hint: prod was last reported "),
        (r#""is_silent":true,"last_report_at":1700000000"#, "d ago: check whether its agent is running"),
    ] {
        let silent = live(&[('a', "prod")]).replace(r#""name":"prod""#, &format!(r#""name":"prod",{more}"#));
        let server = Server::start(move |_| Reply::json(200, silent.clone()));
        let outcome = run(&server, "--fingerprint ONE --environment prod --timeout 1s");
        outcome.expect(7, &["ran in prod at its last report, which is too old", hint]);
    }
    // A service that ignores `provider` has a single one.
    let server = Server::start(|_| Reply::json(200, live(&[('a', "prod")])));
    assert!(!run(&server, "--fingerprint ONE").expect(0, &[]).stderr.contains("also has"));
}

#[test]
fn response_with_100_000_artifacts_does_not_delay_the_timeout() {
    let many: Vec<Value> = (0..100_000)
        .map(|n| json!({"id": n.to_string(), "fingerprint": format!("{n:064}"), "name": "e"}))
        .collect();
    let live: Vec<Value> = (0..100_000)
        .map(|n| json!({"environment_id": n.to_string(), "artifact_id": n.to_string()}))
        .collect();
    let response =
        json!({"live_artifacts": live, "_embedded": {"artifacts": many, "environments": many}}).to_string();
    let server = Server::start(move |request| match request.query.as_str() {
        "" => Reply::json(200, response.clone()),
        _ => Reply::json(404, "{}"),
    });
    let start = std::time::Instant::now();
    run(&server, "--fingerprint ONE --timeout 2s").expect(7, &["runs nowhere"]);
    // A quadratic search took 90 seconds.
    assert!(start.elapsed().as_secs() < 45);
}

#[test]
fn invalid_wait_arguments_are_rejected() {
    let server = service_with(vec![|| Reply::json(200, live(&[]))]);
    for (line, texts) in [
        ("--timeout 1s", &["required", "--fingerprint <DIGEST>|--fingerprint-file <FILE>"][..]),
        ("--fingerprint web:1", &["--fingerprint", "64 hexadecimal digits"]),
        ("--fingerprint ONE --environment a/b", &["--environment", "letter or digit"]),
        ("--fingerprint ONE --provider=", &["--provider", "1 to 255 bytes"]),
        ("--fingerprint ONE --timeout 0s", &["--timeout", "above 0"]),
        ("--fingerprint ONE --every 10ms", &["--every", "at least 1s"]),
    ] {
        run(&server, line).expect(2, texts);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_follows_reports_to_the_real_service() {
    let service = TestService::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit-tests", "artifact_fingerprint": digest('a'),
        "junit_results": [], "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-1", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    let url = service.base.clone();
    let wait = move |more: &'static str| {
        let program = supercargo().env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
        let program = program.env("SUPERCARGO_TOKEN", ADMIN).args(["wait", "acme/cart", "--every", "1s"]);
        let run = move || program.args(["--fingerprint", &digest('a')]).args(more.split(' ')).run();
        tokio::task::spawn_blocking(run)
    };
    let count = async || {
        let metrics = service.metrics().await;
        let requests =
            metrics.lines().filter(|line| line.contains("http_requests") && line.contains("live-artifacts"));
        requests.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
    };
    // Each poll sends one request, and the first also sends one per provider.
    let polls_once = async |before: usize| {
        eventually("wait sends requests", async || count().await >= before + 6).await;
    };
    wait("--environment prod --timeout 1s")
        .await
        .unwrap()
        .expect(7, &["does not run in prod", "hint: only artifacts that were attested"]);
    let before = count().await;
    let waiting = wait("--environment prod");
    polls_once(before).await;
    service.report(ADMIN, "prod", report(&[pod("cart-1", "cart", 'a')])).await.expect(201);
    waiting.await.unwrap().expect(0, &["waiting: "]).expect_result(&["1 artifact runs in prod"]);
    let before = count().await;
    let waiting = wait("--gone --timeout 1m");
    polls_once(before).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    waiting.await.unwrap().expect(0, &["still runs in prod"]).expect_result(&["1 artifact no longer runs"]);
}
