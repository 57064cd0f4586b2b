//! The program on a real cluster, the one that `SUPERCARGO_TEST_KUBECONFIG` names.
//!
//! Each test makes namespaces for itself, writes pods and their statuses as a kubelet would, and removes
//! all of it again. An API server is enough: no node, scheduler or controller has to be there, and what
//! is there is left alone. `tests/README.md` says how to run these, since they are ignored otherwise;
//! `tests` holds what needs no cluster, and runs always.

mod access;
mod changes;
mod cluster;
mod lists;
mod namespace;
mod pod;
mod proxy;
mod tests;
mod truth;

use std::time::Duration;

use crate::daemon::Starting;
use crate::daemon::gate::Gate;
use crate::service::{Database, Running};
pub use cluster::Cluster;
pub use namespace::Namespace;
pub use pod::{Pod, pod};
pub use proxy::{Fault, Passed, Proxy};
pub use truth::{holds, running};

/// The service itself, behind its gate.
pub async fn service() -> Gate {
    Gate::before(Running::start(Database::sqlite()).await)
}

/// A daemon that reports `prod`, four times as fast as usual: no faster, since the API server keeps its
/// own time, and its bookmarks come once a minute.
pub fn agent(kubeconfig: &str, gate: &Gate) -> Starting {
    // What a credential plugin of the kubeconfig may need.
    ["PATH", "HOME"].into_iter().fold(Starting::at(kubeconfig, gate).hasten(4), |starting, name| {
        match std::env::var(name) {
            Ok(value) => starting.env(name, &value),
            Err(_) => starting,
        }
    })
}

/// Waits for what takes the API server minutes.
pub async fn patiently(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(4), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: not in four minutes"));
}
