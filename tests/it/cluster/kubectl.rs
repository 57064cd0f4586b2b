//! Comparison with kubectl: the same kubeconfigs, variables and servers lead to the same credential and proxy.
//!
//! Skipped where kubectl is not installed.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::proxies::{Forwarder, elsewhere};
use crate::fake::kube::{User, base64, recorded};
use crate::fake::pki::{Authority, Identity};
use crate::fake::{Reply, Request, Server};
use crate::program::once;

/// How a request reached the server, or `None` if there was none.
type Reached = Option<Seen>;

#[derive(Debug, PartialEq)]
struct Seen {
    authorization: Option<String>,
    certificate: Option<Vec<u8>>,
    through_proxy: bool,
}

/// A kubeconfig, its files, and variables.
struct Case {
    name: &'static str,
    kubeconfig: String,
    files: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, String)>,
}

struct Stage {
    authority: Authority,
    own: Identity,
    api: Server,
    proxy: Forwarder,
}

impl Stage {
    fn start() -> Self {
        let authority = Authority::new();
        let own = authority.host("api");
        // kubectl may ask for the version first.
        let reply = |request: &Request| match request.path.as_str() {
            "/api/v1/pods" => recorded(request),
            _ => Reply::json(404, "{}"),
        };
        let api = Server::start_tls(own.server(), reply);
        Self { authority, own, api, proxy: Forwarder::start(None) }
    }

    /// A kubeconfig for the server on another network than loopback.
    fn config(&self, user: &Value) -> Value {
        let config = elsewhere(&self.api, &self.authority, &User::Anonymous);
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = user.clone();
        config
    }

    fn case(&self, name: &'static str, user: &Value) -> Case {
        self.changed(name, user, |_| {})
    }

    /// A case with a changed cluster.
    fn changed(&self, name: &'static str, user: &Value, change: impl FnOnce(&mut Value)) -> Case {
        let mut config = self.config(user);
        change(&mut config["clusters"][0]["cluster"]);
        Case { name, kubeconfig: config.to_string(), files: Vec::new(), variables: Vec::new() }
    }

    /// What the server saw of a run.
    fn seen(&self, run: impl FnOnce()) -> Reached {
        let (requests, connections) = (self.api.requests().len(), self.proxy.received().len());
        run();
        let through_proxy = self.proxy.received().len() > connections;
        self.api.requests().get(requests).map(|request| Seen {
            authorization: request
                .headers
                .get("authorization")
                .map(|value| value.to_str().unwrap().to_owned()),
            certificate: request.certificate.clone(),
            through_proxy,
        })
    }

    fn of_supercargo(&self, case: &Case) -> Reached {
        self.seen(|| {
            let program = once().args(["--dry-run", "--environment", "x", "--timeout", "1s"]);
            let program = program.kubeconfig(&case.kubeconfig).env("PATH", "/usr/bin:/bin");
            let program = case.files.iter().fold(program, |program, (name, text)| program.file(name, text));
            case.variables.iter().fold(program, |program, (name, value)| program.env(name, value)).run();
        })
    }

    fn of_kubectl(&self, case: &Case) -> Reached {
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("kubeconfig"), &case.kubeconfig).unwrap();
        for (name, text) in &case.files {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        self.seen(|| {
            let mut kubectl = kubectl();
            kubectl.env_clear().env("HOME", home.path()).env("PATH", std::env::var("PATH").unwrap());
            kubectl.envs(case.variables.iter().map(|(name, value)| (name, value)));
            kubectl.current_dir(home.path());
            kubectl.args([
                "--kubeconfig",
                "kubeconfig",
                "--request-timeout",
                "5s",
                "get",
                "--raw",
                "/api/v1/pods",
            ]);
            kubectl.stdin(Stdio::null()).output().unwrap();
        })
    }
}

fn kubectl() -> Command {
    Command::new("kubectl")
}

/// A plugin that prints this status.
fn plugin(status: &Value) -> Value {
    let credential = json!({ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status });
    json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", format!("cat <<'END'\n{credential}\nEND\n")],
        "interactiveMode": "IfAvailable",
    })
}

