//! Fakes of the daemon's tests, under the same module paths.

use std::time::Duration;

#[path = "../../tests/it/daemon/churn.rs"]
pub mod churn;
#[path = "../../tests/it/daemon/cluster/mod.rs"]
pub mod cluster;
#[path = "../../tests/it/daemon/gate.rs"]
pub mod gate;
#[path = "../../tests/it/daemon/process.rs"]
pub mod process;
#[path = "../../tests/it/daemon/reported_pod.rs"]
pub mod reported_pod;
#[path = "../../tests/it/daemon/rules.rs"]
pub mod rules;

/// Waits until it is so, or fails.
pub async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    eventually_or(what, is_so, String::new).await;
}

/// The same, and says why it is not so.
pub async fn eventually_or(what: &str, is_so: impl AsyncFn() -> bool, why: impl Fn() -> String) {
    let start = std::time::Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < Duration::from_mins(1), "{what}: not in a minute; {}", why());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
