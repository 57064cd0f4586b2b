//! The way to an API server: kubeconfigs, certificates, tokens, proxies.

use crate::fake::kube::{User, fixture, kubeconfig, protobuf, recorded};
use crate::fake::pki::Authority;
use crate::fake::{Reply, Server};
use crate::program::{Program, once, recorded_report};

const DRY: [&str; 3] = ["--dry-run", "--environment", "prod"];

#[test]
fn a_token_over_tls_is_sent_to_the_server_that_the_authority_vouches_for() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), |seen| {
        match seen.headers.get("authorization").map(http::HeaderValue::as_bytes) {
            Some(b"Bearer cluster-token") => recorded(seen),
            _ => protobuf(401, fixture("status-401.pb")),
        }
    });
    let with = |token| kubeconfig(&api.url(), Some(&authority.pem()), &User::Token(token));
    let outcome = once().args(DRY).kubeconfig(&with("cluster-token")).run();
    outcome.says(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    let refused = once().args(DRY).kubeconfig(&with("another")).run();
    refused.says(8, &["answered with 401 Unauthorized: Unauthorized", "hint: the API server does not know"]);
    assert_eq!(refused.stdout, "");
}

#[test]
fn a_client_certificate_is_shown_to_the_server_that_asks_for_one() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let api = Server::start_tls(authority.server(Some(&clients)), recorded);
    let alice = clients.client("alice");
    let with = |user: &User<'_>| kubeconfig(&api.url(), Some(&authority.pem()), user);
    let outcome = once().args(DRY).kubeconfig(&with(&User::Certificate(&alice))).run();
    outcome.says(0, &[]);
    assert_eq!(outcome.stdout, recorded_report());

    once().args(DRY).kubeconfig(&with(&User::Nobody)).run().says(8, &["got no answer"]);
}

#[test]
fn a_certificate_that_nobody_vouches_for_ends_it_at_once() {
    let api = Server::start_tls(Authority::new().server(None), recorded);
    let stranger = Authority::new().pem();
    let outcome = once().args(DRY).kubeconfig(&kubeconfig(&api.url(), Some(&stranger), &User::Nobody)).run();
    outcome.says(8, &["certificate", "hint: check the certificate authority"]);
    assert!(!outcome.stderr.contains("trying again"), "{outcome:#?}");
}

#[test]
fn the_proxy_of_the_environment_is_used_unless_no_proxy_names_the_cluster() {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), recorded);
    // No proxy that would do CONNECT: it is enough to see who was asked.
    let proxy = Server::start(|_| Reply::text(502, "no way"));
    let with = |program: Program| {
        program
            .args(DRY)
            .kubeconfig(&kubeconfig(&api.url(), Some(&authority.pem()), &User::Nobody))
            .env("HTTPS_PROXY", &proxy.url().replace("http://", "http://user:pr0xy-pass@"))
    };
    let through = with(once()).args(["--timeout", "3s"]).run();
    through.says(8, &["got no answer"]);
    assert!(!through.stderr.contains("pr0xy-pass"), "{through:#?}");
    assert_eq!(proxy.seen()[0].method, "CONNECT");
    assert!(proxy.seen()[0].headers.contains_key("proxy-authorization"));
    assert!(api.seen().is_empty());

    for no_proxy in ["example.com,127.0.0.0/8", "*"] {
        with(once()).env("NO_PROXY", no_proxy).run().says(0, &[]);
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named() {
    for (program, words) in [
        (once(), &["no cluster is configured", "--kubeconfig", "~/.kube/config"][..]),
        (once().args(["--context", "x"]), &["--context \"x\" needs a kubeconfig"]),
        (once().args(["--kubeconfig", "missing"]), &["kubeconfig cannot be used", "missing"]),
        (once().kubeconfig("{"), &["kubeconfig cannot be used: \"kubeconfig\": line 1"]),
        (
            once().kubeconfig(""),
            &["kubeconfig cannot be used: \"kubeconfig\" names no cluster; is it empty?"],
        ),
        (
            once().env("KUBECONFIG", "a:b").file("a", "").file("b", "kind: Config"),
            &["\"a\", \"b\" names no cluster"],
        ),
        (once().file(".kube/config", ""), &[".kube/config\" names no cluster; is it empty?"]),
        (
            once()
                .kubeconfig(&kubeconfig("https://127.0.0.1", None, &User::Nobody))
                .args(["--context", "other"]),
            &["other"],
        ),
        (once().env("KUBECONFIG", "missing-too"), &["kubeconfig cannot be used"]),
    ] {
        program.args(DRY).run().says(2, words);
    }
}

#[test]
fn a_key_or_a_certificate_that_cannot_be_used_is_named_and_not_shown() {
    let authority = Authority::new();
    let alice = authority.client("alice");
    let config = kubeconfig("https://127.0.0.1:1", None, &User::Nobody);
    let user = r#""user":{"client-certificate":"alice.pem","client-key":"alice.key"}"#;
    let with = |certificate: &str, key: &str, config: &str| {
        let program = once().file("alice.pem", certificate).file("alice.key", key);
        program.args(DRY).kubeconfig(&config.replace(r#""user":{}"#, user)).run()
    };
    let no_token = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"alice.key"}"#);
    let authorities = config.replace(r#""server":"#, r#""certificate-authority":"alice.pem","server":"#);
    let no_authority =
        "its certificate-authority, or certificate-authority-data, was expected to be certificates";
    for (outcome, words) in [
        (with(&alice.key, &alice.key, &authorities), no_authority),
        (with("", &alice.key, &authorities), no_authority),
        (with(&alice.key, &alice.key, &config), "alice.pem\" holds no certificate in PEM"),
        (with(&alice.certificate, &alice.certificate, &config), "alice.key\" holds no private key in PEM"),
        (with(&alice.certificate, &authority.client("bob").key, &config), "is not the key of it"),
        (with(&alice.certificate, &alice.key, &no_token), "alice.key\" holds what a header cannot carry"),
    ] {
        outcome.says(2, &["the kubeconfig cannot be used: ", words]);
        assert!(!outcome.stderr.contains("BEGIN"), "{outcome:#?}");
    }
}

#[test]
fn a_kubeconfig_is_found_where_kubectl_finds_it() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Nobody);
    once().args(DRY).file("config", &config).env("KUBECONFIG", "config").run().says(0, &["20 artifacts"]);
    once().args(DRY).file(".kube/config", &config).run().says(0, &["20 artifacts"]);
    let unused = kubeconfig("http://127.0.0.1:1", None, &User::Nobody);
    once().args(DRY).file(".kube/config", &unused).kubeconfig(&config).run().says(0, &["20 artifacts"]);
}

#[test]
fn a_no_proxy_that_cannot_be_read_is_named() {
    let config = kubeconfig("https://127.0.0.1:1", None, &User::Nobody);
    let program = once().args(DRY).kubeconfig(&config).env("HTTPS_PROXY", "http://127.0.0.1:1");
    program.env("NO_PROXY", "localhost,").run().says(2, &["NO_PROXY", "empty entry"]);
}

#[test]
fn a_server_that_speaks_no_tls_is_told_from_one_that_is_not_trusted() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url().replace("http:", "https:"), None, &User::Nobody);
    once().args(DRY).kubeconfig(&config).run().says(8, &["does not speak TLS; is it plain http?"]);
}

