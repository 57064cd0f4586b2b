//! Tokens that are created at runtime.

use std::time::{Duration, SystemTime};

use model::Fingerprint;
use reqwest::Method;
use serde_json::{Value, json};
use service::{Clock, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::program::supercargo;
use crate::service::records::log::log;
use crate::service::support::browser::Browser;
use crate::service::support::test_service::{Options, bootstrap, digest, eventually, form, pod, report};
use crate::service::{ADMIN, ATTESTER, Database, READER, Response, STRANGER, TestService};

/// Records uses at once, and has no rate limit.
fn options() -> Options {
    let limits = Limits {
        token_use_flush_interval: Duration::from_millis(10),
        invalid_tokens: u32::MAX,
        ..Limits::default()
    };
    Options { limits, ..Options::default() }
}

async fn create(service: &TestService, by: &str, body: &Value) -> Response {
    let request =
        service.request(Method::POST, by, "/tokens/acme").header("Content-Type", "application/json");
    Response::from_request(request.body(body.to_string())).await
}

/// Creates a token, and returns its secret.
async fn created(service: &TestService, body: &Value) -> String {
    let created = create(service, ADMIN, body).await.expect(201).json();
    created["token"].as_str().unwrap().to_owned()
}

async fn revoke(service: &TestService, by: &str, name: &str) -> Response {
    Response::from_request(service.request(Method::DELETE, by, &format!("/tokens/acme/{name}"))).await
}

/// The listed tokens with these names.
async fn listed(service: &TestService, names: &[&str]) -> Vec<Value> {
    let list = service.get(ADMIN, "/tokens/acme").await.expect(200).json();
    let is_wanted = |token: &&Value| names.contains(&token["name"].as_str().unwrap());
    list.as_array().unwrap().iter().filter(is_wanted).cloned().collect()
}

async fn attest(service: &TestService, token: &str, flow: &str) -> Response {
    let data = json!({"attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": []});
    service.attest(token, flow, "t", form(&data)).await
}

async fn created_token_has_its_role_and_scope_only(database: Database) {
    let service = TestService::start(database).await;
    let token = created(&service, &json!({"name": "ci", "role": "attest", "flows": ["cart", "web"]})).await;
    for (flow, status) in [("cart", 201), ("web", 201), ("other", 403)] {
        attest(&service, &token, flow).await.expect(status);
    }
    service.get(&token, "/trails/acme").await.expect(403);
    // An admin grants any role of its organization.
    let admin = created(&service, &json!({"name": "second", "role": "admin"})).await;
    service.get(&admin, "/tokens/acme").await.expect(200);
    let body = json!({"name": "eu", "role": "report", "environments": ["eu"], "create": true});
    let reporter = created(&service, &body).await;
    service.report(&reporter, "eu", report(&[pod("p", "i", 'a')])).await.expect(201);
    service.report(&reporter, "us", report(&[])).await.expect(403);
    // The database has the hash only, as for a token of the file.
    let columns = "SELECT name, created_by, lower(hex(sha256)) FROM tokens WHERE name = 'ci'";
    let columns = if service.database.is_postgres() {
        &columns.replace("hex(sha256)", "encode(sha256, 'hex')")
    } else {
        columns
    };
    let hash = Fingerprint::from_content(token.as_bytes());
    assert_eq!(service.database.rows(columns).await, [format!("ci|admin|{hash}")]);
    let shown = service.get(ADMIN, "/tokens/acme").await.text + &service.get(ADMIN, "/audit/acme").await.text;
    assert!(!shown.contains(&token) && !shown.contains(&hash.to_string()), "{shown}");
    // The access review lists it with those of the file.
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    let review = service.get(ADMIN, "/environments/acme/prod/access-review").await.expect(200);
    assert!(review.text.contains(r#""name":"second","role":"admin""#), "{review:?}");
    // Both changes are in the audit log, and the log covers both records.
    revoke(&service, &admin, "ci").await.expect(200);
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    for entry in [
        r#""actor":"token admin","change":"created the token ci of role attest for cart, web without expiry""#,
        r#""actor":"token second","change":"revoked the token ci""#,
    ] {
        assert!(audit.contains(entry), "{entry}: {audit}");
    }
    log(&service, &["verify"]).await.expect(0, &[]);
    service.database.execute("UPDATE tokens SET created_by = 'kim' WHERE name = 'eu'").await;
    log(&service, &["verify"]).await.expect(11, &["token"]);
}

async fn invalid_token_is_rejected_with_the_reason(database: Database) {
    let service = TestService::start(database).await;
    let attest = |name: &str| json!({"name": name, "role": "attest", "flows": ["cart"]});
    created(&service, &attest("ci")).await;
    for (body, message) in [
        (attest("attester"), "the bootstrap file declares the token \"attester\": change it there"),
        (attest("ci"), "a token has this name: revoke it, or choose another name"),
        (attest("a/b"), "without a slash"),
        (attest(""), "got an empty text"),
        (json!({"name": "x", "role": "attest"}), "a token of role attest needs flows: [NAME]"),
        (json!({"name": "x", "role": "attest", "flows": ["a b"]}), "letter or digit"),
        (json!({"name": "x", "role": "read", "flows": ["cart"]}), "must not list flows"),
        (json!({"name": "x", "role": "read", "create": true}), "only a token of role report"),
        (json!({"name": "x", "role": "root"}), "unknown variant"),
        (json!({"name": "x", "role": "read", "expires_at": 1_000_000_000}), "expected a time in the future"),
        (json!({"name": "x", "role": "read", "expires": 9_000_000_000_i64}), "unknown field"),
    ] {
        let response = create(&service, ADMIN, &body).await.expect(400);
        assert!(response.text.replace("\\\"", "\"").contains(message), "{body}: {response:?}");
    }
    for (name, status, message) in [
        ("attester", 400, "the bootstrap file declares the token"),
        ("none", 404, "token \\\"none\\\" not found"),
        ("x%0A", 400, "control or invisible characters"),
    ] {
        let response = revoke(&service, ADMIN, name).await.expect(status);
        assert!(response.text.contains(message), "{response:?}");
    }
    // The name of a token of another organization is free, and reveals nothing.
    revoke(&service, STRANGER, "ci").await.expect(403);
    let path = "/tokens/stranger";
    let request = service.request(Method::POST, STRANGER, path).header("Content-Type", "application/json");
    Response::from_request(request.body(attest("ci").to_string())).await.expect(201);
    let request = service.request(Method::DELETE, STRANGER, "/tokens/stranger/ci");
    Response::from_request(request).await.expect(200);
    assert_eq!(listed(&service, &["ci"]).await.len(), 1);
}

async fn organization_has_a_limit_of_tokens(database: Database) {
    let service = TestService::start(database).await;
    let read = |n: usize| json!({"name": format!("t{n}"), "role": "read"});
    created(&service, &read(0)).await;
    let columns = "organization, role, scope, can_create, expires_at, created_at, created_by";
    let copies = if service.database.is_postgres() {
        format!(
            "INSERT INTO tokens (id, name, sha256, {columns}) SELECT gen_random_uuid(), 't' || n, sha256(n::text::bytea), \
             {columns} FROM tokens, generate_series(1, 999) n WHERE name = 't0'"
        )
    } else {
        format!(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 999)
             INSERT INTO tokens (id, name, sha256, {columns}) SELECT randomblob(16), 't' || n, randomblob(32), {columns} \
             FROM tokens, c WHERE name = 't0'"
        )
    };
    service.database.execute(&copies).await;
    let response = create(&service, ADMIN, &read(1_000)).await.expect(400);
    assert!(response.text.contains("limit of 1000 tokens"), "{response:?}");
    revoke(&service, ADMIN, "t7").await.expect(200);
    created(&service, &read(1_000)).await;
}

async fn revoked_token_ends_on_all_replicas_and_its_evidence_keeps_its_name(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let url = Some(service.database.url());
    let replica =
        TestService::start_with(Database::sqlite(), Options { database_url: url, ..options() }).await;
    let token = created(&service, &json!({"name": "eve", "role": "admin"})).await;
    for at in [&service, &replica] {
        at.get(&token, "/trails/acme").await.expect(200);
    }
    attest(&service, &token, "cart").await.expect(201);
    let mut browser = Browser::signed_in(&replica, &token).await;
    assert_eq!(browser.get("/ui/acme").await.status, 200);
    revoke(&service, ADMIN, "eve").await.expect(200);
    for at in [&replica, &service] {
        at.get(&token, "/trails/acme").await.expect(401);
        attest(at, &token, "cart").await.expect(401);
    }
    assert_ne!(browser.get("/ui/acme").await.status, 200);
    let attestation = &service.read("/attestations/acme/cart").await["data"][0];
    assert!(attestation.to_string().contains("eve"), "{attestation}");
    // The name is free, and another token gets it.
    let second = created(&service, &json!({"name": "eve", "role": "read"})).await;
    assert_ne!(second, token);
    service.get(&token, "/trails/acme").await.expect(401);
}

async fn token_of_another_replica_is_accepted_from_a_rate_limited_address(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let limits = Limits { invalid_tokens: 1, ..options().limits };
    let url = Some(service.database.url());
    let options = Options { database_url: url, limits, ..Options::default() };
    let replica = TestService::start_with(Database::sqlite(), options).await;
    replica.get("guessed", "/trails/acme").await.expect(401);
    replica.get("guessed", "/trails/acme").await.expect(429);
    let token = created(&service, &json!({"name": "ci", "role": "admin"})).await;
    eventually("the replica knows the token", async || {
        replica.get(&token, "/trails/acme").await.status == 200
    })
    .await;
}

async fn expired_token_is_rejected_and_its_use_is_recorded_once_an_hour(database: Database) {
    let clock = Clock::default();
    clock.set_back(Duration::from_hours(2));
    let options = Options { clock: clock.clone(), ..options() };
    let service = TestService::start_with(database, options).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let body = json!({"name": "soon", "role": "read", "expires_at": now - 3_600});
    let (soon, _) =
        (created(&service, &body).await, created(&service, &json!({"name": "idle", "role": "read"})).await);
    service.get(&soon, "/trails/acme").await.expect(200);
    let used = async |name| listed(&service, &[name]).await[0]["last_used_at"].as_f64();
    eventually("both uses are recorded", async || {
        used("soon").await.is_some() && used("admin").await.is_some()
    })
    .await;
    let first = used("admin").await;
    for _ in 0..20 {
        service.get(&soon, "/trails/acme").await.expect(200);
    }
    eventually("another use is recorded", async || {
        service.get(ATTESTER, "/trails/acme").await.expect(403);
        used("attester").await.is_some()
    })
    .await;
    assert_eq!((used("idle").await, used("admin").await), (None, first));
    clock.set_back(Duration::ZERO);
    service.get(&soon, "/trails/acme").await.expect(401);
    eventually("the use after an hour is recorded", async || used("admin").await > first).await;
}

async fn reload_keeps_created_tokens_and_replaces_those_that_it_declares(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let [kept, clash, moved] = ["kept", "clash", "moved"].map(|name| json!({"name": name, "role": "read"}));
    let [kept, clash, moved] =
        [created(&service, &kept).await, created(&service, &clash).await, created(&service, &moved).await];
    service.reload(&bootstrap(2, "")).await;
    let statuses = async |service: &TestService| {
        let mut statuses = Vec::new();
        for token in [&kept, &clash, &moved] {
            statuses.push(service.get(token, "/trails/acme").await.status.as_u16());
        }
        statuses
    };
    assert_eq!(statuses(&service).await, [200, 200, 200]);
    // The file declares one name with another secret, and takes another token over by its hash.
    let (other, hash) = (Fingerprint::from_content(b"other"), Fingerprint::from_content(moved.as_bytes()));
    let declared = format!(
        "      - {{name: clash, role: read, sha256: {other}}}\n      - {{name: moved, role: read, sha256: {hash}}}"
    );
    service.reload(&bootstrap(3, &declared)).await;
    assert_eq!(statuses(&service).await, [200, 401, 200]);
    let listed = listed(&service, &["kept", "clash", "moved"]).await;
    let creators: Vec<_> = listed.iter().map(|token| token["created_by"].as_str()).collect();
    assert_eq!(creators, [None, Some("admin"), None], "clash, kept, moved");
    revoke(&service, ADMIN, "moved").await.expect(400);
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    assert!(
        audit.contains("the token clash of role read, which was created at runtime, was revoked"),
        "{audit}"
    );
    log(&service, &["verify"]).await.expect(0, &[]);
    // A restart applies the file again.
    let options = Options { bootstrap: bootstrap(3, &declared), ..options() };
    let service = TestService::start_with(service.stop().await, options).await;
    assert_eq!(statuses(&service).await, [200, 401, 200]);
    // An organization that the file removes takes all of its tokens with it.
    let stranger = "generation: 4\norganizations:\n  - name: stranger\n    tokens:\n      - {name: a, role: admin, file: admin}\n";
    service.reload(&stranger.replace("file: admin", &format!("file: {STRANGER}"))).await;
    assert_eq!(statuses(&service).await, [401, 401, 401]);
}

/// A request with a token that ends before the body is received.
async fn token_that_was_revoked_during_a_request_creates_none(database: Database) {
    let service = TestService::start(database).await;
    let second = created(&service, &json!({"name": "second", "role": "admin"})).await;
    let body = json!({"name": "late", "role": "admin"}).to_string();
    // The service requests the body after it has admitted the token.
    let begin = async |token: &str| {
        let head = format!(
            "POST /api/v2/tokens/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(service.host()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = *b"HTTP/1.1 100 Continue\r\n\r\n";
        stream.read_exact(&mut response).await.unwrap();
        assert!(response.starts_with(b"HTTP/1.1 100 "));
        stream
    };
    let end = async |mut stream: TcpStream| {
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    };
    let request = begin(&second).await;
    revoke(&service, ADMIN, "second").await.expect(200);
    end(request).await;
    // The file removes the organization.
    let request = begin(ADMIN).await;
    let bootstrap = bootstrap(2, "");
    let (generation, stranger) = bootstrap.split_once("  - name: acme").unwrap();
    let (_, stranger) = stranger.split_once("  - name: stranger").unwrap();
    service.reload(&format!("{generation}  - name: stranger{stranger}")).await;
    end(request).await;
    let open = "SELECT name FROM tokens WHERE organization = 'acme' AND closed_at IS NULL";
    assert_eq!(service.database.rows(open).await, Vec::<String>::new());
}

async fn commands_create_list_and_revoke_tokens(database: Database) {
    let service = TestService::start(database).await;
    let run = async |line: &str| service.program(ADMIN, line).await;
    let outcome = run("token create ci --role attest --flow cart,web --expires 2999-12-31").await;
    outcome.expect(0, &[]);
    let line = outcome.stdout.lines().next().unwrap();
    let token = line.strip_prefix("token, shown once").unwrap().trim();
    assert!(token.starts_with("supercargo_") && token.len() == 51, "{outcome:#?}");
    attest(&service, token, "web").await.expect(201);
    assert!(!outcome.stderr.contains(token), "{outcome:#?}");
    let json: Value =
        serde_json::from_str(&run("token create us --role report --environment * -o json").await.stdout)
            .unwrap();
    assert_eq!(
        (&json["name"], &json["environments"], &json["expires_at"]),
        (&json!("us"), &json!(["*"]), &json!(null))
    );
    let outcome = run("token list").await;
    outcome.expect(0, &[]);
    let row = |name: &str| outcome.stdout.lines().find(|row| row.starts_with(name)).unwrap().to_owned();
    assert!(row("ci ").contains("cart, web") && row("ci ").contains("admin"), "{outcome:#?}");
    assert!(!outcome.stdout.contains(token) && row("reader").contains("read"), "{outcome:#?}");
    run("token create ci --role read").await.expect(5, &["a token has this name"]);
    run("token create x --role root").await.expect(2, &["unknown role"]);
    run("token revoke ci").await.expect_result(&["revoked the token ci"]);
    run("token revoke ci").await.expect(4, &["token \"ci\" not found"]);
    run("token revoke reader").await.expect(5, &["the bootstrap file declares the token"]);
    service.program(READER, "token list").await.expect(3, &["role admin"]);
    let usage = supercargo().args(["token", "create", "--help"]).run();
    assert!(usage.stdout.contains("supercargo token create cluster-us"), "{usage:#?}");
}

crate::service::on_both!(
    created_token_has_its_role_and_scope_only,
    organization_has_a_limit_of_tokens,
    revoked_token_ends_on_all_replicas_and_its_evidence_keeps_its_name,
    token_of_another_replica_is_accepted_from_a_rate_limited_address,
    expired_token_is_rejected_and_its_use_is_recorded_once_an_hour,
    reload_keeps_created_tokens_and_replaces_those_that_it_declares,
    token_that_was_revoked_during_a_request_creates_none,
);

crate::service::on_sqlite!(invalid_token_is_rejected_with_the_reason, commands_create_list_and_revoke_tokens);
