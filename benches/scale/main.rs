//! Cost of the agent with 1,000, 10,000 and 100,000 pods: `cargo bench --bench scale`.
//!
//! The program runs as the daemon between a fake API server and an endpoint, both with TLS in this process. It lists and
//! reports the pods, then receives a thousand events a second: first only such that change no report, then also rollouts.
//! kube's typed API lists the same pods in a process of its own, for comparison. CPU and memory are the kernel's figures.
//!
//! Arguments select numbers of pods: `cargo bench --bench scale -- 10000`.

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
#[path = "../support/budgets.rs"]
mod budgets;
mod endpoint;
mod events;
#[path = "../../tests/it/fake/mod.rs"]
mod fake;
mod http;
mod list;
mod pods;
#[path = "../support/process.rs"]
mod process;
mod protobuf;
#[path = "../support/pods.rs"]
mod replica_set;
mod stage;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use self::budgets::Budgets;
use self::process::Process;
use self::stage::Stage;

/// Numbers of pods, and the bound of the agent's anonymous memory in MiB.
const CASES: [(usize, f64); 3] = [(1_000, 5.0), (10_000, 6.0), (100_000, 16.0)];

/// The case with the bounds of CPU and latency.
const LARGE: usize = 100_000;

/// Maximum latency from a change to its report: the debounce and 100 ms, in seconds.
const MAX_LATENCY: f64 = 2.1;

const STATUS_DURATION: Duration = Duration::from_secs(10);
const ROLLOUTS_DURATION: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [mode, folder] = args.as_slice()
        && mode == list::MODE
    {
        runtime(1).block_on(list::print(folder));
        return ExitCode::SUCCESS;
    }
    let is_selected = |pods: usize| args.is_empty() || args.contains(&pods.to_string());
    let mut budgets = Budgets::default();
    for (pods, memory) in CASES.into_iter().filter(|(pods, _)| is_selected(*pods)) {
        runtime(2).block_on(measure(pods, memory, &mut budgets));
    }
    budgets.print()
}

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

async fn measure(pods: usize, max_memory: f64, budgets: &mut Budgets) {
    let stage = Stage::start(pods).await;
    let (protobuf, json) = stage.cluster.mean_sizes();
    println!("{pods} pods of {protobuf} bytes of protobuf, {json} of JSON");
    let (endpoint, start) = (&stage.endpoint, Instant::now());
    let mut agent = Process::start(&mut stage.agent());
    while endpoint.heads() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let list = agent.cpu();
    println!("  list                   {list:7.3} s of CPU, {:.3} s", start.elapsed().as_secs_f64());
    // The kernel records no peak of anonymous memory: take the maximum of the samples.
    let mut anonymous = agent.memory("RssAnon");
    let mut sample = |agent: &Process| anonymous = agent.memory("RssAnon").max(anonymous);
    while endpoint.reports().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let report = endpoint.reports()[0];
    println!(
        "  report                 {:7.3} s of CPU, {:.3} s; {} bytes",
        agent.cpu() - list,
        report.took.as_secs_f64(),
        report.bytes
    );
    sample(&agent);
    sleep(Duration::from_secs(3)).await;
    let mut shares = Vec::new();
    for (name, duration, with_rollouts) in
        [("status events", STATUS_DURATION, false), ("with rollouts", ROLLOUTS_DURATION, true)]
    {
        let before = agent.cpu();
        let sent = events::send(&stage.cluster, endpoint, duration, with_rollouts).await;
        let seconds = sent.took.as_secs_f64();
        let share = (agent.cpu() - before) / seconds * 100.0;
        println!("  {name:22} {share:7.2} % of a core at {:.0} a second", sent.events as f64 / seconds);
        shares.push(share);
        sample(&agent);
    }
    let latencies = endpoint.latencies();
    let latency = latencies[latencies.len() * 99 / 100].as_secs_f64();
    println!("  change to PUT, p99     {latency:7.3} s of {} changes", latencies.len());
    Stage::scrape(&agent.address("serving probes and metrics on http"));
    sample(&agent);
    println!("  memory                 {anonymous:7.1} MiB anonymous; peak RSS {:.1}", agent.memory("VmHWM"));
    agent.stop();
    let typed = stage.typed_list().await;
    println!("  kube's typed list      {typed:7.3} s of CPU");

    budgets.at_most(&format!("agent, anonymous memory, {pods} pods"), anonymous, max_memory, "MiB");
    if pods == LARGE {
        let (what, unit) = (|what| format!("agent, {what}, {pods} pods"), "of it");
        budgets.at_most(&what("CPU of a list beside kube's typed list"), list / typed, 0.1, unit);
        budgets.at_most(&what("1,000 events per second"), shares[0], 3.0, "% of a core");
        budgets.at_most(&what("change to PUT, p99"), latency, MAX_LATENCY, "s");
    }
}
