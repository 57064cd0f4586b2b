//! Whether the daemon stays true and small: `cargo bench --bench soak -- --minutes 60 --seed 7`.
//!
//! The release program runs between a cluster that holds state and an endpoint that keeps reports, under
//! 200 pod events a second, while a script from the seed lets both misbehave. About every minute all of
//! that stops until the last accepted report holds what the cluster holds; then every pod that was live
//! since has to be in an accepted report, unless the agent had to list again and the pod went meanwhile,
//! and no report may hold a pod that never was. Exit code 1 where anything differs. Every duration of the
//! daemon is divided by `--hasten` (10 where it is not given), so that timeouts, too, come to pass.

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
    reason = "a bench that cannot go on has failed"
)]

#[path = "../table/budgets.rs"]
mod budgets;
mod daemon;
#[path = "../../tests/it/fake/mod.rs"]
mod fake;
#[path = "../scale/process.rs"]
mod process;
#[path = "../../tests/it/program.rs"]
mod program;
mod service;
mod weather;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::daemon::churn::{Churn, RATE};
use self::daemon::cluster::{Cluster, Life};
use self::daemon::gate::Gate;
use self::daemon::process::{Daemon, Starting};
use self::daemon::reported::{Identity, Reported, difference};
use self::process::used;
use self::weather::Weather;

const ENVIRONMENT: &str = "prod";

/// Between two quiet points; in a shorter run a third of it.
const ROUND: Duration = Duration::from_secs(45);

/// How long the last report may take to hold what the cluster holds.
const PATIENCE: Duration = Duration::from_secs(90);

struct Options {
    minutes: f64,
    seed: u64,
    hasten: u32,
    pods: usize,
}

/// What a round began with.
#[derive(Clone, Copy)]
struct Round {
    /// How many requests the API server had seen.
    asked: usize,
    /// When the first fault of the API server was; the round's start where there was none.
    fault: Instant,
}

/// What stands between.
struct Soak {
    cluster: Cluster,
    gate: Gate,
    daemon: Daemon,
    start: Instant,
    differences: usize,
    exempt: usize,
    checked: usize,
    /// Every pod, with all that it ever ran: one may be reported again when a backup brings it back.
    known: BTreeSet<Reported>,
}

