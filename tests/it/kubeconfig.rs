//! Connections to an API server: kubeconfigs, certificates, tokens, proxies.

use crate::fake::kube::{User, fixture, kubeconfig, protobuf, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Reply, Server};
use crate::program::{Program, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

#[test]
fn token_is_sent_over_tls_to_a_trusted_api_server() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), |request| {
        match request.headers.get("authorization").map(http::HeaderValue::as_bytes) {
            Some(b"Bearer cluster-token") => recorded(request),
            _ => protobuf(401, fixture("statuses/401.pb")),
        }
    });
    let with = |token| kubeconfig(&api.url(), Some(&authority.pem()), &User::Token(token));
    let outcome = once().args(DRY).kubeconfig(&with("cluster-token")).run();
    outcome.expect(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    let refused = once().args(DRY).kubeconfig(&with("another")).run();
    refused.expect(8, &["401 Unauthorized: Unauthorized", "hint: the API server rejects these credentials"]);
    assert_eq!(refused.stdout, "");
}

#[test]
fn client_certificate_is_presented_on_request() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let api = Server::start_tls(authority.server(Some(&clients)), recorded);
    let alice = clients.client("alice");
    let with = |user: &User<'_>| kubeconfig(&api.url(), Some(&authority.pem()), user);
    let outcome = once().args(DRY).kubeconfig(&with(&User::Certificate(&alice))).run();
    outcome.expect(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    once().args(DRY).kubeconfig(&with(&User::Anonymous)).run().expect(8, &["failed to list pods"]);
}

#[test]
fn untrusted_certificate_fails_without_a_retry() {
    let api = Server::start_tls(Authority::new().server(None), recorded);
    let untrusted = Authority::new().pem();
    let outcome =
        once().args(DRY).kubeconfig(&kubeconfig(&api.url(), Some(&untrusted), &User::Anonymous)).run();
    outcome.expect(8, &["certificate", "hint: check the certificate authority"]);
    assert!(!outcome.stderr.contains("retrying"), "{outcome:#?}");
}

#[test]
fn insecure_kubeconfig_is_warned_about_and_rejected_with_strict() {
    let tls = Server::start_tls(Authority::new().server(None), recorded);
    let plain = Server::start(recorded);
    let unverified = kubeconfig(&tls.url(), None, &User::Anonymous)
        .replace(r#""server":"#, r#""insecure-skip-tls-verify":true,"server":"#);
    // Not an address of the loopback network, although connections reach this machine.
    let elsewhere = plain.url().replace("127.0.0.1", "0.0.0.0");
    let elsewhere = kubeconfig(&elsewhere, None, &User::Anonymous);
    for (config, cause) in [(unverified, "insecure-skip-tls-verify"), (elsewhere, "plain http server")] {
        let outcome = once().args(DRY).kubeconfig(&config).run();
        outcome.expect(0, &["warning: insecure kubeconfig: its ", cause, "20 artifacts"]);
        let requests = tls.requests().len() + plain.requests().len();
        let rejected = once().args(DRY).args(["--strict"]).kubeconfig(&config).run();
        rejected.expect(2, &["insecure kubeconfig (--strict)", cause]);
        assert_eq!(tls.requests().len() + plain.requests().len(), requests);
    }
    let loopback = kubeconfig(&plain.url(), None, &User::Anonymous);
    let accepted = once().args(DRY).args(["--strict"]).kubeconfig(&loopback).run();
    accepted.expect(0, &["20 artifacts"]);
    assert!(!accepted.stderr.contains("warning"), "{accepted:#?}");
}

#[test]
fn credential_plugin_does_not_inherit_variables_of_this_program() {
    let api = Server::start(recorded);
    let plugin = r#"printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "%s"}}' "$KEPT-$(env | grep -c -e SUPERCARGO_ -e S3CRET)""#;
    let user = serde_json::json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", plugin],
        "interactiveMode": "Never",
    }});
    let config =
        kubeconfig(&api.url(), None, &User::Anonymous).replace("\"user\":{}", &format!("\"user\":{user}"));
    let program = once().args(DRY).kubeconfig(&config).env("PATH", "/usr/bin:/bin").env("KEPT", "kept");
    let program =
        program.env("SUPERCARGO_TOKEN", "S3CRET").env("SUPERCARGO_DATABASE", "postgres://u:S3CRET@db/x");
    program.env("SUPERCARGO_TOKEN_FILE", "S3CRET").run().expect(0, &["20 artifacts"]);
    assert_eq!(api.requests()[0].headers["authorization"], "Bearer kept-0");
}

#[test]
fn proxy_variable_is_used_unless_no_proxy_lists_the_cluster() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    // This proxy rejects CONNECT: the request is enough.
    let proxy = Server::start(|_| Reply::text(502, "no way"));
    let with = |program: Program| {
        program
            .args(DRY)
            .kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Anonymous))
            .env("HTTPS_PROXY", &proxy.url().replace("http://", "http://user:pr0xy-pass@"))
    };
    let through = with(once()).args(["--timeout", "3s"]).run();
    through.expect(8, &["failed to list pods"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.requests()[0].method, "CONNECT");
    assert!(proxy.requests()[0].headers.contains_key("proxy-authorization"));
    assert!(api.requests().is_empty());

    for no_proxy in ["example.com,127.0.0.0/8", "*"] {
        with(once()).env("NO_PROXY", no_proxy).run().expect(0, &[]);
    }
}

