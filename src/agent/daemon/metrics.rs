//! What the agent counts; `docs/metrics.md` says what each is for.
//!
//! Labels come from closed sets: the environments and namespaces of the configuration, and words of
//! the program. No pod's name ever becomes one.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::api::{self, Accepted};
use crate::domain::live::collapse::{ContainerSkip, PodSkip};
use crate::domain::live::live_set::Tally;
use crate::domain::retry::{Class, class};
use crate::process::metrics::PREFIX;

type Real = Gauge<f64, AtomicU64>;

/// The metrics. Those that are a state are set when they are scraped.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) pods: Family<Environment, Gauge>,
    pub(super) artifacts: Family<Environment, Gauge>,
    pub(super) pods_skipped: Family<Reason, Gauge>,
    pub(super) containers_skipped: Family<Reason, Gauge>,
    pub(super) config_digests: Family<Environment, Gauge>,
    pub(super) watch_state: Family<WatchState, Gauge>,
    pub(super) watch_restarts: Family<Restart, Counter>,
    pub(super) watch_events: Family<Event, Counter>,
    pub(super) watch_silence: Family<Watch, Real>,
    pub(super) relist_differences: Family<Watch, Counter>,
    pub(super) reports: Family<Outcome, Counter>,
    pub(super) report_seconds: ReportSeconds,
    pub(super) last_accepted: Family<Environment, Real>,
    pub(super) pending: Family<Environment, Real>,
    pub(super) withheld: Family<Reason, Gauge>,
    pub(super) witnessed: Family<Environment, Gauge>,
    pub(super) witness_thinned: Family<Environment, Counter>,
    pub(super) witness_dropped: Family<Environment, Counter>,
    pub(super) other_writers: Family<Environment, Counter>,
    pub(super) token_rotations: Counter,
}

/// From a heartbeat to an upload that takes a minute, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0, 60.0];

