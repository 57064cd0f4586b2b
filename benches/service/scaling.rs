//! Cost of operations and pages over old rows, and over replicas on one database.
//!
//! Each organization of `server::SIZES` gets as many trails, attestations, artifacts that no longer run, and ended pods. The
//! requested data has the same size in all of them, so that a growing cost is caused by rows that are not requested.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::budgets::Curve;
use super::cluster::Cluster;
use super::database::{Database, seed_trails};
use super::figures::Figures;
use super::server::{Connection, Response, Server, token};

/// Pods of the reported environment, which has a long history.
const PODS: usize = 1_000;
const ENVIRONMENT: &str = "history";

/// Maximum number of samples of a request, and their maximum total time.
const SAMPLES: usize = 200;
const MAX_SAMPLING_TIME: Duration = Duration::from_secs(10);

/// Concurrent clients of all replicas, and requests of each client.
const CLIENTS: usize = 16;
const REQUESTS_PER_CLIENT: usize = 100;

/// Measures operations and pages in an organization with `rows` of each kind.
pub(super) fn rows(
    runtime: &Runtime,
    database: &Database,
    server: &Server,
    organization: &str,
    rows: u64,
    curve: &mut Curve,
) {
    let mut cluster = Cluster::new(PODS);
    server.connect().report(organization, ENVIRONMENT, &cluster.body()).expect(201);
    runtime.block_on(seed(database, organization, rows));
    // Connected after seeding, because the service closes idle connections.
    let mut connection = server.connect();
    let database = if database.is_sqlite() { "SQLite" } else { "PostgreSQL" };
    let mut record = |label: &str, figures: &Figures| {
        figures.print(&format!("{rows} rows: {label}"), "");
        let (kind, cost) = label.split_once(": ").unwrap_or(("operation", label));
        curve.point(rows, cost, figures.cpu, &format!("ms of CPU for each {kind} on {database}"));
    };

    // Twenty artifacts of the repository are running.
    let running: Vec<String> = (0..20).map(|deployment: u64| digest((deployment << 32) + 1)).collect();
    attest(&mut connection, organization, "running", &running);
    let changed = measure_each(server, SAMPLES / 4, |_| {
        cluster.roll_out();
        connection.report(organization, ENVIRONMENT, &cluster.body()).expect(201)
    });
    record("changed report of 1000 pods", &changed);
    let body = cluster.body();
    let unchanged =
        measure_each(server, SAMPLES, |_| connection.report(organization, ENVIRONMENT, &body).expect(200));
    record("unchanged report of 1000 pods", &unchanged);
    let attested = measure_each(server, SAMPLES, |n| {
        attest(&mut connection, organization, &format!("new-{n}"), &running[n % 20..=n % 20])
    });
    record("attestation", &attested);

    let cookie = connection.sign_in(token(organization).as_str());
    let (api, browser) =
        (format!("Authorization: Bearer {}", token(organization)), format!("Cookie: {cookie}"));
    for (label, path) in addresses(organization, rows, &running[7]) {
        let credential = if path.starts_with("/api") { &api } else { &browser };
        let head = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{credential}\r\n\r\n");
        let time = Duration::from_secs_f64(server.measure(&head, 1).median / 1e3);
        let samples =
            (0..SAMPLES).take_while(|n| time * u32::try_from(*n).unwrap() < MAX_SAMPLING_TIME).count();
        record(label, &server.measure(&head, samples.max(3)));
    }
}

