//! What the agent costs, from 1,000 to 100,000 pods: `cargo bench --bench scale`.
//!
//! The release program runs as the daemon between a made-up API server and an endpoint that reads and
//! counts reports, both over TLS and in this process, which keeps up with it. Its peak memory, the CPU
//! of its first list, of a thousand events a second, and the time from a change to the report on the
//! wire stand beside their bounds. Two baselines, each a process of its own, read the same pods as JSON:
//! kube's typed list, which keeps nothing, and, with `--features reflector`, kube's reflector, which keeps
//! them: 8 GiB of 100,000. `agent --once` follows, and that memory does not grow with the size of pods.
//!
//! Words choose: `cargo bench --bench scale -- daemon 10000`; `-- scaling` measures how cost grows instead, and
//! `-- limited 64 100000` runs within 64 MiB. CPU and memory are the system's counts of the process. Heartbeats
//! are far apart, so that no report is sent that nothing made necessary.

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
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a bench that cannot go on has failed"
)]

mod api;
mod baseline;
#[path = "../table/budgets.rs"]
mod budgets;
mod endpoint;
mod events;
#[path = "../../tests/it/fake/mod.rs"]
mod fake;
mod floor;
#[path = "../../tests/it/faults/group.rs"]
mod group;
mod http;
mod limited;
mod pods;
mod process;
mod scaling;
mod schema;

use std::future::ready;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::time::sleep;

use self::api::{Cluster, IN_NAMESPACE};
use self::budgets::BUDGETS;
use self::endpoint::Endpoint;
use self::events::Mix;
use self::fake::kube::{User, kubeconfig};
use self::fake::pki::Authority;
use self::pods::Size;
use self::process::{Process, again, look_at, once, used};

/// Numbers of pods.
const CASES: [usize; 3] = [1_000, 10_000, 100_000];

const STATUS_LASTS: Duration = Duration::from_secs(10);
const ROLLOUTS_LAST: Duration = Duration::from_secs(30);

/// A cluster and an endpoint that answer, and the files that lead to them.
struct Stage {
    cluster: Arc<Cluster>,
    endpoint: Arc<Endpoint>,
    api: SocketAddr,
    address: SocketAddr,
    folder: TempDir,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = |threads| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
    };
    let baseline = |listed: usize| {
        let used = used(Pid::this());
        print!("{listed} {} {}", used.peak, used.cpu.as_secs_f64());
    };
    match args.as_slice() {
        ["once", folder, endpoint] => {
            let [peak, cpu, wall] = once(Path::new(folder), endpoint.parse().unwrap());
            print!("{peak} {cpu} {wall}");
        }
        ["bytes", folder, api, list] => floor::bytes(folder, api, list.parse().unwrap()),
        ["client", folder, list] => {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().on_thread_park(floor::rest).build().unwrap();
            runtime.block_on(floor::client(folder, list.parse().unwrap()));
        }
        ["list", folder] => runtime(1).block_on(async { baseline(baseline::list(folder).await) }),
        #[cfg(feature = "reflector")]
        ["reflect", folder] => runtime(1).block_on(async { baseline(baseline::reflect(folder).await) }),
        ["limited", mebibytes, pods] => {
            let (mebibytes, pods) = (mebibytes.parse().unwrap(), pods.parse().unwrap());
            return runtime(2).block_on(limited::run(mebibytes, pods));
        }
        ["scaling", of @ ..] => runtime(2).block_on(scaling::measure(of)),
        words => runtime(2).block_on(compare(words)),
    }
    ExitCode::SUCCESS
}

async fn compare(words: &[&str]) {
    let is_chosen = |of: &[&str], word: &str| !words.iter().any(|w| of.contains(w)) || words.contains(&word);
    let numbers: Vec<_> = CASES.iter().map(usize::to_string).collect();
    let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
    let parts = ["daemon", "floor", "baselines", "once"];
    for pods in CASES.into_iter().filter(|pods| is_chosen(&numbers, &pods.to_string())) {
        let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
        let (protobuf, json) = stage.cluster.mean_sizes();
        println!(
            "{pods} pods of {protobuf} bytes of protobuf, {json} of JSON, in {} ReplicaSets",
            stage.cluster.replicas.len()
        );
        let daemon = if is_chosen(&parts, "daemon") { Some(daemon(&stage).await) } else { None };
        if is_chosen(&parts, "floor") {
            floor(&stage, daemon).await;
        }
        if is_chosen(&parts, "baselines") {
            baselines(&stage, daemon.map(|daemon| daemon.list)).await;
        }
        if is_chosen(&parts, "once") {
            let [peak, cpu, wall] = stage.once().await;
            println!("  agent --once           peak {peak:6.1} MiB, {cpu:6.3} s of CPU, {wall:6.3} s");
        }
    }
    if is_chosen(&parts, "once") {
        let mut peaks = Vec::new();
        for bytes in [400, 40_000] {
            let [peak, cpu, wall] =
                Stage::start(10_000, Size::Padded(bytes), IN_NAMESPACE).await.once().await;
            println!(
                "10000 pods with {bytes:>5} bytes of padding, --once: peak {peak:.1} MiB, {cpu:.3} s of CPU, {wall:.3} s"
            );
            peaks.push(peak);
        }
        let ratio = peaks[1] / peaks[0];
        println!("peak RSS of large pods to small ones: {ratio:.2} (at most 1.2)");
        assert!(ratio < 1.2, "memory must not grow with the size of pods");
    }
}

