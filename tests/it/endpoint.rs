//! `agent --once` against a service that accepts, rejects, stalls, resets, or is something else.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fake::pki::Authority;
use crate::fake::{Reply, Server};
use crate::program::{Outcome, TOKEN, once};

const NEW: &str = r#""Snapshot created""#;
const UNCHANGED: &str = r#""report processed, no new snapshots to create""#;

/// Reports the recorded pods to the environment `prod`.
fn report(endpoint: &Server) -> Outcome {
    once().args(["--environment", "prod", "--timeout", "2s"]).recorded_pods().service(endpoint).run()
}

#[test]
fn report_request_follows_the_interface_and_has_the_bytes_of_the_dry_run() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    report(&endpoint).expect(0, &["prod: 20 pods reported, new snapshot ("]);
    let [request] = endpoint.requests().try_into().unwrap();
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("PUT", "/api/v2/environments/acme/prod/report/K8S")
    );
    assert_eq!(request.headers["authorization"], format!("Bearer {TOKEN}").as_str());
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["content-length"], request.body.len().to_string().as_str());
    assert!(!request.headers.contains_key("transfer-encoding"));
    assert!(request.headers["user-agent"].to_str().unwrap().starts_with("supercargo/"));

    let printed = once().args(["--environment", "prod", "--dry-run"]).recorded_pods().run();
    assert_eq!(printed.stdout.as_bytes(), [&request.body[..], b"\n"].concat());
}

