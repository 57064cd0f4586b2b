//! A fleet of clusters: `cargo bench --bench service -- fleet [OPTION…]`.
//!
//! Simulated agents report over HTTPS to one replica on PostgreSQL. Each agent has pods, an environment, a token, an
//! address and a connection of its own, and the cadence of the real agent: debounce, heartbeats, backoff. All its durations
//! are divided by five, so that a heartbeat is sent every 12 s. The service and the database are not simulated.
//!
//! Options:
//!
//! - `agents=N`: number of agents, 2,000 by default
//! - `pods=N`: mean number of pods of a cluster, 200 by default
//! - `minutes=N`: minutes of heartbeats, and of changes, 10 by default; these are minutes of the agents, of 12 s
//! - `replicas=N`: number of replicas, 1 by default

mod agent;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;

use self::agent::{Agent, Control, ORGANIZATION, Results, Shared, TIME_SCALE, name};
use super::arguments::option;
use super::budgets::Budgets;
use super::cluster::{REPLICAS, environments_with_policy};
use super::database::{Database, Engine};
use super::figures::Figures;
use super::server::{Organization, Server};

/// Pods of every tenth cluster, in percent of the mean.
const SIZES: [usize; 10] = [25, 50, 50, 75, 75, 100, 100, 125, 150, 250];

/// Share of the agents that report a change in a minute.
const CHANGING: f64 = 0.05;

/// A minute of the agents.
const MINUTE: Duration = Duration::from_secs(60 / TIME_SCALE as u64);

/// Maximum time until all agents have reported.
const TIMEOUT: Duration = Duration::from_mins(6);

struct Fleet {
    agents: Vec<Arc<Control>>,
    shared: Arc<Shared>,
    database: Database,
    servers: Vec<Server>,
    /// Number of changes of single clusters.
    changes: usize,
    /// Stops the agents on drop.
    runtime: Runtime,
}

/// Figures of a phase.
struct Phase {
    seconds: f64,
    /// Milliseconds per request of the service and of PostgreSQL.
    cpu: f64,
}

/// Value of an option.
fn number(name: &str, default: u64) -> usize {
    usize::try_from(option(name).unwrap_or(default)).unwrap()
}

/// Runs the fleet on PostgreSQL.
pub(super) fn measure(engines: &[Engine], budgets: &mut Budgets) {
    let engine = engines.iter().find(|engine| matches!(engine, Engine::Postgres(_)));
    let engine = engine.expect("SUPERCARGO_TEST_DATABASE is the URL of a PostgreSQL server");
    let mut fleet = Fleet::start(engine.create());
    println!(
        "phase            seconds  requests a second    p50 ms    p99 ms    5xx  failed     CPU ms PostgreSQL  MB a day"
    );
    let minutes = u32::try_from(number("minutes", 10)).unwrap();
    fleet.phase("first reports", Fleet::wait_for_first_reports);
    fleet.phase("heartbeats", |fleet| fleet.wait(minutes, 0.0));
    fleet.phase("5 % change", |fleet| fleet.wait(minutes, CHANGING));
    let rollout = fleet.phase("rollout", |fleet| {
        let begin = Instant::now();
        fleet.agents.iter().for_each(|agent| agent.roll_out());
        fleet.wait_until_reported(Some(begin));
    });
    let what = format!("serve, {} clusters roll out at once", fleet.agents.len());
    budgets.at_most(&format!("{what}, until all are accepted"), rollout.seconds, 60.0, "s");
    budgets.at_most(&format!("{what}, CPU with PostgreSQL's"), rollout.cpu, 5.3, "ms per request");
}

