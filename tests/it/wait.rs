//! `wait`: what is waited for, and what it makes of a service that changes its mind.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::fake::{Reply, Seen, Server};
use crate::program::{Outcome, TOKEN, supercargo};
use crate::service::{ADMIN, Database, Running, digest, form, pod, report};

/// What runs: artifacts and environments by a letter each.
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

/// A service that answers each question about all providers with the next of these, and the last again and
/// again; of one provider it knows nothing.
fn answering(answers: Vec<Answer>) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |seen: &Seen| {
        if seen.query.contains("provider=") {
            return Reply::json(404, r#"{"message": "no such repository"}"#);
        }
        let n = asked.fetch_add(1, Relaxed);
        answers[n.min(answers.len() - 1)]()
    })
}

type Answer = fn() -> Reply;

fn run(server: &Server, line: &str) -> Outcome {
    let line = ["ONE", "TWO"]
        .iter()
        .zip(['a', 'b'])
        .fold(line.to_owned(), |line, (name, letter)| line.replace(name, &digest(letter)));
    let every: &[&str] = if line.contains("--every") { &[] } else { &["--every", "1s"] };
    let program = supercargo().service(server).args(["wait", "acme/cart"]);
    program.args(every.iter().copied()).args(line.split(' ')).run()
}

#[test]
fn it_ends_when_all_run_where_they_are_wanted() {
    let both: Vec<Answer> = vec![
        || Reply::json(200, live(&[])),
        || Reply::json(200, live(&[('a', "prod"), ('b', "dev")])),
        || Reply::json(200, live(&[('a', "prod"), ('b', "dev"), ('b', "prod")])),
    ];
    let server = answering(both.clone());
    let outcome = run(&server, "--fingerprint ONE --fingerprint sha256:TWO --environment prod");
    let waiting = format!("waiting: {} does not run in prod, {}", digest('a'), digest('b'));
    let last = format!("waiting: {} does not run in prod\n", digest('b'));
    assert_eq!(outcome.says(0, &[&waiting, &last, "2 artifacts run in prod"]).stdout, "");

    // Anywhere is enough where no environment is named.
    let server = answering(both);
    run(&server, "--fingerprint ONE --fingerprint TWO").says(0, &["runs nowhere", "2 artifacts run\n"]);
}

#[test]
fn it_ends_when_none_runs_there_any_more() {
    let server = answering(vec![
        || Reply::json(200, live(&[('a', "prod"), ('a', "dev")])),
        || Reply::json(200, live(&[('a', "dev")])),
        || Reply::json(200, live(&[])),
    ]);
    let outcome = run(&server, "--gone --fingerprint ONE");
    outcome.says(0, &["still runs in dev, ", "still runs in prod", "1 artifact no longer runs\n"]);
    let server = answering(vec![|| Reply::json(200, live(&[('a', "dev"), ('b', "prod")]))]);
    run(&server, "--gone --fingerprint ONE --environment prod")
        .says(0, &["1 artifact no longer runs in prod"]);
}

#[test]
fn a_wait_that_runs_out_of_time_says_what_is_missing() {
    let server = answering(vec![|| Reply::json(200, live(&[('a', "prod")]))]);
    let outcome = run(&server, "--fingerprint ONE --fingerprint TWO --environment prod,dev --timeout 1500ms");
    let missing = [('a', "dev"), ('b', "prod"), ('b', "dev")]
        .map(|(letter, environment)| format!("{} does not run in {environment}", digest(letter)));
    outcome.says(7, &["after 1.5s", &missing.join(", ")]);
    // Twice at most in that time.
    assert!(server.seen().iter().filter(|seen| seen.query.is_empty()).count() <= 2);
}

