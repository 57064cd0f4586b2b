//! Connections to an API server: kubeconfigs, certificates, tokens, proxies.

use serde_json::{Value, json};

use crate::fake::kube::{User, base64, fixture, kubeconfig, protobuf, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Request, Server};
use crate::program::{Program, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

/// An API server that records the credentials of requests, and its authority.
fn recording() -> (Authority, Server) {
    let authority = Authority::new();
    let api = Server::start_tls(authority.host("api").server(), recorded);
    (authority, api)
}

/// A kubeconfig with this user, whose files are relative to it.
fn with_user(api: &Server, authority: &Authority, user: &Value) -> Value {
    let config = kubeconfig(&api.url(), Some(&authority.pem()), &User::Anonymous);
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["users"][0]["user"] = user.clone();
    config
}

/// Runs once with a kubeconfig, and returns the last request.
#[track_caller]
fn last_request(api: &Server, program: Program, config: &str) -> Request {
    program.args(DRY).kubeconfig(config).run().expect(0, &["20 pods"]);
    api.requests().pop().unwrap()
}

fn bearer(request: &Request) -> Option<&str> {
    request.headers.get("authorization").map(|value| value.to_str().unwrap())
}

/// A plugin that runs this script.
fn plugin(script: &str) -> Value {
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", script],
        "interactiveMode": "IfAvailable",
    }})
}

/// A script that prints this status.
fn printing(status: &Value) -> String {
    let credential = json!({ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status });
    format!("cat <<'END'\n{credential}\nEND\n")
}

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
        outcome.expect(0, &["warning: insecure kubeconfig: its ", cause, "20 pods"]);
        let requests = tls.requests().len() + plain.requests().len();
        let rejected = once().args(DRY).args(["--strict"]).kubeconfig(&config).run();
        rejected.expect(2, &["insecure kubeconfig (--strict)", cause]);
        assert_eq!(tls.requests().len() + plain.requests().len(), requests);
    }
    let loopback = kubeconfig(&plain.url(), None, &User::Anonymous);
    let accepted = once().args(DRY).args(["--strict"]).kubeconfig(&loopback).run();
    accepted.expect(0, &["20 pods"]);
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
    program.env("SUPERCARGO_TOKEN_FILE", "S3CRET").run().expect(0, &["20 pods"]);
    assert_eq!(api.requests()[0].headers["authorization"], "Bearer kept-0");
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
    once().args(DRY).file("config", &config).env("KUBECONFIG", "config").run().expect(0, &["20 pods"]);
    once().args(DRY).file(".kube/config", &config).run().expect(0, &["20 pods"]);
    let unused = kubeconfig("http://127.0.0.1:1", None, &User::Anonymous);
    once().args(DRY).file(".kube/config", &unused).kubeconfig(&config).run().expect(0, &["20 pods"]);
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
    list.env("KUBECONFIG", "missing:config").run().expect(0, &["20 pods"]);
}

#[test]
fn kubectl_conventions_in_kubeconfigs_are_supported() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Anonymous);
    let unset = config.replace(r#""current-context":"test""#, r#""current-context":"""#);
    assert_ne!(config, unset);
    let program = || once().args(DRY).file("config", &config).file("unset", &unset);
    program().env("KUBECONFIG", "unset:config").run().expect(0, &["20 pods"]);
    program()
        .env("KUBECONFIG", "unset")
        .run()
        .expect(2, &["has no current-context: set --context to \"test\""]);
    program().file(".kube/config", &config).env("KUBECONFIG", ":").run().expect(0, &["20 pods"]);

    let with_file = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"token"}"#);
    assert_ne!(config, with_file);
    program().kubeconfig(&with_file).file("token", "t0ken-of-file\n").run().expect(0, &["20 pods"]);
    assert_eq!(api.requests().last().unwrap().headers["authorization"], "Bearer t0ken-of-file");
}

