//! `--oidc github`: ID tokens of GitHub Actions instead of a secret.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::{Reply, Server};
use crate::program::{Outcome, Program, TOKEN, supercargo};

/// The token of a job, which permits requests of ID tokens.
const JOB: &str = "j0b-s3cret";
const ID_TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqb2IifQ.c2lnbmF0dXJl";

/// The endpoint of GitHub Actions.
fn github(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |_| reply())
}

fn issued() -> Reply {
    Reply::json(200, format!(r#"{{"count": 1, "value": "{ID_TOKEN}"}}"#))
}

fn service() -> Server {
    Server::start(|_| Reply::json(200, "[]"))
}

/// `list policies`, without a token.
fn list(service: &Server, arguments: &[&str]) -> Program {
    let program = supercargo().args(["list", "policies"]).args(arguments.iter().copied());
    program.env("SUPERCARGO_BASE_URL", &format!("{}/prefix", service.url())).env("SUPERCARGO_ORG", "acme")
}

fn in_github(program: Program, endpoint: &Server) -> Program {
    let url = format!("{}/token?api-version=2.0", endpoint.url());
    program.env("ACTIONS_ID_TOKEN_REQUEST_URL", &url).env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", JOB)
}

/// Expects an exit code and texts in the log, and no secret in the output.
fn expect(outcome: &Outcome, code: i32, texts: &[&str]) {
    outcome.expect(code, texts);
    for secret in [JOB, ID_TOKEN, TOKEN] {
        assert!(!outcome.stderr.contains(secret) && !outcome.stdout.contains(secret), "{outcome:#?}");
    }
}

fn authorization(server: &Server) -> Vec<String> {
    let bearer = |headers: &http::HeaderMap| headers["authorization"].to_str().unwrap().to_owned();
    server.requests().iter().map(|request| bearer(&request.headers)).collect()
}

#[test]
fn github_issues_a_token_for_the_service() {
    // The service fails once: its retry uses the same token.
    let requests = AtomicUsize::new(0);
    let service = Server::start(move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::text(503, ""),
        _ => Reply::json(200, "[]"),
    });
    let endpoint = github(issued);
    // Everything is logged, and the other token is not used.
    let program = in_github(list(&service, &["--oidc", "github", "-vvv"]), &endpoint);
    expect(&program.env("SUPERCARGO_TOKEN", TOKEN).run(), 0, &[]);
    let request = &endpoint.requests()[0];
    let audience: String = url::form_urlencoded::byte_serialize(service.url().as_bytes()).collect();
    assert_eq!(
        (request.method.as_str(), request.path.as_str(), request.query.clone()),
        ("GET", "/token", format!("api-version=2.0&audience={audience}"))
    );
    assert_eq!(authorization(&endpoint), [format!("Bearer {JOB}")]);
    assert_eq!(authorization(&service), vec![format!("Bearer {ID_TOKEN}"); 2]);
    // Another audience, by variables.
    let program = in_github(list(&service, &[]), &endpoint).env("SUPERCARGO_OIDC", "github");
    expect(&program.env("SUPERCARGO_OIDC_AUDIENCE", "a b&c").run(), 0, &[]);
    assert_eq!(endpoint.requests()[1].query, "api-version=2.0&audience=a+b%26c");
}

#[test]
fn token_is_requested_again_after_a_transient_failure_only() {
    let requests = AtomicUsize::new(0);
    let (service, endpoint) = (
        service(),
        github(move || match requests.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::text(503, JOB),
            _ => issued(),
        }),
    );
    let outcome = in_github(list(&service, &["--oidc", "github"]), &endpoint).run();
    expect(&outcome, 0, &["failed to request an ID token from GitHub Actions (--oidc github)", "503"]);
    let elsewhere = Server::start(|_| issued());
    let redirect = format!("{}/elsewhere", elsewhere.url());
    for (reply, code, text) in [
        (Reply::text(403, ID_TOKEN), 2, "403 Forbidden"),
        (Reply::text(302, "").with("location", &redirect), 2, "302 Found: the redirect is not followed"),
        (Reply::text(200, ID_TOKEN), 2, "the response is not JSON with a \"value\""),
        (Reply::json(200, r#"{"value": ["x"]}"#), 2, "the response is not JSON with a \"value\""),
        (
            Reply::json(200, r#"{"value": ""}"#),
            2,
            "invalid token from GitHub Actions (--oidc github): it is empty",
        ),
        (
            Reply::json(200, format!("{{\"value\": \"{}\"}}", "x".repeat(100_000))),
            2,
            "the response is larger than 65536 bytes",
        ),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let endpoint = github(move || reply.lock().unwrap().take().unwrap_or(Reply::Reset));
        let outcome = in_github(list(&service, &["--oidc", "github"]), &endpoint).run();
        expect(&outcome, code, &[text]);
        assert_eq!(endpoint.requests().len(), 1, "{text}");
    }
    assert!(elsewhere.requests().is_empty());
    // An unreachable endpoint is retried until the timeout.
    let endpoint = github(|| Reply::Reset);
    let outcome = in_github(list(&service, &["--oidc", "github", "--timeout", "1s"]), &endpoint).run();
    expect(&outcome, 6, &["gave up after", "no response"]);
    assert_eq!(authorization(&service), [format!("Bearer {ID_TOKEN}")]);
}

#[test]
fn token_is_hidden_in_the_message_of_a_service_that_repeats_it() {
    let denied = Server::start(|_| Reply::json(401, format!("{{\"message\": \"{ID_TOKEN} is expired\"}}")));
    let outcome = in_github(list(&denied, &["--oidc", "github"]), &github(issued)).run();
    expect(&outcome, 3, &["[token] is expired", "the token from GitHub Actions (--oidc github)"]);
}

#[test]
fn job_without_an_id_token_is_told_what_to_configure() {
    let service = service();
    for (arguments, texts) in [
        (
            &["--oidc", "github"][..],
            &["the variable ACTIONS_ID_TOKEN_REQUEST_URL is not set", "id-token: write"][..],
        ),
        (&["--oidc", "gitlab"], &["invalid value 'gitlab' for '--oidc <SYSTEM>'", "possible values: github"]),
        (&[], &["missing token", "--oidc"]),
    ] {
        expect(&list(&service, arguments).run(), 2, texts);
    }
    let url = "http://token.example.com/x";
    let program = list(&service, &["--oidc", "github"]).env("ACTIONS_ID_TOKEN_REQUEST_URL", url);
    let outcome = program.env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", JOB).run();
    expect(&outcome, 2, &["invalid ACTIONS_ID_TOKEN_REQUEST_URL: expected an https URL"]);
    assert!(service.requests().is_empty());
}
