//! Soak test of the daemon's correctness and memory: `cargo bench --bench soak -- --minutes 60 --seed 7`.
//!
//! The release program runs between a stateful fake cluster and an endpoint that stores reports, under 200 pod events a
//! second and with faults on both sides, scripted from the seed. About every minute, events and faults stop until the
//! last accepted report equals the cluster. Then every pod that was live since must be in an accepted report, unless it
//! ended while the agent had to relist. No report may contain a pod that never existed. Differences exit with 1.
//! All durations of the daemon are divided by `--time-scale` (default 10), so that timeouts occur.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the fakes are shared with the tests, which use all of them"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a bench fails by panicking"
)]

#[path = "../table/budgets.rs"]
mod budgets;
mod daemon;
#[path = "../../tests/it/fake/mod.rs"]
mod fake;
mod faults;
#[path = "../scale/process.rs"]
mod process;
#[path = "../../tests/it/program.rs"]
mod program;
mod service;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::daemon::churn::{Churn, RATE};
use self::daemon::cluster::{Cluster, Lifetime};
use self::daemon::gate::Gate;
use self::daemon::process::{Daemon, DaemonBuilder};
use self::daemon::reported_pod::{Identity, ReportedPod, difference};
use self::faults::FaultScript;
use self::process::usage;

const ENVIRONMENT: &str = "prod";

/// Time between two checks; at most a third of the run.
const ROUND: Duration = Duration::from_secs(45);

/// Timeout for the last report to equal the cluster.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(90);

struct Options {
    minutes: f64,
    seed: u64,
    time_scale: u32,
    pods: usize,
}

/// State at the start of a round.
#[derive(Clone, Copy)]
struct Round {
    /// Requests to the API server so far.
    requests: usize,
    /// First fault of the API server, or the start of the round without one.
    fault: Instant,
}

struct Soak {
    cluster: Cluster,
    gate: Gate,
    daemon: Daemon,
    start: Instant,
    differences: usize,
    exempt: usize,
    checked: usize,
    /// All versions of all pods. A restored backup may bring pods back, which are reported again.
    known: BTreeSet<ReportedPod>,
}

