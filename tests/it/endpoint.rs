//! The one shot against a service that accepts, refuses, stalls, resets and lies.

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
fn a_report_is_put_as_the_interface_says_and_is_what_the_dry_run_prints() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    report(&endpoint).says(0, &["prod: 20 artifacts reported, new snapshot ("]);
    let [seen] = endpoint.seen().try_into().unwrap();
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("PUT", "/api/v2/environments/acme/prod/report/K8S")
    );
    assert_eq!(seen.headers["authorization"], format!("Bearer {TOKEN}").as_str());
    assert_eq!(seen.headers["content-type"], "application/json");
    assert_eq!(seen.headers["content-length"], seen.body.len().to_string().as_str());
    assert!(!seen.headers.contains_key("transfer-encoding"));
    assert!(seen.headers["user-agent"].to_str().unwrap().starts_with("supercargo/"));

    let printed = once().args(["--environment", "prod", "--dry-run"]).recorded_pods().run();
    assert_eq!(printed.stdout.as_bytes(), [&seen.body[..], b"\n"].concat());
}

#[test]
fn every_way_to_accept_a_report_is_understood() {
    for (status, body, says) in [
        (201, NEW, "reported, new snapshot"),
        (201, "", "reported, new snapshot"),
        (200, UNCHANGED, "reported, unchanged"),
        (200, r#""done""#, "prod: 20 artifacts reported ("),
        (202, "{}", "prod: 20 artifacts reported ("),
        (204, "", "prod: 20 artifacts reported ("),
    ] {
        let endpoint = Server::start(move |_| Reply::json(status, body));
        report(&endpoint).says(0, &[says]);
    }
}

#[test]
fn a_refusal_is_final_and_shows_the_service_s_message() {
    for (status, code) in [(401, 3), (403, 3), (404, 4), (400, 5), (413, 5), (422, 5)] {
        let body = r#"{"message": "no \u001b[31mway", "errors": {"artifacts": "too many"}}"#;
        let endpoint = Server::start(move |_| Reply::json(status, body));
        let outcome = report(&endpoint);
        outcome.says(
            code,
            &[
                "the report for the environment \"prod\" was not accepted",
                &format!("/api/v2/environments/acme/prod/report/K8S was answered with {status}"),
                "no \\u{1b}[31mway {\"artifacts\":\"too many\"}",
            ],
        );
        assert_eq!(endpoint.seen().len(), 1, "{status}");
    }
    let endpoint = Server::start(|_| Reply::text(403, "go away"));
    report(&endpoint).says(
        3,
        &["403 Forbidden: go away", "the token comes from the variable SUPERCARGO_TOKEN", "\"acme\""],
    );
    let endpoint = Server::start(|_| Reply::text(404, ""));
    report(&endpoint)
        .says(4, &["404 Not Found: without a message", "hint: check the base URL http://127.0.0.1"]);
}

#[test]
fn what_may_mend_itself_is_tried_again_until_the_timeout() {
    for status in [408, 409, 429, 500, 502, 503, 504] {
        let endpoint = Server::start(move |_| Reply::json(status, r#"{"message": "later"}"#));
        report(&endpoint)
            .says(6, &["could not be sent", "gave up after", "--timeout", &status.to_string(), "later"]);
    }
    let endpoint = Server::start(|_| Reply::json(501, r#"{"message": "never"}"#));
    report(&endpoint).says(6, &["was not answered by the compliance service", "501"]);
    assert_eq!(endpoint.seen().len(), 1);

    let endpoint = Server::start(|_| Reply::Reset);
    report(&endpoint).says(6, &["got no answer"]);
}

#[test]
fn a_second_try_writes_the_same_bytes_with_the_token_that_the_file_holds_then() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "first\n").unwrap();
    let (tries, rotated) = (AtomicUsize::new(0), token_file.clone());
    let endpoint = Server::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
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
    outcome.says(0, &["warning: PUT http://127.0.0.1", "503", "trying again in ", "unchanged"]);
    let seen = endpoint.seen();
    let tokens: Vec<_> = seen.iter().map(|s| s.headers["authorization"].to_str().unwrap()).collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second", "Bearer second"]);
    assert!(seen.iter().all(|s| s.body == seen[0].body && !s.body.is_empty()));
}

#[test]
fn what_is_not_the_service_is_said_to_be_something_else() {
    let html = || {
        Reply::Answer(
            200,
            vec![("content-type", "text/html".into())],
            "<!doctype html><title>Log in</title>".into(),
        )
    };
    let login = || Reply::text(302, "").with("location", "https://login.example.com/?next=x");
    let cases: [(fn() -> Reply, &[&str]); 4] = [
        (html, &["not answered by the compliance service", "text/html", "<!doctype html><title>Log in"]),
        (login, &["302 Found, a redirect to https://login.example.com/?next=x, which is not followed"]),
        (|| Reply::Endless(200, vec![]), &["more than 64 KiB"]),
        (|| Reply::json(200, "{\"cut"), &["begins \"{\"cut\""]),
    ];
    for (reply, words) in cases {
        let endpoint = Server::start(move |_| reply());
        report(&endpoint).says(6, words);
        assert_eq!(endpoint.seen().len(), 1, "{words:?}");
    }
}

#[test]
fn a_page_that_says_no_is_not_the_service_where_its_status_says_nothing_of_the_caller() {
    for (status, code) in [(404, 6), (405, 6), (400, 6), (401, 3), (403, 3), (413, 5)] {
        let kind = || vec![("content-type", "Text/HTML; charset=utf-8".into())];
        let endpoint = Server::start(move |_| Reply::Answer(status, kind(), "<!DOCTYPE html>".into()));
        let outcome = report(&endpoint);
        outcome.says(code, &[&status.to_string(), "<!DOCTYPE html>"]);
        let is_foreign = outcome.stderr.contains("was not answered by the compliance service");
        assert_eq!(is_foreign, code == 6, "{outcome:#?}");
        if is_foreign {
            outcome.says(6, &[&format!("hint: check the base URL {}: ", endpoint.url()), "/api/v2"]);
        }
        assert_eq!(endpoint.seen().len(), 1, "{status}");
    }
}

#[test]
fn plain_http_to_a_port_that_speaks_tls_is_named_and_not_tried_again() {
    let endpoint = Server::start_tls(Authority::new().server(None), |_| Reply::json(201, NEW));
    let url = endpoint.url().replace("https://", "http://");
    let outcome = once()
        .args(["--environment", "prod", "--base-url", &url, "--org", "acme"])
        .env("SUPERCARGO_TOKEN", TOKEN)
        .recorded_pods()
        .run();
    outcome.says(6, &["got no answer", "hint: the other side does not speak plain http; is it https?"]);
    assert!(!outcome.stderr.contains("trying again"), "{outcome:#?}");
}

#[test]
fn a_service_that_wants_to_be_asked_later_than_there_is_time_says_when() {
    let endpoint = Server::start(|_| Reply::json(429, r#"{"message": "slowly"}"#).with("retry-after", "90"));
    report(&endpoint).says(
        6,
        &["gave up after 1 try", "it is to be asked again in 90 s, and --timeout ends before that", "slowly"],
    );
    assert_eq!(endpoint.seen().len(), 1);
}

#[test]
fn a_service_that_stalls_or_is_not_there_never_holds_it_past_the_timeout() {
    let stalls: [fn() -> Reply; 2] = [|| Reply::Stall, || Reply::StallAfter(200, vec![], NEW.into(), 3)];
    for stall in stalls {
        let endpoint = Server::start(move |_| stall());
        report(&endpoint).says(6, &["was not done in "]);
    }
    let gone = Server::start(|_| Reply::Reset);
    let url = gone.url();
    drop(gone);
    let outcome = once()
        .args(["--environment", "prod", "--timeout", "1s", "--base-url", &url, "--org", "acme"])
        .env("SUPERCARGO_TOKEN", TOKEN)
        .recorded_pods()
        .run();
    outcome.says(6, &["refused"]);
}

#[test]
fn a_name_is_one_segment_of_the_path_whatever_is_in_it() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let outcome = once()
        .args(["--environment", "prod eu?x=%2F#1", "--base-url", &format!("{}/prefix/", endpoint.url())])
        .recorded_pods()
        .service(&endpoint)
        .env("SUPERCARGO_ORG", "ácme")
        .run();
    outcome.says(0, &[]);
    let [seen] = endpoint.seen().try_into().unwrap();
    assert_eq!(seen.path, "/prefix/api/v2/environments/%C3%A1cme/prod%20eu%3Fx=%252F%231/report/K8S");
}

#[test]
fn one_environment_s_failure_does_not_keep_the_others_from_being_reported() {
    let endpoint = Server::start(|seen| {
        if seen.path.contains("/refused/") {
            Reply::json(403, r#"{"message": "no"}"#)
        } else {
            Reply::json(201, NEW)
        }
    });
    let config = "environments:\n- name: first\n- name: refused\n- name: typo\n  namespaces: [zooo]\n- name: last\n  namespaces: [zoo]\n";
    let outcome =
        once().args(["--config", "c.yaml"]).file("c.yaml", config).recorded_pods().service(&endpoint).run();
    outcome.says(
        3,
        &[
            "first: 20 artifacts reported",
            "last: 20 artifacts",
            "\"refused\" was not accepted",
            "\"typo\" is not reported",
        ],
    );
    let paths: Vec<_> =
        endpoint.seen().iter().map(|s| s.path.split('/').nth(5).unwrap().to_owned()).collect();
    assert_eq!(paths, ["first", "refused", "last"]);
}

#[test]
fn tls_is_verified_against_the_system_s_authorities_and_the_given_one() {
    let authority = Authority::new();
    let endpoint = Server::start_tls(authority.server(None), |_| Reply::json(201, NEW));
    let program = || {
        once()
            .args(["--environment", "prod"])
            .recorded_pods()
            .service(&endpoint)
            .file("ca.pem", authority.pem())
    };
    program().args(["--ca-file", "ca.pem"]).run().says(0, &["new snapshot"]);
    let outcome = program().run();
    outcome.says(6, &["certificate"]);
    assert!(!outcome.stderr.contains("trying again"), "{outcome:#?}");

    program().args(["--ca-file", "missing.pem"]).run().says(2, &["missing.pem", "--ca-file"]);
    let garbled = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    for (content, says) in [
        ("no certificate", "holds no certificate in PEM"),
        (garbled, "holds a certificate that cannot be read, number 1 in it"),
    ] {
        let outcome = program().file("no.pem", content).args(["--ca-file", "no.pem"]).run();
        outcome.says(2, &["the CA file \"no.pem\" (--ca-file)", says]);
    }
}

#[test]
fn a_certificate_that_is_refused_is_said_in_words() {
    let (authority, namesake) = (Authority::new(), Authority::new());
    let ordinary = || authority.server(None);
    for (server, trusted, words) in [
        (ordinary(), None, ["no authority that is known here signed it", "hint: check the host name"]),
        (ordinary(), Some(&namesake), ["it is not signed by the authority", "hint: check the host name"]),
        (
            authority.as_server(),
            Some(&authority),
            ["(CA:TRUE); a server's was expected", "hint: give the server"],
        ),
    ] {
        let endpoint = Server::start_tls(server, |_| Reply::json(201, NEW));
        let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
        let program = match trusted {
            Some(trusted) => program.file("ca.pem", trusted.pem()).args(["--ca-file", "ca.pem"]),
            None => program,
        };
        let outcome = program.run();
        outcome.says(6, &words).says(6, &["invalid peer certificate: "]);
        assert_eq!(outcome.stderr.matches("certificate: ").count(), 1, "{outcome:#?}");
    }
}

#[test]
fn plain_http_never_goes_through_a_proxy() {
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
    outcome.says(0, &[]);
    assert_eq!((proxy.seen().len(), endpoint.seen().len()), (0, 1));
}

/// So many pods, of about 200 bytes each in a report.
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

/// Reports more than fits into the buffers of a connection.
fn report_much(endpoint: &Server) -> Outcome {
    once()
        .args(["--environment", "prod", "--pods-from", "-"])
        // Long names (1,024 bytes are allowed), so that fewer pods have to be read.
        .stdin(pods_with_image(10_000, &format!("registry.example.com/{}", "a".repeat(980))))
        .service(endpoint)
        .run()
}

#[test]
fn a_report_of_many_chunks_arrives_as_it_is_printed() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let program = || once().args(["--environment", "prod", "--pods-from", "-"]).stdin(many_pods(3_000));
    program().service(&endpoint).run().says(0, &["3000 artifacts reported"]);
    let [seen] = endpoint.seen().try_into().unwrap();
    assert!(seen.body.len() > 500_000);
    assert_eq!(seen.headers["content-length"], seen.body.len().to_string().as_str());
    assert_eq!(program().args(["--dry-run"]).run().stdout.as_bytes(), [&seen.body[..], b"\n"].concat());
}

#[test]
fn a_refusal_that_comes_before_the_report_was_read_is_heard() {
    let endpoint = Server::start_hasty(|_| Reply::json(413, r#"{"message": "too large for us"}"#));
    report_much(&endpoint).says(5, &["413 Payload Too Large: too large for us"]);
}

#[test]
fn a_service_that_accepts_a_report_before_it_has_it_has_not() {
    let endpoint = Server::start_hasty(|_| Reply::json(200, NEW));
    report_much(&endpoint).says(6, &["200 OK before all of it was sent"]);
}

#[test]
fn one_environment_of_many_whose_service_is_busy_once_is_reported_in_the_end() {
    let tries = AtomicUsize::new(0);
    let endpoint = Server::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::text(429, "later").with("retry-after", "2"),
        _ => Reply::json(201, NEW),
    });
    let names = (0..50).map(|n| format!("- name: e{n}")).collect::<Vec<_>>().join("\n");
    let program = once().args(["--config", "c.yaml"]).file("c.yaml", format!("environments:\n{names}"));
    program.recorded_pods().service(&endpoint).run().says(0, &["e0: 20 artifacts", "e49: 20 artifacts"]);
}

#[test]
fn a_refusal_whose_text_never_ends_is_still_a_refusal() {
    let endpoint = Server::start(|_| Reply::StallAfter(403, vec![], "no, because".into(), 3));
    let outcome = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint).run();
    outcome.says(3, &["403 Forbidden: no,"]);
}

#[test]
fn an_environment_that_hangs_leaves_the_others_their_time() {
    let endpoint = Server::start(|seen| match seen.path.split('/').nth(5) {
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
    outcome.says(
        6,
        &[
            "works: 20 artifacts reported",
            "\"hangs\" could not be sent",
            "/hangs/report/K8S was not done in ",
        ],
    );
}

#[test]
fn https_goes_through_the_proxy_unless_no_proxy_names_the_service() {
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
    through.says(6, &["got no answer"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.seen()[0].method, "CONNECT");
    for no_proxy in ["127.0.0.1", "*"] {
        program().env("NO_PROXY", no_proxy).run().says(0, &["new snapshot"]);
    }
}

#[test]
fn plain_http_to_another_host_is_sent_where_that_is_allowed() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    // Not a loopback address by its name, though it leads to this machine.
    let url = endpoint.url().replace("127.0.0.1", "0.0.0.0");
    let program =
        || once().args(["--environment", "prod", "--base-url", &url]).recorded_pods().service(&endpoint);
    program().run().says(2, &["in the clear", "--allow-http"]);
    program().args(["--allow-http"]).run().says(0, &["new snapshot"]);
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let endpoint = Server::start(|_| Reply::json(201, NEW));
    let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
    program.env("SUPERCARGO_TOKEN_FILE", "").env("SUPERCARGO_CA_FILE", "").run().says(0, &[]);
    let program = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint);
    program.env("SUPERCARGO_ORG", "").run().says(2, &["there is no organization"]);
}

#[test]
fn what_helps_an_attestation_is_not_said_of_a_report() {
    for (status, message) in [(413, "too large"), (400, "no provider")] {
        let message = serde_json::json!({"message": message}).to_string();
        let endpoint = Server::start(move |_| Reply::json(status, message.clone()));
        let outcome = once().args(["--environment", "prod"]).recorded_pods().service(&endpoint).run();
        assert!(!outcome.says(5, &[]).stderr.contains("hint:"), "{outcome:?}");
    }
}
