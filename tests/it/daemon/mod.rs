//! The daemon: `supercargo agent` as a process, between a cluster and a service that misbehave.
//!
//! [`Daemon`] runs it; `cluster` and `gate` stand for the API server and before the service, hold state,
//! and misbehave by `rules`; `holds` says what has to be true of the reports, whatever happened.

mod breakdown;
#[expect(dead_code, reason = "the soak lets things happen at a rate")]
pub mod churn;
pub mod cluster;
mod credentials;
mod endpoint;
mod everyday;
pub mod gate;
mod health;
mod holds;
mod lists;
mod logs;
mod metrics;
mod namespaces;
mod overload;
mod pace;
mod plugin;
mod pods;
#[expect(dead_code, reason = "the tests of the daemon want it")]
mod process;
mod process_end;
mod refusals;
pub mod reported;
pub mod rules;
mod selections;
pub mod shop;
mod sidecar;
mod tests;
mod tokens;
mod watches;
mod writers;

use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

pub use holds::{
    Environment, PROD, all_holds, every_pod_was_reported, holds_what_the_cluster_holds,
    never_fewer_than_live, nothing_was_invented, nothing_was_lost,
};
pub use process::{Daemon, Starting};

/// Waits until it is so, or fails. It looks every few milliseconds, so that whoever has to do it has a
/// processor.
pub async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    eventually_or(what, is_so, String::new).await;
}

/// The same, and says why it is not so.
pub async fn eventually_or(what: &str, is_so: impl AsyncFn() -> bool, why: impl Fn() -> String) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: not in a minute; {}", why()));
}

/// Does something with each of them at once.
pub async fn at_once<T, F: Future<Output = ()> + 'static>(
    all: impl IntoIterator<Item = T>,
    does: impl Fn(T) -> F,
) {
    let (here, mut doing) = (LocalSet::new(), JoinSet::new());
    for one in all {
        doing.spawn_local_on(does(one), &here);
    }
    here.run_until(doing.join_all()).await;
}
