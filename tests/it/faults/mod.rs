//! Faults from outside of the process: the way to its peers, open files, the clock, the disk.
//!
//! `between` has the daemon between two proxies that treat its connections as a seed says; `commands` has what asks
//! the service once through one. What has to be true afterwards is what has to be true of every day.

mod between;
mod clock;
mod commands;
mod disk;
mod endpoint;
mod files;
#[expect(dead_code, reason = "the bench looks at what it took")]
mod group;
mod memory;

use std::ops::Range;
use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet, spawn_local};

/// Runs at a time: most of a run is waiting.
const AT_ONCE: usize = 6;

/// What came of each seed's run, and nothing of one that failed.
async fn of_each<T: 'static, F: Future<Output = T> + 'static>(
    seeds: Range<u64>,
    run: fn(u64) -> F,
) -> Vec<(u64, Option<T>)> {
    let (here, turns, mut runs) = (LocalSet::new(), Rc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for seed in seeds {
        let turns = Rc::clone(&turns);
        let turn = async move {
            let _turn = turns.acquire().await.unwrap();
            (seed, spawn_local(run(seed)).await.ok())
        };
        runs.spawn_local_on(turn, &here);
    }
    here.run_until(runs.join_all()).await
}
