//! Cost of the service: requests to `supercargo serve` over HTTP on loopback.
//!
//! `cargo bench --bench service` uses SQLite in a temporary file, and also PostgreSQL if `SUPERCARGO_TEST_DATABASE` is
//! the URL of a database whose user may create databases; the bench creates its own there and drops it. Large data is
//! inserted with SQL. The output is the cost of each operation with its bound, then the growth with more rows as a
//! ratio. CPU excludes PostgreSQL; the clients run on the same machine.
//!
//! Arguments select parts: `cargo bench --bench service -- sqlite live trails`. `pages` requests pages as a browser does;
//! their size must stay within its bound, their time is only printed. `scaling` runs alone and only on request; it
//! measures how the cost of operations and pages grows, see `scaling/mod.rs`. `fleet` simulates many agents, also alone and
//! only on request, see `fleet/mod.rs`.

#![expect(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a bench fails by panicking"
)]

mod arguments;
#[expect(dead_code, reason = "other benches use the rest of it")]
#[path = "../table/budgets.rs"]
mod budgets;
mod cluster;
mod database;
mod figures;
mod fleet;
mod identity;
mod pages;
mod reading;
mod scaling;
mod server;

use std::time::{Duration, Instant};

use self::arguments::{has_argument, is_selected};
use self::budgets::Budget;
use self::cluster::Cluster;
use self::database::{Database, Engine, seed_trails};
use self::figures::Figures;
use self::identity::Issuer;
use self::server::{Organization, Server};

/// Concurrent clients.
const CLIENTS: usize = 8;

/// Arguments that select parts.
const DATABASES: [&str; 2] = ["sqlite", "postgres"];
const OPERATIONS: [&str; 8] =
    ["unchanged", "changed", "live", "trails", "gate", "identity", "reading", "pages"];
/// Arguments that run only this part.
const SCALING: &str = "scaling";
const FLEET: &str = "fleet";

/// Organizations and their number of trails.
const SIZES: [(&str, u64); 3] = [("small", 10_000), ("bench", 100_000), ("large", 1_000_000)];

/// The organization of the gate.
const GATE: &str = "gate";

fn main() {
    let mut engines = Vec::new();
    if is_selected(&DATABASES, "sqlite") {
        engines.push(Engine::Sqlite);
    }
    if let Ok(url) = std::env::var("SUPERCARGO_TEST_DATABASE")
        && is_selected(&DATABASES, "postgres")
    {
        let mut url: url::Url = url.parse().unwrap();
        // sqlx 0.9.0 does not set TCP_NODELAY: over TLS on loopback, a statement above 16 KiB waits 40 ms.
        if url.query().is_none() {
            url.set_query(Some("sslmode=disable"));
        }
        engines.push(Engine::Postgres(url));
    }
    if has_argument(SCALING) {
        scaling::run(&engines);
        return;
    }
    if has_argument(FLEET) {
        fleet::run(&engines);
        return;
    }
    for engine in &engines {
        let database = engine.create();
        let organizations = SIZES.map(|(name, _)| Organization::new(name, ""));
        let others =
            [reading::organization(), pages::organization(), Organization::new(GATE, policy_of_ten_rules())];
        let issuer = Issuer::new();
        let others = others.into_iter().chain([issuer.organization()]);
        let organizations: Vec<_> = organizations.into_iter().chain(others).collect();
        let server = Server::start(&database, &organizations);
        bench(engine.name(), &database, &server, &issuer);
    }
}

