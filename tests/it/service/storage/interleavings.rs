//! Random changes by two replicas, one of which is killed: the verdicts are those of the same evidence, recorded in order.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use fastrand::Rng;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use service::Limits;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use crate::service::records::log::log;
use crate::service::report;
use crate::service::rules::policies::{TESTED, UNIT, attach, policy_form};
use crate::service::support::process::{Process, client, command};
use crate::service::support::test_service::{bootstrap, eventually, folder};
use crate::service::{ADMIN, Database, Options, Response, TestService, digest, form};

const ENVIRONMENTS: [&str; 3] = ["e0", "e1", "e2"];
const ARTIFACTS: [char; 4] = ['a', 'b', 'c', 'd'];
const TRAILS: [&str; 3] = ["t0", "t1", "t2"];
const POLICIES: [&str; 4] = [
    UNIT,
    TESTED,
    "approval: {count: 1}, attestations: [{name: unit, type: junit}]",
    "trail-compliance: {required: true}",
];

const CLIENTS: u64 = 3;
const CHANGES_PER_CLIENT: usize = 25;
const KILLS: usize = 2;
const SEEDS: u64 = 2;

/// `more` below `acme`.
fn declared(more: &str) -> String {
    bootstrap(
        1,
        &format!(
            "    flows: [{{name: cart, template: {{attestations: [{{name: unit, type: junit}}]}}}}]\n{more}"
        ),
    )
}

/// The replica that is killed.
struct Replica {
    process: Process,
    base: Arc<RwLock<String>>,
}

impl Replica {
    fn start(database: &Database, base: Arc<RwLock<String>>) -> Self {
        let folder = folder(&declared("    retention: 1s"));
        let process = Process::run(command(&folder, &database.url()), folder);
        process.base.clone_into(&mut base.write().unwrap());
        Self { process, base }
    }

    fn restart(mut self, database: &Database) -> Self {
        self.process.child.kill().unwrap();
        Self::start(database, self.base)
    }
}

fn request(base: &str, method: Method, path: &str) -> RequestBuilder {
    client().request(method, format!("{base}/api/v2{path}")).bearer_auth(ADMIN)
}

fn with_json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header(CONTENT_TYPE, "application/json").body(body.to_string())
}

/// A report of pods whose owners differ from those of the last one.
fn report_request(base: &str, environment: &str, artifacts: &[char], owner: u32) -> RequestBuilder {
    let pods: Vec<_> = artifacts
        .iter()
        .map(|digit| {
            json!({
                "podName": format!("p-{digit}"), "namespace": "shop", "creationTimestamp": 1_790_000_000,
                "digests": {format!("shop/cart:{digit}"): digest(*digit)},
                "owners": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": format!("cart-{owner}"),
                            "uid": format!("{owner:08x}-0000-4000-8000-000000000000"), "controller": true}],
            })
        })
        .collect();
    let path = format!("/environments/acme/{environment}/report/K8S?create=true");
    request(base, Method::PUT, &path).header(CONTENT_TYPE, "application/json").body(report(&pods))
}

