//! Sign-in of people at an identity provider: the flow, its end, and attacks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::LOCATION;
use serde_json::{Value, json};
use service::Limits;
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

use crate::fake::{Reply, Server};
use crate::service::identity::issuers::{Key, TestClock, encode, jwks, with};
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, READER, Response, TestService, digest, pod};

/// A client secret that is encoded before it is sent (RFC 6749, section 2.3.1).
const SECRET: &str = "s3cret: 100%+";

const ACCESS_TOKEN: &str = "access-token-of-kim";

const KIM: &str = "sso/8f2 (Kim Doe) &lt;kim@example.com&gt;";

/// A provider whose ID tokens a test changes.
struct Provider {
    server: Server,
    clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The query of the request for authorization, by code. A code works once.
    codes: HashMap<String, HashMap<String, String>>,
    /// Claims that replace those of Kim.
    change: Value,
    /// Whether another key signs.
    is_forged: bool,
    is_down: bool,
    /// The reply to a code, if it is not an ID token.
    fault: Option<fn() -> Reply>,
    /// The last ID token.
    id_token: String,
}

impl Provider {
    fn start(clock: TestClock) -> Self {
        let (key, attacker) = (Key::ed("k"), Key::ed("k"));
        let (clock, state) = (Arc::new(clock), Arc::new(Mutex::new(State::default())));
        let (now, shared) = (Arc::clone(&clock), Arc::clone(&state));
        let server = Server::start(move |request| {
            let url = format!("http://{}", request.headers["host"].to_str().unwrap());
            let mut state = shared.lock().unwrap();
            if state.is_down {
                return Reply::Reset;
            }
            match request.path.as_str() {
                "/.well-known/openid-configuration" => {
                    let at = |path: &str| format!("{url}/{path}");
                    let metadata = json!({
                        "issuer": url, "jwks_uri": at("keys"), "authorization_endpoint": at("authorize?tenant=1"),
                        "token_endpoint": at("token"), "end_session_endpoint": at("end"),
                    });
                    Reply::json(200, metadata.to_string())
                }
                "/keys" => Reply::json(200, jwks(&[&key]).to_string()),
                "/token" if state.fault.is_some() => state.fault.unwrap()(),
                "/token" => {
                    let form: HashMap<String, String> =
                        form_urlencoded::parse(&request.body).into_owned().collect();
                    let basic = STANDARD.encode("pages:s3cret%3A+100%25%2B");
                    assert_eq!(request.headers["authorization"], format!("Basic {basic}"));
                    assert_eq!(form["grant_type"], "authorization_code");
                    let Some(asked) = state.codes.remove(&form["code"]) else {
                        return Reply::json(400, r#"{"error": "invalid_grant"}"#);
                    };
                    assert_eq!(encode(Sha256::digest(&form["code_verifier"])), asked["code_challenge"]);
                    assert_eq!(form["redirect_uri"], asked["redirect_uri"]);
                    let at = now.now();
                    let kim = json!({
                        "iss": url, "sub": "8f2", "aud": "pages", "iat": at, "exp": at + 600, "auth_time": at,
                        "nonce": asked["nonce"], "name": "Kim Doe", "email": "kim@example.com",
                        "email_verified": true, "groups": ["approvers"], "address": "secret street",
                    });
                    let key = if state.is_forged { &attacker } else { &key };
                    let change = if state.change.is_null() { json!({}) } else { state.change.clone() };
                    let token = key.sign("EdDSA", json!({}), &with(&kim, change));
                    state.id_token.clone_from(&token);
                    let reply =
                        json!({"id_token": token, "access_token": ACCESS_TOKEN, "token_type": "Bearer"});
                    Reply::json(200, reply.to_string())
                }
                _ => Reply::text(404, ""),
            }
        });
        Self { server, clock, state }
    }

    fn change(&self, change: Value) {
        self.state.lock().unwrap().change = change;
    }

    /// The person signs in at this URL. Returns the path that the provider redirects to.
    fn authorize(&self, url: &str) -> String {
        let url: Url = url.parse().unwrap();
        let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let (state, callback) = (query["state"].clone(), query["redirect_uri"].clone());
        let mut all = self.state.lock().unwrap();
        let code = format!("code-{}", all.codes.len());
        all.codes.insert(code.clone(), query);
        let mut callback: Url = callback.parse().unwrap();
        let issuer = self.server.url();
        callback.query_pairs_mut().extend_pairs([("code", &code), ("state", &state), ("iss", &issuer)]);
        format!("{}?{}", callback.path(), callback.query().unwrap())
    }
}

/// The bootstrap file with the provider, whose rules are `rules`.
fn with_provider(generation: i64, url: &str, rules: &str) -> String {
    let more = format!(
        "    flows: [{{name: cart}}]
    issuers:
      - name: sso
        issuer: {url}
        signIn: {{clientId: pages, clientSecret: {{file: sso.secret}}, scopes: [groups], maxAge: 8h}}
        rules: [{rules}]"
    );
    bootstrap(generation, &more)
}

const RULES: &str = "{claims: {groups: approvers}, role: approve, flows: [cart], environments: [prod]}, \
                     {claims: {groups: staff}, role: read}, \
                     {claims: {groups: ci}, role: attest, flows: [cart]}";

async fn start(database: Database, change: impl FnOnce(&mut Options)) -> (TestService, Provider) {
    let (clock, test_clock) = TestClock::new();
    let provider = Provider::start(test_clock);
    let bootstrap = with_provider(1, &provider.server.url(), RULES);
    let files = vec![("sso.secret", format!("{SECRET}\n"))];
    let allowed_internal = &["127.0.0.1/32"][..];
    let mut options = Options { bootstrap, allowed_internal, clock, files, ..Options::default() };
    change(&mut options);
    let service = TestService::start_with(database, options).await;
    eventually("the service knows the endpoints of the provider", async || {
        try_begin(&mut Browser::new(&service), "").await.is_some()
    })
    .await;
    (service, provider)
}

fn target(response: &Response) -> String {
    assert_eq!(response.status, 303, "{response:?}");
    response.headers[LOCATION].to_str().unwrap().to_owned()
}

/// Opens the sign-in page and its link. Returns the URL at the provider.
async fn begin(browser: &mut Browser<'_>, next: &str) -> String {
    try_begin(browser, next).await.expect("the service knows the endpoints of the provider")
}

/// Returns `None` if the page has no link yet, or the service does not know the endpoints of the provider yet.
async fn try_begin(browser: &mut Browser<'_>, next: &str) -> Option<String> {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let page = browser.get(&format!("/ui/sign-in?next={next}")).await.text;
    let (_, link) = page.split_once("class=\"button\" href=\"")?;
    let link = link.split_once('"').unwrap().0.replace("&amp;", "&");
    let response = browser.get(&link).await;
    (response.status != 503).then(|| target(&response))
}

/// Signs in, and returns the response to the callback.
async fn sign_in(browser: &mut Browser<'_>, provider: &Provider, next: &str) -> Response {
    let url = begin(browser, next).await;
    browser.get(&provider.authorize(&url)).await
}

async fn is_signed_in(browser: &mut Browser<'_>) -> bool {
    let page = browser.get("/ui/acme").await;
    assert!(page.status == 200 || target(&page) == "/ui/sign-in?next=%2Fui%2Facme", "{page:?}");
    page.status == 200
}

async fn person_signs_in_approves_and_signs_out(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'a')])).await.expect(201);
    let path = format!("/ui/acme/artifacts/{}", digest('a'));
    let mut kim = Browser::new(&service);
    let url: Url = begin(&mut kim, &path).await.parse().unwrap();
    let query: HashMap<_, _> = url.query_pairs().into_owned().collect();
    for (name, expected) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "pages"),
        ("scope", "openid profile email groups"),
        ("code_challenge_method", "S256"),
        ("max_age", "28800"),
        ("redirect_uri", &format!("{}/ui/sign-in/callback/acme/sso", service.base)),
    ] {
        assert_eq!(query[name], expected, "{name}");
    }
    let signed_in = kim.get(&provider.authorize(url.as_str())).await;
    assert_eq!((target(&signed_in), &kim.sign_in_cookie), (path.clone(), &None));
    assert_contains(&kim.get(&path).await.text, &[KIM, "Approve this artifact"]);
    // The data of the page has the same permissions.
    assert_eq!(kim.get("/api/v2/environments/acme/prod").await.status, 200);
    assert_eq!(kim.get("/api/v2/audit/acme").await.status, 403);
    let fields = [("flow", "cart"), ("environment", "prod"), ("comment", "")];
    let approved = target(&kim.post(&path, &service.base, &fields).await);
    assert_contains(
        &kim.get(&approved).await.text,
        &[&format!("by <bdi>{KIM}</bdi>"), "<td><bdi>sso/8f2</bdi></td>"],
    );
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    assert!(audit.contains("token sso/8f2") && audit.contains("signed in"), "{audit}");
    let stored = service.database.rows("SELECT person FROM sessions").await.concat();
    for secret in [ACCESS_TOKEN, "secret street", SECRET, "eyJ"] {
        assert!(!stored.contains(secret), "{secret}: {stored}");
    }
    // Sign-out ends the session here, and links to the provider.
    let cookie = kim.cookie.clone();
    let signed_out = kim.post("/ui/sign-out", &service.base, &[]).await;
    let end = format!("{}/end?client_id=pages&amp;post_logout_redirect_uri=", provider.server.url());
    assert_contains(&signed_out.text, &["You are signed out.", "Sign out at <bdi>sso</bdi>, too", &end]);
    assert_eq!((signed_out.status.as_u16(), &kim.cookie), (200, &None));
    kim.cookie = cookie;
    assert!(!is_signed_in(&mut kim).await);

    // Another person reads only; the address is not verified.
    provider
        .change(json!({"sub": "lee", "name": " Lee\u{7}\n", "email_verified": false, "groups": ["staff"]}));
    let mut lee = Browser::new(&service);
    assert_eq!(target(&sign_in(&mut lee, &provider, "").await), "/ui/acme");
    let page = lee.get(&path).await.text;
    assert!(page.contains("sso/lee (Lee)</bdi>") && !page.contains("Approve this artifact"), "{page}");
    assert_eq!(lee.post(&path, &service.base, &fields).await.status, 403);
}

