//! Operations over old rows of the same organization and environment.

use super::arguments::option;
use super::budgets::Budgets;
use super::database::{Database, Engine, seed_ended_pods, seed_trails};
use super::figures::interleave;
use super::replica_set::digest;
use super::server::Server;
use super::tenant::{ENVIRONMENT, LASTING, Tenant};

const ORGANIZATION: &str = "measured";

/// Old attestations, each with a trail and an artifact of its own. There are as many ended pods.
const ROWS: u64 = 100_000;

/// Requests per operation.
const SAMPLES: usize = 1_000;

struct Variant {
    tenant: Tenant,
    _server: Server,
    _database: Database,
}

/// A request, with its number. Returns milliseconds.
type Request = fn(&mut Tenant, u64) -> f64;

const REQUESTS: [(&str, Request); 5] = [
    ("unchanged report", |tenant, _| tenant.heartbeat().expect(200)),
    ("changed report", |tenant, _| tenant.change().expect(201)),
    ("attestation", |tenant, n| {
        let artifact = LASTING.start + n % (LASTING.end - LASTING.start);
        tenant.client.attest(true, [artifact]).expect(201)
    }),
    ("live artifacts", |tenant, _| {
        tenant.client.get(&format!("repos/{ORGANIZATION}/live-artifacts/acme/shop")).expect(200)
    }),
    ("gate", |tenant, _| {
        let digest = digest(LASTING.start);
        let path = format!("asserts/{ORGANIZATION}/fingerprint/{digest}?environment_name={ENVIRONMENT}");
        tenant.client.get(&path).expect(200)
    }),
];

pub(super) fn measure(engine: &Engine, budgets: &mut Budgets) {
    let rows = [0, option("rows").unwrap_or(ROWS)];
    let mut variants = rows.map(|rows| Variant::new(engine, rows));
    for (label, send) in REQUESTS {
        let figures = interleave(&mut variants, SAMPLES, |variant, n| send(&mut variant.tenant, n as u64));
        for (rows, figures) in rows.iter().zip(&figures) {
            figures.print(&format!("{rows:>9} old rows, {label}"), "");
        }
        let what = format!("serve, {label}, old rows, p99, {}", engine.name());
        budgets.at_most(&what, figures[1].p99 / figures[0].p99, 2.0, "times without");
    }
}

impl Variant {
    fn new(engine: &Engine, rows: u64) -> Self {
        let database = engine.create();
        let server = Server::start(&database, &[Tenant::organization(ORGANIZATION)]);
        let tenant = Tenant::set_up(server.connect(ORGANIZATION));
        if rows > 0 {
            seed_trails(&database, ORGANIZATION, 1_000_000_000, rows, "1000000000 + i");
            seed_ended_pods(&database, ORGANIZATION, ENVIRONMENT, rows);
        }
        Self { tenant, _server: server, _database: database }
    }
}
