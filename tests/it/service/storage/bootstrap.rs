//! The bootstrap file: errors in it, and the effects of its changes.

use serde_json::json;
use service::{Limits, Service, StartError};

use crate::service::report;
use crate::service::support::process::{Process, command};
use crate::service::support::test_service::{Options, bootstrap, folder, setup};
use crate::service::{ADMIN, Database, READER, Response, STRANGER, TestService, pod};

const INVISIBLE: &str = "without control or invisible characters";

/// The error for an invalid file, with its causes.
async fn start_error(database: &Database, bootstrap: &str) -> String {
    let folder = folder(bootstrap);
    match Service::start(setup(database, folder.path(), &Options::default())).await {
        Ok(_) => panic!("unexpectedly valid: {bootstrap}"),
        Err(error) => runtime::error_causes::describe(&error),
    }
}

#[expect(clippy::too_many_lines, reason = "all mistakes in one list")]
async fn mistake_is_reported_with_key_and_line(database: Database) {
    let token = |token: &str| {
        format!("generation: 1\norganizations:\n  - name: acme\n    tokens:\n      - {token}\n")
    };
    let flow =
        |flow: &str| format!("generation: 1\norganizations:\n  - name: acme\n    flows:\n      - {flow}\n");
    let long = "x".repeat(256);
    for (file, texts) in [
        (String::new(), &["bootstrap.yaml\" is empty"][..]),
        ("[]".into(), &["bootstrap.yaml", "at the top level"]),
        ("generation: 1".into(), &["organizations"]),
        ("generation: one\norganizations: []".into(), &["line 1", "generation"]),
        ("generation: -1\norganizations: []".into(), &["generation", "from 0"]),
        ("generation: 1\norganizations: []".into(), &["organizations", "expected at least one"]),
        ("generation: 1\norganizations: []\npolicies: []".into(), &["policies", "line 3"]),
        ("generation: 1\norganizations:\n  - name: ..\n".into(), &["relative path", "line 3"]),
        ("generation: 1\norganizations:\n  - name: a\n  - name: a\n".into(), &["organizations[1]", "twice"]),
        ("generation: 1\norganizations:\n  - name: a\n    retention: long\n".into(), &["line 4", "400d"]),
        ("generation: 1\norganizations:\n  - name: a\n    retention: 1 year\n".into(), &["line 4", "400d"]),
        (token("{name: x, role: root, file: t}"), &["line 5", "root"]),
        (token("{name: x, role: read, secret: t}"), &["line 5", "secret"]),
        (
            token("{name: x, role: read}"),
            &["organizations[0].tokens[0]", "expected exactly one of sha256, file and variable"],
        ),
        (token(&format!("{{name: x, role: read, file: {ADMIN}, variable: V}}")), &["exactly one"]),
        (
            token("{name: x, role: read, file: nowhere}"),
            &["organizations[0].tokens[0]", "failed to read", "nowhere"],
        ),
        (
            token("{name: x, role: read, file: bootstrap.yaml}"),
            &["/bootstrap.yaml\" contains a space", "expected at least 22 visible ASCII"],
        ),
        (token("{name: x, role: read, file: /dev/null}"), &["tokens[0]: the file \"/dev/null\" is empty"]),
        (
            token("{name: x, role: read, variable: CARGO_PKG_NAME}"),
            &["the variable \"CARGO_PKG_NAME\" is too short", "expected at least 22 visible ASCII"],
        ),
        (
            token(&format!("{{name: x, role: attest, flows: [a b], file: {ADMIN}}}")),
            &["tokens[0]", "letter or digit"],
        ),
        (
            token(&format!("{{name: x, role: report, environments: [a/b], file: {ADMIN}}}")),
            &["tokens[0]", "letter or digit"],
        ),
        (
            "generation: 1\norganizations:\n  - name: a\n    retention: 0s\n".into(),
            &["organizations[0].retention", "line 4"],
        ),
        (
            token("{name: x, role: read, variable: SUPERCARGO_NO_SUCH_VARIABLE}"),
            &["SUPERCARGO_NO_SUCH_VARIABLE", "not set"],
        ),
        (token("{name: x, role: read, sha256: abc}"), &["line 5", "64 lowercase hex"]),
        (token(&format!("{{name: x, role: read, file: {ADMIN}, expires: soon}}")), &["line 5", "RFC 3339"]),
        (token(&format!("{{name: x, role: report, file: {ADMIN}}}")), &["environments: [NAME]"]),
        (token(&format!("{{name: x, role: attest, environments: [a], file: {ADMIN}}}")), &["flows: [NAME]"]),
        (
            token(&format!("{{name: x, role: report, environments: [a], flows: [b], file: {ADMIN}}}")),
            &["must not list flows"],
        ),
        (
            token(&format!("{{name: x, role: read, flows: [b], file: {ADMIN}}}")),
            &["a token of role read must not list flows"],
        ),
        (
            token(&format!("{{name: x, role: approve, environments: [a], file: {ADMIN}}}")),
            &["a token of role approve needs flows: [NAME]"],
        ),
        (
            token(&format!("{{name: x, role: approve, flows: [a], file: {ADMIN}}}")),
            &["a token of role approve needs environments: [NAME]"],
        ),
        (
            token(&format!("{{name: x, role: approve, environments: [a/b], flows: [a], file: {ADMIN}}}")),
            &["tokens[0]", "letter or digit"],
        ),
        (
            token(&format!("{{name: x, role: read, create: true, file: {ADMIN}}}")),
            &["tokens[0]", "only a token of role report takes create: true"],
        ),
        (token(&format!("{{name: \"{long}\", role: read, file: {ADMIN}}}")), &["at most 255"]),
        (
            token(&format!(
                "{{name: x, role: read, file: {ADMIN}}}\n      - {{name: y, role: read, file: {ADMIN}}}"
            )),
            &["organizations[0].tokens[1]", "same token"],
        ),
        (flow("{name: -x}"), &["line 5", "letter or digit"]),
        (
            "generation: 1\norganizations: [{name: sign-in}]\n".to_owned(),
            &["organizations[0].name", "must not be one of sign-in, sign-out, style.css, script.js"],
        ),
        (flow("{name: x, tags: {\"a=b\": c}}"), &["organizations[0].flows[0].tags.a=b"]),
        (flow("{name: x, template: {attestations: [{name: a}]}}"), &["line 5", "type"]),
        (
            flow("{name: x, template: {attestations: [{name: \"\", type: junit}]}}"),
            &["flows[0].template", "1 to 255"],
        ),
        (flow("{name: x}\n      - {name: x}"), &["organizations[0].flows[1]", "twice"]),
        (flow(r#"{name: x, tags: {"a\u202eb": c}}"#), &["line 5", INVISIBLE]),
        (flow(r#"{name: x, tags: {a: "b\u202ec"}}"#), &["flows[0].tags.a", INVISIBLE]),
        (
            flow(r#"{name: x, template: {artifacts: [{name: "a\u200bb"}]}}"#),
            &["flows[0].template", INVISIBLE],
        ),
        (token(&format!(r#"{{name: "a\u202eb", role: read, file: {ADMIN}}}"#)), &["line 5", INVISIBLE]),
        (token(&format!("{{name: a/b, role: read, file: {ADMIN}}}")), &["line 5", "slash"]),
    ] {
        assert_rejected(&database, &file, texts).await;
    }
}

/// Expects an error that contains each of these texts.
async fn assert_rejected(database: &Database, file: &str, texts: &[&str]) {
    let error = start_error(database, file).await;
    for text in texts {
        assert!(error.contains(text), "{text}: {error}\n{file}");
    }
}

/// A file with a list of one item.
fn list(key: &str, item: &str) -> String {
    format!("generation: 1\norganizations:\n  - name: acme\n    {key}:\n      - {{{item}}}\n")
}

async fn mistake_in_issuer_is_reported_with_key(database: Database) {
    const ISSUER: &str = "issuer: 'https://h', audience: a";
    const RULE: &str = "{claims: {sub: x}, role: read}";
    // Keys of `change` replace the valid ones.
    let issuer = |change: &str, rule: &str| {
        let valid = ["name: i", "issuer: 'https://h'", "audience: a"].into_iter();
        let key = |text: &str| text.split(':').next().map(str::to_owned);
        let kept: Vec<_> = valid.filter(|text| key(text) != key(change)).chain([change]).collect();
        let rules = if rule.is_empty() { String::new() } else { format!("{{role: read, {rule}}}") };
        list("issuers", &format!("rules: [{rules}], {}", kept.join(", ").trim_end_matches(", ")))
    };
    // RFC 8037, appendix A.1.
    let file = tempfile::NamedTempFile::new().unwrap();
    let key = json!({
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    });
    std::fs::write(file.path(), json!({"keys": [key]}).to_string()).unwrap();
    let private = format!("jwks: {{file: {}}}", file.path().display());
    for (file, texts) in [
        (issuer("name: a/b", "claims: {sub: x}"), &["issuers[0].name", "at most 64 letters"][..]),
        (issuer("issuer: 'https://h/?a'", "claims: {sub: x}"), &["issuers[0].issuer", "without query"]),
        (issuer("issuer: h", "claims: {sub: x}"), &["issuers[0].issuer", "expected an http or https URL"]),
        (issuer("issuer: 'https://me@h'", "claims: {sub: x}"), &["issuers[0].issuer", "credentials"]),
        (issuer("audience: ''", "claims: {sub: x}"), &["issuers[0].audience", "1 to 255 bytes"]),
        (
            issuer("signIn: {clientId: x}", "claims: {sub: x}"),
            &["issuers[0].audience", "the clientId of signIn"],
        ),
        (
            issuer("signIn: {clientId: a, scopes: [a b]}", "claims: {sub: x}"),
            &["signIn.scopes", "without spaces"],
        ),
        (
            issuer("signIn: {clientId: a, clientSecret: {}}", "claims: {sub: x}"),
            &["signIn.clientSecret", "one of"],
        ),
        (issuer("jwks: {file: none.json}", "claims: {sub: x}"), &["issuers[0].jwks.file", "none.json"]),
        (
            issuer("jwks: {file: bootstrap.yaml}", "claims: {sub: x}"),
            &["issuers[0].jwks.file", "JSON Web Key Set"],
        ),
        (issuer(&private, "claims: {sub: x}"), &["issuers[0].jwks.file", "public keys only"]),
        (issuer("", ""), &["issuers[0].rules", "at least one rule"]),
        (issuer("", "claims: {}"), &["issuers[0].rules[0].claims", "at least one claim"]),
        (issuer("", "claims: {sub: [x]}"), &["line 5", "claims.sub"]),
        (
            issuer("", "claims: {sub: x}, create: true"),
            &["issuers[0].rules[0]", "only a token of role report"],
        ),
        (issuer("", "claims: {sub: x}, flows: [cart]"), &["issuers[0].rules[0]", "must not list flows"]),
        (
            list(
                "issuers",
                &format!(
                    "{ISSUER}, name: a, rules: [{RULE}]}}\n      - {{{ISSUER}, name: b, rules: [{RULE}]"
                ),
            ),
            &["issuers[1].issuer", "same issuer, audience and keys as a"],
        ),
    ] {
        assert_rejected(&database, &file, texts).await;
    }
}

async fn mistake_in_policy_approval_or_action_is_reported_with_key(database: Database) {
    let artifact = crate::service::digest('a');
    let approval = |more: &str| {
        let state = if more.contains("state") { "" } else { "state: PENDING, " };
        list(
            "flows",
            &format!(
                "name: x, approvals: [{{artifact: {artifact}, base: {artifact}, name: n, {state}{more}}}]"
            ),
        )
    };
    let environment = |more: &str| list("environments", &format!("name: prod, {more}"));
    let action = |more: &str| list("actions", &format!("name: a, environments: [prod], {more}"));
    let target = |more: &str| {
        action(&format!("number: 1, triggers: [ON_COMPLIANT_ENV], targets: [{{name: t, {more}}}]"))
    };
    for (file, texts) in [
        (approval("number: 0"), &["flows[0].approvals[0].number", "from 1"][..]),
        (approval("number: 1, state: MAYBE"), &["line 5", "MAYBE"]),
        (approval("number: 1, state: APPROVED"), &["approvals[0].approvals", "by and at"]),
        (approval("number: 1, state: PENDING, commits: [abc]"), &["approvals[0].commits", "40"]),
        (environment("policy: {attestations: []}"), &["environments[0].policy", "requires nothing"]),
        (environment("policy: {attestations: [{flow: a b, name: c}]}"), &["environments[0].policy", "flow"]),
        (
            environment("policy: {attestations: [{flow: a, name: c}, {flow: a, name: c, min_tests: 2}]}"),
            &["environments[0].policy", "requires an attestation twice"],
        ),
        (environment("policy: {attestations: [{flow: a, name: c, min_tests: -1}]}"), &["line 5", "min_tests"]),
        (environment("minArtifacts: 0"), &["environments[0].minArtifacts: got 0, expected a number from 1"]),
        (environment("minArtifacts: few"), &["line 5", "minArtifacts"]),
        (
            environment("maxDrop: 100"),
            &["environments[0].maxDrop: got 100, expected a percentage from 0 to 99"],
        ),
        (environment("policy: {atestations: []}"), &["line 5", "atestations"]),
        (environment("allowed: [{artifact: abc, reason: r, author: a}]"), &["line 5", "64 lowercase hex"]),
        (environment("allowed: [{reason: r, author: a}]"), &["allowed[0]", "exactly one of artifact and image"]),
        (environment("allowed: [{image: a b, reason: r, author: a}]"), &["line 5", "invalid pattern"]),
        (environment(r#"allowed: [{image: i, reason: r, author: "a\u202eb"}]"#), &["line 5", INVISIBLE]),
        (list("environments", r#"name: "pr\u202eod""#), &["line 5", "letter or digit"]),
        (list("policies", r#"name: "a\u2066b", text: '_schema: x/v1'"#), &["line 5", INVISIBLE]),
        (list("actions", r#"name: "a\u202eb""#), &["line 5", INVISIBLE]),
        (approval("number: 1").replace("name: n", r#"name: "a\u202eb""#), &["line 5", INVISIBLE]),
        (environment("policies: [p]"), &["environments[0].policies[0]", "declares no policy \"p\""]),
        (
            list("policies", "name: 'environment:prod', text: '_schema: x/v1'")
                + "    environments: [{name: prod, policy: {approval: true}}]\n",
            &["environments[0].policy", "\"environment:prod\""],
        ),
        (list("policies", "name: p"), &["policies[0]", "exactly one of text and file"]),
        (list("policies", "name: p, file: missing.yaml"), &["policies[0]", "failed to read the file"]),
        (
            list("policies", "name: p, text: \"_schema: x/v1\\nartefacts: {}\""),
            &["policies[0].text", "artefacts", "line 2"],
        ),
        (action("number: 0, triggers: [], targets: []"), &["actions[0].number", "from 1"]),
        (action("number: 1, triggers: [], targets: []"), &["actions[0].triggers", "at least one"]),
        (action("number: 1, triggers: [ON_A_FULL_MOON], targets: []"), &["line 5", "ON_A_FULL_MOON"]),
        (action("number: 1, triggers: [ON_COMPLIANT_ENV], targets: []"), &["actions[0].targets", "1 to 100"]),
        (target("type: PIGEON"), &["line 5", "PIGEON"]),
        (target("type: WEBHOOK"), &["targets[0]", "expected url"]),
        (target("type: WEBHOOK, url: {file: /dev/null}"), &["targets[0]", "the file \"/dev/null\" is empty"]),
        (target("type: WEBHOOK, url: {file: nowhere}"), &["targets[0]", "url", "nowhere"]),
        (target(&format!("type: WEBHOOK, url: {{file: {ADMIN}}}")), &["targets[0]", "one https URL"]),
        (target("type: WEBHOOK, url: {file: url, variable: V}"), &["exactly one of file and variable"]),
        (target("type: SLACK, url: {variable: SUPERCARGO_NO_SUCH_VARIABLE}"), &["not set"]),
        (target("type: EMAIL, recipients: [ops@example.com]"), &["targets[0]", "smtp"]),
        (target("type: EMAIL, recipients: [ops]"), &["targets[0]", "invalid mail address \"ops\""]),
        (target("type: EMAIL, recipients: [a@b], url: {file: x}"), &["type EMAIL must not have url"]),
        (target("type: TEAMS"), &["targets[0]", "expected url"]),
        (target("type: TEAMS, url: {file: x}, routingKey: {file: x}"), &["type TEAMS must not have routingKey"]),
        (target("type: PAGERDUTY"), &["targets[0]", "expected routingKey"]),
        (target("type: PAGERDUTY").replace("COMPLIANT_ENV", "CHECKPOINT"), &["silence", "got ON_CHECKPOINT"]),
        (
            target("type: PAGERDUTY").replace("COMPLIANT_ENV", "TEST"),
            &["triggers", "ON_TEST is sent by `supercargo action test` only"],
        ),
        ("generation: 1\nsmtp: {host: h, from: nobody}\norganizations: []".into(), &["smtp", "mail address"]),
        (
            "generation: 1\nsmtp: {host: h, from: a@b, tls: none, username: u, password: {file: p}}\norganizations: []".into(),
            &["smtp", "a password must be encrypted in transit"],
        ),
        ("generation: 1\nauthorities: bootstrap.yaml\norganizations: []".into(), &["authorities", "PEM"]),
    ] {
        assert_rejected(&database, &file, texts).await;
    }
}

async fn mistake_in_trust_is_reported_with_key(database: Database) {
    let identity = |subject: &str| {
        list(
            "trust",
            &format!("name: x, identities: [{{issuer: 'https://i.example', subject: '{subject}'}}]"),
        )
    };
    let keys = |more: &str| list("trust", &format!("name: x, {more}"));
    for (file, texts) in [
        (list("trust", "name: x"), &["trust[0]: expected identities or keys"][..]),
        (identity("https://github.com/*"), &["line 5", "invalid pattern"]),
        (identity("*"), &["line 5", "invalid pattern"]),
        (
            identity("https://github.com/acme/*").replace("https://i", "http://i"),
            &["trust[0].identities[0].issuer: expected an https URL"],
        ),
        (keys("keys: [{file: none.pub}]"), &["trust[0].keys[0].file: failed to read the file"]),
        (keys("keys: [{file: bootstrap.yaml}]"), &["trust[0].keys[0].file: the file", "invalid public key"]),
        (
            keys("root: {file: bootstrap.yaml}, identities: [{issuer: 'https://i', subject: x}]"),
            &["trust[0].root.file: the file", "invalid trusted root"],
        ),
        (keys("keys: [{pem: x}]"), &["line 5", "unknown field"]),
        (list("trust", "name: a/b, keys: [{file: x}]"), &["trust[0].name: expected at most 64 letters"]),
    ] {
        assert_rejected(&database, &file, texts).await;
    }
}

async fn token_instead_of_its_hash_is_redacted(database: Database) {
    let token = "s3cret-token-0123456789abcdef";
    let text = format!(
        "generation: 1\norganizations: [{{name: a, tokens: [{{name: x, role: admin, sha256: {token}}}]}}]"
    );
    let error = start_error(&database, &text).await;
    assert!(
        error.contains("organizations[0].tokens[0].sha256") && error.contains("64 lowercase hex"),
        "{error}"
    );
    assert!(!error.contains("s3cret"), "{error}");
}

async fn invalid_file_keeps_the_previous_state(database: Database) {
    let service = TestService::start(database).await;
    service.reload("generation: 2\norganizations: oops").await;
    service.get(READER, "/trails/acme").await.expect(200);
    assert!(service.metrics().await.contains("supercargo_bootstrap_loads_total{outcome=\"failed\"} 1"));
    service.reload(&bootstrap(2, "")).await;
    assert!(service.metrics().await.contains("supercargo_bootstrap_generation 2"));
}

async fn lower_generation_is_ignored_and_reported_as_stale(database: Database) {
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(5, ""), ..Options::default() })
            .await;
    let older = bootstrap(4, "").replace("role: read", "role: admin");
    service.reload(&older).await;
    service.report(READER, "prod", report(&[])).await.expect(403);
    let database = service.stop().await;
    // After a restart with the older file, as by `helm rollback`, the database prevails.
    let limits = Limits { invalid_tokens: 2, ..Limits::default() };
    let options = Options { bootstrap: older, limits, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(READER, "prod", report(&[])).await.expect(403);
    service.get(READER, "/trails/acme").await.expect(200);
    let ready = Response::from_request(service.http.get(format!("{}/readyz?verbose", service.admin)))
        .await
        .expect(200);
    // The rate limit does not apply to valid tokens, although no file was applied.
    for n in 0..20 {
        service.get(&format!("guess-{n}"), "/trails/acme").await;
    }
    service.get(READER, "/trails/acme").await.expect(200);
    let warning = "[+]bootstrap ok, with a warning: the bootstrap file ";
    let numbers = "has generation 4, but the database has generation 5";
    assert!(ready.text.contains(warning) && ready.text.contains(numbers), "{}", ready.text);
    let metrics = service.metrics().await;
    assert!(metrics.contains("supercargo_bootstrap_stale 1"), "{metrics}");
    assert!(metrics.contains("supercargo_bootstrap_generation 5"), "{metrics}");
    service.reload(&bootstrap(5, "")).await;
    assert!(service.metrics().await.contains("supercargo_bootstrap_stale 0"));
    let database = service.stop().await;
    // Changed content needs a new generation.
    let other = bootstrap(5, "").replace("role: read", "role: admin");
    let error = start_error(&database, &other).await;
    assert!(error.contains("changed without a new generation (5)"), "{error}");
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(5, ""), ..Options::default() })
            .await;
    service.get(READER, "/trails/acme").await.expect(200);
}

async fn organization_removed_from_file_is_closed_and_its_evidence_stays(database: Database) {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    let alone = bootstrap(2, "");
    let (acme, stranger) = alone.split_once("  - name: stranger").unwrap();
    let without_acme = format!("generation: 2\norganizations:\n  - name: stranger{stranger}");
    service.reload(&without_acme).await;
    service.get(READER, "/trails/acme").await.expect(401);
    service.get(STRANGER, "/trails/stranger").await.expect(200);
    assert_eq!(service.database.rows("SELECT pod FROM pod_runs").await, ["p"]);
    let closed = "SELECT name FROM organizations WHERE closed_at IS NOT NULL";
    assert_eq!(service.database.rows(closed).await, ["acme"]);
    // The organization can be added again and continues.
    service
        .reload(&format!("{}  - name: stranger{stranger}", acme.replace("generation: 2", "generation: 3")))
        .await;
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(200);
}

async fn empty_database_without_a_file_fails_to_start(database: Database) {
    let folder = folder("");
    let mut setup = setup(&database, folder.path(), &Options::default());
    setup.bootstrap = None;
    assert!(matches!(Service::start(setup.clone()).await, Err(StartError::Empty)));
    let database = TestService::start(database).await.stop().await;
    // A database with an organization needs no file.
    let mut again = setup;
    again.database = database.url().parse().unwrap();
    assert!(Service::start(again).await.is_ok());
}

async fn token_may_move_to_another_organization(database: Database) {
    let service = TestService::start(database).await;
    // The token moves from the second organization to the first.
    let moved = bootstrap(2, &format!("      - {{name: moved, role: read, file: {STRANGER}}}"));
    let (acme, _) = moved.split_once("  - name: stranger").unwrap();
    service.reload(acme).await;
    service.get(STRANGER, "/trails/acme").await.expect(200);
    service.get(STRANGER, "/trails/stranger").await.expect(403);
}

async fn flow_removed_from_file_is_closed_and_kept(database: Database) {
    let flow = "    flows: [{name: cart, tags: {team: shop}, template: {attestations: [{name: unit, type: junit}]}}]";
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(1, flow), ..Options::default() })
            .await;
    service.reload(&bootstrap(2, &flow.replace("shop", "pay"))).await;
    service.reload(&bootstrap(3, "")).await;
    let tags = "SELECT tag_value, CASE WHEN closed_at IS NULL THEN 'open' ELSE 'closed' END FROM flow_tags ORDER BY created_at";
    assert_eq!(service.database.rows(tags).await, ["shop|closed", "pay|closed"]);
    let templates = "SELECT CAST(version AS TEXT) FROM flow_templates WHERE closed_at IS NOT NULL";
    assert_eq!(service.database.rows(templates).await, ["1"]);
}

crate::service::on_both!(
    token_may_move_to_another_organization,
    flow_removed_from_file_is_closed_and_kept,
    lower_generation_is_ignored_and_reported_as_stale,
    organization_removed_from_file_is_closed_and_its_evidence_stays,
    empty_database_without_a_file_fails_to_start,
);

crate::service::on_sqlite!(
    mistake_is_reported_with_key_and_line,
    mistake_in_issuer_is_reported_with_key,
    mistake_in_policy_approval_or_action_is_reported_with_key,
    mistake_in_trust_is_reported_with_key,
    token_instead_of_its_hash_is_redacted,
    invalid_file_keeps_the_previous_state,
);

#[test]
fn unknown_name_is_warned_about_and_changes_are_audited() {
    let more = format!(
        "    environments: [{{name: prod, policy: {{attestations: [{{flow: crat, name: unit}}, {{flow: cart, name: unit}}]}}}}]
    flows:
      - {{name: cart, approvals: [{{number: 1, artifact: {0}, base: {0}, name: n, state: PENDING, environment: prdo}}]}}
    actions:
      - {{number: 1, name: a, environments: [prod, pord], triggers: [ON_COMPLIANT_ENV],
         targets: [{{name: t, type: SLACK, url: {{file: url}}}}]}}
    issuers: [{{name: ci, issuer: 'https://127.0.0.1:9', audience: a,
               rules: [{{claims: {{sub: x}}, role: report, environments: [prud]}}]}}]",
        crate::service::digest('a')
    );
    let file =
        bootstrap(1, &more).replace("environments: [prod], create: true", "environments: [prod, porto]");
    let folder = folder(&file);
    std::fs::write(folder.path().join("url"), "https://hooks.example.com/credential").unwrap();
    let service = Process::run(command(&folder, "sqlite:x.db"), folder);
    let warnings: Vec<_> =
        service.startup_log.lines().filter(|line| line.contains("bootstrap file: ")).collect();
    assert_eq!(warnings.len(), 5, "{}", service.startup_log);
    for text in [
        "flow \"crat\"",
        "approval 1 of flow cart names environment \"prdo\"",
        "\"pord\"",
        "issuer ci of acme names environment \"prud\"",
        "token reporter of acme names environment \"porto\", which is neither declared nor reported",
    ] {
        assert!(service.startup_log.contains(text), "{text}: {}", service.startup_log);
    }
    for text in [
        "audit: bootstrap file, generation 1, acme: the organization was added",
        "the issuer ci of https://127.0.0.1:9 for audience a (role report for prud if sub=x) was added",
        "the token expired of role admin was added until 2020-01-01T00:00:00Z",
        "the action 1, a, sends ON_COMPLIANT_ENV of prod, pord to t at https://hooks.example.com",
    ] {
        assert!(service.startup_log.contains(text), "{text}: {}", service.startup_log);
    }
    assert!(!service.startup_log.contains("credential"));
}

#[tokio::test]
async fn example_file_is_valid() {
    let database = Database::sqlite();
    let example =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bootstrap.yaml")).unwrap();
    let folder = folder(&example);
    std::fs::write(folder.path().join("admin.token"), ADMIN).unwrap();
    assert!(Service::start(setup(&database, folder.path(), &Options::default())).await.is_ok());
    // The file is also valid with its commented-out settings.
    let complete = example.replace("#: ", "").replace("generation: 1", "generation: 2");
    std::fs::write(folder.path().join("bootstrap.yaml"), complete).unwrap();
    std::fs::write(folder.path().join("pager.url"), "https://hooks.example.com/T0/B0/credential").unwrap();
    std::fs::write(folder.path().join("pager.secret"), ADMIN).unwrap();
    std::fs::write(folder.path().join("sso.secret"), ADMIN).unwrap();
    assert!(Service::start(setup(&database, folder.path(), &Options::default())).await.is_ok());
    assert_eq!(
        database.rows("SELECT content FROM targets ORDER BY action").await[..1],
        [r#"{"webhook":"https://hooks.example.com"}"#]
    );
    assert_eq!(
        database.rows("SELECT role FROM tokens ORDER BY role").await,
        ["admin", "approve", "attest", "read", "report"]
    );
}

#[test]
fn committed_schema_matches_the_code() {
    let schema = format!("{:#}\n", service::bootstrap::schema());
    crate::service::assert_committed("bootstrap.schema.json", &schema);
}
