//! Tokens and other credentials never appear in output, logs or help.

use crate::fake::kube::{User, kubeconfig, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Reply, Request, Server};
use crate::program::{TOKEN, once};

const CLUSTER_TOKEN: &str = "s3cret-cluster-t0ken";

/// Echoes the token in the message, in headers, or in a redirect.
fn echo(request: &Request) -> Reply {
    let bearer = request.headers["authorization"].to_str().unwrap().to_owned();
    match request.path.split('/').nth(5).unwrap() {
        "message" => {
            Reply::json(400, format!(r#"{{"message": "{bearer}", "errors": {{"token": "{bearer}"}}}}"#))
        }
        "text" => Reply::text(403, &bearer),
        "html" => Reply::text(200, &bearer).with("content-type", &bearer),
        "redirect" => Reply::text(302, "").with("location", &format!("https://x.example.com/?{bearer}")),
        "retry" => Reply::text(503, &bearer).with("retry-after", &bearer),
        other => panic!("{other}"),
    }
}

#[test]
fn trace_logs_contain_no_token() {
    let authority = Authority::new();
    let endpoint = Server::start_tls(authority.server(None), echo);
    let api = Server::start_tls(authority.server(None), recorded);
    let config =
        ["message", "text", "html", "redirect", "retry"].map(|name| format!("- name: {name}\n")).join("");
    let program = || {
        once()
            .args(["-vvv", "--config", "c.yaml", "--ca-file", "ca.pem", "--timeout", "4s"])
            .file("c.yaml", format!("environments:\n{config}"))
            .file("ca.pem", authority.pem())
            .kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Token(CLUSTER_TOKEN)))
            .service(&endpoint)
    };
    for program in [
        program(),
        program().env("RUST_LOG", "trace"),
        program().args(["--log-format", "json"]).env("RUST_LOG", "trace"),
    ] {
        let outcome = program.run();
        outcome.expect(5, &["[token]"]);
        assert!(outcome.stderr.to_lowercase().contains("trace"), "trace logs must be on");
        for secret in [TOKEN, CLUSTER_TOKEN] {
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(
                !all.contains(secret),
                "{}",
                all.lines().find(|l| l.contains(secret)).unwrap_or_default()
            );
        }
    }
    assert!(endpoint.requests().len() >= 15);
    assert_eq!(api.requests()[0].headers["authorization"], format!("Bearer {CLUSTER_TOKEN}").as_str());
}

#[test]
fn json_escaped_token_is_redacted() {
    let token = r#"s3c"ret\t0ken"#;
    let endpoint = Server::start(|request| {
        let bearer = request.headers["authorization"].to_str().unwrap();
        Reply::json(400, serde_json::json!({"message": "no", "errors": {"token": bearer}}).to_string())
    });
    let outcome = once()
        .args(["--environment", "x"])
        .recorded_pods()
        .service(&endpoint)
        .env("SUPERCARGO_TOKEN", token)
        .run();
    outcome.expect(5, &["Bearer [token]"]);
}

#[test]
fn misplaced_token_is_not_printed() {
    let program = || once().args(["--environment", "prod"]).recorded_pods().env("SUPERCARGO_ORG", "acme");
    for outcome in [
        program()
            .env("SUPERCARGO_TOKEN", "s3cret\ns3cret")
            .env("SUPERCARGO_BASE_URL", "https://x.example.com")
            .run(),
        program()
            .env("SUPERCARGO_TOKEN", "x")
            .env("SUPERCARGO_BASE_URL", "https://u:s3cret@x.example.com")
            .run(),
        program().env("SUPERCARGO_TOKEN", "x").args(["--base-url", "https://s3cret@x.example.com"]).run(),
        program().args(["--token=s3cret"]).run(),
    ] {
        outcome.expect(2, &["error"]);
        assert!(!outcome.stderr.contains("s3cret"), "{outcome:#?}");
    }
    let help = program()
        .env("SUPERCARGO_TOKEN", TOKEN)
        .env("SUPERCARGO_BASE_URL", "https://s3cret@x")
        .args(["--help"])
        .run();
    assert!(!help.stdout.contains("s3cret"), "{}", help.stdout);
}