/// A histogram for each environment.
#[derive(Debug)]
pub(super) struct ReportSeconds(Family<Environment, Histogram, fn() -> Histogram>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Environment {
    pub(super) environment: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    pub(super) environment: String,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    pub(super) environment: String,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Watch {
    pub(super) watch: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WatchState {
    pub(super) watch: String,
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Restart {
    pub(super) watch: String,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Event {
    pub(super) r#type: &'static str,
}

impl Default for ReportSeconds {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl ReportSeconds {
    pub(super) fn observe(&self, environment: &Environment, took: Duration) {
        self.0.get_or_create(environment).observe(took.as_secs_f64());
    }
}

impl Metrics {
    /// Sets what was counted of an environment's pods; a reason that no longer holds is 0, not gone.
    pub(super) fn count(&self, environment: &Environment, tally: &Tally) {
        let gauge = |family: &Family<Environment, Gauge>, n: u64| {
            family.get_or_create(environment).set(integer(n));
        };
        gauge(&self.pods, tally.pods);
        gauge(&self.artifacts, tally.artifacts);
        gauge(&self.config_digests, tally.config_digests);
        let label = |reason| Reason { environment: environment.environment.clone(), reason };
        for skip in POD_SKIPS {
            let n = tally.skipped_pods.get(&skip).copied().unwrap_or_default();
            self.pods_skipped.get_or_create(&label(of_pod(skip))).set(integer(n));
        }
        for skip in CONTAINER_SKIPS {
            let n = tally.skipped_containers.get(&skip).copied().unwrap_or_default();
            self.containers_skipped.get_or_create(&label(of_container(skip))).set(integer(n));
        }
    }

    /// Puts them into a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix(PREFIX).sub_registry_with_prefix("agent");
        registry.register(
            "pods",
            "Pods in the namespaces of the environment, in any phase",
            self.pods.clone(),
        );
        registry.register("artifacts", "Pods that are reported", self.artifacts.clone());
        registry.register("skipped_pods", "Pods that are not reported", self.pods_skipped.clone());
        registry.register(
            "skipped_containers",
            "Containers that are left out of pods that have started",
            self.containers_skipped.clone(),
        );
        registry.register(
            "config_digests",
            "Containers that are known by the digest of their image's configuration",
            self.config_digests.clone(),
        );
        registry.register("watch_state", "1 for the state that a watch is in", self.watch_state.clone());
        registry.register("watch_restarts", "Watches that had to begin again", self.watch_restarts.clone());
        registry.register("watch_events", "Events of watches", self.watch_events.clone());
        registry.register_with_unit(
            "watch_silence",
            "Time since the API server last said anything",
            Unit::Seconds,
            self.watch_silence.clone(),
        );
        registry.register(
            "relist_differences",
            "Pods that a routine list showed otherwise than the watch had told so far",
            self.relist_differences.clone(),
        );
        registry.register("reports", "Reports that were sent, by what came of them", self.reports.clone());
        registry.register_with_unit(
            "report_duration",
            "Time from when a report is made to its answer",
            Unit::Seconds,
            self.report_seconds.0.clone(),
        );
        registry.register_with_unit(
            "last_accepted_timestamp",
            "When a report was last accepted, in Unix time",
            Unit::Seconds,
            self.last_accepted.clone(),
        );
        registry.register_with_unit(
            "pending",
            "Age of the oldest change that no accepted report holds",
            Unit::Seconds,
            self.pending.clone(),
        );
        registry.register("withheld", "1 where nothing is reported, and why", self.withheld.clone());
        registry.register(
            "witnessed_pods",
            "Pods that came and went and that no accepted report holds yet",
            self.witnessed.clone(),
        );
        registry.register(
            "witness_thinned_pods",
            "Pods that came and went and for which another of their owner and digests stands",
            self.witness_thinned.clone(),
        );
        registry.register(
            "witness_dropped_pods",
            "Pods that came and went and were given up, since there were too many",
            self.witness_dropped.clone(),
        );
        registry.register(
            "other_writers",
            "New snapshots of what was already reported: someone else reports to the environment",
            self.other_writers.clone(),
        );
        registry.register(
            "token_rotations",
            "Times that the token's file held another one",
            self.token_rotations.clone(),
        );
    }
}

/// The outcome of a report that was accepted.
pub(super) fn accepted(accepted: Accepted) -> &'static str {
    match accepted {
        Accepted::NewSnapshot => "new_snapshot",
        Accepted::Unchanged => "unchanged",
        Accepted::Unsaid => "accepted",
    }
}

/// The outcome of a report that was not.
pub(super) fn failed(error: &api::Error) -> &'static str {
    match error {
        api::Error::Token(_) => "no_token",
        api::Error::Unreachable { .. } => "unreachable",
        api::Error::BrokenOff { .. } => "broken_off",
        api::Error::Stalled { .. } => "stalled",
        api::Error::Foreign { .. } => "foreign",
        api::Error::Answered { status, .. } => match class(status.as_u16()) {
            Class::NotAuthorized => "unauthorized",
            Class::NotFound => "not_found",
            Class::Refused => "refused",
            Class::Transient => "unavailable",
            Class::Success | Class::Foreign => "foreign",
        },
    }
}

/// The reason why a pod is left out.
fn of_pod(skip: PodSkip) -> &'static str {
    match skip {
        PodSkip::Ended => "ended",
        PodSkip::NotStarted => "not_started",
        PodSkip::NoDigest => "no_digest",
        PodSkip::Unreadable => "unreadable",
    }
}

/// The reason why a container is left out.
fn of_container(skip: ContainerSkip) -> &'static str {
    match skip {
        ContainerSkip::NotStarted => "not_started",
        ContainerSkip::OtherAlgorithm => "other_algorithm",
        ContainerSkip::NoDigest => "no_digest",
        ContainerSkip::TooMany => "too_many",
    }
}

/// Why reports are withheld.
pub(super) const WITHHELD: [&str; 6] =
    ["unlisted", "stale", "no_such_namespace", "unconfirmed", "no_pods", "unreadable"];

const POD_SKIPS: [PodSkip; 4] = [PodSkip::Ended, PodSkip::NotStarted, PodSkip::NoDigest, PodSkip::Unreadable];
const CONTAINER_SKIPS: [ContainerSkip; 4] = [
    ContainerSkip::NotStarted,
    ContainerSkip::OtherAlgorithm,
    ContainerSkip::NoDigest,
    ContainerSkip::TooMany,
];

pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
