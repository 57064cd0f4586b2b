//! Cost of the agent with 1,000 to 100,000 pods: `cargo bench --bench scale`.
//!
//! The release program runs as the daemon between a fake API server and an endpoint, both with TLS in this process.
//! Measured against bounds: memory, CPU of the first list and of a thousand events a second, and the latency from a
//! change to its report. Two baselines read the same pods as JSON in their own processes: kube's typed list and, with
//! `--features reflector`, kube's reflector, which needs 8 GiB for 100,000 pods. Then `agent --once` is measured, whose
//! memory must not grow with the size of pods.
//!
//! Arguments select parts: `cargo bench --bench scale -- daemon 10000`. `-- scaling` measures the growth of the cost
//! instead, and `-- limited 64 100000` runs within 64 MiB. CPU and memory are the kernel's figures. Heartbeats are rare,
//! so that every report has a change.

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
    reason = "a bench fails by panicking"
)]

mod api;
mod baseline;
#[path = "../table/budgets.rs"]
mod budgets;
#[path = "../../tests/it/faults/control_group.rs"]
mod control_group;
mod endpoint;
mod events;
#[path = "../../tests/it/fake/mod.rs"]
mod fake;
mod floor;
mod http;
mod memory_limit;
mod pods;
mod process;
mod scaling;
mod schema;
mod stage;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tokio::time::sleep;

use self::api::IN_NAMESPACE;
use self::budgets::BUDGETS;
use self::events::Mix;
use self::pods::Size;
use self::process::{Process, once, scrape, usage};
use self::stage::Stage;

/// Numbers of pods.
const CASES: [usize; 3] = [1_000, 10_000, 100_000];

const STATUS_DURATION: Duration = Duration::from_secs(10);
const ROLLOUTS_DURATION: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = |threads| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
    };
    let baseline = |listed: usize| {
        let usage = usage(Pid::this());
        print!("{listed} {} {}", usage.peak, usage.cpu.as_secs_f64());
    };
    match args.as_slice() {
        ["once", folder, endpoint] => {
            let [peak, cpu, wall] = once(Path::new(folder), endpoint.parse().unwrap());
            print!("{peak} {cpu} {wall}");
        }
        ["bytes", folder, api, list] => floor::bytes(folder, api, list.parse().unwrap()),
        ["client", folder, list] => {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().on_thread_park(floor::pause).build().unwrap();
            runtime.block_on(floor::client(folder, list.parse().unwrap()));
        }
        ["list", folder] => runtime(1).block_on(async { baseline(baseline::list(folder).await) }),
        #[cfg(feature = "reflector")]
        ["reflect", folder] => runtime(1).block_on(async { baseline(baseline::reflect(folder).await) }),
        ["limited", mebibytes, pods] => {
            let (mebibytes, pods) = (mebibytes.parse().unwrap(), pods.parse().unwrap());
            return runtime(2).block_on(memory_limit::run(mebibytes, pods));
        }
        ["scaling", variables @ ..] => runtime(2).block_on(scaling::measure(variables)),
        parts => runtime(2).block_on(compare(parts)),
    }
    ExitCode::SUCCESS
}

