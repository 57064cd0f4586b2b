//! Faults outside of the process: connections, file descriptors, the clock, the disk, memory.
//!
//! `connections` runs the daemon between two proxies with seeded faults; `commands` runs commands through one. The usual
//! invariants of reports must hold afterwards.

mod clock;
mod commands;
mod connections;
#[cfg(target_os = "linux")]
mod control_group;
mod disk;
mod endpoint;
#[cfg(target_os = "linux")]
mod memory;
// Limits of other processes need prlimit.
#[cfg(target_os = "linux")]
mod open_files;

use std::ops::Range;
use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet, spawn_local};

/// Maximum concurrent runs. Most of a run is waiting.
const MAX_CONCURRENT_RUNS: usize = 6;

/// Runs each seed, and returns its result, or `None` if the run failed.
async fn run_seeds<T: 'static, F: Future<Output = T> + 'static>(
    seeds: Range<u64>,
    run: fn(u64) -> F,
) -> Vec<(u64, Option<T>)> {
    let (local, permits, mut runs) =
        (LocalSet::new(), Rc::new(Semaphore::new(MAX_CONCURRENT_RUNS)), JoinSet::new());
    for seed in seeds {
        let permits = Rc::clone(&permits);
        let task = async move {
            let _permit = permits.acquire().await.unwrap();
            (seed, spawn_local(run(seed)).await.ok())
        };
        runs.spawn_local_on(task, &local);
    }
    local.run_until(runs.join_all()).await
}