fn attest_request(base: &str, trail: &str, name: &str, artifact: char, passes: Outcome) -> RequestBuilder {
    let failures = u8::from(passes == Outcome::Fails);
    let data = json!({
        "attestation_name": name, "artifact_fingerprint": digest(artifact),
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    request(base, Method::POST, &format!("/attestations/acme/cart/trail/{trail}/junit"))
        .multipart(form(&data))
}

fn approve_request(base: &str, artifact: char, environment: &str) -> RequestBuilder {
    let body = json!({"artifact_fingerprint": digest(artifact), "environment": environment,
                      "approvals": [{"state": "APPROVED", "comment": "fine"}]});
    with_json(request(base, Method::POST, "/approvals/acme/cart"), &body)
}

fn withdraw_request(base: &str, number: u32) -> RequestBuilder {
    with_json(request(base, Method::PUT, &format!("/approvals/acme/cart/{number}/withdraw")), &json!({}))
}

fn policy_request(base: &str, file: &str) -> RequestBuilder {
    let payload = json!({"name": "rules", "description": "d", "comment": "c", "type": "env"});
    request(base, Method::PUT, "/policies/acme").multipart(policy_form(&payload, file))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passes,
    Fails,
}

fn random_request(base: &str, random: &mut Rng) -> RequestBuilder {
    let artifact = ARTIFACTS[random.usize(..ARTIFACTS.len())];
    let environment = ENVIRONMENTS[random.usize(..ENVIRONMENTS.len())];
    match random.u8(..10) {
        0..4 => {
            let running: Vec<char> = ARTIFACTS.into_iter().filter(|_| random.bool()).collect();
            let running = if running.is_empty() { vec![artifact] } else { running };
            report_request(base, environment, &running, random.u32(..4))
        }
        4..7 => {
            let outcome = if random.u8(..3) == 0 { Outcome::Fails } else { Outcome::Passes };
            let name = if random.bool() { "unit" } else { "scan" };
            attest_request(base, TRAILS[random.usize(..TRAILS.len())], name, artifact, outcome)
        }
        7 => approve_request(base, artifact, environment),
        8 => withdraw_request(base, random.u32(1..4)),
        _ => policy_request(
            base,
            &crate::service::rules::policies::policy_file(POLICIES[random.usize(..POLICIES.len())]),
        ),
    }
}

/// The fingerprints are those of [`digest`], so their first digit identifies them.
fn first_digit(database: &Database, column: &str) -> String {
    let hex = if database.is_postgres() {
        format!("encode({column}, 'hex')")
    } else {
        format!("lower(hex({column}))")
    };
    format!("substr({hex}, 1, 1)")
}

/// Compliance and reasons of each running artifact, and the compliance of each environment.
async fn verdicts(database: &Database) -> Vec<String> {
    let artifact = first_digit(database, "v.fingerprint");
    let mut verdicts = database
        .rows(&format!(
            "SELECT e.name, {artifact}, v.compliance, v.reasons FROM verdicts v
               JOIN environments e ON e.organization = v.organization AND e.id = v.environment
             WHERE v.until_at IS NULL ORDER BY e.name, v.fingerprint"
        ))
        .await;
    verdicts.extend(database.rows("SELECT name, compliance FROM environments ORDER BY name").await);
    verdicts
}

/// Records the evidence of a database on a new service, one request after the other.
async fn replay(database: &Database) -> Database {
    let artifact = first_digit(database, "x.fingerprint");
    let service = TestService::start_with(
        Database::sqlite(),
        Options { bootstrap: declared(""), ..Options::default() },
    )
    .await;
    let base = service.base.as_str();
    let created = [StatusCode::CREATED, StatusCode::OK];
    let send = async |request: RequestBuilder| {
        let response = Response::from_request(request).await;
        assert!(created.contains(&response.status), "{response:?}");
    };
    let mut running: BTreeMap<String, Vec<char>> = BTreeMap::new();
    let runs = format!(
        "SELECT e.name, {artifact} FROM artifact_runs x
           JOIN environments e ON e.organization = x.organization AND e.id = x.environment WHERE x.ended_at IS NULL"
    );
    for row in database.rows(&runs).await {
        let (environment, digit) = row.split_once('|').unwrap();
        running.entry(environment.to_owned()).or_default().extend(digit.chars());
    }
    for (environment, artifacts) in &running {
        send(report_request(base, environment, artifacts, 0)).await;
    }
    let versions = "SELECT content FROM policy_versions ORDER BY version";
    for file in database.rows(versions).await {
        send(policy_request(base, &file)).await;
        attach_all(&service).await;
    }
    let attestations = format!(
        "SELECT t.name, a.name, {artifact}, CASE WHEN a.is_compliant THEN 'passes' ELSE 'fails' END
         FROM attestations a JOIN attested_artifacts x ON x.organization = a.organization AND x.attestation = a.id
           JOIN trails t ON t.organization = a.organization AND t.id = a.trail ORDER BY a.created_at, a.id"
    );
    for row in database.rows(&attestations).await {
        let [trail, name, artifact, outcome] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        let outcome = if outcome == "passes" { Outcome::Passes } else { Outcome::Fails };
        send(attest_request(base, trail, name, artifact.chars().next().unwrap(), outcome)).await;
    }
    let approvals = format!(
        "SELECT {}, environment, CASE WHEN closed_at IS NULL THEN 'open' ELSE 'withdrawn' END
         FROM approvals ORDER BY number",
        first_digit(database, "target")
    );
    for (number, row) in (1..).zip(database.rows(&approvals).await) {
        let [artifact, environment, state] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        send(approve_request(base, artifact.chars().next().unwrap(), environment)).await;
        if state == "withdrawn" {
            send(withdraw_request(base, number)).await;
        }
    }
    eventually("the queue is empty", async || queued(&service.database).await == ["0"]).await;
    service.stop().await
}

async fn attach_all(service: &TestService) {
    for environment in ENVIRONMENTS {
        attach(service, environment, &["rules"]).await.expect(200);
    }
}

async fn queued(database: &Database) -> Vec<String> {
    database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM evaluation_queue").await
}

/// Sends changes to both replicas. Those to the killed one may fail.
async fn change(bases: [Arc<RwLock<String>>; 2], seed: u64, done: watch::Sender<usize>) {
    let mut random = Rng::with_seed(seed);
    for _ in 0..CHANGES_PER_CLIENT {
        let replica = random.usize(..bases.len());
        let base = bases[replica].read().unwrap().clone();
        let sent = random_request(&base, &mut random).send().await;
        match sent {
            // An approval that does not exist, or is withdrawn already.
            Ok(response) if matches!(response.status().as_u16(), 200 | 201 | 400 | 404 | 409) => {}
            Err(_) if replica == 1 => {}
            other => panic!("seed {seed}: {other:?}"),
        }
        done.send_modify(|done| *done += 1);
    }
}

async fn verdicts_are_those_of_a_serial_run(database: Database) {
    for seed in 0..SEEDS {
        let database = if database.is_postgres() { Database::postgres().await } else { Database::sqlite() };
        let mut options = Options::evaluating_often();
        options.bootstrap = declared("    retention: 1s");
        options.limits = Limits { retention_interval: Duration::from_millis(20), ..options.limits };
        let url = database.url();
        let service = TestService::start_with(database, options).await;
        let database = &service.database;
        assert_eq!(url, database.url());
        let base = Arc::new(RwLock::new(String::new()));
        let mut killed = Replica::start(database, Arc::clone(&base));
        for environment in ENVIRONMENTS {
            Response::from_request(report_request(&service.base, environment, &ARTIFACTS, 0))
                .await
                .expect(201);
        }
        let file = crate::service::rules::policies::policy_file(POLICIES[0]);
        Response::from_request(policy_request(&service.base, &file)).await.expect(201);
        attach_all(&service).await;

        let bases = [Arc::new(RwLock::new(service.base.clone())), base];
        let (done, mut progress) = watch::channel(0);
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(change(bases.clone(), seed * CLIENTS + client, done.clone()));
        }
        drop(done);
        let all = usize::try_from(CLIENTS).unwrap() * CHANGES_PER_CLIENT;
        for kill in 1..=KILLS {
            let _ = progress.wait_for(|done| *done >= all * kill / (KILLS + 1)).await;
            killed = tokio::task::block_in_place(|| killed.restart(database));
        }
        clients.join_all().await;
        eventually("the queue is empty", async || queued(database).await == ["0"]).await;
        log(&service, &["verify"]).await.expect(0, &["verified"]);
        let found = verdicts(database).await;
        let replayed = replay(database).await;
        assert_eq!(found, verdicts(&replayed).await, "seed {seed}");
        drop(spawn_blocking(move || drop(killed)));
        service.stop().await;
    }
}

crate::service::on_both!(verdicts_are_those_of_a_serial_run);
