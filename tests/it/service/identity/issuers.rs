//! Tokens of issuers: algorithms, rules, rotation of keys, unavailable issuers, and attacks.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use aws_lc_rs::{encoding::AsDer, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service::{Clock, Limits};

use crate::documents::blocks::{Block, blocks};
use crate::fake::kube::{User, kubeconfig};
use crate::fake::{Reply, Server};
use crate::program::{once, supercargo};
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, READER, Response, STRANGER, TestService, form, pod};

/// The subject of a service account.
const AGENT: &str = "system:serviceaccount:supercargo:supercargo";

const REPORT_PROD: &str = "/environments/acme/prod/report/K8S?create=true";

/// The private key of an issuer, with its key ID.
pub enum Key {
    Rsa(&'static str, RsaKeyPair),
    Ec(&'static str, EcdsaKeyPair),
    Ed(&'static str, Ed25519KeyPair),
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Key {
    fn rsa(id: &'static str) -> Self {
        Self::Rsa(id, RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    fn ec(id: &'static str) -> Self {
        Self::Ec(id, EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub fn ed(id: &'static str) -> Self {
        Self::Ed(id, Ed25519KeyPair::generate().unwrap())
    }

    /// The public key, as JSON Web Key.
    fn jwk(&self) -> Value {
        match self {
            Self::Rsa(id, pair) => {
                let RsaPublicKeyComponents { n, e } =
                    RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "use": "sig", "kid": id, "n": encode(n), "e": encode(e)})
            }
            Self::Ec(id, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encode(x), "y": encode(y)})
            }
            Self::Ed(id, pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(pair.public_key())})
            }
        }
    }

    /// A token with this header, to which `alg` and the key ID are added unless it has its own.
    pub fn sign(&self, algorithm: &str, header: Value, claims: &Value) -> String {
        let (Self::Rsa(id, _) | Self::Ec(id, _) | Self::Ed(id, _)) = self;
        let mut whole = json!({"alg": algorithm, "typ": "JWT", "kid": id});
        extend(&mut whole, header);
        let text = format!("{}.{}", encode(whole.to_string()), encode(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Rsa(_, pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Self::Ec(_, pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed(_, pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", encode(signature))
    }
}

pub fn jwks(keys: &[&Key]) -> Value {
    // Keys that the service cannot use do not disturb it.
    let mut all =
        vec![json!({"kty": "oct", "kid": "symmetric", "k": "AAAA"}), json!({"kty": "new"}), json!(7)];
    all.extend(keys.iter().map(|key| key.jwk()));
    json!({"keys": all})
}

/// An issuer whose replies a test changes.
struct Issuer {
    server: Server,
    /// The key set, and what replaces the reply to a request for the key set or the metadata.
    state: Arc<Mutex<(Value, Option<Fault>)>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Down,
    Slow,
    Huge,
    Redirect,
    Html,
    OtherIssuer,
    NoKeys,
    /// A byte-order mark before both documents.
    Mark,
}

impl Issuer {
    fn start(keys: &[&Key]) -> Self {
        let state = Arc::new(Mutex::new((jwks(keys), None)));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request| {
            let (jwks, fault) = shared.lock().unwrap().clone();
            let url = format!("http://{}", request.headers["host"].to_str().unwrap());
            let mark = if fault == Some(Fault::Mark) { "\u{feff}" } else { "" };
            match (request.path.as_str(), fault) {
                (_, Some(Fault::Down)) => Reply::Reset,
                (_, Some(Fault::Slow)) => Reply::Stall,
                (_, Some(Fault::Redirect)) => Reply::text(302, "").with("location", "/elsewhere"),
                (_, Some(Fault::Html)) => Reply::Response(
                    200,
                    vec![("content-type", "text/html".to_owned())],
                    "<html>{}</html>".into(),
                ),
                ("/.well-known/openid-configuration", _) => {
                    let url = if fault == Some(Fault::OtherIssuer) { format!("{url}/") } else { url };
                    let jwks = format!("{}/keys", url.trim_end_matches('/'));
                    Reply::json(200, mark.to_owned() + &json!({"issuer": url, "jwks_uri": jwks}).to_string())
                }
                ("/keys", Some(Fault::Huge)) => Reply::Endless(200, Vec::new()),
                ("/keys", Some(Fault::NoKeys)) => Reply::json(200, r#"{"keys": []}"#),
                ("/keys", _) => Reply::json(200, mark.to_owned() + &jwks.to_string())
                    .with("cache-control", "public, max-age=3600"),
                _ => Reply::text(404, ""),
            }
        });
        Self { server, state }
    }

    fn set_keys(&self, keys: &[&Key]) {
        self.state.lock().unwrap().0 = jwks(keys);
    }

    fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().1 = fault;
    }

    /// The number of requests for the keys.
    fn key_requests(&self) -> usize {
        self.server.requests().iter().filter(|request| request.path == "/keys").count()
    }

    /// Claims of an agent that are valid now.
    fn claims(&self, clock: &TestClock) -> Value {
        claims(&self.server.url(), clock)
    }
}

fn extend(object: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("expected an object, got {more}") };
    object.as_object_mut().unwrap().extend(more);
}

fn claims(issuer: &str, clock: &TestClock) -> Value {
    let now = clock.now();
    json!({"iss": issuer, "sub": AGENT, "aud": "supercargo", "iat": now, "nbf": now, "exp": now + 600})
}

pub fn with(claims: &Value, changes: Value) -> Value {
    let mut claims = claims.clone();
    extend(&mut claims, changes);
    claims
}

/// A clock that the test advances, up to the system's time.
pub struct TestClock {
    clock: Clock,
    behind: AtomicU64,
}

impl TestClock {
    pub fn new() -> (Clock, Self) {
        let clock = Clock::default();
        let this = Self { clock: clock.clone(), behind: AtomicU64::new(5 * 86_400) };
        this.advance(0);
        (clock, this)
    }

    pub fn advance(&self, seconds: u64) {
        let behind = self.behind.fetch_sub(seconds, Ordering::Relaxed) - seconds;
        self.clock.set_back(Duration::from_secs(behind));
    }

    pub fn now(&self) -> u64 {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        now - self.behind.load(Ordering::Relaxed)
    }
}

/// The bootstrap file with an issuer whose agents report `prod`.
fn with_issuer(generation: i64, url: &str, more: &str) -> String {
    bootstrap(
        generation,
        &format!(
            "    issuers:
      - name: cluster
        issuer: {url}
        audience: supercargo
        rules: [{{claims: {{sub: '{AGENT}'}}, role: report, environments: [prod], create: true}}]
{more}"
        ),
    )
}

async fn start(database: Database, url: &str, more: &str) -> (TestService, TestClock) {
    start_with(database, with_issuer(1, url, more), Vec::new()).await
}

async fn start_with(
    database: Database,
    bootstrap: String,
    files: Vec<(&'static str, String)>,
) -> (TestService, TestClock) {
    let (clock, test_clock) = TestClock::new();
    let allowed_internal = &["127.0.0.1/32"][..];
    let options = Options { bootstrap, allowed_internal, clock, files, ..Options::default() };
    (TestService::start_with(database, options).await, test_clock)
}

/// The status of a report with this token, and the message of an error.
async fn send(service: &TestService, token: &str) -> (u16, String) {
    let response = service.report(token, "prod", report(&[pod("p", "cart:1", 'a')])).await;
    let status = response.status.as_u16();
    let message =
        if status < 300 { String::new() } else { response.expect(status).json()["message"].to_string() };
    (status, message)
}

/// Whether a report with this token is recorded.
async fn is_accepted(service: &TestService, token: &str) -> bool {
    [200, 201].contains(&send(service, token).await.0)
}

fn is_down(metrics: &str) -> bool {
    let line = metrics.lines().find(|line| line.starts_with("supercargo_issuer_down{organization=\"acme\""));
    line.unwrap().ends_with(" 1")
}

async fn token_with_each_algorithm_is_accepted(database: Database) {
    let (rsa, ec, ed) = (Key::rsa("rsa"), Key::ec("ec"), Key::ed("ed"));
    let issuer = Issuer::start(&[&rsa, &ec, &ed]);
    let (service, clock) = start(database, &issuer.server.url(), "").await;
    let claims = issuer.claims(&clock);
    for (key, algorithm) in [(&rsa, "RS256"), (&rsa, "PS256"), (&ec, "ES256"), (&ed, "EdDSA")] {
        let token = key.sign(algorithm, json!({}), &claims);
        let sent = send(&service, &token).await;
        assert!([200, 201].contains(&sent.0), "{algorithm}: {sent:?}");
        // Another algorithm than that of the key.
        for other in ["RS256", "ES256", "EdDSA"].into_iter().filter(|other| *other != algorithm) {
            let refused = send(&service, &key.sign(other, json!({}), &claims)).await;
            assert!(refused.0 == 401 || (algorithm, other) == ("PS256", "RS256"), "{other}: {refused:?}");
        }
    }
    assert_eq!(issuer.key_requests(), 1);
    let by = format!("cluster/{AGENT}");
    assert_eq!(service.database.rows("SELECT reported_by FROM snapshots").await, [by.as_str()]);
    let page = Browser::read_page(&service, "/ui/acme/environments/prod/timeline").await;
    assert_contains(&page, &[&by]);
    // Within the rule only.
    let token = rsa.sign("RS256", json!({}), &claims);
    service.report(&token, "test", report(&[])).await.expect(403);
    service.get(&token, "/trails/acme").await.expect(403);
    service.get(&token, "/user/default-org").await.expect(401);
}

async fn key_is_accepted_in_each_form_that_issuers_write(database: Database) {
    let [first, second] = ["zero", "standard"].map(Key::rsa);
    let issuer = Issuer::start(&[]);
    let of = |key: &Key, member: &str| URL_SAFE_NO_PAD.decode(key.jwk()[member].as_str().unwrap()).unwrap();
    let (mut zero, mut standard) = (first.jwk(), second.jwk());
    zero["n"] = encode([vec![0], of(&first, "n")].concat()).into();
    standard["n"] = STANDARD.encode(of(&second, "n")).into();
    standard["e"] = STANDARD.encode([vec![0], of(&second, "e")].concat()).into();
    let short = json!({"kty": "RSA", "kid": "short", "n": encode([0xfb; 128]), "e": "AQAB"});
    *issuer.state.lock().unwrap() = (json!({"keys": [zero, standard, short]}), Some(Fault::Mark));
    let (service, clock) = start(database, &issuer.server.url(), "").await;
    for key in [&first, &second] {
        let sent = send(&service, &key.sign("RS256", json!({}), &issuer.claims(&clock))).await;
        assert!([200, 201].contains(&sent.0), "{sent:?}");
    }
}

/// GitHub adds immutable identifiers to the subject.
async fn documented_rules_accept_both_subjects_of_github(database: Database) {
    const DOCUMENT: &str = include_str!("../../../../docs/guides/identity.md");
    let key = Key::ec("k");
    let issuer = Issuer::start(&[&key]);
    let documented = DOCUMENT.lines().map(str::trim).filter(|line| line.starts_with("- claims: {repository"));
    let rules: Vec<_> = documented.zip(["role: attest, flows: [cart]", "role: read"]).collect();
    assert_eq!(rules.len(), 2);
    let rules = rules.iter().fold("rules:".to_owned(), |rules, (claims, grant)| {
        rules + &format!("\n          - {{{}, {grant}}}", claims.strip_prefix("- ").unwrap())
    });
    let file = with_issuer(1, &issuer.server.url(), "");
    let file = file.replace(file.lines().find(|line| line.contains("rules:")).unwrap().trim_start(), &rules);
    let (service, clock) = start_with(database, file, Vec::new()).await;
    for subject in ["repo:acme/cart", "repo:acme@1/cart@2"] {
        let token = |name: &str, owner: &str| {
            let claims = json!({
                "sub": format!("{subject}:ref:refs/heads/main"), "repository": format!("{owner}/{name}"),
                "repository_owner": owner, "ref": "refs/heads/main",
            });
            key.sign("ES256", json!({}), &with(&issuer.claims(&clock), claims))
        };
        let unit = json!({"attestation_name": "unit", "junit_results": []});
        service.attest(&token("cart", "acme"), "cart", "t", form(&unit)).await.expect(201);
        service.get(&token("web", "acme"), "/trails/acme").await.expect(200);
        service.get(&token("cart", "acme-evil"), "/trails/acme").await.expect(401);
    }
}

async fn attack_gets_401_with_a_reason_that_quotes_nothing(database: Database) {
    let (rsa, attacker) = (Key::rsa("k"), Key::rsa("evil"));
    let (issuer, other) = (Issuer::start(&[&rsa]), Issuer::start(&[&rsa, &attacker]));
    let of_stranger = format!(
        "  - name: stranger2
    issuers:
      - {{name: ci, issuer: '{}', audience: supercargo, rules: [{{claims: {{sub: '*'}}, role: admin}}]}}",
        other.server.url()
    );
    let (service, clock) = start(database, &issuer.server.url(), &of_stranger).await;
    let valid = issuer.claims(&clock);
    let now = clock.now();
    let sign = |header: Value, change: Value| rsa.sign("RS256", header, &with(&valid, change));
    assert!(is_accepted(&service, &sign(json!({}), json!({}))).await);
    let jwk = attacker.jwk();
    let Key::Rsa(_, pair) = &rsa else { unreachable!() };
    let der = pair.public_key().as_der().unwrap();
    let symmetric = |secret: &[u8]| {
        let text = format!("{}.{}", encode(r#"{"alg":"HS256","kid":"k"}"#), encode(valid.to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
        format!("{text}.{}", encode(tag))
    };
    let unsigned = |algorithm: &str| {
        format!(
            "{}.{}.",
            encode(json!({"alg": algorithm, "kid": "k"}).to_string()),
            encode(valid.to_string())
        )
    };
    let forged = |header: Value| attacker.sign("RS256", header, &valid);
    let keys_of_attacker = jwks(&[&attacker]).to_string();
    let bait = Server::start(move |_| Reply::json(200, keys_of_attacker.clone()));
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&*der));
    let cut = |token: String| token[..token.len() - 8].to_owned();
    for (what, token, reason) in [
        ("HS256 with the public key", symmetric(der.as_ref()), "algorithm is not supported"),
        ("HS256 with its PEM", symmetric(pem.as_bytes()), "algorithm is not supported"),
        (
            "HS256 with the modulus",
            symmetric(rsa.jwk()["n"].as_str().unwrap().as_bytes()),
            "algorithm is not supp",
        ),
        ("none", unsigned("none"), "algorithm is not supported"),
        ("None", unsigned("nOnE"), "algorithm is not supported"),
        ("RS256 without signature", unsigned("RS256"), "signature is invalid"),
        ("RS512", sign(json!({"alg": "RS512"}), json!({})), "algorithm is not supported"),
        ("alg of another type", sign(json!({"alg": 7}), json!({})), "Authorization: Bearer"),
        ("jwk", forged(json!({"jwk": jwk, "kid": "k"})), "signature is invalid"),
        ("jku", forged(json!({"jku": bait.url(), "kid": "k"})), "signature is invalid"),
        ("jku with an unknown key", forged(json!({"jku": bait.url()})), "no key"),
        ("x5u", forged(json!({"x5u": bait.url(), "x5c": ["AAAA"]})), "no key"),
        ("crit", sign(json!({"crit": ["exp"]}), json!({})), "crit"),
        ("crit of another type", sign(json!({"crit": 1}), json!({})), "crit"),
        ("kid of another type", sign(json!({"kid": {"a": 1}}), json!({})), "Authorization: Bearer"),
        ("symmetric kid", sign(json!({"kid": "symmetric"}), json!({})), "no key"),
        ("cut signature", cut(sign(json!({}), json!({}))), "signature is invalid"),
        (
            "another audience",
            sign(json!({}), json!({"aud": "payments-secret"})),
            "expected \\\"supercargo\\\"",
        ),
        ("no audience", sign(json!({}), json!({"aud": []})), "another audience"),
        ("audience of another type", sign(json!({}), json!({"aud": {"supercargo": 1}})), "another audience"),
        ("expired", sign(json!({}), json!({"exp": now - 61})), "expired"),
        ("no expiry", sign(json!({}), json!({"exp": null})), "\\\"exp\\\""),
        ("not yet valid", sign(json!({}), json!({"nbf": now + 120})), "not valid yet"),
        ("issued in the future", sign(json!({}), json!({"iat": now + 120})), "not valid yet"),
        ("another subject", sign(json!({}), json!({"sub": "payments-secret"})), "no rule of the issuer"),
        ("subject of another type", sign(json!({}), json!({"sub": [AGENT]})), "\\\"sub\\\""),
        (
            "issuer of another organization",
            sign(json!({}), json!({"iss": other.server.url()})),
            "\\\"iss\\\"",
        ),
        ("unknown issuer", sign(json!({}), json!({"iss": "https://payments-secret"})), "\\\"iss\\\""),
        ("issuer of another type", sign(json!({}), json!({"iss": [issuer.server.url()]})), "\\\"iss\\\""),
        ("claims that are no object", rsa.sign("RS256", json!({}), &json!([valid])), "\\\"iss\\\""),
        ("large claims", sign(json!({}), json!({"more": "a".repeat(20_000)})), "too large"),
        ("deep claims", sign(json!({}), serde_json::from_str(&nested(100)).unwrap()), ""),
    ] {
        let (status, message) = send(&service, &token).await;
        if what == "deep claims" {
            assert!([200, 201].contains(&status), "{what}: {message}");
            continue;
        }
        assert!(status == 401 && message.contains(reason), "{what}: {status} {message}");
        assert!(!message.contains("payments-secret") && !message.contains("evil"), "{what}: {message}");
    }
    assert!(bait.requests().is_empty());
    // A parser must not overflow its stack.
    let deep = format!("{}.{}.AAAA", encode(r#"{"alg":"RS256"}"#), encode("[".repeat(10_000)));
    assert_eq!(send(&service, &deep).await.0, 401);
    // The other organization accepts the tokens of its issuer, and no token of this one.
    let of_other = attacker.sign("RS256", json!({}), &with(&valid, json!({"iss": other.server.url()})));
    service.get(&of_other, "/trails/stranger2").await.expect(200);
    service.get(&of_other, "/trails/acme").await.expect(401);
    service.get(&sign(json!({}), json!({})), "/trails/stranger2").await.expect(401);
    // One megabyte of claims does not fit the headers of a request.
    let huge = sign(json!({}), json!({"more": "a".repeat(1_000_000)}));
    let request = service.request(Method::GET, &huge, "/trails/acme").send().await;
    assert!(request.is_err() || request.is_ok_and(|response| response.status().is_client_error()));
    service.get(READER, "/trails/acme").await.expect(200);
}

/// Claims with a list in lists.
fn nested(depth: usize) -> String {
    format!("{{\"more\": {}{}}}", "[".repeat(depth), "]".repeat(depth))
}

async fn rotated_key_is_accepted_without_a_storm_of_requests(database: Database) {
    let (first, second) = (Key::rsa("1"), Key::rsa("2"));
    let issuer = Issuer::start(&[&first]);
    let (service, clock) = start(database, &issuer.server.url(), "").await;
    let sign = |key: &Key, header: Value| key.sign("RS256", header, &issuer.claims(&clock));
    assert!(is_accepted(&service, &sign(&first, json!({}))).await);
    assert_eq!(issuer.key_requests(), 1);
    issuer.set_keys(&[&first, &second]);
    // The last refresh is too recent.
    let (status, message) = send(&service, &sign(&second, json!({}))).await;
    assert!(status == 401 && message.contains("within a minute"), "{message}");
    clock.advance(61);
    assert!(is_accepted(&service, &sign(&second, json!({}))).await);
    assert!(is_accepted(&service, &sign(&first, json!({}))).await);
    assert_eq!(issuer.key_requests(), 2);
    // Any number of unknown key IDs cause one request per minute.
    for _ in 0..2 {
        clock.advance(61);
        let before = issuer.key_requests();
        let mut requests = tokio::task::JoinSet::new();
        for n in 0..200 {
            let token = sign(&second, json!({"kid": format!("unknown-{n}")}));
            let url = format!("{}/api/v2{REPORT_PROD}", service.base);
            let request = service.http.put(url).bearer_auth(token).header("Content-Type", "application/json");
            requests.spawn(Response::from_request(request.body(report(&[]))));
        }
        for response in requests.join_all().await {
            assert!([401, 503].contains(&response.status.as_u16()), "{response:?}");
        }
        assert_eq!(issuer.key_requests(), before + 1);
    }
    // The issuer reuses a key ID for a new key, and revokes the old ones.
    let reused = Key::rsa("2");
    issuer.set_keys(&[&reused]);
    clock.advance(61);
    assert!(is_accepted(&service, &sign(&reused, json!({}))).await);
    for revoked in [&first, &second] {
        assert_eq!(send(&service, &sign(revoked, json!({}))).await.0, 401);
    }
    // Many keys have one ID, and a few are tried: each costs a verification.
    let many: Vec<_> = (0..10).map(|_| Key::ed("many")).collect();
    issuer.set_keys(&many.iter().collect::<Vec<_>>());
    clock.advance(61);
    let sign_with = |key: &Key| key.sign("EdDSA", json!({}), &issuer.claims(&clock));
    assert!(is_accepted(&service, &sign_with(&many[0])).await);
    assert_eq!(send(&service, &sign_with(&many[9])).await.0, 401);
    issuer.set_keys(&[&reused]);
    clock.advance(3_601);
    eventually("old keys are refreshed", async || is_accepted(&service, &sign(&reused, json!({}))).await)
        .await;
    // Without a key ID, the only key fits; with several, none.
    assert!(is_accepted(&service, &sign(&reused, json!({"kid": null}))).await);
    issuer.set_keys(&[&reused, &first]);
    clock.advance(3_601);
    eventually("old keys are refreshed", async || is_accepted(&service, &sign(&first, json!({}))).await)
        .await;
    assert_eq!(send(&service, &sign(&reused, json!({"kid": null}))).await.0, 401);
}

async fn keys_of_an_unavailable_issuer_work_for_a_day(database: Database) {
    let key = Key::ed("k");
    let issuer = Issuer::start(&[&key]);
    issuer.set_fault(Some(Fault::Down));
    let (service, clock) = start(database, &issuer.server.url(), "").await;
    let token = || key.sign("EdDSA", json!({}), &issuer.claims(&clock));
    let (status, message) = send(&service, &token()).await;
    assert!(status == 503 && message.contains("not available"), "{message}");
    let faults = [Fault::Huge, Fault::Redirect, Fault::Html, Fault::OtherIssuer, Fault::NoKeys, Fault::Down];
    for fault in faults {
        issuer.set_fault(Some(fault));
        clock.advance(61);
        assert_eq!(send(&service, &token()).await.0, 503, "{fault:?}");
        assert!(is_down(&service.metrics().await), "{fault:?}");
    }
    issuer.set_fault(None);
    clock.advance(61);
    assert!(is_accepted(&service, &token()).await);
    assert!(!is_down(&service.metrics().await));
    for fault in faults {
        issuer.set_fault(Some(fault));
        clock.advance(3 * 3_600);
        let unknown = key.sign("EdDSA", json!({"kid": "unknown"}), &issuer.claims(&clock));
        assert_eq!(send(&service, &unknown).await.0, 401, "{fault:?}");
        assert!(is_down(&service.metrics().await), "{fault:?}");
        assert!(is_accepted(&service, &token()).await, "{fault:?}");
    }
    let paths: BTreeSet<_> = issuer.server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(
        paths,
        ["/.well-known/openid-configuration", "/keys"].map(str::to_owned).into(),
        "no redirect is followed"
    );
    clock.advance(6 * 3_600);
    assert_eq!(send(&service, &token()).await.0, 503);
    issuer.set_fault(None);
    clock.advance(61);
    assert!(is_accepted(&service, &token()).await);
}

async fn slow_issuer_delays_only_its_own_callers(database: Database) {
    let key = Key::ed("k");
    let (slow, fast) = (Issuer::start(&[&key]), Issuer::start(&[&key]));
    slow.set_fault(Some(Fault::Slow));
    let more = format!(
        "      - {{name: ci, issuer: '{}', audience: supercargo, rules: [{{claims: {{sub: '*'}}, role: read}}]}}",
        fast.server.url()
    );
    let (service, clock) = start(database, &slow.server.url(), &more).await;
    let request =
        service.request(Method::GET, &key.sign("EdDSA", json!({}), &slow.claims(&clock)), "/trails/acme");
    let waiting = tokio::spawn(Response::from_request(request));
    eventually("the slow issuer is requested", async || !slow.server.requests().is_empty()).await;
    service.get(READER, "/trails/acme").await.expect(200);
    service.get(&key.sign("EdDSA", json!({}), &fast.claims(&clock)), "/trails/acme").await.expect(200);
    assert!(!waiting.is_finished());
    slow.server.drop_connections();
    waiting.await.unwrap().expect(503);
}

async fn issuer_at_an_internal_address_is_not_requested(database: Database) {
    let key = Key::ed("k");
    let issuer = Issuer::start(&[&key]);
    let (clock, test_clock) = TestClock::new();
    let bootstrap = with_issuer(1, &issuer.server.url(), "");
    let service = TestService::start_with(database, Options { bootstrap, clock, ..Options::default() }).await;
    let token = key.sign("EdDSA", json!({}), &issuer.claims(&test_clock));
    assert_eq!(send(&service, &token).await.0, 503);
    assert!(is_down(&service.metrics().await) && issuer.server.requests().is_empty());
}

/// A token as kube-apiserver signs it for a projected volume, and the keys as it publishes them at `/openid/v1/jwks`.
async fn service_account_token_is_verified_with_keys_from_a_file(database: Database) {
    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
    let (key, next) = (Key::rsa("3vS7kXxM9Q0s2Xj0ZrYhWm8eQm8kq2d9s4l2m8x1aBc"), Key::rsa("next"));
    let other = Key::rsa("other");
    let document = |key: &Key| {
        let mut jwk = key.jwk();
        jwk["alg"] = json!("RS256");
        json!({"keys": [jwk]}).to_string()
    };
    let bootstrap = |generation| {
        let another = format!(
            "      - name: another
        issuer: {ISSUER}
        audience: supercargo
        jwks: {{file: other.json}}
        rules: [{{claims: {{sub: '{AGENT}'}}, role: report, environments: [prod]}}]"
        );
        let file = with_issuer(generation, ISSUER, &another);
        file.replacen(
            "        audience: supercargo\n",
            "        audience: supercargo\n        jwks: {file: keys.json}\n",
            1,
        )
    };
    let (service, clock) = start_with(
        database,
        bootstrap(1),
        vec![("keys.json", document(&key)), ("other.json", document(&other))],
    )
    .await;
    let now = clock.now();
    let claims = json!({
        "aud": ["supercargo"], "exp": now + 3_607, "iat": now, "iss": ISSUER,
        "jti": "0b3b6ab6-6d4c-4a3c-9f1b-5d8b4f6f0e57",
        "kubernetes.io": {
            "namespace": "supercargo",
            "node": {"name": "node-1", "uid": "6b0a3a3e-60a5-4f61-8a73-2d9cf1a0f0d1"},
            "pod": {"name": "supercargo-7d5b9c6f4-x2x9p", "uid": "2f0e5b0c-9f5d-4f8e-8f07-8d1d2b1a7c11"},
            "serviceaccount": {"name": "supercargo", "uid": "f3b7c0de-3d0f-4c2b-8b0a-6f8f6b1f9a10"},
        },
        "nbf": now, "sub": AGENT,
    });
    // kube-apiserver sends no `typ`.
    let sign = |key: &Key| key.sign("RS256", json!({"typ": null}), &claims);
    assert!(is_accepted(&service, &sign(&key)).await);
    let (status, message) = send(&service, &sign(&next)).await;
    assert!(status == 401 && message.contains("reload the bootstrap file"), "{message}");
    // Another cluster with the same issuer, as is usual.
    let by = "SELECT reported_by FROM snapshots ORDER BY snapshot";
    service.report(&sign(&other), "prod", report(&[pod("p", "cart:1", 'b')])).await.expect(201);
    let names = [format!("cluster/{AGENT}"), format!("another/{AGENT}")];
    assert_eq!(service.database.rows(by).await, names);
    // The file is read again with the bootstrap file, whose generation may stay.
    std::fs::write(service.bootstrap_file().with_file_name("keys.json"), document(&next)).unwrap();
    service.reload(&bootstrap(1)).await;
    assert_eq!(send(&service, &sign(&key)).await.0, 401);
    assert!(is_accepted(&service, &sign(&next)).await);
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).json();
    let changes: Vec<_> = audit["data"].as_array().unwrap().iter().map(|entry| &entry["change"]).collect();
    let expected = format!(
        "the keys of issuer cluster of {ISSUER} were replaced: they were \"3vS7kXxM9Q0s2Xj0ZrYhWm8eQm8kq2d9s4l2m8x1aBc\", \
         and are \"next\""
    );
    assert!(changes.iter().any(|change| change.as_str().unwrap().contains(&expected)), "{changes:#?}");
    assert!(!audit.to_string().contains("was removed"), "{changes:#?}");
}

/// The blocks of docs/guides/install.md: the issuer of a cluster, and the values of its agent.
async fn documented_projected_token_reports_its_environment(database: Database) {
    let blocks = blocks();
    let install = |first: &str, contains: &str| {
        let page = Path::new("docs/guides/install.md");
        let fits = |block: &&Block| {
            block.page == page && block.text.starts_with(first) && block.text.contains(contains)
        };
        blocks.iter().find(fits).unwrap_or_else(|| panic!("no block with {contains:?}")).text.clone()
    };
    let key = Key::rsa("cluster");
    let file = install("# bootstrap.yaml", "cluster-prod.jwks.json");
    let files = vec![("cluster-prod.jwks.json", json!({"keys": [key.jwk()]}).to_string())];
    let (service, clock) = start_with(database, file, files).await;
    let values: Value = serde_saphyr::from_str(&install("# values.yaml", "projected")).unwrap();
    let audience = &values["compliance"]["token"]["projected"]["audience"];
    let issuer = "https://kubernetes.default.svc.cluster.local";
    let claims = with(&claims(issuer, &clock), json!({"aud": [audience]}));
    let config = json!({"environments": values["environments"]}).to_string();
    let program = once().file("environments.yaml", config).args(["--config", "environments.yaml"]);
    let program = program.recorded_pods().env("SUPERCARGO_BASE_URL", &service.base);
    let program = program.env("SUPERCARGO_ORG", values["compliance"]["org"].as_str().unwrap());
    let program = program.env("SUPERCARGO_TOKEN", &key.sign("RS256", json!({}), &claims));
    let outcome = tokio::task::spawn_blocking(|| program.run()).await.unwrap();
    outcome.expect(0, &["prod: ", "new snapshot"]);
}

async fn printed_issuer_of_a_context_trusts_a_projected_token(database: Database) {
    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
    let key = Key::rsa("cluster");
    // An API server never publishes it.
    let mut jwk = key.jwk();
    jwk.as_object_mut()
        .unwrap()
        .extend([("d".to_owned(), json!("private")), ("alg".to_owned(), json!("RS256"))]);
    let keys = json!({"keys": [jwk]}).to_string();
    let api = Server::start(move |request| match request.path.as_str() {
        "/.well-known/openid-configuration" => Reply::json(
            200,
            json!({"issuer": ISSUER, "jwks_uri": "https://10.0.0.1/openid/v1/jwks"}).to_string(),
        ),
        "/openid/v1/jwks" => Reply::json(200, keys.clone()).with("content-type", "application/jwk-set+json"),
        _ => Reply::text(404, ""),
    });
    let config = kubeconfig(&api.url(), None, &User::Token("t0ken"))
        .replace("\"test\"", "\"arn:aws:eks:eu:1:cluster/prod\"");
    let print = move |more: &str| {
        let program = supercargo().file("config", &config).env("KUBECONFIG", "config");
        let program = program.args(["issuer", "from-context", "arn:aws:eks:eu:1:cluster/prod"]);
        let program = program.args(more.split(' ').filter(|word| !word.is_empty()));
        tokio::task::spawn_blocking(|| program.run())
    };
    let printed = print("--create").await.unwrap().expect(0, &[]).stdout.clone();
    assert!(!printed.contains("private"), "{printed}");
    let file = bootstrap(1, &format!("    issuers:\n{printed}"));
    let (service, clock) = start_with(database, file, Vec::new()).await;
    let token = |claims: &Value| key.sign("RS256", json!({"typ": null}), claims);
    let claims = claims(ISSUER, &clock);
    assert!(is_accepted(&service, &token(&claims)).await);
    let reporter = "SELECT reported_by FROM snapshots";
    assert_eq!(service.database.rows(reporter).await, [format!("prod/{AGENT}")]);
    let other = with(&claims, json!({"sub": "system:serviceaccount:default:supercargo"}));
    assert_eq!(send(&service, &token(&other)).await.0, 401);

    let options = "--name eu --environment a,b --audience https://x --namespace agents --service-account agent --without-keys";
    assert_eq!(
        print(options).await.unwrap().expect(0, &[]).stdout,
        format!(
            "      - name: \"eu\"
        issuer: \"{ISSUER}\"
        audience: \"https://x\"
        rules:
          - claims: {{sub: \"system:serviceaccount:agents:agent\"}}
            role: report
            environments: [\"a\",\"b\"]
"
        )
    );
    // Nothing is printed after a failure, so that a loop appends only entries.
    for (replies, code, texts) in [
        (
            r#"{"message": "forbidden"}"#,
            403,
            &["bind the ClusterRole system:service-account-issuer-discovery"][..],
        ),
        (r#"{"issuer": 7}"#, 200, &["/.well-known/openid-configuration", "unexpected response"]),
        (r#"{"issuer": "https://x", "keys": []}"#, 200, &["/openid/v1/jwks", "expected a key"]),
    ] {
        let api = Server::start(move |_| Reply::json(code, replies));
        let program = supercargo().file("config", kubeconfig(&api.url(), None, &User::Anonymous));
        let program = program.env("KUBECONFIG", "config").args(["issuer", "from-context", "test"]);
        let outcome = tokio::task::spawn_blocking(|| program.run()).await.unwrap();
        assert_eq!(outcome.expect(8, texts).stdout, "");
    }
    let program = supercargo().args(["issuer", "from-context", "cluster/"]);
    let outcome = tokio::task::spawn_blocking(|| program.run()).await.unwrap();
    outcome.expect(2, &["the context \"cluster/\" is no name of an issuer: set --name"]);
}

async fn first_matching_rule_gives_the_permissions(database: Database) {
    let key = Key::ec("k");
    let issuer = Issuer::start(&[&key]);
    let rules = |generation: i64, more: &str| {
        let file = with_issuer(
            generation,
            &issuer.server.url(),
            "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]",
        );
        let rules = format!(
            "rules:
          - {{claims: {{repository: acme/cart, ref: refs/heads/main}}, role: attest, flows: [cart]}}
          - {{claims: {{groups: auditors, repository: 'acme/*'}}, role: read}}
          - {{claims: {{sub: 'admin-*'}}, role: admin}}{more}"
        );
        file.replace(file.lines().find(|line| line.contains("rules:")).unwrap().trim_start(), &rules)
    };
    let (service, clock) = start_with(database, rules(1, ""), Vec::new()).await;
    let token = |change: Value| key.sign("ES256", json!({}), &with(&issuer.claims(&clock), change));
    let ci = token(json!({"sub": "repo:acme/cart", "repository": "acme/cart", "ref": "refs/heads/main"}));
    let unit = || {
        form(
            &json!({"attestation_name": "unit", "artifact_fingerprint": crate::service::digest('a'), "junit_results": []}),
        )
    };
    service.attest(&ci, "cart", "t", unit()).await.expect(201);
    service.attest(&ci, "web", "t", unit()).await.expect(403);
    let branch = token(json!({"sub": "repo:acme/cart", "repository": "acme/cart", "ref": "refs/heads/x"}));
    service.attest(&branch, "cart", "t", unit()).await.expect(401);
    let auditor = token(json!({"sub": "kim", "repository": "acme/web", "groups": ["dev", "auditors"]}));
    service.get(&auditor, "/trails/acme").await.expect(200);
    service.get(&auditor, "/audit/acme").await.expect(403);
    let admin = token(json!({"sub": "admin-jo"}));
    let audit = service.get(&admin, "/audit/acme").await.expect(200).text;
    assert!(audit.contains("role attest for cart if ref=refs/heads/main, repository=acme/cart"), "{audit}");
    service.report(&admin, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let create =
        service.request(Method::POST, &admin, "/tokens/acme").header("Content-Type", "application/json");
    let body = json!({"name": "new", "role": "read"}).to_string();
    Response::from_request(create.body(body)).await.expect(201);
    // The name is in the evidence, and a change of an admin in the audit log.
    let by = "SELECT reported_by FROM attestations";
    assert_eq!(service.database.rows(by).await, ["cluster/repo:acme/cart"]);
    assert!(service.get(ADMIN, "/audit/acme").await.expect(200).text.contains("token cluster/admin-jo"));

    let review = service.get(ADMIN, "/environments/acme/prod/access-review").await.expect(200).json();
    let granted: Vec<_> = review["requirements"][0]["tokens"].as_array().unwrap().iter().collect();
    let rule = json!({
        "name": "cluster", "claims": "ref=refs/heads/main, repository=acme/cart", "role": "attest",
        "scope": {"environments": [], "flows": ["cart"]}, "expires_at": null,
    });
    assert!(
        granted.contains(&&rule) && granted.iter().any(|grant| grant["claims"] == "sub=admin-*"),
        "{review}"
    );
    let page =
        Browser::signed_in(&service, ADMIN).await.get("/ui/acme/environments/prod/access-review").await;
    assert_contains(
        &page.text,
        &["tokens of issuer <bdi>cluster</bdi> with <bdi>sub=admin-*</bdi>, role admin"],
    );
    let shown = service.program(ADMIN, "get access-review prod").await;
    assert!(shown.stdout.contains("tokens of issuer cluster with"), "{shown:#?}");

    // A reload adds and removes rules at once, and issuers.
    service.reload(&rules(2, "\n          - {claims: {sub: '*'}, role: attest, flows: [cart]}")).await;
    service.attest(&branch, "cart", "t", unit()).await.expect(201);
    service.reload(&bootstrap(3, "")).await;
    let removed = service.get(&admin, "/trails/acme").await.expect(401);
    assert!(removed.text.contains("not the URL of an issuer"), "{removed:?}");
    eventually("the metric ends", async || !service.metrics().await.contains("supercargo_issuer_down{"))
        .await;
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    assert!(audit.contains("the issuer cluster of") && audit.contains("was removed"), "{audit}");
}

/// A service that limits an address after three invalid tokens.
async fn start_limited(database: Database, issuer: &Issuer) -> (TestService, TestClock) {
    let (clock, test_clock) = TestClock::new();
    let options = Options {
        limits: Limits { invalid_tokens: 3, ..Limits::default() },
        bootstrap: with_issuer(1, &issuer.server.url(), ""),
        allowed_internal: &["127.0.0.1/32"],
        clock,
        ..Options::default()
    };
    (TestService::start_with(database, options).await, test_clock)
}

async fn valid_token_of_a_rate_limited_address_is_accepted(database: Database) {
    let key = Key::ed("k");
    let issuer = Issuer::start(&[&key]);
    let (service, test_clock) = start_limited(database, &issuer).await;
    let token = |change: Value| key.sign("EdDSA", json!({}), &with(&issuer.claims(&test_clock), change));
    assert!(is_accepted(&service, &token(json!({}))).await);
    for (n, status) in [(1, 401), (2, 401), (3, 401), (4, 429)] {
        assert_eq!(send(&service, &token(json!({"aud": n}))).await.0, status, "{n}");
    }
    let unknown = |n: u32| token(json!({"iss": format!("https://{n}.example")}));
    assert_eq!(send(&service, &unknown(1)).await.0, 429);
    // As after a renewal of the token.
    assert!(is_accepted(&service, &token(json!({"jti": "new"}))).await);
    service.get(STRANGER, "/trails/stranger").await.expect(200);
}

async fn flood_of_forged_tokens_refuses_no_valid_one_of_its_address(database: Database) {
    let (key, attacker) = (Key::ed("k"), Key::ed("k"));
    let issuer = Issuer::start(&[&key]);
    let (service, test_clock) = start_limited(database, &issuer).await;
    let token = |key: &Key, n: usize| {
        key.sign("EdDSA", json!({}), &with(&issuer.claims(&test_clock), json!({"jti": n})))
    };
    assert!(is_accepted(&service, &token(&key, 0)).await);
    let (forged, valid): (Vec<_>, Vec<_>) = (1..100).map(|n| (token(&attacker, n), token(&key, n))).unzip();
    let send_forged = || join_all(forged.iter().map(|token| send(&service, token)));
    // The first ones may all be checked before one is counted.
    let flood = async { [send_forged().await, send_forged().await].concat() };
    let requests = join_all(valid.iter().map(|token| send(&service, token)));
    let (flood, requests) = tokio::join!(flood, requests);
    assert!(flood.iter().any(|(status, _)| *status == 429), "{flood:?}");
    assert!(requests.iter().all(|(status, _)| *status == 200), "{requests:?}");
}

async fn static_token_in_the_form_of_a_jwt_works(database: Database) {
    let token = format!("{}.{}.AAAA", encode(r#"{"alg":"HS256"}"#), encode(r#"{"iss":"legacy"}"#));
    let more = "      - {name: legacy, role: read, file: legacy}";
    let files = vec![("legacy", token.clone())];
    let options = Options { bootstrap: bootstrap(1, more), files, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.get(&token, "/trails/acme").await.expect(200);
}

crate::service::on_both!(
    first_matching_rule_gives_the_permissions,
    service_account_token_is_verified_with_keys_from_a_file
);

crate::service::on_sqlite!(
    documented_projected_token_reports_its_environment,
    printed_issuer_of_a_context_trusts_a_projected_token,
    token_with_each_algorithm_is_accepted,
    key_is_accepted_in_each_form_that_issuers_write,
    documented_rules_accept_both_subjects_of_github,
    attack_gets_401_with_a_reason_that_quotes_nothing,
    rotated_key_is_accepted_without_a_storm_of_requests,
    keys_of_an_unavailable_issuer_work_for_a_day,
    slow_issuer_delays_only_its_own_callers,
    issuer_at_an_internal_address_is_not_requested,
    flood_of_forged_tokens_refuses_no_valid_one_of_its_address,
    valid_token_of_a_rate_limited_address_is_accepted,
    static_token_in_the_form_of_a_jwt_works,
);
