//! The queue of evaluations: what fails, what is large, and what belongs to others delays nothing else.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::bootstrap;
use crate::service::report;
use crate::service::rules::operations::put_form;
use crate::service::rules::policies::{attach, put};
use crate::service::support::browser::Browser;
use crate::service::{ADMIN, Database, Options, Response, STRANGER, TestService, eventually, form, pod};

async fn environment(service: &TestService, name: &str) -> Value {
    let environment = service.read(&format!("/environments/acme/{name}")).await;
    json!([environment["state"], environment["evaluating"], environment["evaluation_failed"]])
}

/// A trigger that rejects verdicts on the environments `bad-*`.
fn reject_verdicts(database: &Database) -> &'static str {
    if database.is_postgres() {
        "CREATE FUNCTION defect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF EXISTS (SELECT 1 FROM environments WHERE id = NEW.environment AND name LIKE 'bad-%') THEN
             RAISE EXCEPTION 'defect';
           END IF;
           RETURN NEW;
         END $$;
         CREATE TRIGGER defect BEFORE INSERT ON verdicts FOR EACH ROW EXECUTE FUNCTION defect()"
    } else {
        "CREATE TRIGGER defect BEFORE INSERT ON verdicts
           WHEN EXISTS (SELECT 1 FROM environments WHERE id = NEW.environment AND name LIKE 'bad-%')
         BEGIN SELECT RAISE(ABORT, 'defect'); END"
    }
}