#[test]
fn every_success_response_is_understood() {
    for (status, body, expected_text) in [
        (201, NEW, "reported, new snapshot"),
        (201, "", "reported, new snapshot"),
        (200, UNCHANGED, "reported, unchanged"),
        (201, UNCHANGED, "reported, unchanged"),
        (200, r#""done""#, "prod: 20 pods reported ("),
        (200, r#""report processed, new snapshot 7""#, "prod: 20 pods reported ("),
        (200, r#""there were no new snapshots""#, "prod: 20 pods reported ("),
        (202, "{}", "prod: 20 pods reported ("),
        (204, "", "prod: 20 pods reported ("),
    ] {
        let endpoint = Server::start(move |_| Reply::json(status, body));
        report(&endpoint).expect(0, &[expected_text]);
    }
}

#[test]
fn rejected_report_is_not_retried_and_shows_the_service_message() {
    for (status, code) in [(401, 3), (403, 3), (404, 4), (400, 5), (413, 5), (422, 5)] {
        let body = r#"{"message": "no \u001b[31mway", "errors": {"artifacts": "too many"}}"#;
        let endpoint = Server::start(move |_| Reply::json(status, body));
        let outcome = report(&endpoint);
        outcome.expect(
            code,
            &[
                "the service rejected the report for environment \"prod\"",
                &format!("/api/v2/environments/acme/prod/report/K8S failed: {status}"),
                "no \\u{1b}[31mway: artifacts: too many",
            ],
        );
        assert_eq!(endpoint.requests().len(), 1, "{status}");
    }
    let endpoint = Server::start(|_| Reply::text(403, "go away"));
    report(&endpoint).expect(
        3,
        &[
            "403 Forbidden: go away",
            "the token from the variable SUPERCARGO_TOKEN belongs to the organization \"acme\" and may report the \
             environment \"prod\"",
        ],
    );
    let endpoint = Server::start(|_| Reply::text(404, ""));
    report(&endpoint).expect(
        4,
        &[
            "404 Not Found: no message",
            "hint: check the name, the organization and the base URL http://127.0.0.1",
        ],
    );
}

#[test]
fn transient_error_is_retried_until_the_timeout() {
    for status in [408, 409, 429, 500, 502, 503, 504] {
        let endpoint = Server::start(move |_| Reply::json(status, r#"{"message": "later"}"#));
        report(&endpoint).expect(
            6,
            &["failed to report environment", "gave up after", "--timeout", &status.to_string(), "later"],
        );
    }
    let endpoint = Server::start(|_| Reply::json(501, r#"{"message": "never"}"#));
    report(&endpoint).expect(6, &["unexpected response: ", "501"]);
    assert_eq!(endpoint.requests().len(), 1);

    let endpoint = Server::start(|_| Reply::Reset);
    report(&endpoint).expect(6, &["no response"]);
}

#[test]
fn retry_sends_the_same_bytes_with_the_current_token_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "first\n").unwrap();
    let (attempts, rotated) = (AtomicUsize::new(0), token_file.clone());
    let endpoint = Server::start(move |_| match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => {
            std::fs::write(&rotated, "second\n").unwrap();
            Reply::json(503, r#"{"message": "restarting"}"#).with("retry-after", "0")
        }
        1 => Reply::Reset,
        _ => Reply::json(200, UNCHANGED),
    });
    let outcome = once()
        .args(["--environment", "prod", "--token-file", token_file.to_str().unwrap()])
        .recorded_pods()
        .service(&endpoint)
        .run();
    outcome.expect(0, &["warning: ", "PUT http://127.0.0.1", "503", "retrying in ", "unchanged"]);
    let requests = endpoint.requests();
    let tokens: Vec<_> = requests.iter().map(|s| s.headers["authorization"].to_str().unwrap()).collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second", "Bearer second"]);
    assert!(requests.iter().all(|s| s.body == requests[0].body && !s.body.is_empty()));
}

#[test]
fn foreign_response_is_identified_and_not_retried() {
    let html = || {
        Reply::Response(
            200,
            vec![("content-type", "text/html".into())],
            "<!doctype html><title>Log in</title>".into(),
        )
    };
    let login = || Reply::text(302, "").with("location", "https://login.example.com/?next=x");
    let cases: [(fn() -> Reply, &[&str]); 4] = [
        (html, &["unexpected response: 200 OK with text/html", "<!doctype html><title>Log in"]),
        (login, &["302 Found: redirect to https://login.example.com/?next=x is not followed"]),
        (|| Reply::Endless(200, vec![]), &["more than 64 KiB"]),
        (|| Reply::json(200, "{\"cut"), &[": \"{\"cut\""]),
    ];
    for (reply, texts) in cases {
        let endpoint = Server::start(move |_| reply());
        report(&endpoint).expect(6, texts);
        assert_eq!(endpoint.requests().len(), 1, "{texts:?}");
    }
}

#[test]
fn html_error_page_is_foreign_unless_its_status_is_about_the_caller() {
    for (status, code) in [(404, 6), (405, 6), (400, 6), (401, 3), (403, 3), (413, 5)] {
        let kind = || vec![("content-type", "Text/HTML; charset=utf-8".into())];
        let endpoint = Server::start(move |_| Reply::Response(status, kind(), "<!DOCTYPE html>".into()));
        let outcome = report(&endpoint);
        outcome.expect(code, &[&status.to_string(), "<!DOCTYPE html>"]);
        let is_foreign = outcome.stderr.contains("unexpected response: ");
        assert_eq!(is_foreign, code == 6, "{outcome:#?}");
        if is_foreign {
            outcome.expect(6, &[&format!("hint: check the base URL {}: ", endpoint.url()), "/api/v2"]);
        }
        assert_eq!(endpoint.requests().len(), 1, "{status}");
    }
}

#[test]
fn plain_http_to_a_tls_port_is_explained_and_not_retried() {
    let endpoint = Server::start_tls(Authority::new().server(None), |_| Reply::json(201, NEW));
    let url = endpoint.url().replace("https://", "http://");
    let outcome = once()
        .args(["--environment", "prod", "--base-url", &url, "--org", "acme"])
        .env("SUPERCARGO_TOKEN", TOKEN)
        .recorded_pods()
        .run();
    outcome.expect(6, &["no response", "hint: the server does not speak plain http; is it https?"]);
    assert!(!outcome.stderr.contains("retrying"), "{outcome:#?}");
}

#[test]
fn retry_after_beyond_the_timeout_fails_at_once() {
    let endpoint = Server::start(|_| Reply::json(429, r#"{"message": "slowly"}"#).with("retry-after", "90"));
    report(&endpoint).expect(
        6,
        &[
            "gave up after 1 attempt",
            "the server asks for a retry after 90 s, later than --timeout",
            "slowly",
        ],
    );
    assert_eq!(endpoint.requests().len(), 1);
}

#[test]
fn stalling_or_unreachable_service_fails_at_the_timeout() {
    let stalls: [fn() -> Reply; 2] = [|| Reply::Stall, || Reply::StallAfter(200, vec![], NEW.into(), 3)];
    for stall in stalls {
        let endpoint = Server::start(move |_| stall());
        report(&endpoint).expect(6, &["timed out after "]);
    }
    let stopped = Server::start(|_| Reply::Reset);
    let url = stopped.url();
    drop(stopped);
    let outcome = once()
        .args(["--environment", "prod", "--timeout", "1s", "--base-url", &url, "--org", "acme"])
        .env("SUPERCARGO_TOKEN", TOKEN)
        .recorded_pods()
        .run();
    outcome.expect(6, &["refused"]);
}

#[test]
fn organization_with_special_characters_is_one_path_segment() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let outcome = once()
        .args(["--environment", "prod_eu~1", "--base-url", &format!("{}/prefix/", endpoint.url())])
        .recorded_pods()
        .service(&endpoint)
        .env("SUPERCARGO_ORG", "ácme?x=%2F#1")
        .run();
    outcome.expect(0, &[]);
    let [request] = endpoint.requests().try_into().unwrap();
    assert_eq!(request.path, "/prefix/api/v2/environments/%C3%A1cme%3Fx=%252F%231/prod_eu~1/report/K8S");
}

#[test]
fn rejected_environment_does_not_affect_others() {
    let endpoint = Server::start(|request| {
        if request.path.contains("/refused/") {
            Reply::json(403, r#"{"message": "no"}"#)
        } else {
            Reply::json(201, NEW)
        }
    });
    let config = "environments:\n- name: first\n- name: refused\n- name: typo\n  namespaces: [zooo]\n- name: last\n  namespaces: [zoo]\n";
    let outcome =
        once().args(["--config", "c.yaml"]).file("c.yaml", config).recorded_pods().service(&endpoint).run();
    outcome.expect(
        3,
        &[
            "first: 20 pods reported",
            "last: 20 pods",
            "the service rejected the report for environment \"refused\"",
            "\"typo\" not reported",
        ],
    );
    let paths: Vec<_> =
        endpoint.requests().iter().map(|s| s.path.split('/').nth(5).unwrap().to_owned()).collect();
    assert_eq!(paths, ["first", "refused", "last"]);
}

#[test]
fn tls_trusts_system_authorities_and_the_ca_file() {
    let authority = Authority::new();
    let endpoint = Server::start_tls(authority.server(None), |_| Reply::json(201, NEW));
    let program = || {
        once()
            .args(["--environment", "prod"])
            .recorded_pods()
            .service(&endpoint)
            .file("ca.pem", authority.pem())
    };
    program().args(["--ca-file", "ca.pem"]).run().expect(0, &["new snapshot"]);
    let outcome = program().run();
    outcome.expect(6, &["certificate"]);
    assert!(!outcome.stderr.contains("retrying"), "{outcome:#?}");

    program().args(["--ca-file", "missing.pem"]).run().expect(2, &["missing.pem", "--ca-file"]);
    let garbled = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    for (content, expected_text) in [
        ("no certificate", "contains no certificate in PEM"),
        (garbled, "contains an invalid certificate: number 1"),
    ] {
        let outcome = program().file("no.pem", content).args(["--ca-file", "no.pem"]).run();
        outcome.expect(2, &["the CA file \"no.pem\" (--ca-file)", expected_text]);
    }
}

#[test]
fn rejected_certificate_is_explained() {
    let (authority, namesake) = (Authority::new(), Authority::new());
    let ordinary = || authority.server(None);
    for (server, trusted, texts) in [
        (ordinary(), None, ["not signed by a trusted certificate authority", "hint: check the host name"]),
        (
            ordinary(),
            Some(&namesake),
            ["signed by another certificate authority with the same name", "hint: check the host name"],
        ),
        (
            authority.server_with_ca_certificate(),
            Some(&authority),
            ["got a CA certificate (CA:TRUE)", "hint: create a server certificate"],
        ),
    ] {
        let endpoint = Server::start_tls(server, |_| Reply::json(201, NEW));
        let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
        let program = match trusted {
            Some(trusted) => program.file("ca.pem", trusted.pem()).args(["--ca-file", "ca.pem"]),
            None => program,
        };
        let outcome = program.run();
        outcome.expect(6, &texts).expect(6, &["invalid peer certificate: "]);
        assert_eq!(outcome.stderr.matches("certificate: ").count(), 1, "{outcome:#?}");
    }
}

#[test]
fn plain_http_bypasses_proxies() {
    let proxy = Server::start(|_| Reply::json(201, NEW));
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let outcome = once()
        .args(["--environment", "prod"])
        .recorded_pods()
        .service(&endpoint)
        .env("HTTP_PROXY", &proxy.url())
        .env("http_proxy", &proxy.url())
        .env("ALL_PROXY", &proxy.url())
        .run();
    outcome.expect(0, &[]);
    assert_eq!((proxy.requests().len(), endpoint.requests().len()), (0, 1));
}

/// `n` pods, each about 200 bytes in a report.
fn many_pods(n: usize) -> String {
    pods_with_image(n, "web")
}

fn pods_with_image(n: usize, image: &str) -> String {
    let digest = "ab".repeat(32);
    let pods = (0..n).map(|n| {
        serde_json::json!({
            "kind": "Pod",
            "metadata": {"name": format!("web-{n:05}"), "namespace": "shop", "creationTimestamp": "2026-11-21T10:30:28Z"},
            "status": {"containerStatuses": [{"name": "web", "image": format!("{image}:{n}"), "imageID": digest}]},
        })
    });
    serde_json::json!({"kind": "List", "items": pods.collect::<Vec<_>>()}).to_string()
}

/// Sends a report that exceeds the buffers of a connection.
fn large_report(endpoint: &Server) -> Outcome {
    once()
        // A debug build needs most of the default timeout on a busy machine.
        .args(["--environment", "prod", "--pods-from", "-", "--timeout", "10m"])
        // Long image names (at most 1,024 bytes) keep the number of pods low.
        .stdin(pods_with_image(10_000, &format!("registry.example.com/{}", "a".repeat(980))))
        .service(endpoint)
        .run()
}

#[test]
fn report_of_many_chunks_arrives_unchanged() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let program = || once().args(["--environment", "prod", "--pods-from", "-"]).stdin(many_pods(3_000));
    program().service(&endpoint).run().expect(0, &["3000 pods reported"]);
    let [request] = endpoint.requests().try_into().unwrap();
    assert!(request.body.len() > 500_000);
    assert_eq!(request.headers["content-length"], request.body.len().to_string().as_str());
    assert_eq!(program().args(["--dry-run"]).run().stdout.as_bytes(), [&request.body[..], b"\n"].concat());
}

#[test]
fn rejection_before_the_end_of_the_body_is_reported() {
    let endpoint = Server::start_head_only(|_| Reply::json(413, r#"{"message": "too large for us"}"#));
    large_report(&endpoint).expect(5, &["413 Payload Too Large: too large for us"]);
}

#[test]
fn success_before_the_end_of_the_body_is_an_error() {
    let endpoint = Server::start_head_only(|_| Reply::json(200, NEW));
    large_report(&endpoint).expect(6, &["200 OK before the upload was complete"]);
}

#[test]
fn rate_limited_environment_among_many_is_retried() {
    let attempts = AtomicUsize::new(0);
    let endpoint = Server::start(move |_| match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::text(429, "later").with("retry-after", "2"),
        _ => Reply::json(201, NEW),
    });
    let names = (0..50).map(|n| format!("- name: e{n}")).collect::<Vec<_>>().join("\n");
    let program = once().args(["--config", "c.yaml"]).file("c.yaml", format!("environments:\n{names}"));
    program.recorded_pods().service(&endpoint).run().expect(0, &["e0: 20 pods", "e49: 20 pods"]);
}

#[test]
fn rejection_with_an_endless_body_is_reported() {
    let endpoint = Server::start(|_| Reply::StallAfter(403, vec![], "no, because".into(), 3));
    let outcome = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint).run();
    outcome.expect(3, &["403 Forbidden: no,"]);
}

#[test]
fn stalled_environment_does_not_use_up_the_time_of_others() {
    let endpoint = Server::start(|request| match request.path.split('/').nth(5) {
        Some("hangs") => Reply::Stall,
        _ => Reply::json(201, NEW),
    });
    let config = "environments:\n- name: hangs\n- name: works\n";
    let outcome = once()
        .args(["--config", "c.yaml", "--timeout", "4s"])
        .file("c.yaml", config)
        .recorded_pods()
        .service(&endpoint)
        .run();
    outcome.expect(
        6,
        &[
            "works: 20 pods reported",
            "failed to report environment \"hangs\"",
            "/hangs/report/K8S timed out after ",
        ],
    );
}

#[test]
fn https_uses_the_proxy_unless_no_proxy_lists_the_service() {
    let authority = Authority::new();
    let endpoint = Server::start_tls(authority.server(None), |_| Reply::json(201, NEW));
    let proxy = Server::start(|_| Reply::text(502, "no way"));
    let program = || {
        once()
            .args(["--environment", "prod", "--timeout", "1s", "--ca-file", "ca.pem"])
            .file("ca.pem", authority.pem())
            .recorded_pods()
            .service(&endpoint)
            .env("HTTPS_PROXY", &proxy.url().replace("http://", "http://user:pr0xy-pass@"))
    };
    let through = program().run();
    through.expect(6, &["no response"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.requests()[0].method, "CONNECT");
    for no_proxy in ["127.0.0.1", "*"] {
        program().env("NO_PROXY", no_proxy).run().expect(0, &["new snapshot"]);
    }
}

#[test]
fn plain_http_to_another_host_needs_allow_http() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    // Not a loopback address, although connections reach this host.
    let url = endpoint.url().replace("127.0.0.1", "0.0.0.0");
    let program =
        || once().args(["--environment", "prod", "--base-url", &url]).recorded_pods().service(&endpoint);
    program().run().expect(2, &["unencrypted", "--allow-http"]);
    program().args(["--allow-http"]).run().expect(0, &["new snapshot"]);
    program().env("SUPERCARGO_ALLOW_HTTP", "true").run().expect(0, &["new snapshot"]);
    program().env("SUPERCARGO_ALLOW_HTTP", "no").run().expect(2, &["unencrypted", "--allow-http"]);
    program().env("SUPERCARGO_ALLOW_HTTP", "perhaps").run().expect(2, &["--allow-http", "perhaps"]);
}

#[test]
fn empty_variable_counts_as_unset() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
    program.env("SUPERCARGO_TOKEN_FILE", "").env("SUPERCARGO_CA_FILE", "").run().expect(0, &[]);
    let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
    program.env("SUPERCARGO_ORG", "").run().expect(2, &["missing organization"]);
}

#[test]
fn attestation_hints_are_not_shown_for_reports() {
    for (status, message) in [(413, "too large"), (400, "no provider")] {
        let message = serde_json::json!({"message": message}).to_string();
        let endpoint = Server::start(move |_| Reply::json(status, message.clone()));
        let outcome = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint).run();
        assert!(!outcome.expect(5, &[]).stderr.contains("hint:"), "{outcome:?}");
    }
}
