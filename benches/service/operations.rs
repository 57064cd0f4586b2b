//! Reports, live artifacts and the gate. Their bounds hold on SQLite.

use std::time::{Duration, Instant};

use super::budgets::Budgets;
use super::cluster::Cluster;
use super::database::{Database, Engine, seed_trails};
use super::figures::Figures;
use super::replica_set::digest;
use super::server::{Client, Organization, Server};

const ORGANIZATION: &str = "bench";
const GATE: &str = "gate";

/// Clients of unchanged reports, and requests of each.
const CLIENTS: usize = 8;
const REQUESTS: usize = 500;

/// Artifacts of the gate's organization.
const GATED: u64 = 10_000;

pub(super) fn measure(engine: &Engine, budgets: &mut Budgets) {
    let database = engine.create();
    let organizations = [Organization::new(ORGANIZATION, ""), Organization::new(GATE, policy_of_ten_rules())];
    let server = Server::start(&database, &organizations);
    let unchanged = unchanged(&server);
    let changed = changed(&server);
    let live = live(&database, &mut server.connect(ORGANIZATION));
    let gate = gate(&database, &mut server.connect(GATE));
    if database.is_sqlite() {
        budgets.at_least("serve, unchanged report, 1,000 pods", unchanged, 1_500.0, "per second of CPU");
        budgets.at_most("serve, changed report, 10,000 pods", changed, 60.0, "ms of CPU");
        budgets.at_most("serve, live artifacts, 1,000 environments, p99", live, 15.0, "ms");
        budgets.at_most("serve, gate, p99", gate, 3.0, "ms");
    }
}

/// Concurrent unchanged reports of 1,000 pods. Returns their number per second of CPU.
fn unchanged(server: &Server) -> f64 {
    let body = Cluster::new(0, 1_000).body();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect(ORGANIZATION)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.report(&format!("unchanged-{n}"), body.clone()).expect(201);
    }
    let (cpu, begin) = (server.process.cpu(), Instant::now());
    let times: Vec<f64> = std::thread::scope(|scope| {
        let clients: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(n, client)| {
                let (environment, body) = (format!("unchanged-{n}"), &body);
                scope.spawn(move || {
                    let report = |_| client.report(&environment, body.clone()).expect(200);
                    (0..REQUESTS).map(report).collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let (count, seconds) = (times.len() as f64, begin.elapsed().as_secs_f64());
    let rate = count / (server.process.cpu() - cpu);
    let note = format!("{rate:.0} per second of CPU; {:.0} per second", count / seconds);
    Figures::new(times).print("unchanged report, 1,000 pods, 8 clients", &note);
    rate
}

/// Reports of rollouts, each of which replaces the pods of one deployment. Returns milliseconds of CPU.
fn changed(server: &Server) -> f64 {
    let (mut client, mut cluster) = (server.connect(ORGANIZATION), Cluster::new(0, 10_000));
    client.report("changed", cluster.body()).expect(201);
    let (cpu, samples) = (server.process.cpu(), 100);
    let times: Vec<f64> = (0..samples)
        .map(|_| {
            cluster.roll_out();
            client.report("changed", cluster.body()).expect(201)
        })
        .collect();
    let cpu = (server.process.cpu() - cpu) * 1e3 / f64::from(samples);
    Figures::new(times).print("changed report, 10,000 pods", &format!("{cpu:.1} ms of CPU"));
    cpu
}

/// Live artifacts of a repository in 1,000 of 10,000 environments, which run twenty other artifacts each. Returns the p99.
fn live(database: &Database, client: &mut Client) -> f64 {
    let now = database.micros_ago(Duration::ZERO);
    let (id, repository) = (|i: &str| database.uuid(&format!("3000000 + {i}")), database.uuid("1"));
    let run = |count: u64, environment: &str, artifact: &str| {
        format!(
            "{} INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, name, pods, namespaces,
                                           started_at)
             SELECT '{ORGANIZATION}', {}, {}, 1, 'registry.example.com/acme/image:1.0.0', 1, '[]', {now} - i FROM n;",
            database.numbers(0, count),
            id(environment),
            database.bytes(artifact)
        )
    };
    database.run(&format!(
        "{environments} INSERT INTO environments (id, organization, name, created_at, last_report_at, snapshot,
             evaluated_at, compliant_artifacts, unknown_artifacts, non_compliant_artifacts)
         SELECT {id}, '{ORGANIZATION}', {name}, {now}, {now}, 1, {now}, 0,
                CASE WHEN i < 1000 THEN 21 ELSE 20 END, 0 FROM n;
         INSERT INTO repositories (organization, id, provider, name, is_url_of_owner, flow, reported_by, created_at)
         VALUES ('{ORGANIZATION}', {repository}, 'github', 'acme/cart', FALSE, 'cart', 'bench', {now});
         {artifacts} INSERT INTO provenance (organization, repository, fingerprint, flow, commit_sha, reported_by,
                                             recorded_at, priority)
         SELECT '{ORGANIZATION}', {repository}, {artifact}, 'cart', '6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a', 'bench',
                {now}, 0 FROM n;
         {cart} {others}",
        environments = database.numbers(0, 10_000),
        id = id("i"),
        name = database.text("live", "i"),
        artifacts = database.numbers(0, 200),
        artifact = database.bytes("10000000 + i"),
        cart = run(1_000, "i", "10000000 + i % 10"),
        others = run(200_000, "i / 20", "30000000 + i % 2000"),
    ));
    database.maintain();
    repeat(
        client,
        300,
        "live artifacts, 1,000 environments",
        &format!("repos/{ORGANIZATION}/live-artifacts/acme/cart"),
    )
}

/// The gate for one of 10,000 artifacts. Returns the p99.
fn gate(database: &Database, client: &mut Client) -> f64 {
    seed_trails(database, GATE, 90_000_000, GATED, "i");
    let path = format!("asserts/{GATE}/fingerprint/{}?environment_name=prod", digest(GATED / 2));
    repeat(client, 1_000, "gate, environment with ten rules, 10,000 artifacts", &path)
}

/// Repeats a request. Returns the p99.
fn repeat(client: &mut Client, samples: usize, label: &str, path: &str) -> f64 {
    let mut times: Vec<f64> = (0..samples + 3).map(|_| client.get(path).expect(200)).collect();
    let figures = Figures::new(times.split_off(3));
    figures.print(label, "");
    figures.p99
}

/// An environment with a policy of ten rules, in YAML.
fn policy_of_ten_rules() -> String {
    let attestation = |n: usize| format!("{{name: '*', type: junit, max_age: {}d}}", n + 30);
    let attestations: Vec<_> = (0..8).map(attestation).collect();
    format!(
        "    policies:
      - name: ten
        text: |
          _schema: https://example.com/schemas/policy/environment/v1
          artifacts:
            provenance: {{required: true}}
            trail-compliance: {{required: true}}
            attestations: [{}]
    environments: [{{name: prod, policies: [ten]}}]
",
        attestations.join(", ")
    )
}