fn main() -> ExitCode {
    let options = Options::read();
    println!(
        "seed {}: {} minutes, {RATE} events a second among {} pods, time scale {}",
        options.seed, options.minutes, options.pods, options.time_scale
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let differences = runtime.block_on(soak(&options));
    println!("{differences} differences");
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Options {
    fn read() -> Self {
        let mut options =
            Self { minutes: 3.0, seed: fastrand::u64(..1_000_000), time_scale: 10, pods: 1_000 };
        let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
        while let Some(arg) = args.next() {
            let value = args.next().unwrap_or_else(|| panic!("{arg} requires a value"));
            match arg.as_str() {
                "--minutes" => options.minutes = value.parse().unwrap(),
                "--seed" => options.seed = value.parse().unwrap(),
                "--time-scale" => options.time_scale = value.parse().unwrap(),
                "--pods" => options.pods = value.parse().unwrap(),
                _ => panic!("unknown option {arg}: expected --minutes, --seed, --time-scale or --pods"),
            }
        }
        options
    }
}

async fn soak(options: &Options) -> usize {
    let (cluster, gate) = (Cluster::start_tls(), Gate::without_service());
    cluster.bookmarks_every(Duration::from_mins(1) / options.time_scale);
    let mut churn = Churn::new(options.seed, options.pods);
    churn.add_initial_pods(&cluster);
    let daemon = DaemonBuilder::between(&cluster, &gate).time_scale(options.time_scale).start();
    let mut soak = Soak {
        cluster,
        gate,
        daemon,
        start: Instant::now(),
        differences: 0,
        exempt: 0,
        checked: 0,
        known: BTreeSet::new(),
    };
    let (mut api, mut endpoint) = (FaultScript::new(options.seed + 1), FaultScript::new(options.seed + 2));
    soak.check(Round { requests: usize::MAX, fault: Instant::now() }).await;
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    let (round, warm) = (ROUND.min(duration / 3), Duration::from_mins(10).min(duration / 3));
    let first = soak.rss();
    let (mut after, mut most) = (None, first);
    println!("RSS at the start {first:.1} MiB");
    let mut n = 0;
    while soak.start.elapsed() < duration {
        let (requests, start) = (soak.cluster.api_requests().len(), Instant::now());
        let until = start + round;
        n += 1;
        // Every third round has no faults of the API server, every fifth none of the endpoint.
        let (api_fault, (), ()) = tokio::join!(
            async { if n % 3 == 0 { None } else { api.api(&soak.cluster, until).await } },
            async {
                if n % 5 != 0 {
                    endpoint.endpoint(&soak.gate, until).await;
                }
            },
            churn.run(&soak.cluster, until.into()),
        );
        // A fault may have outlasted the events.
        churn.restore_image_ids(&soak.cluster);
        soak.check(Round { requests, fault: api_fault.unwrap_or(start) }).await;
        most = most.max(soak.rss());
        if after.is_none() && soak.start.elapsed() >= warm {
            after = Some((soak.start.elapsed(), soak.rss()));
        }
        soak.print(n, &churn);
    }
    for (fault, times) in api.counts.iter().chain(&endpoint.counts) {
        println!("{times:>6} {fault}");
    }
    for (metric, value) in soak.daemon.metrics().await {
        if metric.contains("watch_restarts") || metric.contains("_reports") || metric.contains("differences")
        {
            println!("{value:>6} {metric}");
        }
    }
    let (at, rss) = after.unwrap_or((soak.start.elapsed(), soak.rss()));
    println!(
        "RSS: {first:.1} MiB at the start, {rss:.1} MiB after {:.0} minutes, {:.1} MiB at the end, {most:.1} MiB at most between rounds, peak {:.1} MiB",
        at.as_secs_f64() / 60.0,
        soak.rss(),
        usage(soak.daemon.pid()).peak
    );
    let Soak { daemon, differences, .. } = soak;
    daemon.stop().await;
    differences
}

impl Soak {
    fn rss(&self) -> f64 {
        usage(self.daemon.pid()).resident
    }

    /// Interval in which the agent may have missed events: from the first fault of the round to the last list, if any.
    fn lost(&self, round: Round) -> Option<(Instant, Instant)> {
        let requests = self.cluster.api_requests();
        let mut requests = requests.iter().skip(round.requests);
        let list = requests.rfind(|request| request.is_about_pods() && !request.is_watch())?;
        Some((round.fault, list.at + Duration::from_secs(1)))
    }

    /// Waits until the last report equals the cluster and contains all pods that were live; counts differences.
    async fn check(&mut self, round: Round) {
        let start = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let differences = self.differences(self.lost(round));
            if differences.is_empty() {
                break;
            }
            if start.elapsed() > CONVERGENCE_TIMEOUT {
                self.differences += differences.len();
                println!("differences after {CONVERGENCE_TIMEOUT:?}: {differences:#?}");
                let log = self.daemon.log();
                println!("log of the daemon: {:#?}", &log[log.len().saturating_sub(40)..]);
                break;
            }
        }
        let (lifetimes, lost) = (self.cluster.lifetimes(), self.lost(round));
        self.checked += lifetimes.len();
        self.exempt += lifetimes.iter().filter(|lifetime| is_exempt(lifetime, lost)).count();
        self.differences += self.invented(lifetimes);
        // Let requests in flight and events without a change arrive.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.cluster.discard_history();
        self.gate.discard_old_reports();
    }

    /// Differences between the reports and the cluster.
    fn differences(&self, lost: Option<(Instant, Instant)>) -> Vec<String> {
        let accepted = self.gate.accepted(ENVIRONMENT);
        let Some(newest) = accepted.last() else { return vec!["no report was accepted".to_owned()] };
        let mut differences: Vec<_> =
            difference(&newest.pods, &self.cluster.expected_report(|_| true)).into_iter().collect();
        let reported: BTreeSet<Identity> =
            accepted.iter().flat_map(|report| &*report.pods).map(ReportedPod::identity).collect();
        let is_missing = |lifetime: &Lifetime| {
            lifetime.to.is_some()
                && lifetime.was_sent
                && !is_exempt(lifetime, lost)
                && !reported.contains(&lifetime.pod)
        };
        let missing = self.cluster.lifetimes().into_iter().filter(is_missing);
        differences.extend(missing.map(|lifetime| {
            let at = |time: Instant| time.saturating_duration_since(self.start).as_secs_f64();
            format!(
                "{:?}, from {:.3} s to {:.3} s, is in no report",
                lifetime.pod,
                at(lifetime.from),
                lifetime.to.map_or(0.0, at)
            )
        }));
        differences
    }

    /// Number of reported pods or digests that never existed.
    fn invented(&mut self, lifetimes: Vec<Lifetime>) -> usize {
        self.known.extend(lifetimes.into_iter().flat_map(|lifetime| lifetime.versions));
        let reports = self.gate.reports();
        let reported = reports.iter().flat_map(|report| &*report.pods);
        let invented: BTreeSet<_> = reported.filter(|pod| !self.known.contains(pod)).collect();
        if !invented.is_empty() {
            println!("reported, but never existed: {invented:#?}");
        }
        invented.len()
    }

    fn print(&self, round: usize, churn: &Churn) {
        let usage = usage(self.daemon.pid());
        let minutes = self.start.elapsed().as_secs_f64() / 60.0;
        let reports = self.gate.reports();
        println!(
            "{minutes:6.1} min, round {round}: {} events, {} reports, {} of them accepted, {} requests to the API server, {} lifetimes checked, {} of them exempt, RSS {:.1} MiB, CPU {:.1} s, {} differences",
            churn.events,
            reports.len(),
            reports.iter().filter(|report| report.is_accepted).count(),
            self.cluster.api_requests().len(),
            self.checked,
            self.exempt,
            usage.resident,
            usage.cpu.as_secs_f64(),
            self.differences,
        );
    }
}

/// Whether the pod ended while the agent may have missed it.
fn is_exempt(lifetime: &Lifetime, lost: Option<(Instant, Instant)>) -> bool {
    let Some((from, to)) = lost else { return false };
    lifetime.to.is_some_and(|end| end > from) && lifetime.from < to
}