fn bench(name: &str, database: &Database, server: &Server, issuer: &Issuer) {
    let start = Instant::now();
    println!("\n{name}");
    println!(
        "{:<52} {:>9} {:>9} {:>9} {:>10}   bound and measurement",
        "", "p50 ms", "p99 ms", "CPU ms", "bytes"
    );
    let mut growth = Vec::new();
    if is_selected(&OPERATIONS, "unchanged") {
        unchanged(database, server, &mut growth);
    }
    if is_selected(&OPERATIONS, "changed") {
        changed(database, server, &mut growth);
    }
    if is_selected(&OPERATIONS, "live") {
        live(database, server, &mut growth);
    }
    if is_selected(&OPERATIONS, "trails") {
        trails(database, server, &mut growth);
    }
    if is_selected(&OPERATIONS, "gate") {
        gate(database, server);
    }
    if is_selected(&OPERATIONS, "identity") {
        issuer.measure(database, server);
    }
    if is_selected(&OPERATIONS, "reading") {
        reading::measure(database, server);
    }
    if is_selected(&OPERATIONS, "pages") {
        pages::pages(server);
    }
    println!("growth with ten times the rows, unless noted:");
    for (label, ratio) in growth {
        println!("{label:<62} {ratio:>9.2} times");
    }
    println!("{name} took {:.0} s", start.elapsed().as_secs_f64());
}

/// Measures reports with the same bytes as the previous ones.
fn unchanged(database: &Database, server: &Server, growth: &mut Vec<(String, f64)>) {
    let mut small = 0.0;
    for (label, pods, clients, each, environment) in [
        ("unchanged report, 1,000 pods, 8 environments", 1_000, CLIENTS, 500, None),
        ("unchanged report, 1,000 pods, one environment", 1_000, CLIENTS, 500, Some("shared")),
        ("unchanged report, 10,000 pods, one client", 10_000, 1, 200, None),
    ] {
        let body = Cluster::new(pods).body();
        let environment = |client| environment.map_or_else(|| format!("env-{pods}-{client}"), str::to_owned);
        for client in 0..clients {
            let status = server.connect().report("bench", &environment(client), &body).status;
            assert!(matches!(status, 200 | 201), "{status}");
        }
        let (cpu, begin) = (server.cpu(), Instant::now());
        let times: Vec<f64> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..clients)
                .map(|client| {
                    let (environment, body) = (environment(client), &body);
                    scope.spawn(move || {
                        let mut connection = server.connect();
                        let responses = (0..each).map(|_| connection.report("bench", &environment, body));
                        responses.map(|response| response.expect(200).milliseconds).collect::<Vec<_>>()
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let (count, wall) = (times.len() as f64, begin.elapsed().as_secs_f64());
        let figures = Figures::new(times, (server.cpu() - cpu) * 1e3 / count, body.len());
        let throughput = format!("{:>6.0} a second here", count / wall);
        if pods == 1_000 {
            let rate = 1e3 / figures.cpu;
            let budget = Budget::find("serve.unchanged");
            figures.print(label, &format!("{rate:.0}; at least {}; {throughput}", budget.describe(rate)));
            if database.is_sqlite() && environment(0) != environment(1) {
                budget.record(rate, "");
            }
            small = figures.cpu;
        } else {
            figures.print(label, &throughput);
            growth.push(("unchanged report, pods, CPU".to_owned(), figures.cpu / small));
        }
    }
}

/// Measures reports of rollouts, each of which replaces the pods of one deployment.
fn changed(database: &Database, server: &Server, growth: &mut Vec<(String, f64)>) {
    let mut connection = server.connect();
    let mut rollouts = |environment: &str, cluster: &mut Cluster, samples: usize| {
        let mut times = Vec::new();
        let mut size = 0;
        let cpu = server.cpu();
        for _ in 0..samples {
            cluster.roll_out();
            let body = cluster.body();
            size = body.len();
            times.push(connection.report("bench", environment, &body).expect(201).milliseconds);
        }
        Figures::new(times, (server.cpu() - cpu) * 1e3 / samples as f64, size)
    };
    let mut cluster = Cluster::new(10_000);
    rollouts("rollouts", &mut cluster, 1);
    let some = rollouts("rollouts", &mut cluster, 100);
    let budget = Budget::find("serve.changed");
    some.print("changed report, 10,000 pods", &budget.describe(some.cpu));
    if database.is_sqlite() {
        budget.record(some.cpu, "");
    }

    // In addition to the hundred snapshots: ten thousand older ones and their ended pods.
    let past = database.micros_ago(Duration::from_hours(1));
    let (id, hash) = (database.uuid("2000000 + i"), database.bytes("i"));
    let of = "(SELECT id FROM environments WHERE name = 'rollouts')";
    database.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO snapshots (environment, snapshot, received_at, reported_by, report_hash,
                                    confirmed_at, superseded_at)
             SELECT {of}, -i, {past} - i, 'bench', {hash}, {past} - i, {past} - i
             FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, last_snapshot,
                                        organization, name, started_at, ended_at)
             SELECT {of}, {hash}, -i, -i, 'bench', 'image', {past} - i, {past} - i FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
             INSERT INTO pod_runs (id, environment, namespace, pod, created_at, workload, started_at,
                                   ended_at)
             SELECT {id}, {of}, 'team-0001', {pod}, i, {hash}, {past} - i, {past} - i
             FROM n;",
        pod = database.text("pod", "i"),
    ));
    database.maintain();
    let more = rollouts("rollouts", &mut cluster, 50);
    more.print("changed report, 10,000 pods, 10,000 snapshots", &budget.describe(more.cpu));
    growth.push(("changed report, a hundred times the snapshots, CPU".to_owned(), more.cpu / some.cpu));
    growth.push(("changed report, a hundred times the snapshots, p50".to_owned(), more.median / some.median));

    let mut cluster = Cluster::new(100_000);
    rollouts("large-rollouts", &mut cluster, 1);
    let large = rollouts("large-rollouts", &mut cluster, 10);
    large.print("changed report, 100,000 pods", "");
    growth.push(("changed report, pods, CPU".to_owned(), large.cpu / some.cpu));
    growth.push(("changed report, pods, p50".to_owned(), large.median / some.median));
}

