//! What the service counts. Labels come from closed sets: a name that a client chose never becomes
//! one.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::domain::model::{self, TargetKind};
use crate::process::metrics::{self, PREFIX};

/// The metrics and their registry.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    reports: Family<Outcome, Counter>,
    attestations: Family<Outcome, Counter>,
    connections: Family<State, Gauge>,
    reloads: Family<Outcome, Counter>,
    generation: Gauge<f64, AtomicU64>,
    removed: Counter,
    events: Family<Trigger, Counter>,
    notifications: Family<Delivery, Counter>,
    waiting: Gauge,
    waiting_seconds: Gauge<f64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Trigger {
    trigger: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Delivery {
    target: &'static str,
    outcome: &'static str,
}

/// From a heartbeat's tenth of a millisecond to a body that takes a minute, in seconds.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 60.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: metrics::registry(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            reports: Family::default(),
            attestations: Family::default(),
            connections: Family::default(),
            reloads: Family::default(),
            generation: Gauge::default(),
            removed: Counter::default(),
            events: Family::default(),
            notifications: Family::default(),
            waiting: Gauge::default(),
            waiting_seconds: Gauge::default(),
        };
        let registry = metrics.registry.sub_registry_with_prefix(PREFIX);
        registry.register("http_requests", "Requests by route, method and status", metrics.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from a request's headers to its answer's",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "reports",
            "Reports that were accepted, by what they changed",
            metrics.reports.clone(),
        );
        registry.register("attestations", "Attestations that were accepted", metrics.attestations.clone());
        registry.register("database_connections", "Connections of the pool", metrics.connections.clone());
        registry.register("bootstrap_loads", "Readings of the bootstrap file", metrics.reloads.clone());
        registry.register(
            "bootstrap_generation",
            "Generation of the bootstrap file that was last applied",
            metrics.generation.clone(),
        );
        registry.register(
            "retention_removed_rows",
            "Rows that were removed since they were past their retention",
            metrics.removed.clone(),
        );
        // There before there is anything to count, so that a first one is seen as an increase.
        for trigger in model::Trigger::ALL {
            drop(metrics.events.get_or_create(&Trigger { trigger: trigger.as_str() }));
        }
        for target in TargetKind::ALL.map(TargetKind::as_str) {
            for outcome in ["arrived", "failed"] {
                drop(metrics.notifications.get_or_create(&Delivery { target, outcome }));
            }
        }
        registry.register("events", "What happened in environments", metrics.events.clone());
        registry.register("notifications", "Tries to send a notification", metrics.notifications.clone());
        registry.register("notifications_waiting", "Notifications to be sent", metrics.waiting.clone());
        registry.register_with_unit(
            "notifications_waiting",
            "Age of the oldest notification that is to be sent",
            Unit::Seconds,
            metrics.waiting_seconds.clone(),
        );
        metrics
    }

    /// A request that was answered, after so long.
    pub(crate) fn answered(&self, route: &str, method: &'static str, status: u16, after: Duration) {
        let route = route.to_owned();
        self.seconds.get_or_create(&Route { route: route.clone() }).observe(after.as_secs_f64());
        self.requests.get_or_create(&Request { route, method, status }).inc();
    }

    /// A report that was accepted.
    pub(crate) fn reported(&self, outcome: &'static str) {
        self.reports.get_or_create(&Outcome { outcome }).inc();
    }

    /// An attestation that was accepted.
    pub(crate) fn attested(&self, passes: bool) {
        let outcome = if passes { "passed" } else { "failed" };
        self.attestations.get_or_create(&Outcome { outcome }).inc();
    }

    /// A bootstrap file that was read: the generation that was applied, or none.
    pub(crate) fn loaded(&self, generation: Option<i64>) {
        let outcome = if generation.is_some() { "applied" } else { "failed" };
        self.reloads.get_or_create(&Outcome { outcome }).inc();
        if let Some(generation) = generation {
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            self.generation.set(generation as f64);
        }
    }

    /// Rows that retention removed.
    pub(crate) fn removed(&self, rows: u64) {
        self.removed.inc_by(rows);
    }

    /// Something that happened.
    pub(crate) fn happened(&self, trigger: model::Trigger) {
        self.events.get_or_create(&Trigger { trigger: trigger.as_str() }).inc();
    }

    /// A try to send a notification.
    pub(crate) fn sent(&self, target: TargetKind, outcome: &'static str) {
        self.notifications.get_or_create(&Delivery { target: target.as_str(), outcome }).inc();
    }

    /// How many notifications wait to be sent, and for how long the oldest does.
    pub(crate) fn waiting(&self, notifications: i64, longest: Duration) {
        self.waiting.set(notifications);
        self.waiting_seconds.set(longest.as_secs_f64());
    }

    /// All of it, in the OpenMetrics text format.
    pub(crate) fn text(&self, (open, idle): (u32, u32)) -> String {
        let set = |state, count: u32| self.connections.get_or_create(&State { state }).set(count.into());
        set("idle", idle);
        set("used", open.saturating_sub(idle));
        metrics::text(&self.registry)
    }
}
