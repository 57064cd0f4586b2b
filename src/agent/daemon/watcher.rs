//! One watch: what it hears goes into the live set, the log and the metrics.

use std::sync::Arc;

use super::shared::Shared;
use crate::cluster::Cluster;
use crate::domain::watch::Policy;

/// Watches for ever.
pub(super) async fn watch(shared: Arc<Shared>, n: usize, cluster: Cluster, policy: Policy, seed: u64) {
    let of = shared.scope_of(n);
    cluster.watch_pods(of, policy, seed, |heard| shared.hear(n, heard)).await;
}
