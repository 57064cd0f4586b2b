//! Metrics of the agent; `docs/reference/metrics.md` describes them.
//!
//! Label values come from closed sets: configured environments and namespaces, and constants. A pod name
//! is never a label value.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::live::collapse::{ContainerSkip, PodSkip};
use crate::live::live_set::Tally;
use model::retry::{StatusClass, classify};
use runtime::metrics::{PREFIX, register, register_seconds};

type Real = Gauge<f64, AtomicU64>;

/// The metrics. Gauges are set at each scrape.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) pods: Family<Labels<1>, Gauge>,
    pub(super) artifacts: Family<Labels<1>, Gauge>,
    pub(super) pods_skipped: Family<Labels<2>, Gauge>,
    pub(super) containers_skipped: Family<Labels<2>, Gauge>,
    pub(super) config_digests: Family<Labels<1>, Gauge>,
    pub(super) watch_state: Family<Labels<2>, Gauge>,
    pub(super) watch_restarts: Family<Labels<2>, Counter>,
    pub(super) watch_events: Family<[(&'static str, &'static str); 1], Counter>,
    pub(super) watch_silence: Family<Labels<1>, Real>,
    pub(super) relist_differences: Family<Labels<1>, Counter>,
    pub(super) reports: Family<Labels<2>, Counter>,
    pub(super) report_seconds: Family<Labels<1>, Histogram, fn() -> Histogram>,
    pub(super) last_accepted: Family<Labels<1>, Real>,
    pub(super) pending: Family<Labels<1>, Real>,
    pub(super) withheld: Family<Labels<2>, Gauge>,
    pub(super) departed_pods: Family<Labels<1>, Gauge>,
    pub(super) departed_pods_deduplicated: Family<Labels<1>, Counter>,
    pub(super) departed_pods_dropped: Family<Labels<1>, Counter>,
    pub(super) other_writers: Family<Labels<1>, Counter>,
    pub(super) token_rotations: Counter,
}

/// Upper bounds of the buckets, in seconds: from a heartbeat to an upload that takes a minute.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0, 60.0];

/// Labels with their values, in the order in which they are shown.
pub(super) type Labels<const N: usize> = [(&'static str, String); N];

pub(super) fn labels<const N: usize>(labels: [(&'static str, &str); N]) -> Labels<N> {
    labels.map(|(label, value)| (label, value.to_owned()))
}

impl Metrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix(PREFIX).sub_registry_with_prefix("agent");
        let report_seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        registry.register_with_unit(
            "report_duration",
            "Time from composing a report to its response",
            Unit::Seconds,
            report_seconds.clone(),
        );
        Self {
            pods: register(registry, "pods", "Pods in the namespaces of the environment, in any phase"),
            artifacts: register(registry, "artifacts", "Reported pods"),
            pods_skipped: register(registry, "skipped_pods", "Pods that are not reported"),
            containers_skipped: register(
                registry,
                "skipped_containers",
                "Containers of started pods that are not reported",
            ),
            config_digests: register(
                registry,
                "config_digests",
                "Containers identified by the digest of their image configuration",
            ),
            watch_state: register(registry, "watch_state", "1 for the current state of a watch"),
            watch_restarts: register(registry, "watch_restarts", "Restarts of watches, by reason"),
            watch_events: register(registry, "watch_events", "Events received by watches"),
            watch_silence: register_seconds(
                registry,
                "watch_silence",
                "Time since the last contact with the API server",
            ),
            relist_differences: register(
                registry,
                "relist_differences",
                "Pods that differed between a periodic relist and the watch",
            ),
            reports: register(registry, "reports", "Reports, by outcome"),
            report_seconds,
            last_accepted: register_seconds(
                registry,
                "last_accepted_timestamp",
                "Unix time of the last accepted report",
            ),
            pending: register_seconds(registry, "pending", "Age of the oldest unreported change"),
            withheld: register(registry, "withheld", "1 while reports are withheld, by reason"),
            departed_pods: register(registry, "departed_pods", "Unreported departed pods"),
            departed_pods_deduplicated: register(
                registry,
                "departed_pods_deduplicated",
                "Departed pods represented by another pod of the same namespace, owner and digests",
            ),
            departed_pods_dropped: register(
                registry,
                "departed_pods_dropped",
                "Departed pods dropped because there were too many",
            ),
            other_writers: register(
                registry,
                "other_writers",
                "New snapshots of an unchanged report: another client reports to the environment",
            ),
            token_rotations: register(registry, "token_rotations", "Changes of the token in the token file"),
        }
    }

    /// Sets the pod gauges of an environment. A reason without pods is exported as 0.
    pub(super) fn count(&self, environment: &str, tally: &Tally) {
        let own = labels([("environment", environment)]);
        let gauge = |family: &Family<Labels<1>, Gauge>, n: u64| {
            family.get_or_create(&own).set(integer(n));
        };
        gauge(&self.pods, tally.pods);
        gauge(&self.artifacts, tally.artifacts);
        gauge(&self.config_digests, tally.config_digests);
        let label = |reason| labels([("environment", environment), ("reason", reason)]);
        for skip in PodSkip::ALL {
            let n = tally.skipped_pods.get(&skip).copied().unwrap_or_default();
            self.pods_skipped.get_or_create(&label(skip.as_str())).set(integer(n));
        }
        for skip in ContainerSkip::ALL {
            let n = tally.skipped_containers.get(&skip).copied().unwrap_or_default();
            self.containers_skipped.get_or_create(&label(skip.as_str())).set(integer(n));
        }
    }
}

/// The `outcome` label of a failed report.
pub(super) fn failed(error: &client::Error) -> &'static str {
    match error {
        client::Error::Token(_) => "no_token",
        client::Error::Unreachable { .. } => "unreachable",
        client::Error::BrokenOff { .. } => "broken_off",
        client::Error::TimedOut { .. } => "stalled",
        client::Error::UnexpectedResponse { .. } => "foreign",
        client::Error::Answered { status, .. } => match classify(status.as_u16()) {
            StatusClass::NotAuthorized => "unauthorized",
            StatusClass::NotFound => "not_found",
            StatusClass::Rejected => "refused",
            StatusClass::Transient => "unavailable",
            StatusClass::Success | StatusClass::Foreign => "foreign",
        },
    }
}

/// The `reason` labels of withheld reports.
pub(super) const WITHHELD: [&str; 6] =
    ["unlisted", "stale", "no_such_namespace", "unconfirmed", "no_pods", "unreadable"];

pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