impl Stage {
    async fn start(pods: usize, size: Size, in_namespace: usize) -> Self {
        let authority = Authority::new();
        let (cluster, endpoint) =
            (Arc::new(Cluster::new(pods, size, in_namespace)), Arc::<Endpoint>::default());
        let answering = Arc::clone(&cluster);
        let tls = http::tls(&authority.host("server"));
        let api = http::serve(tls, move |request| ready(answering.answer(&request))).await;
        let receiving = Arc::clone(&endpoint);
        let receive = move |request| Arc::clone(&receiving).answer(request);
        let address = http::serve(authority.server(None), receive).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let kubeconfig = kubeconfig(&format!("https://{api}"), Some(&authority.pem()), &User::Token("t"));
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        Self { cluster, endpoint, api, address, folder }
    }

    /// Peak RSS in MiB, CPU and wall time in seconds.
    async fn once(&self) -> [f64; 3] {
        self.again(&["once", self.folder(), &self.address.to_string()]).await.try_into().unwrap()
    }

    async fn again(&self, args: &[&str]) -> Vec<f64> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let said =
            tokio::task::spawn_blocking(move || again(&args.iter().map(String::as_str).collect::<Vec<_>>()));
        said.await.unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// A process that has read the list.
    async fn reader(&self, args: &[&str]) -> Process {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        tokio::task::spawn_blocking(move || Process::reader(&args)).await.unwrap()
    }

    fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }
}

/// Records a figure, if this number of pods has a budget for it. Returns `MISSED` if the budget does not hold.
fn judge(stage: &Stage, key: &str, measured: f64, note: &str) -> &'static str {
    let key = format!("{key}.{}", stage.cluster.pods);
    let Some(budget) = BUDGETS.iter().find(|budget| budget.key == key) else { return "" };
    budget.record(measured, note);
    budget.verdict(measured)
}

/// What a reader of the cluster took of the CPU.
#[derive(Clone, Copy)]
struct Taken {
    /// For the list, in seconds.
    list: f64,
    /// Of a core, while a thousand events a second change nothing that is reported, in percent.
    events: f64,
}

