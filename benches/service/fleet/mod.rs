//! A fleet of clusters: `cargo bench --bench service -- fleet [OPTION…]`.
//!
//! Simulated agents report over HTTPS to one, two and four replicas on one PostgreSQL database. Each agent has pods, an
//! environment, a token, an address and a connection of its own, and the cadence of the real agent: debounce, heartbeats,
//! backoff. The service and the database are not simulated.
//!
//! Options:
//!
//! - `agents=N`: number of agents, 2,000 by default
//! - `pods=N`: mean number of pods of a cluster, 200 by default
//! - `minutes=N`: simulated minutes of heartbeats, of changes and of the outage, 10 by default
//! - `scale=N`: divides all durations of the agents, 5 by default: a heartbeat is sent every 12 s
//! - `replicas=N`: only this number of replicas
//!
//! Writes `target/tmp/scaling/fleet.csv`, for `scripts/plot`, which also updates the tables of `docs/sizing.md`.

mod agent;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::agent::{Agent, Control, ORGANIZATION, Shared, name};
use super::arguments::option;
use super::budgets::Curve;
use super::database::{Database, Engine};
use super::figures::Figures;
use super::scaling::policy::environments_with_policy;
use super::server::{Organization, Server};

const REPLICAS: [usize; 3] = [1, 2, 4];

/// Pods of every tenth cluster, in percent of the mean.
const SIZES: [usize; 10] = [25, 50, 50, 75, 75, 100, 100, 125, 150, 250];

/// Share of the agents that report a change in a minute.
const CHANGING: f64 = 0.05;

/// Maximum simulated minutes until all agents have reported.
const MAX_MINUTES: f64 = 30.0;

const MINUTE: Duration = Duration::from_mins(1);

struct Fleet<'a> {
    agents: Vec<Arc<Control>>,
    shared: Arc<Shared>,
    database: &'a Database,
    organization: Organization,
    certificate: TempDir,
    servers: Vec<Server>,
    replicas: usize,
    /// Number of changes of single clusters.
    changes: usize,
    curve: &'a mut Curve,
    /// Stops the agents on drop.
    runtime: Runtime,
}

/// Value of an option.
fn number(name: &str, default: u64) -> usize {
    usize::try_from(option(name).unwrap_or(default)).unwrap()
}

/// Runs the fleet on PostgreSQL.
pub(super) fn run(engines: &[Engine]) {
    let engine = engines.iter().find(|engine| matches!(engine, Engine::Postgres(_)));
    let engine = engine.expect("SUPERCARGO_TEST_DATABASE, since replicas share a PostgreSQL database");
    let mut curve = Curve::new("fleet", "replicas");
    let minutes = u32::try_from(number("minutes", 10)).unwrap();
    println!(
        "replicas phase          minutes  requests a second    p50 ms    p99 ms    5xx  failed     CPU ms PostgreSQL \
         clients PostgreSQL  MB a day"
    );
    for replicas in REPLICAS.into_iter().filter(|n| option("replicas").is_none_or(|only| only == *n as u64)) {
        let database = engine.create();
        let mut fleet = Fleet::start(&database, replicas, &mut curve);
        fleet.phase("first reports", |fleet| {
            fleet.start_agents();
            fleet.wait_until_reported(None)
        });
        fleet.phase("heartbeats", |fleet| fleet.wait(minutes, 0.0));
        fleet.phase("5 % change", |fleet| fleet.wait(minutes, CHANGING));
        fleet.phase("rollout", |fleet| {
            let begin = Instant::now();
            fleet.agents.iter().for_each(|agent| agent.roll_out());
            fleet.wait_until_reported(Some(begin))
        });
        fleet.stop_servers();
        fleet.phase("outage", |fleet| fleet.wait(minutes, CHANGING));
        fleet.start_servers();
        fleet.phase("return", |fleet| {
            let begin = Instant::now();
            fleet.connect();
            fleet.wait_until_reported(Some(begin))
        });
    }
}

impl<'a> Fleet<'a> {
    fn start(database: &'a Database, replicas: usize, curve: &'a mut Curve) -> Self {
        let agents = number("agents", 2_000);
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tls.crt"), certificate.cert.pem()).unwrap();
        fs::write(folder.path().join("tls.key"), certificate.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_root_certificates(roots).with_no_client_auth();

        let organization = Organization::new(ORGANIZATION, environments_with_policy((0..agents).map(name)));
        let organization =
            (0..agents).fold(organization, |organization, n| organization.with_token(&name(n)));
        // One thread, since the service and the database need the other cores.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut fleet = Self {
            agents: (0..agents).map(|_| Arc::default()).collect(),
            shared: Arc::new(Shared::new(tls, u32::try_from(number("scale", 5)).unwrap())),
            database,
            organization,
            certificate: folder,
            servers: Vec::new(),
            replicas,
            changes: 0,
            curve,
            runtime,
        };
        fleet.start_servers();
        fleet.connect();
        fleet
    }

    /// Starts the agents within a minute, as clusters do not start at once.
    fn start_agents(&self) {
        let pods = number("pods", 200);
        for (n, control) in self.agents.iter().enumerate() {
            let agent = Agent::new(n, (pods * SIZES[n % SIZES.len()] / 100).max(25), &self.shared, control);
            let start = self.minute().mul_f64(n as f64 / self.agents.len() as f64);
            self.runtime.spawn(async move {
                tokio::time::sleep(start).await;
                agent.run().await;
            });
        }
    }