async fn attack_on_a_sign_in_is_rejected(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    let now = provider.clock.now();
    let started = "This sign-in is no longer valid";
    for (what, change, query, expected) in [
        ("another nonce", json!({"nonce": "other"}), None, "for another sign-in"),
        ("no nonce", json!({"nonce": null}), None, "for another sign-in"),
        ("another audience", json!({"aud": "other"}), None, "for another audience"),
        ("several audiences", json!({"aud": ["pages", "other"]}), None, "&quot;azp&quot;"),
        ("another party", json!({"azp": "other"}), None, "&quot;azp&quot;"),
        ("another issuer", json!({"iss": "https://evil.example.com"}), None, "&quot;iss&quot;"),
        ("expired", json!({"exp": now - 30}), None, "has expired"),
        ("old authentication", json!({"auth_time": now - 8 * 3_600}), None, "has expired"),
        ("future authentication", json!({"auth_time": now + 3_600}), None, "&quot;auth_time&quot;"),
        ("unknown authentication", json!({"auth_time": null}), None, "&quot;auth_time&quot;"),
        ("invalid subject", json!({"sub": "a\nb"}), None, "&quot;sub&quot;"),
        ("forged", json!({"forged": true}), None, "signature is invalid"),
        ("role without pages", json!({"groups": ["ci"]}), None, "may not read pages"),
        ("removed group", json!({"groups": []}), None, "may not read pages"),
        ("another state", json!({}), Some(("state", "other")), started),
        ("no state", json!({}), Some(("state", "")), started),
        ("another provider", json!({}), Some(("iss", "https://evil.example.com")), started),
        ("error", json!({}), Some(("error", "access_denied")), "did not sign you in: access_denied"),
        ("markup in an error", json!({}), Some(("error", "<script>")), "&lt;script&gt;"),
        ("guessed code", json!({}), Some(("code", "guessed")), "did not complete the sign-in"),
    ] {
        provider.state.lock().unwrap().is_forged = what == "forged";
        provider.change(change);
        let mut browser = Browser::new(&service);
        let url = begin(&mut browser, "").await;
        let callback = Url::parse(&service.base).unwrap().join(&provider.authorize(&url)).unwrap();
        let mut pairs: HashMap<_, _> = callback.query_pairs().into_owned().collect();
        pairs.extend(query.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let pairs = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
        let page = browser.get(&format!("{}?{pairs}", callback.path())).await;
        assert_eq!(page.status, 403, "{what}: {page:?}");
        assert_contains(&page.text, &[expected, "<h1>Sign in</h1>"]);
        for secret in ["code-", "guessed", "s3cret", "eyJ", ACCESS_TOKEN] {
            assert!(!page.text.contains(secret), "{what}: {}", page.text);
        }
        assert!(browser.cookie.is_none() && browser.sign_in_cookie.is_none(), "{what}");
    }
    assert!(service.database.rows("SELECT person FROM sessions").await.is_empty());
}

async fn sign_in_fails_after_an_unexpected_token_response(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    let failed = "the provider did not complete the sign-in";
    let faults: [(fn() -> Reply, &str); 6] = [
        (|| Reply::text(200, "<html>sign in</html>"), failed),
        (|| Reply::json(200, "{}"), failed),
        (|| Reply::json(500, r#"{"id_token": "a.b.c"}"#), failed),
        (|| Reply::Response(302, vec![("location", "/elsewhere".to_owned())], Bytes::new()), failed),
        (|| Reply::Endless(200, Vec::new()), failed),
        (|| Reply::json(200, r#"{"id_token": "secret"}"#), "the ID token is rejected: it is not a JWT"),
    ];
    for (fault, expected) in faults {
        provider.state.lock().unwrap().fault = Some(fault);
        let mut kim = Browser::new(&service);
        let page = sign_in(&mut kim, &provider, "").await;
        assert_eq!(page.status, 403, "{page:?}");
        assert_contains(&page.text, &[expected]);
        assert!(kim.cookie.is_none() && !page.text.contains("secret"), "{page:?}");
    }
    assert!(provider.server.requests().iter().all(|request| request.path != "/elsewhere"));
}

async fn response_of_a_provider_works_once_and_in_its_browser(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    let [mut kim, mut victim] = [Browser::new(&service), Browser::new(&service)];
    let url = begin(&mut kim, "").await;
    let response = provider.authorize(&url);
    // Another browser, without a sign-in or with its own: a forged sign-in, and a mixed-up state.
    for _ in 0..2 {
        assert_eq!(victim.get(&response).await.status, 403);
        assert!(!is_signed_in(&mut victim).await);
        begin(&mut victim, "").await;
    }
    let cookie = kim.sign_in_cookie.clone();
    // A provider sent the browser to another one, and asks for the code of that one.
    let mut mixed_up = Browser::new(&service);
    mixed_up.sign_in_cookie.clone_from(&cookie);
    assert_eq!(mixed_up.get(&response.replace("/acme/sso?", "/acme/other?")).await.status, 403);
    assert_eq!(target(&kim.get(&response).await), "/ui/acme");
    // Replayed: the cookie is gone; with a copy of it, the code was used.
    let mut thief = Browser::new(&service);
    assert_eq!(thief.get(&response).await.status, 403);
    thief.sign_in_cookie = cookie;
    assert_eq!(thief.get(&response).await.status, 403);
    assert!(!is_signed_in(&mut thief).await && is_signed_in(&mut kim).await);
    // An ID token of a person opens sessions only: as a bearer token, it would hide the address from `not_author`.
    let token = provider.state.lock().unwrap().id_token.clone();
    let bearer = service.get(&token, "/environments/acme").await.expect(401);
    assert!(bearer.text.contains("not the URL of an issuer"), "{bearer:?}");
    // A group that was removed: the session ends with the identity, and no other begins.
    provider.change(json!({"groups": []}));
    assert!(is_signed_in(&mut kim).await);
    assert_eq!(sign_in(&mut thief, &provider, "").await.status, 403);
}

async fn sign_in_replaces_a_session_and_returns_to_pages_only(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    // A session that somebody else knows, and one that does not exist.
    let mut before = Browser::signed_in(&service, READER).await;
    for fixed in [before.cookie.clone().unwrap(), format!("supercargo={}", "0".repeat(64))] {
        let mut kim = Browser::new(&service);
        kim.cookie = Some(fixed.clone());
        target(&sign_in(&mut kim, &provider, "").await);
        assert_ne!(kim.cookie.as_ref(), Some(&fixed));
        assert!(is_signed_in(&mut kim).await);
        before.cookie = Some(fixed);
        assert!(!is_signed_in(&mut before).await);
    }
    let long = format!("/ui/acme/search?q={}", "a".repeat(2_000));
    for next in [
        "https://evil.example.com",
        "//evil.example.com",
        "/\\evil.example.com/ui",
        "/api/v2/trails/acme",
        &long,
    ] {
        // The page of an unknown organization has no link.
        let mut kim = Browser::new(&service);
        let url = begin(&mut kim, next).await;
        assert_eq!(target(&kim.get(&provider.authorize(&url)).await), "/ui/acme", "{next}");
    }
    // The next page decides which providers are shown.
    let page = Browser::new(&service).get("/ui/sign-in?next=/ui/stranger").await.text;
    assert!(!page.contains("Sign in with") && page.contains("name=\"token\""), "{page}");
}

async fn session_ends_with_identity_rule_and_issuer(database: Database) {
    let (service, provider) = start(database, |_| ()).await;
    let url = provider.server.url();
    let clock = &provider.clock;
    let mut kim = Browser::new(&service);
    // Each session ends after ten minutes.
    for is_authenticated_early in [false, true] {
        provider.change(if is_authenticated_early {
            json!({"exp": clock.now() + 90_000, "auth_time": clock.now() - 8 * 3_600 + 600})
        } else {
            json!({})
        });
        target(&sign_in(&mut kim, &provider, "").await);
        clock.advance(540);
        assert!(is_signed_in(&mut kim).await);
        clock.advance(61);
        assert!(!is_signed_in(&mut kim).await);
    }
    provider.change(json!({}));
    // A session keeps the claims that rules named at the sign-in, and ends if another rule may apply.
    let (staff, external) =
        ("{claims: {groups: 'app*'}, role: read}", "{claims: {employment: external}, role: read}");
    for (n, (rules, is_valid)) in (1..).zip([
        (staff.to_owned(), true),
        (format!("{external}, {staff}"), false),
        ("{claims: {groups: nobody}, role: read}".to_owned(), false),
        ("{claims: {groups: approvers}, role: report, environments: [prod]}".to_owned(), false),
    ]) {
        service.reload(&with_provider(2 * n, &url, RULES)).await;
        target(&sign_in(&mut kim, &provider, "").await);
        assert!(is_signed_in(&mut kim).await);
        service.reload(&with_provider(2 * n + 1, &url, &rules)).await;
        assert_eq!(is_signed_in(&mut kim).await, is_valid, "{rules}");
    }
    service.reload(&with_provider(20, &url, RULES)).await;
    target(&sign_in(&mut kim, &provider, "").await);
    // The sign-in that is in progress while the issuer is removed.
    let mut late = Browser::new(&service);
    let response = provider.authorize(&begin(&mut late, "").await);
    service.reload(&bootstrap(21, "")).await;
    assert!(!is_signed_in(&mut kim).await);
    assert_eq!(late.get(&response).await.status, 403);
    assert!(!late.get("/ui/sign-in").await.text.contains("Sign in with"));
}

async fn token_form_can_be_switched_off(database: Database) {
    let off = |options: &mut Options| {
        options.bootstrap = format!("tokenSignIn: false\n{}", options.bootstrap);
        options.invites = true;
    };
    let (service, provider) = start(database, off).await;
    let mut browser = Browser::new(&service);
    let page = browser.get("/ui/sign-in").await.text;
    assert!(page.contains("Sign in with") && !page.contains("name=\"token\""), "{page}");
    let refused = browser.sign_in(READER, "").await;
    assert_eq!((refused.status.as_u16(), &browser.cookie), (403, &None));
    assert_contains(&refused.text, &["Tokens cannot sign in here"]);
    let link: Url = service.invitation.as_ref().unwrap().parse().unwrap();
    assert_eq!(target(&browser.get(&format!("{}?{}", link.path(), link.query().unwrap())).await), "/ui/acme");
    target(&sign_in(&mut browser, &provider, "").await);
    let page = browser.get("/ui/sign-in?next=/ui/stranger").await.text;
    assert_contains(&page, &["No provider for sign-in is available here"]);
}

async fn failed_sign_ins_are_rate_limited_unlike_valid_ones_and_an_unavailable_provider(database: Database) {
    let limit = |options: &mut Options| options.limits = Limits { invalid_tokens: 3, ..Limits::default() };
    let (service, provider) = start(database, limit).await;
    let mut kim = Browser::new(&service);
    let url = begin(&mut kim, "").await;
    for is_down in [true, false] {
        let response = provider.authorize(&url);
        provider.state.lock().unwrap().is_down = is_down;
        let cookie = kim.sign_in_cookie.clone();
        for _ in 0..5 {
            kim.sign_in_cookie.clone_from(&cookie);
            let path = if is_down { response.clone() } else { response.replace("code=", "code=guessed") };
            let failed = kim.get(&path).await;
            if failed.status == 429 {
                break;
            }
            assert_eq!(failed.status, 403, "{failed:?}");
            assert_contains(&failed.text, &["did not complete the sign-in"]);
        }
        kim.sign_in_cookie = cookie;
    }
    // A limited address causes no request to the provider without a sign-in that was begun.
    let requests = provider.server.requests().len();
    let valid = provider.authorize(&url);
    let cookie = kim.sign_in_cookie.take();
    assert_eq!(kim.get(&valid).await.status, 429);
    assert_eq!(provider.server.requests().len(), requests);
    // Others behind the address may have failed.
    kim.sign_in_cookie = cookie;
    assert_eq!(target(&kim.get(&valid).await), "/ui/acme");
}

crate::service::on_both!(person_signs_in_approves_and_signs_out, session_ends_with_identity_rule_and_issuer);

crate::service::on_sqlite!(
    attack_on_a_sign_in_is_rejected,
    sign_in_fails_after_an_unexpected_token_response,
    response_of_a_provider_works_once_and_in_its_browser,
    sign_in_replaces_a_session_and_returns_to_pages_only,
    token_form_can_be_switched_off,
    failed_sign_ins_are_rate_limited_unlike_valid_ones_and_an_unavailable_provider,
);