/// Verdicts that the database rejects make the evaluation of an environment fail, as a defect would.
async fn failing_environments_delay_no_other(database: Database) {
    const FAILING: usize = 110;
    let names: Vec<_> = (0..FAILING).map(|n| format!("bad-{n}")).chain(["good".to_owned()]).collect();
    let declared = |generation, required: &str| {
        let policy = format!("{{attestations: [{{flow: cart, name: {required}}}]}}");
        let all: Vec<_> = names.iter().map(|name| format!("{{name: {name}, policy: {policy}}}")).collect();
        bootstrap(generation, &format!("    environments: [{}]", all.join(", ")))
    };
    let mut options = Options { bootstrap: declared(1, "unit"), ..Options::default() };
    options.limits.evaluation_interval = Duration::from_millis(20);
    let service = TestService::start_with(database, options).await;
    for name in &names {
        service.report(ADMIN, name, report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    service.database.execute(reject_verdicts(&service.database)).await;
    service.reload(&declared(2, "lint")).await;
    let reasons = "SELECT reasons FROM verdicts v JOIN environments e ON e.id = v.environment
                   WHERE e.name = 'good' AND until_at IS NULL";
    eventually("the other environment is evaluated", async || {
        service.database.rows(reasons).await.concat().contains("lint")
    })
    .await;
    assert_eq!(environment(&service, "good").await, json!([false, false, false]));
    let failing = async |number: usize| {
        service.metrics().await.contains(&format!("supercargo_evaluations_failing {number}\n"))
    };
    eventually("the failures are counted", async || failing(FAILING).await).await;
    assert_eq!(environment(&service, "bad-0").await, json!([false, true, true]));
    let page = Browser::read_page(&service, "/ui/acme/environments/bad-0").await;
    assert!(page.contains("evaluation failed"), "{page}");
    let accept = if service.database.is_postgres() {
        "DROP TRIGGER defect ON verdicts"
    } else {
        "DROP TRIGGER defect"
    };
    service.database.execute(accept).await;
    service.database.execute("UPDATE evaluation_queue SET due_at = 0").await;
    eventually("all are evaluated", async || failing(0).await).await;
    assert_eq!(environment(&service, "bad-0").await, json!([false, false, false]));
}

async fn change_of_a_policy_evaluates_only_its_organization(database: Database) {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let theirs = service.request(Method::PUT, STRANGER, "/environments/stranger/prod/report/K8S?create=true");
    let theirs = theirs.header("Content-Type", "application/json").body(report(&[pod("p", "cart:1", 'a')]));
    Response::from_request(theirs).await.expect(201);
    put(&service, ADMIN, "rules", "provenance: {required: true}").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    let queue = "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
                 SELECT id, organization, '{\"type\":\"BOOTSTRAP\"}', 5 FROM environments";
    service.database.execute(queue).await;
    put(&service, ADMIN, "rules", "attestations: [{name: unit, type: junit}]").await.expect(200);
    assert_eq!(service.database.rows("SELECT organization FROM evaluation_queue").await, ["stranger"]);
}

/// Reports `prod` with 2,500 artifacts, the first of which is `first:1`.
async fn report_large(service: &TestService) {
    let images = (1..2_500).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
    let mut running = pod("p", "i", 'a');
    running["digests"] = images.chain([("first:1".to_owned(), json!(first()))]).collect();
    service.report(ADMIN, "prod", report(&[running])).await.expect(201);
}

fn first() -> String {
    format!("{:064x}", 0)
}

async fn attest_first(service: &TestService) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": first(),
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

/// Number of artifacts with a verdict.
async fn evaluated(service: &TestService) -> String {
    let verdicts = "SELECT COUNT(*) || '' FROM verdicts WHERE until_at IS NULL";
    service.database.rows(verdicts).await.concat()
}

/// The environment becomes compliant with its last artifacts, and until the first attestation expires.
async fn large_environment_is_evaluated_in_parts(database: Database) {
    let service = TestService::start(database).await;
    report_large(&service).await;
    attest_first(&service).await;
    let rule =
        "attestations: [{name: unit, type: junit, max_age: 30d, if: '${{ artifact.name == \"first:1\" }}'}]";
    put(&service, ADMIN, "rules", rule).await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    for (generation, number) in [(2, "1000"), (3, "2000")] {
        assert_eq!(evaluated(&service).await, number);
        assert_eq!(environment(&service, "prod").await, json!([null, true, false]));
        // Among the evaluated artifacts: its verdict is the current one, and the others stay queued.
        attest_first(&service).await;
        assert_eq!(environment(&service, "prod").await, json!([null, true, false]));
        service.reload(&bootstrap(generation, "")).await;
    }
    assert_eq!(evaluated(&service).await, "2500");
    assert_eq!(environment(&service, "prod").await, json!([true, false, false]));
    let events = "SELECT kind FROM events WHERE kind LIKE '%_ENV'";
    assert_eq!(service.database.rows(events).await, ["ON_COMPLIANT_ENV"]);
    let expiring =
        "SELECT name FROM environments WHERE evaluate_at IS NOT NULL AND compliant_until IS NOT NULL";
    assert_eq!(service.database.rows(expiring).await, ["prod"]);
}

/// The template of a flow concerns all artifacts: those that were evaluated before its change are evaluated again at the end.
async fn change_prolongs_the_evaluation_of_a_large_environment(database: Database) {
    let service = TestService::start(database).await;
    report_large(&service).await;
    put(&service, ADMIN, "rules", "trail-compliance: {required: true}").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    assert_eq!(evaluated(&service).await, "1000");
    put_form(&service, ADMIN, "/flows/acme/template_file", &json!({"name": "cart"}), Some("version: 1"))
        .await
        .expect(201);
    for (generation, number, is_evaluating) in [(2, "2000", true), (3, "2500", true), (4, "2500", false)] {
        service.reload(&bootstrap(generation, "")).await;
        assert_eq!(evaluated(&service).await, number);
        assert_eq!(environment(&service, "prod").await, json!([false, is_evaluating, false]));
    }
}

async fn attestation_does_not_delay_the_evaluation_of_an_environment_with_too_few_artifacts(
    database: Database,
) {
    let few = "    environments: [{name: prod, minArtifacts: 3000}]";
    let options = Options { bootstrap: bootstrap(1, few), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    report_large(&service).await;
    put(&service, ADMIN, "rules", "attestations: [{name: unit, type: junit}]").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    for (generation, number, is_evaluating) in [(2, "1000", true), (3, "2000", true), (4, "2500", false)] {
        assert_eq!(evaluated(&service).await, number);
        assert_eq!(environment(&service, "prod").await, json!([false, is_evaluating, false]));
        attest_first(&service).await;
        assert_eq!(environment(&service, "prod").await, json!([false, is_evaluating, false]));
        service.reload(&bootstrap(generation, few)).await;
    }
    let compliance = "SELECT compliance FROM verdicts WHERE until_at IS NULL AND compliance = 'COMPLIANT'";
    assert_eq!(service.database.rows(compliance).await, ["COMPLIANT"]);
}

/// The report evaluates all artifacts, also those that were queued.
async fn report_completes_the_evaluation_of_a_large_environment(database: Database) {
    let service = TestService::start(database).await;
    let run = async |pods: &[&str], status: u16| {
        let images = (0..1_500).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
        let digests: Value = images.collect();
        let running = |name: &&str| {
            let mut pod = pod(name, "i", 'a');
            pod["digests"] = digests.clone();
            pod
        };
        let pods: Vec<_> = pods.iter().map(running).collect();
        service.report(ADMIN, "prod", report(&pods)).await.expect(status);
    };
    run(&["p"], 201).await;
    put(&service, ADMIN, "rules", "provenance: {required: true}").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    assert_eq!(environment(&service, "prod").await, json!([false, true, false]));
    run(&["p", "q"], 200).await;
    assert_eq!(environment(&service, "prod").await, json!([false, false, false]));
    let verdicts =
        "SELECT COUNT(*) || '' FROM verdicts WHERE until_at IS NULL AND compliance = 'NON-COMPLIANT'";
    assert_eq!(service.database.rows(verdicts).await, ["1500"]);
    assert_eq!(service.database.rows("SELECT organization FROM evaluation_queue").await, [""; 0]);
}

crate::service::on_both!(
    failing_environments_delay_no_other,
    change_of_a_policy_evaluates_only_its_organization,
    large_environment_is_evaluated_in_parts,
    change_prolongs_the_evaluation_of_a_large_environment,
    attestation_does_not_delay_the_evaluation_of_an_environment_with_too_few_artifacts,
    report_completes_the_evaluation_of_a_large_environment,
);