    fn start_servers(&mut self) {
        let file = |name| self.certificate.path().join(name).to_str().unwrap().to_owned();
        let arguments = ["--tls-cert".to_owned(), file("tls.crt"), "--tls-key".to_owned(), file("tls.key")];
        let organizations = std::slice::from_ref(&self.organization);
        let start = |_| Server::start_with(self.database, organizations, &arguments);
        self.servers = (0..self.replicas).map(start).collect();
    }

    /// Lets the agents connect to the replicas.
    fn connect(&self) {
        let addresses = self.servers.iter().map(|server| server.address.parse().unwrap());
        *self.shared.replicas.write().unwrap() = addresses.collect();
    }

    fn stop_servers(&mut self) {
        self.shared.replicas.write().unwrap().clear();
        self.servers.clear();
    }

    /// A minute of the agents.
    fn minute(&self) -> Duration {
        MINUTE / self.shared.scale
    }

    /// Waits, while this share of the agents changes each minute. Returns the maximum of connections to the database.
    fn wait(&mut self, minutes: u32, changing: f64) -> i64 {
        let (begin, minute) = (Instant::now(), self.minute());
        let (mut connections, changed) = (0, self.changes);
        while begin.elapsed() < minute * minutes {
            let due = begin.elapsed().div_duration_f64(minute) * changing * self.agents.len() as f64;
            while ((self.changes - changed) as f64) < due {
                self.agents[self.changes % self.agents.len()].roll_out();
                self.changes += 1;
            }
            sleep(Duration::from_millis(200));
            connections = connections.max(self.database.connections());
        }
        connections
    }

    /// Waits until each agent has an accepted report of its current pods, since then. Returns the maximum of connections
    /// to the database.
    fn wait_until_reported(&self, since: Option<Instant>) -> i64 {
        let (begin, minute, mut connections) = (Instant::now(), self.minute(), 0);
        let is_missing = |agent: &&Arc<Control>| {
            let rollouts = agent.rollouts.load(Ordering::Relaxed);
            let is_current = |(accepted, at): (u64, _)| accepted == rollouts && Some(at) >= since;
            !agent.accepted.lock().unwrap().is_some_and(is_current)
        };
        loop {
            let missing = self.agents.iter().filter(is_missing).count();
            let minutes = begin.elapsed().div_duration_f64(minute);
            if missing == 0 {
                return connections;
            }
            assert!(minutes < MAX_MINUTES, "{missing} agents have not reported after {minutes:.1} minutes");
            sleep(Duration::from_millis(50));
            connections = connections.max(self.database.connections());
        }
    }

    /// Runs a phase and prints its results.
    fn phase(&mut self, phase: &str, run: impl FnOnce(&mut Self) -> i64) {
        const SIZE: &str = "SELECT pg_database_size(current_database())";
        let cpu = |fleet: &Self| fleet.servers.iter().map(Server::cpu).sum::<f64>();
        *self.shared.results.lock().unwrap() = agent::Results::default();
        self.shared.peak.store(0, Ordering::Relaxed);
        let (begin, size) = (Instant::now(), self.database.number(SIZE));
        let (service, stored) = (cpu(self), self.database.cpu());
        let connections = run(self);
        let (service, stored) = (cpu(self) - service, self.database.cpu() - stored);
        let (seconds, minutes) =
            (begin.elapsed().as_secs_f64(), begin.elapsed().div_duration_f64(self.minute()));
        let grown = (self.database.number(SIZE) - size) as f64 / 1e6;
        let agent::Results { times, server_errors, failed } =
            std::mem::take(&mut *self.shared.results.lock().unwrap());
        let (accepted, replicas) = (times.len(), self.replicas);
        let (requests, peak) = (accepted + server_errors + failed, self.shared.peak.load(Ordering::Relaxed));
        let rate = requests as f64 / seconds;
        // A day has 1,440 minutes.
        let daily = grown * 1_440.0 / minutes;
        let mut point = |value: f64, unit: &str| self.curve.point(replicas, phase, value, unit);
        for (value, unit) in [
            (self.agents.len() as f64, "table: agents"),
            (minutes, "table: minutes"),
            (requests as f64, "table: requests"),
            (rate, "table: requests a second"),
            (server_errors as f64, "table: 5xx"),
            (failed as f64, "table: failed"),
            (peak as f64, "table: connections of agents"),
            (connections as f64, "table: connections to PostgreSQL"),
            (daily, "table: MB a day"),
        ] {
            point(value, unit);
        }
        let [mut median, mut p99, mut service_each, mut stored_each] = [0.0; 4];
        // No request arrives during the outage.
        if accepted > 0 {
            Figures { median, p99, .. } = Figures::new(times, 0.0, 0);
            [service_each, stored_each] = [service, stored].map(|seconds| seconds * 1e3 / requests as f64);
            point(median, "ms (p50)");
            point(p99, "ms (p99)");
            point(service_each, "ms of CPU of the service per request");
            point(stored_each, "ms of CPU of PostgreSQL per request");
        }
        println!(
            "{replicas:<9}{phase:<15} {minutes:>7.1} {requests:>9} {rate:>8.0} {median:>9.2} {p99:>9.2} \
             {server_errors:>6} {failed:>7} {service_each:>10.2} {stored_each:>10.2} {peak:>7} {connections:>10} \
             {daily:>9.1}"
        );
    }
}