fn main() -> ExitCode {
    let options = Options::read();
    println!(
        "seed {}: {} minutes, {RATE} events a second among {} pods, the daemon's time {} times as fast",
        options.seed, options.minutes, options.pods, options.hasten
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let differences = runtime.block_on(soak(&options));
    println!("{differences} differences");
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Options {
    fn read() -> Self {
        let mut options = Self { minutes: 3.0, seed: fastrand::u64(..1_000_000), hasten: 10, pods: 1_000 };
        let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
        while let Some(arg) = args.next() {
            let value = args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            match arg.as_str() {
                "--minutes" => options.minutes = value.parse().unwrap(),
                "--seed" => options.seed = value.parse().unwrap(),
                "--hasten" => options.hasten = value.parse().unwrap(),
                "--pods" => options.pods = value.parse().unwrap(),
                _ => panic!("{arg} is not known: --minutes, --seed, --hasten, --pods"),
            }
        }
        options
    }
}

async fn soak(options: &Options) -> usize {
    let (cluster, gate) = (Cluster::start_tls(), Gate::alone());
    cluster.bookmarks_every(Duration::from_mins(1) / options.hasten);
    let mut churn = Churn::new(options.seed, options.pods);
    churn.begin(&cluster);
    let daemon = Starting::between(&cluster, &gate).hasten(options.hasten).start();
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
    let (mut api, mut endpoint) = (Weather::new(options.seed + 1), Weather::new(options.seed + 2));
    soak.judge(Round { asked: usize::MAX, fault: Instant::now() }).await;
    let lasts = Duration::from_secs_f64(options.minutes * 60.0);
    let (round, warm) = (ROUND.min(lasts / 3), Duration::from_mins(10).min(lasts / 3));
    let first = soak.rss();
    let (mut after, mut most) = (None, first);
    println!("RSS at the start {first:.1} MiB");
    let mut n = 0;
    while soak.start.elapsed() < lasts {
        let (asked, start) = (soak.cluster.asked().len(), Instant::now());
        let until = start + round;
        n += 1;
        // Every third round the API server behaves, and every fifth the endpoint.
        let (api_fault, (), ()) = tokio::join!(
            async { if n % 3 == 0 { None } else { api.api(&soak.cluster, until).await } },
            async {
                if n % 5 != 0 {
                    endpoint.endpoint(&soak.gate, until).await;
                }
            },
            churn.run(&soak.cluster, until.into()),
        );
        // A fault may have lasted longer than what happened.
        churn.settle(&soak.cluster);
        soak.judge(Round { asked, fault: api_fault.unwrap_or(start) }).await;
        most = most.max(soak.rss());
        if after.is_none() && soak.start.elapsed() >= warm {
            after = Some((soak.start.elapsed(), soak.rss()));
        }
        soak.say(n, &churn);
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
        "RSS: {first:.1} MiB at the start, {rss:.1} MiB after {:.0} minutes, {:.1} MiB at the end, {most:.1} MiB at most at quiet points, {:.1} MiB at its peak",
        at.as_secs_f64() / 60.0,
        soak.rss(),
        used(soak.daemon.pid()).peak
    );
    let Soak { daemon, differences, .. } = soak;
    daemon.stop().await;
    differences
}

impl Soak {
    fn rss(&self) -> f64 {
        used(self.daemon.pid()).resident
    }

    /// From when to when the agent may not have been told of a pod: from the first fault of this round to
    /// the last list, where there was one.
    fn lost(&self, round: Round) -> Option<(Instant, Instant)> {
        let asks = self.cluster.asked();
        let mut asks = asks.iter().skip(round.asked);
        let list = asks.rfind(|ask| ask.is_about_pods() && !ask.is_watch())?;
        Some((round.fault, list.at + Duration::from_secs(1)))
    }

    /// Waits until the endpoint holds what the cluster holds, and nobody is missing who was live.
    async fn judge(&mut self, round: Round) {
        let start = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let wrong = self.wrong(self.lost(round));
            if wrong.is_empty() {
                break;
            }
            if start.elapsed() > PATIENCE {
                self.differences += wrong.len();
                println!("differences after {PATIENCE:?}: {wrong:#?}");
                let said = self.daemon.said();
                println!("the daemon said: {:#?}", &said[said.len().saturating_sub(40)..]);
                break;
            }
        }
        let (lives, lost) = (self.cluster.lives(), self.lost(round));
        self.checked += lives.len();
        self.exempt += lives.iter().filter(|life| is_exempt(life, lost)).count();
        self.differences += self.invented(lives);
        // What is on its way arrives, and the events that changed nothing too.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.cluster.forget();
        self.gate.forget();
    }

    /// What is not as it has to be yet.
    fn wrong(&self, lost: Option<(Instant, Instant)>) -> Vec<String> {
        let accepted = self.gate.accepted(ENVIRONMENT);
        let Some(newest) = accepted.last() else { return vec!["no report was accepted".to_owned()] };
        let mut wrong: Vec<_> =
            difference(&newest.pods, &self.cluster.expected_report(|_| true)).into_iter().collect();
        let reported: BTreeSet<Identity> =
            accepted.iter().flat_map(|report| &*report.pods).map(Reported::identity).collect();
        let is_missing = |life: &Life| {
            life.to.is_some() && life.was_told && !is_exempt(life, lost) && !reported.contains(&life.pod)
        };
        let missing = self.cluster.lives().into_iter().filter(is_missing);
        wrong.extend(missing.map(|life| {
            let at = |time: Instant| time.saturating_duration_since(self.start).as_secs_f64();
            format!(
                "{:?}, from {:.3} s to {:.3} s, is in no report",
                life.pod,
                at(life.from),
                life.to.map_or(0.0, at)
            )
        }));
        wrong
    }

    /// How many pods of reports never were, or never ran that.
    fn invented(&mut self, lives: Vec<Life>) -> usize {
        self.known.extend(lives.into_iter().flat_map(|life| life.versions));
        let reports = self.gate.reports();
        let reported = reports.iter().flat_map(|report| &*report.pods);
        let invented: BTreeSet<_> = reported.filter(|pod| !self.known.contains(pod)).collect();
        if !invented.is_empty() {
            println!("reported, and never so: {invented:#?}");
        }
        invented.len()
    }

    fn say(&self, round: usize, churn: &Churn) {
        let used = used(self.daemon.pid());
        let minutes = self.start.elapsed().as_secs_f64() / 60.0;
        let reports = self.gate.reports();
        println!(
            "{minutes:6.1} min, round {round}: {} events, {} reports, {} of them accepted, {} requests to the API server, {} lives checked, {} of them exempt, RSS {:.1} MiB, CPU {:.1} s, {} differences",
            churn.events,
            reports.len(),
            reports.iter().filter(|report| report.is_accepted).count(),
            self.cluster.asked().len(),
            self.checked,
            self.exempt,
            used.resident,
            used.cpu.as_secs_f64(),
            self.differences,
        );
    }
}

/// Whether it ended while the agent may not have been told.
fn is_exempt(life: &Life, lost: Option<(Instant, Instant)>) -> bool {
    let Some((from, to)) = lost else { return false };
    life.to.is_some_and(|end| end > from) && life.from < to
}
