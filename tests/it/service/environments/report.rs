//! Operation 7: effects of reports.

use std::time::Duration;

use serde_json::json;
use service::Limits;
use tokio::task::JoinSet;

use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, ATTESTER, Database, REPORTER, TestService, digest, form, pod};

const NO_SNAPSHOT: &str = "\"report processed, no new snapshots to create\"";

/// Makes the images with these digits artifacts of `acme/cart`.
async fn attest(service: &TestService, digits: &[char]) {
    let targets: Vec<_> = digits.iter().map(|digit| digest(*digit)).collect();
    let data = json!({
        "attestation_name": "unit", "junit_results": [], "target_artifacts": targets,
        "repo_info": {"name": "acme/cart"},
    });
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
}

/// Digit, image, snapshot and start of each live artifact of `acme/cart`.
async fn live(service: &TestService) -> Vec<(char, String, i64, f64)> {
    let response = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let artifacts = response["live_artifacts"].as_array().unwrap().iter();
    artifacts
        .map(|artifact| {
            let digit = artifact["artifact_id"].as_str().unwrap().chars().next().unwrap();
            let name = artifact["artifact_name"].as_str().unwrap().to_owned();
            let snapshot = artifact["snapshot_index"].as_i64().unwrap();
            (digit, name, snapshot, artifact["started_at"].as_f64().unwrap())
        })
        .collect()
}

fn without_times(live: Vec<(char, String, i64, f64)>) -> Vec<(char, String, i64)> {
    live.into_iter().map(|(digit, name, snapshot, _)| (digit, name, snapshot)).collect()
}

async fn first_report_creates_a_snapshot_and_its_repetition_none(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, &['a', 'b']).await;
    let body = report(&[pod("p", "cart:1", 'a')]);
    let first = service.report(REPORTER, "prod", body.clone()).await.expect(201);
    assert_eq!(first.text, "\"report processed, new snapshot 1\"");
    let before = service.database.rows("SELECT CAST(last_report_at AS TEXT) FROM environments").await;
    // The same bytes, and different bytes with the same meaning.
    let rewritten = body.replace("\"type\":\"K8S\",", "").replace("\"owners\":[]", "\"owners\": null");
    assert_ne!(body, rewritten);
    for body in [body, rewritten] {
        assert_eq!(service.report(REPORTER, "prod", body).await.expect(200).text, NO_SNAPSHOT);
    }
    let after = service.database.rows("SELECT CAST(last_report_at AS TEXT) FROM environments").await;
    assert!(after > before, "{before:?} {after:?}");
    assert_eq!(without_times(live(&service).await), [('a', "cart:1".to_owned(), 1)]);
    assert_eq!(service.database.rows("SELECT pod FROM pod_runs").await, ["p"]);
}

async fn scaling_creates_no_snapshot_and_a_rollout_creates_one(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, &['a', 'b']).await;
    let old = pod("old", "cart:1", 'a');
    service.report(REPORTER, "prod", report(std::slice::from_ref(&old))).await.expect(201);
    let [(_, _, _, started)] = live(&service).await[..] else { panic!() };

    let scaled = report(&[old.clone(), pod("second", "cart:1", 'a')]);
    assert_eq!(service.report(REPORTER, "prod", scaled).await.expect(200).text, NO_SNAPSHOT);
    assert_eq!(live(&service).await, [('a', "cart:1".to_owned(), 1, started)]);

    let rolling = report(&[old, pod("new", "cart:2", 'b')]);
    service.report(REPORTER, "prod", rolling).await.expect(201);
    let rolling = live(&service).await;
    assert_eq!(rolling[0], ('a', "cart:1".to_owned(), 2, started));
    assert!(rolling[1].3 > started);

    let rolled = report(&[pod("new", "cart:2", 'b')]);
    service.report(REPORTER, "prod", rolled).await.expect(201);
    assert_eq!(without_times(live(&service).await), [('b', "cart:2".to_owned(), 3)]);
    // History is kept: each pod and artifact has its interval.
    let pods =
        "SELECT pod, CASE WHEN ended_at IS NULL THEN 'runs' ELSE 'ended' END FROM pod_runs ORDER BY pod";
    assert_eq!(service.database.rows(pods).await, ["new|runs", "old|ended", "second|ended"]);
    let artifacts = "SELECT name, CAST(first_snapshot AS TEXT), CAST(last_snapshot AS TEXT) FROM artifact_runs ORDER BY 1";
    assert_eq!(service.database.rows(artifacts).await, ["cart:1|1|2", "cart:2|2|"]);
    // Each past snapshot has its last confirmation and the later time at which it was superseded.
    let snapshots = "SELECT CAST(snapshot AS TEXT), CASE WHEN confirmed_at >= received_at AND confirmed_at < superseded_at
                     THEN 'closed' ELSE 'open' END FROM snapshots ORDER BY 1";
    assert_eq!(service.database.rows(snapshots).await, ["1|closed", "2|closed", "3|open"]);
}