#[test]
fn unusable_kubeconfig_is_named() {
    for (program, texts) in [
        (once(), &["no cluster is configured", "--kubeconfig", "~/.kube/config"][..]),
        (once().args(["--context", "x"]), &["--context \"x\" requires a kubeconfig"]),
        (once().args(["--kubeconfig", "missing"]), &["invalid kubeconfig", "missing"]),
        (once().kubeconfig("{"), &["invalid kubeconfig: \"kubeconfig\": unexpected value in line 1"]),
        (once().kubeconfig(""), &["invalid kubeconfig: no cluster in \"kubeconfig\"; is it empty?"]),
        (
            once().env("KUBECONFIG", "a:b").file("a", "").file("b", "kind: Config"),
            &["no cluster in \"a\", \"b\""],
        ),
        (once().file(".kube/config", ""), &[".kube/config\"; is it empty?"]),
        (
            once()
                .kubeconfig(&kubeconfig("https://127.0.0.1", None, &User::Anonymous))
                .args(["--context", "other"]),
            &["other"],
        ),
        (once().env("KUBECONFIG", "missing-too"), &["invalid kubeconfig"]),
    ] {
        program.args(DRY).run().expect(2, texts);
    }
}

#[test]
fn unusable_key_or_certificate_is_named_and_not_printed() {
    let authority = Authority::new();
    let alice = authority.client("alice");
    let config = kubeconfig("https://127.0.0.1:1", None, &User::Anonymous);
    let user = r#""user":{"client-certificate":"alice.pem","client-key":"alice.key"}"#;
    let with = |certificate: &str, key: &str, config: &str| {
        let program = once().file("alice.pem", certificate).file("alice.key", key);
        program.args(DRY).kubeconfig(&config.replace(r#""user":{}"#, user)).run()
    };
    let no_token = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"alice.key"}"#);
    let authorities = config.replace(r#""server":"#, r#""certificate-authority":"alice.pem","server":"#);
    let no_authority =
        "expected certificates in PEM in its certificate-authority or certificate-authority-data";
    for (outcome, text) in [
        (with(&alice.key, &alice.key, &authorities), no_authority),
        (with("", &alice.key, &authorities), no_authority),
        (with(&alice.key, &alice.key, &config), "alice.pem\": expected a certificate in PEM"),
        (with(&alice.certificate, &alice.certificate, &config), "alice.key\": expected a private key in PEM"),
        (with(&alice.certificate, &authority.client("bob").key, &config), "does not match it"),
        (
            with(&alice.certificate, &alice.key, &no_token),
            "alice.key\": expected a token in one line, got a key or certificate in PEM",
        ),
    ] {
        outcome.expect(2, &["invalid kubeconfig: ", text]);
        assert!(!outcome.stderr.contains("BEGIN"), "{outcome:#?}");
    }
}

#[test]
fn kubeconfig_is_found_like_kubectl_does() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Anonymous);
    once().args(DRY).file("config", &config).env("KUBECONFIG", "config").run().expect(0, &["20 artifacts"]);
    once().args(DRY).file(".kube/config", &config).run().expect(0, &["20 artifacts"]);
    let unused = kubeconfig("http://127.0.0.1:1", None, &User::Anonymous);
    once().args(DRY).file(".kube/config", &unused).kubeconfig(&config).run().expect(0, &["20 artifacts"]);
}

#[test]
fn invalid_no_proxy_is_rejected() {
    let config = kubeconfig("https://127.0.0.1:1", None, &User::Anonymous);
    let program = once().args(DRY).kubeconfig(&config).env("HTTPS_PROXY", "http://127.0.0.1:1");
    program.env("NO_PROXY", "localhost,").run().expect(2, &["NO_PROXY", "empty entry"]);
}

#[test]
fn plain_http_server_at_an_https_url_is_explained() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url().replace("http:", "https:"), None, &User::Anonymous);
    once().args(DRY).kubeconfig(&config).run().expect(8, &["does not speak TLS; is it plain http?"]);
}

#[test]
fn kubeconfig_token_and_server_are_trimmed_or_rejected() {
    let api = Server::start(recorded);
    let with = |token: &str| kubeconfig(&api.url(), None, &User::Token(token));
    once().args(DRY).kubeconfig(&with("t0ken\n")).run().expect(0, &[]);
    assert_eq!(api.requests()[0].headers["authorization"], "Bearer t0ken");
    once().args(DRY).kubeconfig(&with(" \n")).run().expect(0, &[]);
    assert!(!api.requests().last().unwrap().headers.contains_key("authorization"));
    let split = once().args(DRY).kubeconfig(&with("t0k\nen")).run();
    split.expect(2, &["its token contains characters that are invalid in a header"]);
    assert!(!split.stderr.contains("t0k"), "{split:#?}");
    let no_scheme = kubeconfig("127.0.0.1:6443", None, &User::Anonymous);
    once().args(DRY).kubeconfig(&no_scheme).run().expect(2, &["expected an https or http URL in its server"]);
    let list = once().args(DRY).file("config", kubeconfig(&api.url(), None, &User::Anonymous));
    list.env("KUBECONFIG", "missing:config").run().expect(0, &["20 artifacts"]);
}

#[test]
fn kubectl_conventions_in_kubeconfigs_are_supported() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Anonymous);
    let unset = config.replace(r#""current-context":"test""#, r#""current-context":"""#);
    assert_ne!(config, unset);
    let program = || once().args(DRY).file("config", &config).file("unset", &unset);
    program().env("KUBECONFIG", "unset:config").run().expect(0, &["20 artifacts"]);
    program().env("KUBECONFIG", "unset").run().expect(2, &["no current-context"]);
    program().file(".kube/config", &config).env("KUBECONFIG", ":").run().expect(0, &["20 artifacts"]);

    let with_file = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"token"}"#);
    assert_ne!(config, with_file);
    program().kubeconfig(&with_file).file("token", "t0ken-of-file\n").run().expect(0, &["20 artifacts"]);
    assert_eq!(api.requests().last().unwrap().headers["authorization"], "Bearer t0ken-of-file");
}
