//! Sends a thousand events a second: updates of pods without a reported change, and optionally rollouts.
//!
//! A rollout replaces pods by those of a new `ReplicaSet`. The next one starts once a report has contained the last one,
//! and not before the agent may report again. The latency therefore does not include the minimum interval between reports
//! of a large cluster.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::api::{Cluster, event};
use super::endpoint::{Endpoint, Report};
use super::pods::Replicas;

/// Pods that a rollout replaces.
const ROLLOUT: usize = 6;

/// Totals of the sent events.
pub struct Sent {
    pub events: usize,
    pub took: Duration,
}

enum Change {
    Add(usize),
    Delete,
}

/// Sends events for `duration`.
pub async fn send(cluster: &Cluster, endpoint: &Endpoint, duration: Duration, with_rollouts: bool) -> Sent {
    let (start, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
    let mut ticks = interval(Duration::from_millis(1));
    // Late ticks are caught up, to keep the rate.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut events = 0;
    let (mut rollouts, mut changes) = (0, VecDeque::new());
    let mut new = Replicas::new(cluster.replicas.len(), ROLLOUT);
    // Pods from this number on were replaced by rollouts.
    let mut remaining = cluster.pods;
    while start.elapsed() < duration {
        ticks.tick().await;
        events += 1;
        let version = 200_000_000 + events;
        if with_rollouts && changes.is_empty() && is_due(endpoint) {
            rollouts += 1;
            new = Replicas::new(cluster.replicas.len() + rollouts, ROLLOUT);
            changes = (0..ROLLOUT).flat_map(|n| [Change::Add(n), Change::Delete]).collect();
        }
        let frame = match changes.pop_front() {
            Some(Change::Add(n)) => {
                endpoint.expect(new.name(n));
                event("ADDED", &new, n, version)
            }
            Some(Change::Delete) => {
                remaining -= 1;
                let (old, n) = cluster.find(remaining);
                event("DELETED", old, n, version)
            }
            None => {
                let (replicas, n) = cluster.find(random.usize(..remaining));
                event("MODIFIED", replicas, n, version)
            }
        };
        assert!(cluster.send(frame), "the agent must watch");
    }
    Sent { events, took: start.elapsed() }
}

/// Whether the last rollout was reported, and the agent may report again.
fn is_due(endpoint: &Endpoint) -> bool {
    let spaced = |last: &Report| last.head + last.took * 22;
    !endpoint.is_awaiting() && endpoint.reports().last().is_none_or(|last| Instant::now() >= spaced(last))
}
