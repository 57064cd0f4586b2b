//! Sends a thousand events a second: status updates without a reported change, and optionally rollouts.
//!
//! A rollout replaces pods of one `ReplicaSet` by those of a new one. The next rollout starts at a random time after a
//! report has contained the last one, and not before the daemon may report again (design, section 7). The latency
//! therefore does not include the minimum interval between reports of a large cluster.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::api::{Cluster, IN_NAMESPACE, event};
use super::endpoint::Endpoint;
use super::pods::{Replicas, Size, State};

/// Pods that a rollout replaces.
const ROLLOUT: usize = 6;

/// Kinds of events.
#[derive(Clone, Copy, PartialEq)]
pub enum Mix {
    /// Status updates without a reported change.
    Status,
    /// Status updates in 20 bursts of 50 a second, which save wakeups.
    StatusInBursts,
    Rollouts,
}

/// Totals of the sent events.
#[derive(Default)]
pub struct Sent {
    pub events: usize,
    pub bytes: usize,
    pub rollouts: usize,
    pub took: Duration,
}

enum Change {
    Added(usize),
    Ready(usize),
    Deleted(usize),
}

/// Sends events for `duration`.
pub async fn send(cluster: &Cluster, endpoint: &Arc<Endpoint>, mix: Mix, duration: Duration) -> Sent {
    let start = Instant::now();
    let mut random = fastrand::Rng::with_seed(7);
    let burst = if mix == Mix::StatusInBursts { 50 } else { 1 };
    let mut ticks = interval(Duration::from_millis(burst));
    // Late ticks are caught up, to keep the rate.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = Sent::default();
    let (mut version, mut bundle) = (200_000_000, Vec::new());
    let mut rollout: Option<(Replicas, VecDeque<Change>)> = None;
    let mut next_rollout = Instant::now() + Duration::from_millis(300);
    // Pods beyond this number were replaced by rollouts.
    let mut from = cluster.pods;
    while start.elapsed() < duration {
        if sent.events.is_multiple_of(burst as usize) {
            ticks.tick().await;
        }
        let mut frame = Vec::with_capacity(16 * 1024);
        let mut namespace = "";
        version += 1;
        if mix == Mix::Rollouts && rollout.is_none() && Instant::now() >= next_rollout && is_due(endpoint) {
            let new = Replicas::new(
                cluster.replicas.len() + 7 + sent.rollouts,
                ROLLOUT,
                Size::Realistic,
                IN_NAMESPACE,
            );
            let changes = (0..ROLLOUT).flat_map(|k| [Change::Added(k), Change::Ready(k), Change::Deleted(k)]);
            rollout = Some((new, changes.collect()));
            sent.rollouts += 1;
        }
        let change = rollout.as_mut().and_then(|(_, changes)| changes.pop_front());
        if let (Some(change), Some((new, _))) = (change, &rollout) {
            match change {
                Change::Added(k) => event("ADDED", new, k, version, State::Pending, &mut frame),
                Change::Ready(k) => {
                    event("MODIFIED", new, k, version, State::Ready, &mut frame);
                    endpoint.expect(new.name(k));
                }
                Change::Deleted(_) => {
                    from -= 1;
                    let (old, k) = cluster.find(from);
                    event("DELETED", old, k, version, State::Ready, &mut frame);
                }
            }
        } else {
            if rollout.take().is_some() {
                next_rollout = Instant::now() + Duration::from_millis(random.u64(500..1000));
            }
            let (replicas, k) = cluster.find(random.usize(..from));
            let state = if random.u8(..4) == 0 { State::Unready } else { State::Ready };
            event("MODIFIED", replicas, k, version, state, &mut frame);
            namespace = &replicas.namespace;
        }
        sent.events += 1;
        sent.bytes += frame.len();
        bundle.append(&mut frame);
        if sent.events.is_multiple_of(burst as usize) {
            assert!(cluster.send(namespace, std::mem::take(&mut bundle)), "the daemon must watch");
        }
    }
    sent.took = start.elapsed();
    sent
}

/// Whether the last rollout was reported, and the daemon may report again.
fn is_due(endpoint: &Endpoint) -> bool {
    let spaced = |last: &super::endpoint::Report| last.head + last.took * 22;
    !endpoint.is_awaiting() && endpoint.reports().last().is_none_or(|last| Instant::now() >= spaced(last))
}
