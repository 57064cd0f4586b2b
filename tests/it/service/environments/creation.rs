//! Reports to environments that do not exist.

use std::path::Path;

use reqwest::Method;

use crate::program::supercargo;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, REPORTER, Response, TestService, pod, report};

const NOT_FOUND: &str = "environment prdo not found; did you mean prod?";

const MAY_NOT: &str = "this token may not create environments: declare the environment in the bootstrap file, under \
                       environments of the organization, or set create: true for the token or its issuer's rule";

/// A service whose token of role `report` may not create environments, with the environments `prod`, `prdo-2` and
/// `staging`. The token may read all but `prdo-2`.
async fn start(database: Database) -> TestService {
    let more = "    environments: [{name: prod}, {name: prdo-2}, {name: staging}]";
    let file = bootstrap(1, more)
        .replace("environments: [prod], create: true", "environments: [prod, prdo, dev, staging]");
    TestService::start_with(database, Options { bootstrap: file, ..Options::default() }).await
}

async fn put(service: &TestService, token: &str, environment: &str, query: &str) -> Response {
    let path = format!("/environments/acme/{environment}/report/K8S{query}");
    let request = service.request(Method::PUT, token, &path).header("Content-Type", "application/json");
    Response::from_request(request.body(report(&[pod("p", "cart:1", 'a')]))).await
}

async fn report_creates_an_environment_only_if_asked_and_permitted(database: Database) {
    let service = start(database).await;
    for (token, environment, query, status, message) in [
        (ADMIN, "prd", "", 404, NOT_FOUND.replace("prdo", "prd").replace("prod?", "prod or prdo-2?")),
        (ADMIN, "prdo", "?create=false", 404, NOT_FOUND.replace("prod?", "prod or prdo-2?")),
        (ADMIN, "payments", "", 404, "environment payments not found".to_owned()),
        (REPORTER, "prdo", "", 403, format!("{NOT_FOUND} ({MAY_NOT})")),
        (REPORTER, "prdo", "?create=true", 403, format!("{NOT_FOUND} ({MAY_NOT})")),
        (REPORTER, "dev", "?create=true", 403, format!("environment dev not found ({MAY_NOT})")),
    ] {
        let rejected = put(&service, token, environment, query).await.expect(status);
        assert_eq!(rejected.json()["message"], *message, "{environment}{query}");
    }
    for query in ["?create=yes", "?create=", "?create", "?create=true&create=true"] {
        put(&service, ADMIN, "prdo", query).await.expect(400).json()["errors"]["create"].as_str().unwrap();
    }
    put(&service, ADMIN, "prdo", "?dry_run=true").await.expect(400);
    let names = "SELECT name FROM environments ORDER BY name";
    assert_eq!(service.database.rows(names).await, ["prdo-2", "prod", "staging"]);
    put(&service, ADMIN, "prdo", "?create=true").await.expect(201);
    // An existing one is reported as without the parameter.
    put(&service, REPORTER, "prdo", "?create=true").await.expect(200);
    put(&service, REPORTER, "prod", "").await.expect(201);
    assert_eq!(service.database.rows(names).await, ["prdo", "prdo-2", "prod", "staging"]);
}

async fn agent_creates_an_environment_only_with_its_option_or_key(database: Database) {
    let service = start(database).await;
    let pods = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pods.json");
    let agent = async |token: &str, options: &[&str]| {
        let program = supercargo().env("SUPERCARGO_BASE_URL", &service.base).env("SUPERCARGO_ORG", "acme");
        let config = "environments: [{name: prod}, {name: new, create: true}, {name: stagin}]";
        let program = program.env("SUPERCARGO_TOKEN", token).file("c.yaml", config);
        let program = program.args(["agent", "--once", "--pods-from", pods.to_str().unwrap()]);
        let program = program.args(options.iter().copied());
        tokio::task::spawn_blocking(|| program.run()).await.unwrap()
    };
    let prdo = ["--environment", "prdo"];
    agent(REPORTER, &prdo).await.expect(3, &[NOT_FOUND, MAY_NOT]);
    let typo = agent(ADMIN, &["--config", "c.yaml"]).await;
    let hint = "--create (`create: true` in the file of --config) creates the environment";
    typo.expect(4, &["environment stagin not found; did you mean staging?", hint]);
    for reported in ["prod: 11 pods reported, new snapshot", "new: 11 pods reported, new snapshot"] {
        assert!(typo.stderr.contains(reported), "{typo:#?}");
    }
    agent(ADMIN, &["--environment", "prdo", "--create"]).await.expect(0, &["prdo: 11 pods reported"]);
    agent(ADMIN, &["--config", "c.yaml", "--create"]).await.expect(0, &["stagin: 11 pods reported"]);
    agent(REPORTER, &prdo).await.expect(0, &["prdo: 11 pods reported, unchanged"]);
}

crate::service::on_both!(report_creates_an_environment_only_if_asked_and_permitted);

crate::service::on_sqlite!(agent_creates_an_environment_only_with_its_option_or_key);
