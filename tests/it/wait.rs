//! `wait`: what is waited for, and what it makes of a service that changes its mind.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::fake::{Reply, Seen, Server};
use crate::program::{Outcome, TOKEN, supercargo};
use crate::service::{ADMIN, Database, Running, digest, eventually, form, pod, report};

/// As tables show it.
fn short(letter: char) -> String {
    digest(letter)[..12].to_owned()
}

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
    // None of them takes that long.
    let patience: &[&str] = if line.contains("--timeout") { &[] } else { &["--timeout", "1m"] };
    let program = supercargo().service(server).args(["wait", "acme/cart"]);
    program.args(every.iter().chain(patience).copied()).args(line.split(' ')).run()
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
    let waiting = format!("waiting: {} does not run in prod; {}", short('a'), short('b'));
    let last = format!("waiting: {} does not run in prod\n", short('b'));
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
    outcome.says(0, &["still runs in dev; ", "still runs in prod", "1 artifact no longer runs\n"]);
    let server = answering(vec![|| Reply::json(200, live(&[('a', "dev"), ('b', "prod")]))]);
    run(&server, "--gone --fingerprint ONE --environment prod")
        .says(0, &["1 artifact does not run in prod, and did not when first asked"]);
}

#[test]
fn a_wait_that_runs_out_of_time_says_what_is_missing() {
    let server = answering(vec![|| Reply::json(200, live(&[('a', "prod")]))]);
    let outcome = run(&server, "--fingerprint ONE --fingerprint TWO --environment prod,dev --timeout 1500ms");
    let missing = [('a', "dev"), ('b', "prod"), ('b', "dev")]
        .map(|(letter, environment)| format!("{} does not run in {environment}", short(letter)));
    outcome.says(7, &["after 1s 500ms", &missing.join("; ")]);
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
        &[
            "got no answer",
            "502 Bad Gateway",
            "404 Not Found",
            "no answer, asking again in",
            "1 artifact runs",
        ],
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
    run(&server, "--fingerprint ONE --timeout 4s").says(7, &["runs nowhere", "503 Service Unavailable"]);
}

#[test]
fn what_is_another_s_or_was_not_heard_of_for_long_is_said() {
    let needed = r#"{"message": "provider: several providers have this repository; one of github, gitlab was expected"}"#;
    let server = Server::start(move |_| Reply::json(400, needed));
    run(&server, "--fingerprint ONE")
        .says(5, &["hint: say whose repository is meant by --provider: github, gitlab"]);

    // One that answers all the same, with another's.
    let server = Server::start(|seen| match seen.query.as_str() {
        "provider=gitlab" => Reply::json(200, live(&[('b', "prod")])),
        "" | "provider=github" => Reply::json(200, live(&[('a', "prod")])),
        _ => Reply::json(404, "{}"),
    });
    run(&server, "--fingerprint TWO --timeout 1s")
        .says(7, &["gitlab also has a repository acme/cart", "give --provider"]);
    // What the other runs is not gone.
    let outcome = run(&server, "--gone --fingerprint TWO");
    outcome.says(2, &["gitlab also has a repository acme/cart", "hint: say whose repository is meant"]);
    server.forget();
    let outcome = run(&server, "--provider gitlab --fingerprint TWO");
    assert!(!outcome.says(0, &["1 artifact runs"]).stderr.contains("also has"));
    assert_eq!(server.seen().len(), 1);
    // What began to run between two questions is no other's.
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.query.as_str() {
        "" if asked.fetch_add(1, Relaxed) == 0 => Reply::json(200, live(&[('b', "prod")])),
        "" | "provider=github" => Reply::json(200, live(&[('b', "prod"), ('a', "prod")])),
        _ => Reply::json(404, "{}"),
    });
    let outcome = run(&server, "--fingerprint ONE");
    assert!(!outcome.says(0, &["1 artifact runs"]).stderr.contains("also has"));
    // Where nobody has reported for long, nobody knows what runs.
    for (more, hint) in [
        (r#""is_silent":true"#, "hint: nobody reports prod: does its agent run?"),
        (r#""is_silent":true,"last_report_at":1700000000"#, "hint: prod was last reported "),
        (r#""is_silent":true,"last_report_at":1700000000"#, "d ago: does its agent run?"),
    ] {
        let silent = live(&[('a', "prod")]).replace(r#""name":"prod""#, &format!(r#""name":"prod",{more}"#));
        let server = Server::start(move |_| Reply::json(200, silent.clone()));
        let outcome = run(&server, "--fingerprint ONE --environment prod --timeout 1s");
        outcome.says(7, &["ran in prod, of which nothing was heard for long", hint]);
    }
    // One that does not look at the provider has but one.
    let server = Server::start(|_| Reply::json(200, live(&[('a', "prod")])));
    assert!(!run(&server, "--fingerprint ONE").says(0, &[]).stderr.contains("also has"));
}

#[test]
fn an_answer_with_very_many_artifacts_holds_no_timeout_up() {
    let many: Vec<Value> = (0..100_000)
        .map(|n| json!({"id": n.to_string(), "fingerprint": format!("{n:064}"), "name": "e"}))
        .collect();
    let live: Vec<Value> = (0..100_000)
        .map(|n| json!({"environment_id": n.to_string(), "artifact_id": n.to_string()}))
        .collect();
    let answer =
        json!({"live_artifacts": live, "_embedded": {"artifacts": many, "environments": many}}).to_string();
    let server = Server::start(move |seen| match seen.query.as_str() {
        "" => Reply::json(200, answer.clone()),
        _ => Reply::json(404, "{}"),
    });
    let start = std::time::Instant::now();
    run(&server, "--fingerprint ONE --timeout 2s").says(7, &["runs nowhere"]);
    // It took a minute and a half while each was looked for among all.
    assert!(start.elapsed().as_secs() < 45);
}

#[test]
fn what_cannot_be_waited_for_is_refused() {
    let server = answering(vec![|| Reply::json(200, live(&[]))]);
    for (line, words) in [
        ("--timeout 1s", &["required", "--fingerprint <DIGEST>|--fingerprint-file <FILE>"][..]),
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
    let has_asked = async |times: usize| {
        let asked = |metrics: String| {
            let asked = metrics
                .lines()
                .filter(|line| line.contains("http_requests") && line.contains("live-artifacts"));
            asked.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
        };
        eventually("it asks", async || asked(service.metrics().await) >= times).await;
    };
    wait("--environment prod --timeout 1s")
        .await
        .unwrap()
        .says(7, &["does not run in prod", "hint: only what was attested"]);
    // Those, and six of the next: its own question, and one about each provider.
    has_asked(6).await;
    let waiting = wait("--environment prod");
    has_asked(12).await;
    service.report(ADMIN, "prod", report(&[pod("cart-1", "cart", 'a')])).await.expect(201);
    waiting.await.unwrap().says(0, &["waiting: ", "1 artifact runs in prod"]);
    let waiting = wait("--gone --timeout 1m");
    has_asked(19).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    waiting.await.unwrap().says(0, &["still runs in prod", "1 artifact no longer runs"]);
}