/// Labels and paths of the requests.
fn addresses(organization: &str, rows: u64, artifact: &str) -> [(&'static str, String); 15] {
    let trail = format!("trail-{:07}", rows / 2);
    let flow = format!("flow-{:07}", rows / 2 % 20);
    let api = |path: &str| format!("/api/v2{}", path.replace("ORG", organization));
    let page = |path: &str| format!("/ui/{organization}{path}");
    let environment = |more: &str| page(&format!("/environments/{ENVIRONMENT}{more}"));
    let ago = jiff::Timestamp::now() - Duration::from_millis(100);
    [
        ("trails", api("/trails/ORG")),
        ("trails of a flow", api(&format!("/trails/ORG?flow={flow}"))),
        ("trails of an artifact", api(&format!("/trails/ORG?fingerprint={}", digest(7)))),
        ("attestations of a flow", api(&format!("/attestations/ORG/{flow}"))),
        ("live artifacts", api("/repos/ORG/live-artifacts/acme/trails")),
        ("page: front", page("")),
        ("page: environment", environment("")),
        ("page: environment a moment ago", environment(&format!("?at={ago}"))),
        ("page: timeline", environment("/timeline")),
        ("page: comparison", environment("/compare?from=1&to=2")),
        ("page: artifact", page(&format!("/artifacts/{artifact}"))),
        ("page: trail", page(&format!("/flows/{flow}/trails/{trail}"))),
        ("page: search of a digest", page(&format!("/search?q={artifact}"))),
        ("page: search of a commit", page("/search?q=6f0e2c1d9b8a")),
        ("page: search of a word", page("/search?q=nowhere")),
    ]
}

fn digest(number: u64) -> String {
    format!("{number:064x}")
}

fn attest(connection: &mut Connection, organization: &str, trail: &str, targets: &[String]) -> Response {
    let data = format!(
        r#"{{"attestation_name":"scan","target_artifacts":["{}"],"junit_results":[{{"name":"all","total":9,"failures":0,"errors":0}}],"git_commit_info":{{"sha1":"6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a"}},"repo_info":{{"name":"acme/trails","url":"https://github.com/acme/trails"}}}}"#,
        targets.join("\",\"")
    );
    connection.attest(organization, "flow-0000007", trail, &data).expect(201)
}

/// Measures sequential requests.
fn measure_each(server: &Server, samples: usize, send: impl FnMut(usize) -> Response) -> Figures {
    let cpu = server.cpu();
    let responses: Vec<Response> = (0..samples).map(send).collect();
    let cpu = (server.cpu() - cpu) * 1e3 / samples as f64;
    Figures::new(responses.iter().map(|response| response.milliseconds).collect(), cpu, 0)
}

/// Inserts old rows.
async fn seed(database: &Database, organization: &str, rows: u64) {
    // Unique per organization.
    let base = 100_000_000 + rows * 10;
    seed_trails(database, organization, base, rows).await;
    let past = database.micros_ago(Duration::from_hours(100));
    let (id, hash) = (database.uuid(&format!("40000000000 + {base} + i")), database.bytes("i"));
    let of = format!(
        "(SELECT id FROM environments WHERE organization = '{organization}' AND name = '{ENVIRONMENT}')"
    );
    let numbers =
        |end: u64| format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {end})");
    database
        .run(&format!(
            "{all} INSERT INTO provenance (organization, repository, fingerprint, commit_sha, recorded_at)
             SELECT '{organization}', {repository}, {hash}, '0d5e2c1d9b8a7f6e5d4c3b2a190817263544536a', {past}
             FROM n;
             {all} INSERT INTO workloads (organization, hash, digests, owners)
             SELECT '{organization}', {hash}, '{{}}', '[]' FROM n;
             {all} INSERT INTO pod_runs (id, environment, namespace, pod, created_at, workload, started_at, ended_at)
             SELECT {id}, {of}, 'team-0001', {pod}, i, {hash}, {past} - i, {past} - i FROM n;
             {some} INSERT INTO snapshots (environment, snapshot, received_at, reported_by, report_hash,
                                           confirmed_at, superseded_at)
             SELECT {of}, -i, {past} - i, 'bench', {hash}, {past} - i, {past} - i FROM n;
             {some} INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot,
                                               organization, name, started_at, ended_at)
             SELECT {of}, {hash}, -i, -i, '{organization}', 'registry.example.com/acme/image:1.' || i, {past} - i,
                    {past} - i FROM n;
             {some} INSERT INTO events (id, organization, environment, kind, occurred_at, content)
             SELECT {id}, '{organization}', {of}, 'ON_STARTED_ARTIFACT', {past} - i, '{{}}' FROM n;",
            all = numbers(rows),
            some = numbers(rows / 10),
            repository = database.uuid(&(base + 100).to_string()),
            pod = database.text("pod", "i"),
        ))
        .await;
    database.maintain().await;
}

/// Measures the throughput of all replicas of a database, with clients that send one request after the other.
pub(super) fn replicas(servers: &[Server], curve: &mut Curve) {
    let mut clusters: Vec<Cluster> = (0..CLIENTS).map(|_| Cluster::new(PODS)).collect();
    let environment = |client: usize| format!("replicas-{client}");
    for (client, cluster) in clusters.iter().enumerate() {
        servers[0].connect().report("bench", &environment(client), &cluster.body());
    }
    let api = format!("Authorization: Bearer {}", token("bench"));
    let trails = format!("GET /api/v2/trails/bench HTTP/1.1\r\nHost: bench\r\n{api}\r\n\r\n");
    for label in ["unchanged report of 1000 pods", "changed report of 1000 pods", "trails"] {
        let cpu: f64 = servers.iter().map(Server::cpu).sum();
        let begin = Instant::now();
        let times: Vec<f64> = thread::scope(|scope| {
            let clients: Vec<_> = clusters
                .iter_mut()
                .enumerate()
                .map(|(client, cluster)| {
                    let trails = trails.as_str();
                    scope.spawn(move || {
                        let mut connections: Vec<_> = servers.iter().map(Server::connect).collect();
                        let replicas = connections.len();
                        let mut send = |n: usize| {
                            let connection = &mut connections[(client + n) % replicas];
                            if label == "trails" {
                                return connection.send(trails, &[]).expect(200);
                            }
                            if label.starts_with("changed") {
                                cluster.roll_out();
                            }
                            let report = connection.report("bench", &environment(client), &cluster.body());
                            assert!(matches!(report.status, 200 | 201), "{}", report.status);
                            report
                        };
                        (0..REQUESTS_PER_CLIENT).map(|n| send(n).milliseconds).collect::<Vec<_>>()
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
        let cpu = (servers.iter().map(Server::cpu).sum::<f64>() - cpu) * 1e3 / times.len() as f64;
        let figures = Figures::new(times, cpu, 0);
        figures.print(&format!("{} replicas: {label}", servers.len()), &format!("{rate:>6.0} a second here"));
        curve.point(servers.len(), label, rate, "a second");
        curve.point(servers.len(), label, figures.cpu, "ms CPU");
    }
}
