//! Cost of the agent's work on pods, without the network: `cargo bench --bench micro`.
//!
//! divan's allocator also counts the allocations of each bench, which bounds the memory per pod of the live set.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a bench fails by panicking")]

#[expect(dead_code, reason = "other benches use the rest of it")]
#[path = "table/budgets.rs"]
mod budgets;

use std::time::Duration;

use budgets::Budget;
use divan::{AllocProfiler, Bencher, black_box};
use nix::time::{ClockId, clock_gettime};
use supercargo::domain::live::collapse::{Counting, collapse};
use supercargo::domain::live::live_set::LiveSet;
use supercargo::domain::live::pod::{ContainerView, PodView};
use supercargo::domain::live::report::Report;
use supercargo::domain::live::selection::Selection;
use supercargo::domain::model::OwnerReference;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const PODS: usize = 100_000;

fn main() {
    // Skipped if the arguments select a bench.
    if std::env::args().skip(1).all(|arg| arg == "--bench") {
        record_report();
    }
    divan::main();
}

/// Measures the budgets of a report's body, which divan cannot: the best CPU time, and the peak memory in addition to
/// the live set.
fn record_report() {
    let snapshot = listed().snapshot(0, Vec::new());
    let status = |key: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    // Resets the peak (proc_pid_clear_refs(5)).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let cpu = || Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap());
    let walks = (0..30).map(|_| {
        let start = cpu();
        let report = Report::new(snapshot.clone());
        let written: usize = report.chunks().map(|chunk| chunk.len()).sum();
        assert_eq!(written as u64, report.content_length());
        cpu().saturating_sub(start)
    });
    let best = walks.min().unwrap();
    Budget::find("report.cpu").record(best.as_secs_f64() * 1e3, "best of 30");
    Budget::find("report.memory").record(status("VmHWM") - before, "");
}

/// Pods in the order of the API server, in `ReplicaSet`s of 25 pods, 40 per namespace.
fn pod(n: usize) -> PodView {
    let image =
        format!("registry.example.com/team-{:04}/service-{:02}:1.{}.0", n / 1_000, n / 25 % 40, n / 25);
    let owner = format!("service-{:02}-6d5f8b7c9d", n / 25 % 40);
    let image_id = format!("{}@sha256:{:064x}", image.rsplit_once(':').unwrap().0, n / 25);
    PodView {
        namespace: format!("team-{:04}", n / 1_000),
        name: format!("{owner}-{n:011}"),
        uid: format!("bf37756f-8ef5-43e7-a406-{n:012}"),
        created_at: Some(1_795_257_028),
        owners: vec![OwnerReference {
            api_version: Some("apps/v1".into()),
            kind: Some("ReplicaSet".into()),
            name: Some(owner.into()),
            uid: Some(format!("bf37756f-8ef5-43e7-a406-{:012}", n / 25).into()),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }],
        containers: vec![ContainerView {
            name: "app".into(),
            spec_image: image.clone(),
            image,
            image_id,
            ..ContainerView::default()
        }],
        ..PodView::default()
    }
}

fn listed() -> LiveSet {
    let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
    live_set.begin(None);
    for n in 0..PODS {
        live_set.apply(None, pod(n));
    }
    live_set.complete(None, drop);
    live_set
}

#[divan::bench]
fn collapse_a_pod(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(|| pod(4_711)).bench_values(|pod| collapse(pod, Counting::All, &[]));
}

/// The remaining allocations are the live set; the pods themselves are dropped.
#[divan::bench(sample_count = 10)]
fn list_100_000_pods(bencher: Bencher<'_, '_>) {
    bencher.bench(listed);
}

#[divan::bench(sample_count = 10)]
fn make_100_000_pods(bencher: Bencher<'_, '_>) {
    bencher.bench(|| (0..PODS).for_each(|n| drop(black_box(pod(n)))));
}

#[divan::bench]
fn apply_unchanged_pod_to_100_000(bencher: Bencher<'_, '_>) {
    let mut live_set = listed();
    let mut n = 0;
    bencher
        .with_inputs(|| {
            n = (n + 7_919) % PODS;
            pod(n)
        })
        .bench_local_values(|pod| live_set.apply(None, pod));
}

/// A snapshot shares the blocks, as after each report, so that each change copies a block.
#[divan::bench]
fn apply_changed_pod_to_100_000_shared_with_snapshot(bencher: Bencher<'_, '_>) {
    let mut live_set = listed();
    let mut shared = None;
    let mut time = 0;
    bencher
        .with_inputs(|| {
            time += 1;
            PodView { created_at: Some(time), ..pod(usize::try_from(time).unwrap() * 7_919 % PODS) }
        })
        .bench_local_values(|pod| {
            shared = Some(live_set.snapshot(0, Vec::new()));
            live_set.apply(None, pod)
        });
    drop(shared);
}

#[divan::bench]
fn snapshot_of_100_000(bencher: Bencher<'_, '_>) {
    let live_set = listed();
    bencher.bench_local(|| live_set.snapshot(0, Vec::new()));
}

#[divan::bench(sample_count = 30)]
fn report_of_100_000_first_walk(bencher: Bencher<'_, '_>) {
    let snapshot = listed().snapshot(0, Vec::new());
    bencher.bench_local(|| Report::new(snapshot.clone()).content_length());
}

#[divan::bench(sample_count = 30)]
fn report_of_100_000_both_walks(bencher: Bencher<'_, '_>) {
    let snapshot = listed().snapshot(0, Vec::new());
    bencher.bench_local(|| {
        let report = Report::new(snapshot.clone());
        let written: usize = report.chunks().map(|chunk| chunk.len()).sum();
        assert_eq!(written as u64, report.content_length());
        report.content_length()
    });
}
