//! Access reviews: who may make an artifact compliant in an environment.

use serde_json::{Value, json};

use crate::program::supercargo;
use crate::service::bootstrap;
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::Options;
use crate::service::{ADMIN, Database, READER, TestService, digest};

const REVIEW: &str = "/environments/acme/prod/access-review";

async fn start(database: Database) -> TestService {
    let more = "      - {name: web, role: attest, flows: [web], file: web, expires: 2999-01-31T00:00:00Z}
    flows: [{name: web, images: ['registry.example/web*']}]
    environments:
      - name: prod
        policy: {attestations: [{flow: cart, name: unit}, {flow: web, name: scan}], approval: true}";
    let files = vec![("web", "web-0123456789abcdef0123456789ab".to_owned())];
    let options = Options { bootstrap: bootstrap(1, more), files, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(ADMIN, "prod", report(&[])).await.expect(201);
    service
}

/// The names of the tokens of each way.
fn tokens(ways: &Value) -> Vec<Vec<&str>> {
    ways.as_array()
        .unwrap()
        .iter()
        .map(|way| {
            way["tokens"].as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect()
        })
        .collect()
}

async fn review_lists_the_tokens_that_may_fulfill_each_requirement(database: Database) {
    let service = start(database).await;
    let review = service.get(ADMIN, REVIEW).await.expect(200).json();
    // The expired token of role admin is not listed.
    assert_eq!(
        tokens(&review["requirements"]),
        [vec!["admin", "attester"], vec!["admin", "web"], vec!["admin", "kim"]]
    );
    let actions: Vec<_> =
        review["requirements"].as_array().unwrap().iter().map(|way| &way["action"]).collect();
    assert_eq!(actions, ["attest in flow cart", "attest in flow web", "approve the artifact for prod"]);
    let web = json!({"name": "web", "role": "attest", "scope": {"environments": [], "flows": ["web"]}, "expires_at": 32_474_736_000_i64});
    assert_eq!(review["requirements"][1]["tokens"][1], web);
    assert_eq!(review["requirements"][2]["in_bootstrap_file"], true);
    assert_eq!(tokens(&review["alternatives"]), [vec!["admin"], vec![], vec!["admin", "reporter"]]);
    let text = review.to_string();
    for secret in [ADMIN, READER, "sha256", "0123456789abcdef"] {
        assert!(!text.contains(secret), "{text}");
    }

    service.get(ADMIN, "/environments/acme/test/access-review").await.expect(404);
    service.get(ADMIN, &format!("{REVIEW}?fingerprint={}", digest('a'))).await.expect(400);
    service.get(READER, REVIEW).await.expect(403);
}

async fn review_is_a_page_and_a_command_for_admins(database: Database) {
    let service = start(database).await;
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    let environment = "/ui/acme/environments/prod";
    let path = format!("{environment}/access-review");
    assert_contains(&admin.get(environment).await.text, &[&format!("href=\"{path}\"")]);
    let shown = [
        "token <bdi>attester</bdi>, role attest for <bdi>cart</bdi>",
        "role attest for <bdi>web</bdi>, until ",
        "role approve for <bdi>cart in prod</bdi>",
        "everybody who can change the bootstrap file",
    ];
    assert_contains(&admin.get(&path).await.text, &shown);
    assert_eq!(admin.get("/ui/acme/environments/none/access-review").await.status, 404);
    let mut reader = Browser::signed_in(&service, READER).await;
    assert_eq!(reader.get(&path).await.status, 404);
    assert!(!reader.get(environment).await.text.contains("access-review"));

    let command = supercargo().args(["get", "access-review", "prod"]);
    let command = command.args(["--base-url", &service.base, "--org", "acme"]).env("SUPERCARGO_TOKEN", ADMIN);
    let outcome = tokio::task::spawn_blocking(|| command.run()).await.unwrap();
    outcome.expect(0, &[]);
    for row in ["attestation \"unit\" of flow cart  attest in flow cart", "token attester", "bootstrap file"]
    {
        assert!(outcome.stdout.contains(row), "{row}: {outcome:#?}");
    }
    let command = supercargo().args(["get", "access-review", "none"]).args(["--base-url", &service.base]);
    let command = command.args(["--org", "acme"]).env("SUPERCARGO_TOKEN", ADMIN);
    let outcome = tokio::task::spawn_blocking(|| command.run()).await.unwrap();
    assert!(outcome.stderr.contains("environment none not found"), "{outcome:#?}");
}

crate::service::on_both!(
    review_lists_the_tokens_that_may_fulfill_each_requirement,
    review_is_a_page_and_a_command_for_admins,
);