fn users(stage: &Stage) -> Vec<Case> {
    let alice = stage.authority.client("alice");
    let old = stage.authority.client_v1("old");
    let pair = |identity: &Identity| json!({ "client-certificate-data": base64(&identity.certificate), "client-key-data": base64(&identity.key) });
    let with = |mut user: Value, key: &str, value: Value| {
        user[key] = value;
        user
    };
    let exec = plugin(&json!({ "token": "of-the-plugin" }));
    let both =
        json!({ "token": "P", "clientCertificateData": alice.certificate, "clientKeyData": alice.key });
    let empty = json!({
        "token": "T", "tokenFile": "", "username": "", "password": "", "client-certificate": "",
        "client-certificate-data": "", "client-key": "", "client-key-data": "", "as": "",
    });
    let file = json!({ "token": "stale", "tokenFile": "fresh" });
    let missing = json!({ "token": "T", "tokenFile": "missing" });
    let basic = json!({ "username": "u", "password": "p" });
    let mut cases = vec![
        stage.case("anonymous", &json!({})),
        stage.case("token", &json!({ "token": "T" })),
        stage.case("empty values", &empty),
        stage.case("token and file", &file),
        stage.case("token and missing file", &missing),
        stage.case("file", &json!({ "tokenFile": "fresh" })),
        stage.case("missing file", &json!({ "tokenFile": "missing" })),
        stage.case("password", &basic),
        stage.case("token and password", &with(basic.clone(), "token", "T".into())),
        stage.case("token file and password", &with(basic.clone(), "tokenFile", "fresh".into())),
        stage.case("certificate", &pair(&alice)),
        stage.case("certificate and token", &with(pair(&alice), "token", "T".into())),
        stage.case("certificate and password", &with(with(pair(&alice), "username", "u".into()), "password", "p".into())),
        stage.case("certificate of version 1", &pair(&old)),
        stage.case("certificate without a key", &json!({ "client-certificate-data": base64(&alice.certificate) })),
        stage.case("key without a certificate", &json!({ "client-key-data": base64(&alice.key) })),
        stage.case("certificate and another key", &with(pair(&alice), "client-key-data", base64(&old.key).into())),
        stage.case("plugin", &json!({ "exec": exec })),
        stage.case("plugin and token", &json!({ "exec": exec, "token": "T" })),
        stage.case("plugin and password", &with(basic.clone(), "exec", exec.clone())),
        stage.case("plugin and certificate", &with(pair(&alice), "exec", exec.clone())),
        stage.case("plugin with both", &json!({ "exec": plugin(&both) })),
        stage.case("plugin with nothing", &json!({ "exec": plugin(&json!({})) })),
        stage.case("plugin with a key only", &json!({ "exec": plugin(&json!({ "token": "P", "clientKeyData": alice.key })) })),
        stage.case("plugin with an expired token", &json!({ "exec": plugin(&json!({ "token": "P", "expirationTimestamp": "2020-01-01T00:00:00Z" })) })),
        stage.case("plugin and provider", &json!({ "exec": exec, "auth-provider": { "name": "oidc", "config": {} } })),
        stage.case("removed provider", &json!({ "auth-provider": { "name": "gcp", "config": {} } })),
    ];
    for case in &mut cases {
        case.files.push(("fresh", "of-the-file\n".to_owned()));
    }
    cases
}