impl Fleet {
    fn start(database: Database) -> Self {
        let agents = number("agents", 2_000);
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (crt, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        fs::write(&crt, certificate.cert.pem()).unwrap();
        fs::write(&key, certificate.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_root_certificates(roots).with_no_client_auth();

        let organization = Organization::new(ORGANIZATION, environments_with_policy((0..agents).map(name)));
        let organizations = [organization.with_tokens((0..agents).map(name))];
        let tls_files = [("--tls-cert", crt), ("--tls-key", key)];
        let arguments = tls_files.map(|(option, file)| format!("{option}={}", file.display()));
        let start = |_| Server::start_with(&database, &organizations, &arguments);
        let servers: Vec<_> = (0..number("replicas", 1)).map(start).collect();
        let addresses = servers.iter().map(|server| server.address.parse().unwrap());
        let shared = Arc::new(Shared::new(tls, addresses.collect()));
        // One thread, since the service and the database need the other cores.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let agents = (0..agents).map(|_| Arc::default()).collect();
        Self { agents, shared, database, servers, changes: 0, runtime }
    }

    /// Starts the agents within a minute, as clusters do not start at once.
    fn wait_for_first_reports(&mut self) {
        let pods = number("pods", 200);
        for (n, control) in self.agents.iter().enumerate() {
            let agent =
                Agent::new(n, (pods * SIZES[n % SIZES.len()] / 100).max(REPLICAS), &self.shared, control);
            let start = MINUTE.mul_f64(n as f64 / self.agents.len() as f64);
            self.runtime.spawn(async move {
                tokio::time::sleep(start).await;
                agent.run().await;
            });
        }
        self.wait_until_reported(None);
    }

    /// Waits, while this share of the agents changes each minute.
    fn wait(&mut self, minutes: u32, changing: f64) {
        let (begin, changed) = (Instant::now(), self.changes);
        while begin.elapsed() < MINUTE * minutes {
            let due = begin.elapsed().div_duration_f64(MINUTE) * changing * self.agents.len() as f64;
            while ((self.changes - changed) as f64) < due {
                self.agents[self.changes % self.agents.len()].roll_out();
                self.changes += 1;
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until each agent has an accepted report of its current pods, since then.
    fn wait_until_reported(&self, since: Option<Instant>) {
        let begin = Instant::now();
        let is_missing = |agent: &&Arc<Control>| {
            let rollouts = agent.rollouts.load(Ordering::Relaxed);
            let is_current = |(accepted, at): (u64, _)| accepted == rollouts && Some(at) >= since;
            !agent.accepted.lock().unwrap().is_some_and(is_current)
        };
        loop {
            let missing = self.agents.iter().filter(is_missing).count();
            if missing == 0 {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "{missing} agents have not reported after {TIMEOUT:?}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Runs a phase and prints its figures.
    fn phase(&mut self, name: &str, run: impl FnOnce(&mut Self)) -> Phase {
        let size = |fleet: &Self| fleet.database.number("SELECT pg_database_size(current_database())");
        let cpu = |fleet: &Self| fleet.servers.iter().map(|server| server.process.cpu()).sum::<f64>();
        *self.shared.results.lock().unwrap() = Results::default();
        let (begin, size_before) = (Instant::now(), size(self));
        let (service, stored) = (cpu(self), self.database.cpu());
        run(self);
        let (service, stored) = (cpu(self) - service, self.database.cpu() - stored);
        let seconds = begin.elapsed().as_secs_f64();
        let results = std::mem::take(&mut *self.shared.results.lock().unwrap());
        let (server_errors, failed) = (results.server_errors, results.failed);
        let requests = (results.times.len() + server_errors + failed) as f64;
        let [service, stored] = [service, stored].map(|seconds| seconds * 1e3 / requests);
        // A day has 1,440 minutes.
        let minutes = seconds / MINUTE.as_secs_f64();
        let daily = (size(self) - size_before) as f64 / 1e6 * 1_440.0 / minutes;
        let Figures { median, p99, .. } = Figures::new(results.times);
        println!(
            "{name:<15} {seconds:>8.1} {requests:>9} {:>8.0} {median:>9.2} {p99:>9.2} {server_errors:>6} {failed:>7} \
             {service:>10.2} {stored:>10.2} {daily:>9.1}",
            requests / seconds
        );
        Phase { seconds, cpu: service + stored }
    }
}