async fn moved_tag_is_neither_exit_nor_start(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, &['a']).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:rc1", 'a')])).await.expect(201);
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1.0", 'a')])).await.expect(200);
    assert_eq!(without_times(live(&service).await), [('a', "cart:1.0".to_owned(), 1)]);
    // The pods record when each name ran.
    let names = "SELECT digests FROM pod_runs p JOIN workloads w ON w.hash = p.workload ORDER BY started_at";
    let names = service.database.rows(names).await;
    assert!(names[0].contains("cart:rc1") && names[1].contains("cart:1.0"), "{names:?}");
}

async fn returning_artifact_has_a_new_start(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, &['a']).await;
    let (running, empty) = (report(&[pod("p", "cart:1", 'a')]), report(&[]));
    service.report(REPORTER, "prod", running.clone()).await.expect(201);
    let first = live(&service).await;
    service.report(REPORTER, "prod", empty).await.expect(201);
    assert_eq!(live(&service).await, []);
    service.report(REPORTER, "prod", running).await.expect(201);
    let again = live(&service).await;
    assert_eq!(again[0].2, 3);
    assert!(again[0].3 > first[0].3);
}

async fn empty_environment_has_a_first_snapshot(database: Database) {
    let service = TestService::start(database).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    service.report(REPORTER, "prod", report(&[])).await.expect(200);
    assert_eq!(service.database.rows("SELECT CAST(snapshot AS TEXT) FROM environments").await, ["1"]);
}

async fn silence_longer_than_silent_after_is_recorded_as_a_gap(database: Database) {
    // `prod` is silent after a microsecond, `batch` practically never.
    let environments = "    environments:\n      - {name: prod, silentAfter: 1us}\n      - {name: batch, silentAfter: 9000h}";
    let options = Options { bootstrap: bootstrap(1, environments), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(&service, &['a']).await;
    let body = report(&[pod("p", "cart:1", 'a')]);
    for environment in ["prod", "batch"] {
        service.report(ADMIN, environment, body.clone()).await.expect(201);
        service.report(ADMIN, environment, body.clone()).await.expect(200);
        service.report(ADMIN, environment, body.clone()).await.expect(200);
    }
    let gaps =
        "SELECT e.name FROM gaps g JOIN environments e ON e.id = g.environment WHERE g.from_at < g.to_at";
    assert_eq!(service.database.rows(gaps).await, ["prod", "prod"]);
    let adjoining =
        "SELECT 'yes' FROM gaps a JOIN gaps b ON a.environment = b.environment AND a.to_at = b.from_at";
    assert_eq!(service.database.rows(adjoining).await, ["yes"]);
    // The API marks the environment as silent.
    let response = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let environments = response["_embedded"]["environments"].as_array().unwrap();
    let silent: Vec<_> = environments.iter().map(|e| (e["name"].clone(), e["is_silent"].clone())).collect();
    assert_eq!(silent, [(json!("batch"), json!(false)), (json!("prod"), json!(true))]);
}

async fn default_silent_after_is_the_limit_of_the_service(database: Database) {
    let limits = Limits { silent_after: Duration::from_micros(1), ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    for status in [201, 200] {
        service.report(REPORTER, "prod", report(&[])).await.expect(status);
    }
    assert_eq!(service.database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM gaps").await, ["1"]);
}

async fn concurrent_reports_get_consecutive_snapshots(database: Database) {
    let service = TestService::start(database).await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (http, base) = (service.http.clone(), service.base.clone());
        writers.spawn(async move {
            let mut created = Vec::new();
            for turn in 0..10 {
                // Each report has a different artifact.
                let digits = format!("{:064x}", writer * 100 + turn + 1);
                let mut pod = pod("p", "i", 'a');
                pod["digests"]["i"] = json!(digits);
                let request =
                    http.put(format!("{base}/api/v2/environments/acme/prod/report/K8S?create=true"));
                let request = request.bearer_auth(REPORTER).header("Content-Type", "application/json");
                let response =
                    crate::service::Response::from_request(request.body(report(&[pod]))).await.expect(201);
                let number =
                    response.json().as_str().unwrap().rsplit(' ').next().unwrap().parse::<i64>().unwrap();
                created.push((number, digits));
            }
            created
        });
    }
    let mut created = Vec::new();
    while let Some(numbers) = writers.join_next().await {
        created.extend(numbers.unwrap());
    }
    created.sort();
    assert_eq!(created.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    // Each snapshot has the artifact of its report, and one is current.
    let sql = if service.database.is_postgres() {
        "SELECT CAST(r.first_snapshot AS TEXT), encode(fingerprint, 'hex') FROM artifact_runs r ORDER BY r.first_snapshot"
    } else {
        "SELECT CAST(r.first_snapshot AS TEXT), lower(hex(fingerprint)) FROM artifact_runs r ORDER BY r.first_snapshot"
    };
    let expected: Vec<_> = created.iter().map(|(number, digits)| format!("{number}|{digits}")).collect();
    assert_eq!(service.database.rows(sql).await, expected);
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM artifact_runs WHERE ended_at IS NULL";
    assert_eq!(service.database.rows(open).await, ["1"]);
}

async fn organizations_are_isolated_from_each_other(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, &['a']).await;
    let path = "/environments/stranger/prod/report/K8S?create=true";
    let request = service.request(reqwest::Method::PUT, crate::service::STRANGER, path);
    let request = request.header("Content-Type", "application/json").body(report(&[pod("p", "cart:1", 'a')]));
    crate::service::Response::from_request(request).await.expect(201);
    assert_eq!(live(&service).await, []);
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(without_times(live(&service).await), [('a', "cart:1".to_owned(), 1)]);
    let other = service.get(crate::service::STRANGER, "/repos/stranger/live-artifacts/acme/cart").await;
    other.expect(404);
}

async fn earlier_owners_of_a_pod_are_kept(database: Database) {
    let service = TestService::start(database).await;
    let mut pod = pod("p", "cart:1", 'a');
    pod["owners"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-1", "uid": "u",
                            "controller": true, "blockOwnerDeletion": true}]);
    service.report(REPORTER, "prod", report(&[pod.clone()])).await.expect(201);
    pod["owners"][0]["name"] = json!("cart-2");
    service.report(REPORTER, "prod", report(&[pod])).await.expect(200);
    let owners = "SELECT owners FROM pod_runs p JOIN workloads w ON w.hash = p.workload ORDER BY started_at";
    let owners = service.database.rows(owners).await;
    assert!(owners[0].contains("cart-1") && owners[1].contains("cart-2"), "{owners:?}");
}