#[test]
fn a_service_that_is_restarted_is_waited_for_and_one_that_never_knew_is_not() {
    let server = answering(vec![
        || Reply::json(200, live(&[])),
        || Reply::Reset,
        || Reply::text(502, "bad gateway"),
        || Reply::text(404, "default backend"),
        || Reply::json(200, live(&[('a', "prod")])),
    ]);
    let outcome = run(&server, "--fingerprint ONE");
    outcome.says(
        0,
        &["got no answer", "502 Bad Gateway", "404 Not Found", "asking again in", "1 artifact runs"],
    );

    let server = answering(vec![|| Reply::json(404, r#"{"message": "no such repository"}"#)]);
    let outcome = run(&server, "--fingerprint ONE");
    outcome.says(4, &["no such repository", "the organization \"acme\" and the repository \"acme/cart\""]);
    for (status, code, says) in
        [(401, 3, "hint: the token comes from"), (403, 3, "belongs to the organization"), (400, 5, "no")]
    {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        assert!(!run(&server, "--fingerprint ONE").says(code, &[says]).stderr.contains(TOKEN));
    }
    let server = answering(vec![|| Reply::text(503, "busy")]);
    run(&server, "--fingerprint ONE --timeout 1s").says(6, &["503 Service Unavailable"]);
    let server = answering(vec![|| Reply::Stall]);
    run(&server, "--fingerprint ONE --timeout 1s").says(6, &["after 1s the service has not answered"]);
    // What was missing when it last answered is still what is said.
    let server = answering(vec![|| Reply::json(200, live(&[])), || Reply::text(503, "busy")]);
    run(&server, "--fingerprint ONE --timeout 2s").says(7, &["runs nowhere", "503 Service Unavailable"]);
}

#[test]
fn where_providers_share_a_name_it_says_so() {
    let needed = r#"{"message": "provider: several providers have this repository; one of github, gitlab was expected"}"#;
    let server = Server::start(move |_| Reply::json(400, needed));
    run(&server, "--fingerprint ONE").says(5, &["hint: say which is meant by --provider: github, gitlab"]);

    // One that answers all the same, with another's.
    let server = Server::start(|seen| match seen.query.as_str() {
        "provider=gitlab" => Reply::json(200, live(&[('b', "prod")])),
        "" | "provider=github" => Reply::json(200, live(&[('a', "prod")])),
        _ => Reply::json(404, "{}"),
    });
    run(&server, "--gone --fingerprint TWO")
        .says(0, &["gitlab also has a repository acme/cart", "give --provider"]);
    server.forget();
    let outcome = run(&server, "--provider gitlab --fingerprint TWO");
    assert!(!outcome.says(0, &["1 artifact runs"]).stderr.contains("also has"));
    assert_eq!(server.seen().len(), 1);
    // One that does not look at the provider has but one.
    let server = Server::start(|_| Reply::json(200, live(&[('a', "prod")])));
    assert!(!run(&server, "--fingerprint ONE").says(0, &[]).stderr.contains("also has"));
}

#[test]
fn what_cannot_be_waited_for_is_refused() {
    let server = answering(vec![|| Reply::json(200, live(&[]))]);
    for (line, words) in [
        ("--timeout 1s", &["nothing to wait for: give --fingerprint or --fingerprint-file"][..]),
        ("--fingerprint web:1", &["--fingerprint", "64 hexadecimal digits"]),
        ("--fingerprint ONE --environment a/b", &["--environment", "slash"]),
        ("--fingerprint ONE --provider sourceforge", &["github, gitlab"]),
        ("--fingerprint ONE --timeout 0s", &["--timeout", "more than nothing"]),
        ("--fingerprint ONE --every 10ms", &["--every", "a second at least"]),
    ] {
        run(&server, line).says(2, words);
    }
    assert!(server.seen().is_empty());
}

/// Against the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_is_waited_for_until_it_is_reported_and_until_it_is_gone() {
    let service = Running::start(Database::sqlite()).await;
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
    wait("--environment prod --timeout 1s").await.unwrap().says(7, &["does not run in prod"]);
    let waiting = wait("--environment prod");
    service.report(ADMIN, "prod", report(&[pod("cart-1", "cart", 'a')])).await.expect(201);
    waiting.await.unwrap().says(0, &["1 artifact runs in prod"]);
    let waiting = wait("--gone --timeout 1m");
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    waiting.await.unwrap().says(0, &["1 artifact no longer runs"]);
}