/// Measures the live artifacts of one repository in many environments, which run twenty other artifacts each.
fn live(database: &Database, server: &Server, growth: &mut Vec<(String, f64)>) {
    let now = database.micros_ago(Duration::ZERO);
    let name = database.text("live", "i");
    let id = |i: &str| database.uuid(&format!("3000000 + {i}"));
    let run = |of: &str, i: &str, fingerprint: &str, condition: &str| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {of})
             INSERT INTO artifact_runs (environment, fingerprint, first_snapshot, organization, name, started_at)
             SELECT {}, {}, 1, 'bench', 'registry.example.com/acme/image:1.0.0', {now} - i FROM n WHERE {condition};",
            id(i),
            database.bytes(fingerprint)
        )
    };
    let repository = |k: u32, name: &str| {
        format!(
            "INSERT INTO repositories (id, organization, provider, name, created_at)
             VALUES ({repository}, 'bench', 'github', '{name}', {now});
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199)
             INSERT INTO provenance (organization, repository, fingerprint, commit_sha, commit_url, recorded_at)
             SELECT 'bench', {repository}, {}, '6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a',
                    'https://github.com/{name}/commit/6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a', {now} FROM n;",
            database.bytes(&format!("{k} * 10000000 + i")),
            repository = database.uuid(&k.to_string()),
        )
    };
    database.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
             INSERT INTO environments (id, organization, name, created_at, last_report_at, snapshot, evaluated_at,
                                       counted_at, compliant_artifacts, unknown_artifacts, non_compliant_artifacts)
             SELECT {}, 'bench', {name}, {now}, {now}, 1, {now}, {now}, 0, CASE WHEN i < 1000 THEN 22 ELSE 21 END, 0 FROM n; {} {} {} {} {}",
        id("i"),
        repository(1, "acme/cart"),
        repository(2, "acme/base"),
        run("999", "i", "10000000 + i % 10", "i < 1000"),
        run("9999", "i", "20000000 + i % 10", "i < 10000"),
        run("199999", "i / 20", "30000000 + i % 2000", "i < 200000"),
    ));
    database.maintain();
    let budget = Budget::find("serve.live");
    let mut medians = Vec::new();
    for (label, repository, samples) in [
        ("live artifacts, 1,000 environments of 10,000", "acme/cart", 300),
        ("live artifacts, 10,000 environments of 10,000", "acme/base", 40),
    ] {
        let path = format!("/api/v2/repos/bench/live-artifacts/{repository}");
        let figures = server.get("bench", &path, samples);
        let bound = if medians.is_empty() { budget.describe(figures.p99) } else { String::new() };
        figures.print(label, &bound);
        if medians.is_empty() && database.is_sqlite() {
            let Figures { median, cpu, .. } = figures;
            budget.record(figures.p99, &format!("p50 {median:.1} ms; {cpu:.1} ms CPU"));
        }
        medians.push((figures.median, figures.cpu));
    }
    growth.push(("live artifacts, environments, CPU".to_owned(), medians[1].1 / medians[0].1));
    growth.push(("live artifacts, environments, p50".to_owned(), medians[1].0 / medians[0].0));
}