fn clusters(stage: &Stage) -> Vec<Case> {
    let token = json!({ "token": "T" });
    let good = stage.authority.pem();
    let cut = good.lines().take(3).collect::<Vec<_>>().join("\n") + "\n";
    let authorities = |name, pem: &str| {
        stage.changed(name, &token, |cluster| cluster["certificate-authority-data"] = base64(pem).into())
    };
    let data = base64(&good);
    let quoted = |text: &str| stage.config(&token).to_string().replace(&format!("\"{data}\""), text);
    // `x` holds the value, and the user has this in place of its token.
    let anchored = |value: &str, reference: &str| {
        let config = stage.config(&token).to_string().replace("\"token\":\"T\"", reference);
        config.replacen('{', &format!("{{\"x\": &x {value}, "), 1)
    };
    let yaml = |name, kubeconfig| Case { name, kubeconfig, files: Vec::new(), variables: Vec::new() };
    let mut in_file = stage.changed("empty data beside a file", &token, |cluster| {
        cluster["certificate-authority"] = "ca.pem".into();
        cluster["certificate-authority-data"] = "".into();
        cluster["proxy-url"] = "".into();
    });
    in_file.files.push(("ca.pem", good.clone()));
    vec![
        in_file,
        authorities("broken certificate first", &format!("{cut}{good}")),
        authorities("broken certificate last", &format!("{good}{cut}")),
        authorities("only a broken certificate", &cut),
        authorities("certificate of the server", &stage.own.certificate),
        authorities("certificate of another server", &stage.authority.host("api").certificate),
        authorities("another authority", &Authority::new().pem()),
        stage.changed("server without a scheme", &token, |cluster| {
            cluster["server"] = cluster["server"].as_str().unwrap().replace("https://", "").into();
        }),
        stage.changed("another name", &token, |cluster| cluster["tls-server-name"] = "other".into()),
        stage.changed("own certificate and another name", &token, |cluster| {
            cluster["certificate-authority-data"] = base64(&stage.own.certificate).into();
            cluster["tls-server-name"] = "other".into();
        }),
        yaml("line break in base64", quoted(&format!("\"{}\\n{}\\r\\n\"", &data[..64], &data[64..]))),
        yaml("space in base64", quoted(&format!("\"{} {}\"", &data[..64], &data[64..]))),
        yaml("binary", quoted(&format!("!!binary \"{}\"", base64(&data)))),
        yaml(
            "no padding",
            quoted(&format!("\"{}\"", data.trim_end_matches('=').trim_end_matches(|_| data.ends_with('=')))),
        ),
        yaml(
            "repeated key",
            stage
                .config(&token)
                .to_string()
                .replace(r#""kind":"Config""#, r#""kind":"Config","kind":"Config""#),
        ),
        yaml(
            "last token",
            stage.config(&token).to_string().replace(r#""token":"T""#, r#""token":"S","token":"T""#),
        ),
        yaml("second document", format!("{}\n---\n[", stage.config(&token))),
        yaml("second configuration", format!("{}\n---\nkind: Config\nusers: []\n", stage.config(&token))),
        yaml("alias", anchored("\"of-an-alias\"", "\"token\": *x")),
        yaml("merge key", anchored("{\"token\": \"merged\"}", "<<: *x")),
    ]
}

fn proxies(stage: &Stage) -> Vec<Case> {
    let token = json!({ "token": "T" });
    let proxy = format!("http://{}", stage.proxy.address);
    let port = stage.api.url().rsplit(':').next().unwrap().to_owned();
    let set = |name, variables: &[(&'static str, &str)]| {
        let mut case = stage.case(name, &token);
        case.variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        case
    };
    let no_proxy = |name, value: &str| set(name, &[("HTTPS_PROXY", &proxy), ("NO_PROXY", value)]);
    let loopback = |name, host: &str| {
        let mut case = set(name, &[("HTTPS_PROXY", &proxy)]);
        case.kubeconfig = case.kubeconfig.replace("0.0.0.0", host);
        case
    };
    let mut of_kubeconfig = stage.changed("proxy of the kubeconfig", &token, |cluster| {
        cluster["proxy-url"] = proxy.clone().into();
    });
    of_kubeconfig.variables = vec![("NO_PROXY", "*".to_owned())];
    vec![
        set("variable", &[("HTTPS_PROXY", &proxy)]),
        set("lower case", &[("https_proxy", &proxy)]),
        set("empty and lower case", &[("HTTPS_PROXY", ""), ("https_proxy", &proxy)]),
        set("address", &[("HTTPS_PROXY", &stage.proxy.address.to_string())]),
        set("socks5", &[("HTTPS_PROXY", &proxy.replace("http:", "socks5:"))]),
        set("socks5h", &[("HTTPS_PROXY", &proxy.replace("http:", "socks5h:"))]),
        set("scheme ftp", &[("HTTPS_PROXY", &proxy.replace("http:", "ftp:"))]),
        set("upper case scheme", &[("HTTPS_PROXY", &proxy.replace("http:", "HTTP:"))]),
        set("path of the proxy", &[("HTTPS_PROXY", &format!("{proxy}/path?query"))]),
        set("other variables", &[("HTTP_PROXY", &proxy), ("ALL_PROXY", &proxy), ("all_proxy", &proxy)]),
        set(
            "both spellings of no_proxy",
            &[("HTTPS_PROXY", &proxy), ("NO_PROXY", ""), ("no_proxy", "0.0.0.0")],
        ),
        loopback("loopback address", "127.0.0.1"),
        loopback("localhost", "localhost"),
        no_proxy("host", "0.0.0.0"),
        no_proxy("host and port", &format!("0.0.0.0:{port}")),
        no_proxy("host and another port", "0.0.0.0:443"),
        no_proxy("network", "0.0.0.0/8"),
        no_proxy("another network", "10.0.0.0/8"),
        no_proxy("all", "*"),
        no_proxy("all in a list", "example.com, *"),
        no_proxy("path", "0.0.0.0,/var/run/docker.sock"),
        no_proxy("only a path", "/var/run/docker.sock"),
        no_proxy("empty entries", ",,0.0.0.0,"),
        no_proxy("wildcard", "*.example.com"),
        no_proxy("end of the address", "0.0"),
        no_proxy("start of the address", "0.0.0"),
        no_proxy("mapped address", "::ffff:0.0.0.0"),
        no_proxy("network of mapped addresses", "::ffff:0.0.0.0/104"),
        of_kubeconfig,
    ]
}

#[test]
fn credential_and_proxy_are_those_of_kubectl() {
    if kubectl().args(["version", "--client"]).output().is_err() {
        return;
    }
    let stage = Stage::start();
    let mut different = Vec::new();
    for case in [users(&stage), clusters(&stage), proxies(&stage)].into_iter().flatten() {
        let (ours, theirs) = (stage.of_supercargo(&case), stage.of_kubectl(&case));
        if ours != theirs {
            different.push(format!("{}: {ours:?}, kubectl {theirs:?}", case.name));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}
