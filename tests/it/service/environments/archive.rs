//! Archived environments.

use crate::service::records::log::log;
use crate::service::support::browser::Browser;
use crate::service::{ADMIN, ATTESTER, Database, READER, REPORTER, TestService, digest, pod, report};

async fn archived_environment_runs_nothing_and_returns_when_it_is_created(database: Database) {
    let service = TestService::start(database).await;
    let pods = report(&[pod("p", "cart:1", 'a')]);
    for environment in ["prod", "prdo"] {
        service.report(ADMIN, environment, pods.clone()).await.expect(201);
    }
    let in_use = async || service.read("/digests/acme").await["data"][0]["running_in"].to_string();
    assert!(in_use().await.contains("prdo"));
    for denied in [READER, REPORTER, ATTESTER] {
        service.program(denied, "environment archive prdo").await.expect(3, &["admin"]);
    }
    service
        .program(ADMIN, "environment archive prd")
        .await
        .expect(4, &["environment prd not found; did you mean"]);
    for _ in 0..2 {
        let archived = service.program(ADMIN, "environment archive prdo").await;
        assert_eq!(archived.expect(0, &[]).stdout, "archived the environment prdo\n");
    }
    assert!(!in_use().await.contains("prdo"));
    let listed = service.read("/environments/acme").await;
    assert_eq!(
        listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>(),
        ["prod"]
    );
    let rejected = "environment \"prdo\" is archived; `supercargo environment create prdo` restores it";
    for query in ["", "?create=true"] {
        let path = format!("/environments/acme/prdo/report/K8S{query}");
        let request = service.request(reqwest::Method::PUT, ADMIN, &path);
        let request = request.header("Content-Type", "application/json").body(pods.clone());
        let response = crate::service::Response::from_request(request).await.expect(410);
        assert_eq!(response.json()["message"], rejected);
    }
    // What ran before stays, under its name.
    let shown = service.program(READER, "get environment prdo").await;
    assert!(shown.expect(0, &[]).stdout.contains("archived       now"), "{shown:#?}");
    let before = service.read("/snapshots/acme/prdo/1").await;
    assert_eq!(before["artifacts"][0]["fingerprint"], digest('a'));
    assert_eq!(service.read("/snapshots/acme/prdo/2").await["artifacts"], serde_json::json!([]));
    let page = Browser::read_page(&service, "/ui/acme/environments/prdo").await;
    assert!(page.contains("Archived"), "{page}");
    log(&service, &["verify"]).await.expect(0, &[]);

    service.program(ADMIN, "environment archive prod").await.expect(0, &[]);
    service.program(REPORTER, "environment create prod").await.expect(3, &["admin"]);
    service.program(ADMIN, "environment create prod").await.expect(0, &[]);
    service.program(ADMIN, "environment create prdo").await.expect(0, &[]);
    service.report(ADMIN, "prdo", pods).await.expect(201);
    assert!(in_use().await.contains("prdo"));
    let changes = service.program(ADMIN, "list audit -o json").await.stdout;
    assert!(changes.contains("archived the environment prdo"), "{changes}");
    assert!(changes.contains("restored the environment prdo"), "{changes}");
    log(&service, &["verify"]).await.expect(0, &[]);
}

async fn declared_environment_is_archived_in_the_bootstrap_file(database: Database) {
    let options = crate::service::Options {
        bootstrap: crate::service::bootstrap(1, "    environments: [{name: prod}]\n"),
        ..crate::service::Options::default()
    };
    let service = TestService::start_with(database, options).await;
    let declared = "the bootstrap file declares the environment \"prod\": change it there";
    service.program(ADMIN, "environment archive prod").await.expect(5, &[declared]);
}

crate::service::on_both!(archived_environment_runs_nothing_and_returns_when_it_is_created);

crate::service::on_sqlite!(declared_environment_is_archived_in_the_bootstrap_file);