/// A kubeconfig with this shell script as the credential plugin.
fn with_plugin(url: &str, authority: &str, script: &str) -> String {
    let mut config: serde_json::Value =
        serde_json::from_str(&kubeconfig(url, Some(authority), &User::Anonymous)).unwrap();
    config["users"][0]["user"]["exec"] = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", script],
        "env": [{"name": "PLUGIN_SECRET", "value": "s3cret-of-the-plugin"}],
        "interactiveMode": "Never",
    });
    config.to_string()
}

#[test]
fn credential_plugin_token_is_used_and_its_output_is_not_printed() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let credential = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{CLUSTER_TOKEN}"}}}}"#
    );
    for (script, timeout, code, expected_text) in [
        (format!("echo '{credential}'"), "60s", 0, "20 pods"),
        (format!("echo '{credential}'; exit 3"), "60s", 8, "the credential plugin failed, exit status: 3"),
        (format!("echo 'token: {CLUSTER_TOKEN}: ['"), "60s", 8, "expected an ExecCredential"),
        (format!("echo {CLUSTER_TOKEN} >&2; sleep 4"), "1s", 8, "timed out after 1.0 s"),
    ] {
        let outcome = once()
            .args(["-vvv", "--dry-run", "--environment", "x", "--timeout", timeout])
            .kubeconfig(&with_plugin(&api.url(), &authority.pem(), &script))
            .env("PATH", "/usr/bin:/bin")
            .run();
        outcome.expect(code, &[expected_text]);
        assert!(!outcome.stderr.contains("s3cret-of-the-plugin"), "{outcome:#?}");
        assert!(!outcome.stderr.contains(CLUSTER_TOKEN), "{outcome:#?}");
    }
    assert_eq!(api.requests()[0].headers["authorization"], format!("Bearer {CLUSTER_TOKEN}").as_str());
}

#[test]
fn lines_of_an_invalid_kubeconfig_are_not_printed() {
    for invalid in ["exec: 5", "exec: s3cret", "exec: [s3cret", "client-key-data: s3cret!"] {
        let config = kubeconfig("https://127.0.0.1:1", None, &User::Anonymous)
            .replace(r#""user":{}"#, &format!(r#""user":{{"token": "s3cret", {invalid}}}"#));
        assert!(config.contains(invalid));
        let outcome = once().args(["--dry-run", "--environment", "x"]).kubeconfig(&config).run();
        outcome.expect(2, &["invalid kubeconfig"]);
        assert!(!outcome.stderr.contains("s3cret"), "{outcome:#?}");
    }
}

#[test]
fn token_echoed_by_the_api_server_is_redacted() {
    for (status, content_type, body) in [
        (403, "application/json", r#"{"kind":"Status","message":"no TOKEN"}"#),
        (403, "text/plain", "no TOKEN"),
        (302, "text/html", "<a href=\"https://x/?TOKEN\">"),
        (200, "text/html", "please sign in, TOKEN"),
        (200, "application/json", r#"{"kind":"TOKEN"}"#),
    ] {
        for with_scheme in [true, false] {
            let api = Server::start(move |request| {
                let bearer = request.headers["authorization"].to_str().unwrap();
                let token = if with_scheme { bearer } else { bearer.trim_start_matches("Bearer ") };
                Reply::text(status, &body.replace("TOKEN", token)).with("content-type", content_type)
            });
            let kubeconfig = kubeconfig(&api.url(), None, &User::Token(CLUSTER_TOKEN));
            let outcome =
                once().args(["--dry-run", "--environment", "x", "-vvv"]).kubeconfig(&kubeconfig).run();
            assert!(!outcome.stderr.contains(CLUSTER_TOKEN), "{body}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("[token]") && outcome.code == 8, "{outcome:#?}");
        }
    }
}
