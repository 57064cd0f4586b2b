//! The program on the real cluster that `SUPERCARGO_TEST_KUBECONFIG` names.
//!
//! Each test creates its own namespaces, writes pods with statuses as a kubelet would, and removes them. An API server
//! without nodes, scheduler or controllers suffices; other objects are not touched. These tests are ignored by default
//! (see `docs/reference/testing.md`). `tests` checks the test helpers, and needs no cluster.

mod access;
mod changes;
mod cluster;
mod expected_pods;
mod lists;
mod namespace;
mod pod;
mod proxy;
mod tests;

use std::time::Duration;

use crate::daemon::DaemonBuilder;
use crate::daemon::support::gate::Gate;
use crate::service::{Database, TestService};
pub use cluster::Cluster;
pub use expected_pods::{running, wait_until_reported};
pub use namespace::Namespace;
pub use pod::{Pod, pod};
pub use proxy::{Exchange, Fault, Proxy};

/// A gate in front of a real service.
pub async fn service() -> Gate {
    Gate::with_service(TestService::start(Database::sqlite()).await)
}

/// A daemon for the environment `prod` with durations divided by 4. A larger divisor would make watches stale, since
/// the API server sends bookmarks once a minute.
pub fn agent(kubeconfig: &str, gate: &Gate) -> DaemonBuilder {
    // A credential plugin of the kubeconfig may need these.
    ["PATH", "HOME"].into_iter().fold(
        DaemonBuilder::from_kubeconfig(kubeconfig, gate).time_scale(4),
        |builder, name| match std::env::var(name) {
            Ok(value) => builder.env(name, &value),
            Err(_) => builder,
        },
    )
}

/// Waits up to four minutes, for slow conditions of the API server.
pub async fn eventually_in_minutes(condition: &str, is_met: impl Fn() -> bool) {
    let waiting = async {
        while !is_met() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(4), waiting).await;
    waited.unwrap_or_else(|_| panic!("timed out after four minutes: {condition}"));
}
