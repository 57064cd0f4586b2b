//! Cost of the agent's work on pods, without the network: `cargo bench --bench micro`.
//!
//! divan's allocator also counts the allocations of each bench, which shows the memory per pod of the live set.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a bench fails by panicking")]

#[expect(dead_code, reason = "another bench uses the rest of it")]
#[path = "support/pods.rs"]
mod replica_set;

use agent::live::collapse::{Counting, collapse};
use agent::live::live_set::LiveSet;
use agent::live::pod::PodView;
use agent::live::report::Report;
use agent::live::selection::Selection;
use client::ReportBody;
use divan::{AllocProfiler, Bencher, black_box};

use self::replica_set::ReplicaSet;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const PODS: usize = 100_000;

/// Pods of a `ReplicaSet`.
const REPLICAS: usize = 25;

fn main() {
    divan::main();
}

/// Pods in the order of the API server.
fn pod(n: usize) -> PodView {
    let set = n / REPLICAS;
    ReplicaSet::new(set, set, &[set as u64]).pod(n % REPLICAS)
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
fn report_of_100_000(bencher: Bencher<'_, '_>) {
    let snapshot = listed().snapshot(0, Vec::new());
    bencher.bench_local(|| {
        let report = Report::new(snapshot.clone());
        let written: usize = report.chunks().map(|chunk| chunk.len()).sum();
        assert_eq!(written as u64, report.content_length());
        report.content_length()
    });
}