#[test]
fn a_kubeconfig_that_kube_would_stumble_over_is_refused_or_mended() {
    let api = Server::start(recorded);
    let with = |token: &str| kubeconfig(&api.url(), None, &User::Token(token));
    once().args(DRY).kubeconfig(&with("t0ken\n")).run().says(0, &[]);
    assert_eq!(api.seen()[0].headers["authorization"], "Bearer t0ken");
    once().args(DRY).kubeconfig(&with(" \n")).run().says(0, &[]);
    assert!(!api.seen().last().unwrap().headers.contains_key("authorization"));
    let split = once().args(DRY).kubeconfig(&with("t0k\nen")).run();
    split.says(2, &["its token holds what a header cannot carry"]);
    assert!(!split.stderr.contains("t0k"), "{split:#?}");
    let no_scheme = kubeconfig("127.0.0.1:6443", None, &User::Nobody);
    once()
        .args(DRY)
        .kubeconfig(&no_scheme)
        .run()
        .says(2, &["its server is no URL that begins with https or http"]);
    let list = once().args(DRY).file("config", kubeconfig(&api.url(), None, &User::Nobody));
    list.env("KUBECONFIG", "missing:config").run().says(0, &["20 artifacts"]);
}

#[test]
fn what_kubectl_writes_into_kubeconfigs_is_understood() {
    let api = Server::start(recorded);
    let config = kubeconfig(&api.url(), None, &User::Nobody);
    let unset = config.replace(r#""current-context":"test""#, r#""current-context":"""#);
    assert_ne!(config, unset);
    let program = || once().args(DRY).file("config", &config).file("unset", &unset);
    program().env("KUBECONFIG", "unset:config").run().says(0, &["20 artifacts"]);
    program().env("KUBECONFIG", "unset").run().says(2, &["no current-context"]);
    program().file(".kube/config", &config).env("KUBECONFIG", ":").run().says(0, &["20 artifacts"]);

    let with_file = config.replace(r#""user":{}"#, r#""user":{"tokenFile":"token"}"#);
    assert_ne!(config, with_file);
    program().kubeconfig(&with_file).file("token", "t0ken-of-file\n").run().says(0, &["20 artifacts"]);
    assert_eq!(api.seen().last().unwrap().headers["authorization"], "Bearer t0ken-of-file");
}