async fn daemon(stage: &Stage) -> Taken {
    let endpoint = &stage.endpoint;
    let start = Instant::now();
    let daemon =
        Process::daemon(stage.folder.path(), stage.address, &["--environment", "bench"].map(str::to_owned));
    while endpoint.heads() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let (listed, list_took) = (daemon.used(), start.elapsed());
    while endpoint.reports().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let report = endpoint.reports()[0];
    sleep(Duration::from_millis(200)).await;
    let reported = daemon.used();
    let list = listed.cpu.as_secs_f64();
    // The kernel keeps no peak of it: the largest of the figures that are read between the steps.
    let mut anonymous = listed.anonymous.max(reported.anonymous);
    println!(
        "  first list             {list:6.3} s of CPU, {:6.3} s; peak {:.1} MiB",
        list_took.as_secs_f64(),
        listed.peak
    );
    println!(
        "  first report           {:6.3} s of CPU, {:6.3} s; {} bytes; peak {:.1} MiB",
        reported.cpu.saturating_sub(listed.cpu).as_secs_f64(),
        report.took.as_secs_f64(),
        report.bytes,
        reported.peak
    );
    sleep(Duration::from_secs(3)).await;
    let mut before = daemon.used();
    let mut taken = Taken { list, events: f64::NAN };
    println!(
        "  then, idle             resident {:.1} MiB, {:.1} MiB of that anonymous",
        before.resident, before.anonymous
    );
    for (mix, lasts) in
        [(Mix::Status, STATUS_LASTS), (Mix::StatusInBursts, STATUS_LASTS), (Mix::Rollouts, ROLLOUTS_LAST)]
    {
        let reports = endpoint.reports().len();
        let sent = events::send(&stage.cluster, endpoint, mix, lasts).await;
        let after = daemon.used();
        anonymous = anonymous.max(after.anonymous);
        let seconds = sent.took.as_secs_f64();
        let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds * 100.0;
        if mix == Mix::Status {
            taken.events = share;
        }
        let name = match mix {
            Mix::Status => "events, status alone",
            Mix::StatusInBursts => "the same, 50 at once",
            Mix::Rollouts => "events and rollouts",
        };
        println!(
            "  {name:22} {share:6.2} % of a core at {:.0} events and {:.1} MB a second, {:.0} sleeps a second, {} rollouts, {} reports",
            sent.events as f64 / seconds,
            sent.bytes as f64 / seconds / 1e6,
            after.sleeps.saturating_sub(before.sleeps) as f64 / seconds,
            sent.rollouts,
            endpoint.reports().len() - reports,
        );
        before = after;
    }
    let latencies = endpoint.latencies();
    if let Some(worst) = latencies.last() {
        let at =
            |share: usize| latencies[(latencies.len() * share / 100).min(latencies.len() - 1)].as_secs_f64();
        println!(
            "  change to PUT          p50 {:.3} s, p99 {:.3} s, worst {:.3} s of {} changes{}",
            at(50),
            at(99),
            worst.as_secs_f64(),
            latencies.len(),
            judge(stage, "agent.change", at(99), "")
        );
    }
    // A scrape and the probes of every day are part of the peak.
    look_at(stage.folder.path());
    let used = daemon.used();
    anonymous = anonymous.max(used.anonymous);
    println!(
        "  anonymous memory       {anonymous:6.1} MiB{}; peak RSS {:.1} MiB{}; resident now {:.1} MiB",
        judge(stage, "agent.anonymous", anonymous, ""),
        used.peak,
        judge(stage, "agent.peak", used.peak, ""),
        used.resident,
    );
    daemon.stop();
    taken
}

/// What the same bytes cost a process that throws them away.
async fn floor(stage: &Stage, daemon: Option<Taken>) {
    let (api, list) = (stage.api.to_string(), stage.cluster.streaming_list().to_string());
    for (name, args) in [
        ("bytes over TLS alone", &["bytes", stage.folder(), &api, &list][..]),
        ("through kube's client", &["client", stage.folder(), &list]),
    ] {
        let reader = stage.reader(args).await;
        let listed = reader.used();
        let sent = events::send(&stage.cluster, &stage.endpoint, Mix::Status, STATUS_LASTS).await;
        let read = reader.used().cpu.saturating_sub(listed.cpu).as_secs_f64() / sent.took.as_secs_f64();
        let (list, events) = (listed.cpu.as_secs_f64(), read * 100.0);
        let than = daemon.map(|daemon| {
            let (lists, watches) = (daemon.list / list, daemon.events / events);
            let missed = if args[0] == "bytes" {
                let note = format!("{:.3} s: the bytes alone {list:.3} s", daemon.list);
                let missed = judge(stage, "agent.list", lists, &note);
                let note = format!("{:.2} % of a core: the bytes alone {events:.2} %", daemon.events);
                [missed, judge(stage, "agent.events", watches, &note)].concat()
            } else {
                String::new()
            };
            format!(": the daemon takes {lists:.2} and {watches:.2} times as much{missed}")
        });
        println!(
            "  {name:22} {list:6.3} s of CPU for the list, {events:.2} % of a core for 1,000 events a second{}",
            than.unwrap_or_default()
        );
    }
}

async fn baselines(stage: &Stage, first_list: Option<f64>) {
    for (name, mode) in [("kube, typed list", "list"), ("kube, reflector", "reflect")] {
        if mode == "reflect" && !cfg!(feature = "reflector") {
            continue;
        }
        let figures = stage.again(&[mode, stage.folder()]).await;
        assert!((figures[0] - stage.cluster.pods as f64).abs() < 0.5, "all are listed");
        let than = first_list.map(|list| {
            let ratio = figures[2] / list;
            let missed = if mode == "list" { judge(stage, "agent.cheaper", ratio, "") } else { "" };
            format!(", {ratio:.1} times the daemon's first list{missed}")
        });
        println!(
            "  {name:22} {:6.3} s of CPU; peak {:.1} MiB{}",
            figures[2],
            figures[1],
            than.unwrap_or_default()
        );
    }
}