#[test]
fn empty_values_of_a_kubeconfig_are_unset() {
    let (authority, api) = recording();
    let user = json!({
        "token": "T", "tokenFile": "", "username": "", "password": "", "client-certificate": "",
        "client-certificate-data": "", "client-key": "", "client-key-data": "", "as": "", "as-uid": "",
        "as-groups": null, "as-user-extra": null, "exec": null, "auth-provider": null,
    });
    let mut config = with_user(&api, &authority, &user);
    let cluster = json!({
        "server": api.url(), "certificate-authority": "ca.pem", "certificate-authority-data": "",
        "tls-server-name": "", "proxy-url": "", "insecure-skip-tls-verify": null, "extensions": null,
    });
    config["clusters"][0]["cluster"] = cluster;
    // Entries of other contexts may be incomplete.
    config["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "other", "context": { "namespace": "x" } }));
    config["users"].as_array_mut().unwrap().push(json!({ "name": "other", "user": null }));
    config["preferences"] = Value::Null;
    let request = last_request(&api, once().file("ca.pem", authority.pem()), &config.to_string());
    assert_eq!(bearer(&request), Some("Bearer T"));
    let nulls = config.to_string().replace(r#":"""#, ":null");
    let request = last_request(&api, once().file("ca.pem", authority.pem()), &nulls);
    assert_eq!(bearer(&request), Some("Bearer T"));
}

/// The lines of a YAML block, indented.
fn block(text: &str) -> String {
    let digits: Vec<_> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("\n        {}\n", digits.join("\n        "))
}

#[test]
fn base64_with_line_breaks_and_repeated_keys_are_read() {
    let (authority, api) = recording();
    let data = base64(authority.pem());
    let twice = base64(&data);
    for authorities in [
        format!("|{}", block(&data)),
        format!("|-{}", block(&data)),
        format!("\"{}\\n{}\"\n", &data[..64], &data[64..]),
        format!("!!binary |{}", block(&data)),
        format!("!!binary |{}", block(&twice)),
        format!("!!binary {twice}\n"),
        format!("{data}\n      certificate-authority-data: {data}\n"),
    ] {
        let config = format!(
            "apiVersion: v1\nkind: Config\nkind: Config\ncurrent-context: other\ncurrent-context: test
clusters:
  - name: test
    cluster:
      server: {}
      certificate-authority-data: {authorities}users:
  - {{name: test, user: {{token: stale, token: fresh}}}}
contexts:
  - {{name: test, context: {{cluster: test, user: test}}}}
---
a second document
",
            api.url()
        );
        let request = last_request(&api, once(), &config);
        assert_eq!(bearer(&request), Some("Bearer fresh"), "{config}");
    }
    let with_bom = [b"\xef\xbb\xbf", with_user(&api, &authority, &json!({})).to_string().as_bytes()].concat();
    once().args(DRY).file("config", with_bom).env("KUBECONFIG", "config").run().expect(0, &["20 pods"]);
    let invalid = kubeconfig(&api.url(), None, &User::Anonymous)
        .replace(r#""server":"#, r#""certificate-authority-data":"A A=","server":"#);
    once().args(DRY).kubeconfig(&invalid).run().expect(2, &["unexpected value in line 1"]);
}

#[test]
fn broken_certificates_of_a_bundle_are_skipped() {
    let (authority, api) = recording();
    let good = authority.pem();
    let cut = good.lines().take(3).collect::<Vec<_>>().join("\n") + "\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for bundle in [
        format!("{cut}{good}"),
        format!("{good}{cut}"),
        format!("{no_certificate}# the good one:\n{good}"),
        format!("{}{good}", authority.client("x").key),
    ] {
        let config = kubeconfig(&api.url(), Some(&bundle), &User::Anonymous);
        last_request(&api, once(), &config);
        let config = kubeconfig(&api.url(), None, &User::Anonymous)
            .replace(r#""server":"#, r#""certificate-authority":"ca.pem","server":"#);
        last_request(&api, once().file("ca.pem", &bundle), &config);
    }
    let config = kubeconfig(&api.url(), Some(&cut), &User::Anonymous);
    once().args(DRY).kubeconfig(&config).run().expect(2, &["expected certificates in PEM"]);
}

#[test]
fn client_certificate_of_x509_version_1_is_sent() {
    let (authority, api) = recording();
    let old = authority.client_v1("old");
    let user = json!({
        "client-certificate-data": base64(&old.certificate), "client-key-data": base64(&old.key),
    });
    let request = last_request(&api, once(), &with_user(&api, &authority, &user).to_string());
    assert_eq!(request.certificate, Some(old.der()));
    let user = json!({ "client-certificate": "old.pem", "client-key": "old.key", "token": "T" });
    let config = with_user(&api, &authority, &user).to_string();
    let files = |key: &str| once().file("old.pem", &old.certificate).file("old.key", key);
    let request = last_request(&api, files(&old.key), &config);
    assert_eq!((request.certificate.as_ref(), bearer(&request)), (Some(&old.der()), Some("Bearer T")));
    let mismatch = files(&authority.client("other").key).args(DRY).kubeconfig(&config).run();
    mismatch
        .expect(2, &["its client-certificate ", "old.pem\": its client-key ", "old.key\" does not match it"]);
}

#[test]
fn certificate_of_the_server_itself_is_a_valid_authority() {
    let authority = Authority::new();
    let own = authority.host("api");
    let api = Server::start_tls(own.server(), recorded);
    let config = kubeconfig(&api.url(), Some(&own.certificate), &User::Anonymous);
    last_request(&api, once(), &config);
    let elsewhere = config.replace("127.0.0.1", "127.0.0.2");
    let other_host = once().args(DRY).kubeconfig(&elsewhere).run();
    assert_eq!(other_host.code, 8, "{other_host:#?}");
    let another = kubeconfig(&api.url(), Some(&authority.host("api").certificate), &User::Anonymous);
    once().args(DRY).kubeconfig(&another).run().expect(8, &["certificate"]);
}

#[test]
fn credentials_are_selected_in_the_order_of_kubectl() {
    let (authority, api) = recording();
    let alice = authority.client("alice");
    let certificate =
        [("client-certificate-data", base64(&alice.certificate)), ("client-key-data", base64(&alice.key))];
    let with_certificate = |user: &Value| {
        let mut user = user.clone();
        for (key, value) in &certificate {
            user[key] = value.clone().into();
        }
        user
    };
    let exec = plugin(&printing(&json!({ "token": "of-the-plugin" })))["exec"].clone();
    for (user, expected) in [
        (json!({ "token": "stale", "tokenFile": "fresh" }), Some("Bearer of-the-file")),
        (json!({ "token": "T", "tokenFile": "missing" }), Some("Bearer T")),
        (json!({ "token": "T", "exec": exec }), Some("Bearer T")),
        (json!({ "tokenFile": "fresh", "exec": exec }), Some("Bearer of-the-file")),
        (json!({ "username": "u", "password": "p", "exec": exec }), Some("Basic dTpw")),
        (json!({ "username": "u" }), Some("Basic dTo=")),
        (json!({ "exec": exec }), Some("Bearer of-the-plugin")),
        (json!({ "client-key": "missing" }), None),
    ] {
        let config = with_user(&api, &authority, &user).to_string();
        let program = || once().file("fresh", "of-the-file\n").env("PATH", "/usr/bin:/bin");
        assert_eq!(bearer(&last_request(&api, program(), &config)), expected, "{user}");
        let config = with_user(&api, &authority, &with_certificate(&user)).to_string();
        let request = last_request(&api, program(), &config);
        // A plugin is not run beside a client certificate.
        let expected = expected.filter(|header| !header.contains("plugin"));
        assert_eq!((bearer(&request), request.certificate.clone()), (expected, Some(alice.der())), "{user}");
    }
    for (user, problem) in [
        (json!({ "token": "T", "username": "u", "password": "p" }), "a token and a username"),
        (json!({ "exec": exec, "auth-provider": { "name": "oidc" } }), "an auth-provider and exec"),
        (json!({ "auth-provider": { "name": "gcp" } }), "its auth-provider is not supported; expected oidc"),
        (json!({ "tokenFile": "missing" }), "failed to read the token file"),
        (json!({ "client-certificate-data": base64(&alice.certificate) }), "expected client-key"),
        (json!({ "exec": { "command": "" } }), "in its exec, command: expected a program"),
        (json!({ "exec": { "command": "x", "interactiveMode": "Perhaps" } }), "in its exec, interactiveMode"),
    ] {
        let config = with_user(&api, &authority, &user).to_string();
        once().args(DRY).kubeconfig(&config).run().expect(2, &["invalid kubeconfig: ", problem]);
    }
}

#[test]
fn plugin_runs_once_without_a_terminal_and_all_that_it_prints_is_sent() {
    let (authority, api) = recording();
    let alice = authority.client("alice");
    let status = json!({
        "token": "T", "clientCertificateData": alice.certificate, "clientKeyData": alice.key,
        "expirationTimestamp": "2020-01-01T00:00:00Z",
    });
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = format!("echo \"$KUBERNETES_EXEC_INFO\" >>'{}'\n{}", runs.display(), printing(&status));
    let mut user = plugin(&script);
    user["exec"]["provideClusterInfo"] = true.into();
    let mut config = with_user(&api, &authority, &user);
    config["clusters"][0]["cluster"]["extensions"] =
        json!([{ "name": "client.authentication.k8s.io/exec", "extension": { "audience": "x" } }]);
    // One page, since the credential expires at once.
    let api_url = api.url();
    let one_page =
        Server::start_tls(authority.host("api").server(), |_| protobuf(200, fixture("pod-list.pb")));
    let config = config.to_string().replace(&api_url, &one_page.url());
    let request = last_request(&one_page, once().env("PATH", "/usr/bin:/bin"), &config);
    assert_eq!((bearer(&request), request.certificate.clone()), (Some("Bearer T"), Some(alice.der())));
    let runs: Vec<Value> = std::fs::read_to_string(runs)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let cluster = json!({
        "server": one_page.url(), "certificate-authority-data": base64(authority.pem()),
        "config": { "audience": "x" },
    });
    let input = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "spec": { "interactive": false, "cluster": cluster },
    });
    assert_eq!(runs, [input]);
}

#[test]
fn plugin_that_needs_a_terminal_or_a_rejected_one_is_not_repeated() {
    let authority = Authority::new();
    let api =
        Server::start_tls(authority.host("api").server(), |_| protobuf(401, fixture("statuses/401.pb")));
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = format!("echo run >>'{}'\n{}", runs.display(), printing(&json!({ "token": "T" })));
    let mut user = plugin(&script);
    let run = |user: &Value| {
        let config = with_user(&api, &authority, user).to_string();
        once().args(DRY).kubeconfig(&config).env("PATH", "/usr/bin:/bin").run()
    };
    run(&user).expect(8, &["401 Unauthorized"]);
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
    user["exec"]["interactiveMode"] = "Always".into();
    run(&user).expect(8, &["no credentials for the cluster", "requires a terminal"]);
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
}
