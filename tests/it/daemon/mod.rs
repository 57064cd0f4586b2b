//! `supercargo agent` as a process, between a cluster and a service with injected faults.
//!
//! [`Daemon`] runs the process. `cluster` is a stateful API server, and `gate` a proxy in front of the service; both
//! inject faults by `rules`. `invariants` asserts the reports.

pub(crate) mod support;
pub(crate) mod watching;

mod endpoint;
mod exclusion;
mod hanging_files;
mod health;
mod identity;
mod logs;
mod metrics;
mod other_writers;
mod panics;
mod plugin;
mod process_end;
mod rejections;
mod report_timing;
mod sidecar;
mod tokens;

use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

pub use support::invariants::{
    ExpectedEnvironment, PROD, assert_live_pods_reported, assert_no_loss, assert_reported_pods_existed,
    wait_until_all_reported, wait_until_in_sync,
};
pub use support::process::{Daemon, DaemonBuilder};

/// Waits up to a minute until the condition holds. Polls every few milliseconds, to leave the processor to others.
pub async fn eventually(condition: &str, is_met: impl AsyncFn() -> bool) {
    eventually_or(condition, is_met, String::new).await;
}

/// The same, with details in the failure message.
pub async fn eventually_or(condition: &str, is_met: impl AsyncFn() -> bool, details: impl Fn() -> String) {
    let waiting = async {
        while !is_met().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    waited.unwrap_or_else(|_| panic!("timed out after one minute: {condition}; {}", details()));
}

/// Runs a test for all cases concurrently.
pub async fn run_concurrently<T, F: Future<Output = ()> + 'static>(
    cases: impl IntoIterator<Item = T>,
    test: impl Fn(T) -> F,
) {
    let (local, mut tests) = (LocalSet::new(), JoinSet::new());
    for case in cases {
        tests.spawn_local_on(test(case), &local);
    }
    local.run_until(tests.join_all()).await;
}