async fn token_creates_a_limited_number_of_environments_per_day(database: Database) {
    let limits = Limits { new_environments: 2, ..Limits::default() };
    let declared = |names: &str| format!("    environments: [{names}]");
    let bootstrap_file = bootstrap(1, &declared("{name: declared}"));
    let options = Options { limits, bootstrap: bootstrap_file, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for environment in ["declared", "one", "two"] {
        service.report(ADMIN, environment, report(&[])).await.expect(201);
    }
    let retry_after = async |environment: &str| -> u64 {
        let response = service.report(ADMIN, environment, report(&[])).await.expect(429);
        let message = response.json()["message"].as_str().unwrap().to_owned();
        for expected in ["limit of 2 new environments in 24 hours", "declare them in the bootstrap file"] {
            assert!(message.contains(expected), "{expected}: {message}");
        }
        response.headers["retry-after"].to_str().unwrap().parse().unwrap()
    };
    assert!((1..=24 * 3600).contains(&retry_after("three").await));
    let names = "SELECT name FROM environments ORDER BY name";
    assert_eq!(service.database.rows(names).await, ["declared", "one", "two"]);
    // The limit is that of one token, and existing environments are reported as before.
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    service.report(ADMIN, "one", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    // Environments of the bootstrap file do not count, even if a report created them.
    service.reload(&bootstrap(2, &declared("{name: two}, {name: three}"))).await;
    for environment in ["three", "four"] {
        service.report(ADMIN, environment, report(&[])).await.expect(201);
    }
    // The oldest one decides when to retry.
    let age = |environment: &str, hours: u64| {
        format!(
            "UPDATE environments SET created_at = created_at - {} WHERE name = '{environment}'",
            hours * 3_600_000_000
        )
    };
    service.database.execute(&age("one", 23)).await;
    assert!((1..=3600).contains(&retry_after("five").await));
    service.database.execute(&age("one", 1)).await;
    service.report(ADMIN, "five", report(&[])).await.expect(201);
    retry_after("six").await;
}

crate::service::on_both!(
    token_creates_a_limited_number_of_environments_per_day,
    first_report_creates_a_snapshot_and_its_repetition_none,
    scaling_creates_no_snapshot_and_a_rollout_creates_one,
    moved_tag_is_neither_exit_nor_start,
    returning_artifact_has_a_new_start,
    empty_environment_has_a_first_snapshot,
    silence_longer_than_silent_after_is_recorded_as_a_gap,
    default_silent_after_is_the_limit_of_the_service,
    concurrent_reports_get_consecutive_snapshots,
    organizations_are_isolated_from_each_other,
    earlier_owners_of_a_pod_are_kept,
);
