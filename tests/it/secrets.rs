//! A token never appears, whatever is asked for and whatever comes back.

use crate::fake::kube::{User, kubeconfig, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Reply, Seen, Server};
use crate::program::{TOKEN, once};

const CLUSTER_TOKEN: &str = "s3cret-cluster-t0ken";

/// Sends back what it was sent: in the message, in headers, in a redirect.
fn echo(seen: &Seen) -> Reply {
    let bearer = seen.headers["authorization"].to_str().unwrap().to_owned();
    match seen.path.split('/').nth(5).unwrap() {
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
fn no_token_is_in_any_output_with_every_log_turned_on() {
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
        outcome.says(5, &["[token]"]);
        assert!(outcome.stderr.to_lowercase().contains("trace"), "logs are on");
        for secret in [TOKEN, CLUSTER_TOKEN] {
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(
                !all.contains(secret),
                "{}",
                all.lines().find(|l| l.contains(secret)).unwrap_or_default()
            );
        }
    }
    assert!(endpoint.seen().len() >= 15);
    assert_eq!(api.seen()[0].headers["authorization"], format!("Bearer {CLUSTER_TOKEN}").as_str());
}

#[test]
fn a_token_that_is_escaped_in_json_is_not_shown_either() {
    let token = r#"s3c"ret\t0ken"#;
    let endpoint = Server::start(|seen| {
        let bearer = seen.headers["authorization"].to_str().unwrap();
        Reply::json(400, serde_json::json!({"message": "no", "errors": {"token": bearer}}).to_string())
    });
    let outcome = once()
        .args(["--environment", "x"])
        .recorded_pods()
        .service(&endpoint)
        .env("SUPERCARGO_TOKEN", token)
        .run();
    outcome.says(5, &["Bearer [token]"]);
}

#[test]
fn a_token_in_a_place_where_none_belongs_is_not_shown_either() {
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
        outcome.says(2, &["error"]);
        assert!(!outcome.stderr.contains("s3cret"), "{outcome:#?}");
    }
    let help = program()
        .env("SUPERCARGO_TOKEN", TOKEN)
        .env("SUPERCARGO_BASE_URL", "https://s3cret@x")
        .args(["--help"])
        .run();
    assert!(!help.stdout.contains("s3cret"), "{}", help.stdout);
}

/// A kubeconfig whose user's token comes from this shell script.
fn with_plugin(url: &str, authority: &str, script: &str) -> String {
    let mut config: serde_json::Value =
        serde_json::from_str(&kubeconfig(url, Some(authority), &User::Nobody)).unwrap();
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
fn a_credential_plugin_s_token_is_used_and_what_it_wrote_is_never_shown() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    let credential = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{CLUSTER_TOKEN}"}}}}"#
    );
    for (script, timeout, code, says) in [
        (format!("echo '{credential}'"), "60s", 0, "20 artifacts"),
        (format!("echo '{credential}'; exit 3"), "60s", 8, "the credential plugin failed, exit status: 3"),
        (format!("echo 'token: {CLUSTER_TOKEN}: ['"), "60s", 8, "no ExecCredential"),
        (format!("echo {CLUSTER_TOKEN} >&2; sleep 4"), "1s", 8, "could not be had in 1.0 s"),
    ] {
        let outcome = once()
            .args(["-vvv", "--dry-run", "--environment", "x", "--timeout", timeout])
            .kubeconfig(&with_plugin(&api.url(), &authority.pem(), &script))
            .env("PATH", "/usr/bin:/bin")
            .run();
        outcome.says(code, &[says]);
        assert!(!outcome.stderr.contains("s3cret-of-the-plugin"), "{outcome:#?}");
        assert!(!outcome.stderr.contains(CLUSTER_TOKEN), "{outcome:#?}");
    }
    assert_eq!(api.seen()[0].headers["authorization"], format!("Bearer {CLUSTER_TOKEN}").as_str());
}

#[test]
fn the_lines_of_a_kubeconfig_that_cannot_be_read_are_not_shown() {
    for wrong in ["exec: 5", "exec: s3cret", "exec: [s3cret", "client-key-data: s3cret!"] {
        let config = kubeconfig("https://127.0.0.1:1", None, &User::Nobody)
            .replace(r#""user":{}"#, &format!(r#""user":{{"token": "s3cret", {wrong}}}"#));
        assert!(config.contains(wrong));
        let outcome = once().args(["--dry-run", "--environment", "x"]).kubeconfig(&config).run();
        outcome.says(2, &["kubeconfig cannot be used"]);
        assert!(!outcome.stderr.contains("s3cret"), "{outcome:#?}");
    }
}

/// What a cluster's answers can hold it in.
#[test]
fn no_credential_of_a_cluster_is_shown_though_it_is_sent_back() {
    for (status, kind, said) in [
        (403, "application/json", r#"{"kind":"Status","message":"no TOKEN"}"#),
        (403, "text/plain", "no TOKEN"),
        (302, "text/html", "<a href=\"https://x/?TOKEN\">"),
        (200, "text/html", "please sign in, TOKEN"),
        (200, "application/json", r#"{"kind":"TOKEN"}"#),
    ] {
        for with_scheme in [true, false] {
            let api = Server::start(move |seen| {
                let bearer = seen.headers["authorization"].to_str().unwrap();
                let token = if with_scheme { bearer } else { bearer.trim_start_matches("Bearer ") };
                Reply::text(status, &said.replace("TOKEN", token)).with("content-type", kind)
            });
            let kubeconfig = kubeconfig(&api.url(), None, &User::Token(CLUSTER_TOKEN));
            let outcome =
                once().args(["--dry-run", "--environment", "x", "-vvv"]).kubeconfig(&kubeconfig).run();
            assert!(!outcome.stderr.contains(CLUSTER_TOKEN), "{said}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("[token]") && outcome.code == 8, "{outcome:#?}");
        }
    }
}