async fn compare(selected: &[&str]) {
    let is_selected = |group: &[&str], part: &str| {
        !selected.iter().any(|part| group.contains(part)) || selected.contains(&part)
    };
    let numbers: Vec<_> = CASES.iter().map(usize::to_string).collect();
    let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
    let parts = ["daemon", "floor", "baselines", "once"];
    for pods in CASES.into_iter().filter(|pods| is_selected(&numbers, &pods.to_string())) {
        let stage = Stage::start(pods, Size::Realistic, IN_NAMESPACE).await;
        let (protobuf, json) = stage.cluster.mean_sizes();
        println!(
            "{pods} pods of {protobuf} bytes of protobuf, {json} of JSON, in {} ReplicaSets",
            stage.cluster.replicas.len()
        );
        let daemon = if is_selected(&parts, "daemon") { Some(daemon(&stage).await) } else { None };
        if is_selected(&parts, "floor") {
            floor(&stage, daemon).await;
        }
        if is_selected(&parts, "baselines") {
            baselines(&stage, daemon.map(|daemon| daemon.list)).await;
        }
        if is_selected(&parts, "once") {
            let [peak, cpu, wall] = stage.once().await;
            println!("  agent --once           peak {peak:6.1} MiB, {cpu:6.3} s of CPU, {wall:6.3} s");
        }
    }
    if is_selected(&parts, "once") {
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

/// Records a measurement, if this number of pods has a budget for it. Returns `MISSED` if the budget does not hold.
fn check_budget(stage: &Stage, key: &str, measured: f64, note: &str) -> &'static str {
    let key = format!("{key}.{}", stage.cluster.pods);
    let Some(budget) = BUDGETS.iter().find(|budget| budget.key == key) else { return "" };
    budget.record(measured, note);
    budget.verdict(measured)
}

/// CPU usage of a reader of the cluster.
#[derive(Clone, Copy)]
struct CpuUsage {
    /// Seconds for the list.
    list: f64,
    /// Percent of a core for a thousand events a second without a reported change.
    events: f64,
}

async fn daemon(stage: &Stage) -> CpuUsage {
    let endpoint = &stage.endpoint;
    let start = Instant::now();
    let daemon =
        Process::daemon(stage.folder.path(), stage.address, &["--environment", "bench"].map(str::to_owned));
    while endpoint.heads() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let (listed, list_took) = (daemon.usage(), start.elapsed());
    while endpoint.reports().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let report = endpoint.reports()[0];
    sleep(Duration::from_millis(200)).await;
    let reported = daemon.usage();
    let list = listed.cpu.as_secs_f64();
    // The kernel records no peak of anonymous memory: take the maximum of the samples.
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
    let mut before = daemon.usage();
    let mut cpu = CpuUsage { list, events: f64::NAN };
    println!(
        "  then, idle             resident {:.1} MiB, {:.1} MiB of that anonymous",
        before.resident, before.anonymous
    );
    for (mix, duration) in [
        (Mix::Status, STATUS_DURATION),
        (Mix::StatusInBursts, STATUS_DURATION),
        (Mix::Rollouts, ROLLOUTS_DURATION),
    ] {
        let reports = endpoint.reports().len();
        let sent = events::send(&stage.cluster, endpoint, mix, duration).await;
        let after = daemon.usage();
        anonymous = anonymous.max(after.anonymous);
        let seconds = sent.took.as_secs_f64();
        let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds * 100.0;
        if mix == Mix::Status {
            cpu.events = share;
        }
        let name = match mix {
            Mix::Status => "status events",
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
            check_budget(stage, "agent.change", at(99), "")
        );
    }
    // The peak includes a scrape and probes.
    scrape(stage.folder.path());
    let usage = daemon.usage();
    anonymous = anonymous.max(usage.anonymous);
    println!(
        "  anonymous memory       {anonymous:6.1} MiB{}; peak RSS {:.1} MiB{}; resident now {:.1} MiB",
        check_budget(stage, "agent.anonymous", anonymous, ""),
        usage.peak,
        check_budget(stage, "agent.peak", usage.peak, ""),
        usage.resident,
    );
    daemon.stop();
    cpu
}

/// Cost of the same bytes for a process that discards them.
async fn floor(stage: &Stage, daemon: Option<CpuUsage>) {
    let (api, list) = (stage.api.to_string(), stage.cluster.streaming_list().to_string());
    for (name, args) in [
        ("bytes over TLS alone", &["bytes", stage.folder(), &api, &list][..]),
        ("through kube's client", &["client", stage.folder(), &list]),
    ] {
        let reader = stage.reader(args).await;
        let listed = reader.usage();
        let sent = events::send(&stage.cluster, &stage.endpoint, Mix::Status, STATUS_DURATION).await;
        let read = reader.usage().cpu.saturating_sub(listed.cpu).as_secs_f64() / sent.took.as_secs_f64();
        let (list, events) = (listed.cpu.as_secs_f64(), read * 100.0);
        let than = daemon.map(|daemon| {
            let (lists, watches) = (daemon.list / list, daemon.events / events);
            let missed = if args[0] == "bytes" {
                let note = format!("{:.3} s: the bytes alone {list:.3} s", daemon.list);
                let missed = check_budget(stage, "agent.list", lists, &note);
                let note = format!("{:.2} % of a core: the bytes alone {events:.2} %", daemon.events);
                [missed, check_budget(stage, "agent.events", watches, &note)].concat()
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
        let figures = stage.run_self(&[mode, stage.folder()]).await;
        assert!((figures[0] - stage.cluster.pods as f64).abs() < 0.5, "all are listed");
        let than = first_list.map(|list| {
            let ratio = figures[2] / list;
            let missed = if mode == "list" { check_budget(stage, "agent.cheaper", ratio, "") } else { "" };
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