/// Measures the first and a late page of trails.
fn trails(database: &Database, server: &Server, growth: &mut Vec<(String, f64)>) {
    let mut before: Option<[f64; 2]> = None;
    let mut base = 0;
    for (organization, count) in sizes(database) {
        seed_trails(database, organization, base, count);
        base += count;
        let now = [1_u32, 500].map(|page| {
            let path = format!("/api/v2/trails/{organization}?page={page}&per_page=20");
            let figures = server.get(organization, &path, 100);
            figures.print(&format!("trails, page {page} of 20, of {count}"), "");
            figures.median
        });
        if let Some(before) = before {
            for (page, (now, before)) in [1, 500].iter().zip(now.iter().zip(before)) {
                growth.push((format!("trails, to {count}, page {page}, p50"), now / before));
            }
        }
        before = Some(now);
    }
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

/// Measures the gate for one of 10,000 artifacts, and reports of 1,000 of them under the same policy.
fn gate(database: &Database, server: &Server) {
    seed_trails(database, GATE, 90_000_000, 10_000);
    let budget = Budget::find("serve.gate");
    for (label, query) in [
        ("gate, environment with ten rules, 10,000 artifacts", "?environment_name=prod"),
        ("gate, templates of flows, 10,000 artifacts", ""),
    ] {
        let path = format!("/api/v2/asserts/{GATE}/fingerprint/{:064x}{query}", 5_000);
        let figures = server.get(GATE, &path, 1_000);
        let bound = if query.is_empty() { String::new() } else { budget.describe(figures.p99) };
        figures.print(label, &bound);
        if !query.is_empty() && database.is_sqlite() {
            let Figures { median, cpu, .. } = figures;
            budget.record(figures.p99, &format!("p50 {median:.1} ms; {cpu:.1} ms CPU"));
        }
    }
    let bodies = [cluster::report(0..1_000, 1), cluster::report(1..1_001, 1)];
    let mut connection = server.connect();
    connection.report(GATE, "prod", &bodies[1]).expect(201);
    let (cpu, samples) = (server.cpu(), 200);
    let responses = (0..samples).map(|n| connection.report(GATE, "prod", &bodies[n % 2]).expect(201));
    let times = responses.map(|response| response.milliseconds).collect();
    let figures = Figures::new(times, (server.cpu() - cpu) * 1e3 / samples as f64, bodies[0].len());
    figures.print("changed report, ten rules, 1,000 artifacts", "");
}

/// Organizations and their rows. A million rows takes seconds on SQLite, which needs no round trips.
fn sizes(database: &Database) -> impl Iterator<Item = (&'static str, u64)> {
    SIZES.into_iter().filter(|(_, count)| *count < 1_000_000 || database.is_sqlite())
}
