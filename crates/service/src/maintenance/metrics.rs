//! Metrics of the service. Label values come from closed sets and the bootstrap file, never from client input.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use model::{TargetKind, Trigger};
use rules::compliance::Compliance;
use runtime::metrics::{self, PREFIX, register, register_seconds};
use store::environments::silence::DeclaredEnvironment;
use store::policies::evaluation_queue::QueueBacklog;

type Labels<V, const N: usize> = [(&'static str, V); N];

fn trigger_label(trigger: Trigger) -> Labels<&'static str, 1> {
    [("trigger", trigger.as_str())]
}

fn outcome_label(outcome: &'static str) -> Labels<&'static str, 1> {
    [("outcome", outcome)]
}

/// Labels of the attempts to send a notification.
fn attempt_labels(target: TargetKind, outcome: &'static str) -> Labels<&'static str, 2> {
    [("target", target.as_str()), ("outcome", outcome)]
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<Labels<String, 1>, Histogram, fn() -> Histogram>,
    reports: Family<Labels<&'static str, 1>, Counter>,
    attestations: Family<Labels<&'static str, 1>, Counter>,
    connections: Family<Labels<&'static str, 1>, Gauge>,
    reloads: Family<Labels<&'static str, 1>, Counter>,
    generation: Gauge<f64, AtomicU64>,
    stale: Gauge,
    stale_reason: Mutex<Option<String>>,
    issuers: Family<Labels<String, 2>, Gauge>,
    removed: Counter,
    events: Family<Labels<&'static str, 1>, Counter>,
    notifications: Family<Labels<&'static str, 2>, Counter>,
    merged: Counter,
    waiting: Gauge,
    waiting_seconds: Gauge<f64, AtomicU64>,
    queued: Gauge,
    queued_seconds: Gauge<f64, AtomicU64>,
    failing: Gauge,
    environments: Environments,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: u16,
}

/// The gauges of declared environments. They are replaced as a whole, so that no scrape sees a part of them.
#[derive(Debug, Clone, Default)]
struct Environments(Arc<Mutex<Arc<EnvironmentGauges>>>);

#[derive(Debug, Default)]
struct EnvironmentGauges {
    compliance: Family<Labels<String, 3>, Gauge>,
    silent: Family<Labels<String, 2>, Gauge>,
    artifacts: Family<Labels<String, 2>, Gauge>,
    last_report: Family<Labels<String, 2>, Gauge<f64, AtomicU64>>,
    omitted: Gauge,
}

impl Collector for Environments {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let all: [(&str, &str, Option<&Unit>, &dyn EncodeMetric); 5] = [
            ("compliance", "1 for the current compliance", None, &gauges.compliance),
            ("silent", "1 while the environment is silent", None, &gauges.silent),
            ("artifacts", "Running artifacts", None, &gauges.artifacts),
            ("last_report_timestamp", "Time of the last report", Some(&Unit::Seconds), &gauges.last_report),
            ("metrics_omitted", "Declared environments without metrics", None, &gauges.omitted),
        ];
        for (name, help, unit, gauge) in all {
            metrics::encode(&mut encoder, &format!("environment_{name}"), help, unit, gauge)?;
        }
        Ok(())
    }
}

/// Maximum number of declared environments with metrics.
pub(crate) const MAX_ENVIRONMENTS: i64 = 1_000;

/// Buckets of request durations, in seconds: from a heartbeat to a body that takes a minute.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 60.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = metrics::registry();
        let prefixed = registry.sub_registry_with_prefix(PREFIX);
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        prefixed.register_with_unit(
            "http_request_duration",
            "Time from the headers of the request to those of the response",
            Unit::Seconds,
            seconds.clone(),
        );
        let environments = Environments::default();
        prefixed.register_collector(Box::new(environments.clone()));
        let metrics = Self {
            requests: register(prefixed, "http_requests", "Requests by route, method and status"),
            seconds,
            reports: register(prefixed, "reports", "Accepted reports by outcome"),
            attestations: register(prefixed, "attestations", "Accepted attestations by outcome"),
            connections: register(
                prefixed,
                "database_connections",
                "Connections of the database pool by state",
            ),
            reloads: register(prefixed, "bootstrap_loads", "Loads of the bootstrap file by outcome"),
            generation: register(
                prefixed,
                "bootstrap_generation",
                "Last applied generation of the bootstrap file",
            ),
            stale: register(
                prefixed,
                "bootstrap_stale",
                "1 while the bootstrap file has a lower generation than the database",
            ),
            issuers: register(prefixed, "issuer_down", "1 while the keys of an issuer cannot be refreshed"),
            removed: register(prefixed, "retention_removed_rows", "Rows removed by the retention"),
            events: register(prefixed, "events", "Events of environments by trigger"),
            notifications: register(
                prefixed,
                "notifications",
                "Attempts to send a notification by target type and outcome",
            ),
            merged: register(
                prefixed,
                "notifications_merged",
                "Notifications that were merged into a later one",
            ),
            waiting: register(prefixed, "notifications_waiting", "Notifications that are waiting to be sent"),
            waiting_seconds: register_seconds(
                prefixed,
                "notifications_waiting",
                "Age of the oldest waiting notification",
            ),
            queued: register(
                prefixed,
                "evaluations_waiting",
                "Environments that are waiting to be evaluated",
            ),
            queued_seconds: register_seconds(
                prefixed,
                "evaluations_waiting",
                "Age of the oldest waiting evaluation",
            ),
            failing: register(
                prefixed,
                "evaluations_failing",
                "Waiting environments whose evaluation failed at least twice",
            ),
            environments,
            stale_reason: Mutex::default(),
            registry,
        };
        // Present from the start, so that the first event is visible as an increase.
        for trigger in Trigger::ALL {
            drop(metrics.events.get_or_create(&trigger_label(trigger)));
        }
        for target in TargetKind::ALL {
            for outcome in ["arrived", "failed"] {
                drop(metrics.notifications.get_or_create(&attempt_labels(target, outcome)));
            }
        }
        metrics
    }

    pub(crate) fn request(&self, route: &str, method: &'static str, status: u16, after: Duration) {
        let route = route.to_owned();
        self.seconds.get_or_create(&[("route", route.clone())]).observe(after.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { route, method, status }).inc();
    }

    pub(crate) fn report(&self, outcome: &'static str) {
        self.reports.get_or_create(&outcome_label(outcome)).inc();
    }

    pub(crate) fn attestation(&self, passes: Option<bool>) {
        let outcome = match passes {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "no_verdict",
        };
        self.attestations.get_or_create(&outcome_label(outcome)).inc();
    }

    pub(crate) fn bootstrap_applied(&self, generation: i64) {
        self.bootstrap_loaded("applied", Some(generation), None);
    }

    /// Counts a rejected bootstrap file; `newer`: the generation of the database, if it is higher than the file's.
    pub(crate) fn bootstrap_failed(&self, error: &dyn std::error::Error, newer: Option<i64>) {
        self.bootstrap_loaded("failed", newer, newer.map(|_| error.to_string()));
    }

    fn bootstrap_loaded(&self, outcome: &'static str, generation: Option<i64>, stale: Option<String>) {
        if let Some(generation) = generation {
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            self.generation.set(generation as f64);
        }
        self.stale.set(stale.is_some().into());
        *self.stale_reason.lock().unwrap_or_else(PoisonError::into_inner) = stale;
        // Last, so that the gauges are those of this outcome.
        self.reloads.get_or_create(&outcome_label(outcome)).inc();
    }

    /// Why the bootstrap file is stale; `None` if it is not.
    pub(crate) fn stale_bootstrap(&self) -> Option<String> {
        self.stale_reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn removed_rows(&self, rows: u64) {
        self.removed.inc_by(rows);
    }

    pub(crate) fn event(&self, trigger: Trigger) {
        self.events.get_or_create(&trigger_label(trigger)).inc();
    }

    pub(crate) fn notification(&self, target: TargetKind, outcome: &'static str) {
        self.notifications.get_or_create(&attempt_labels(target, outcome)).inc();
    }

    /// Counts notifications that were merged into a later one.
    pub(crate) fn merged_notifications(&self, notifications: usize) {
        self.merged.inc_by(notifications as u64);
    }

    /// Sets the number of waiting notifications and the age of the oldest.
    pub(crate) fn set_waiting(&self, notifications: i64, oldest: Duration) {
        self.waiting.set(notifications);
        self.waiting_seconds.set(oldest.as_secs_f64());
    }

    /// Sets the numbers of environments that wait to be evaluated, and the age of the oldest.
    pub(crate) fn set_evaluation_queue(&self, backlog: &QueueBacklog, oldest: Duration) {
        self.queued.set(backlog.waiting);
        self.failing.set(backlog.failing);
        self.queued_seconds.set(oldest.as_secs_f64());
    }

    /// Replaces the gauges of declared environments.
    pub(crate) fn set_environments(&self, declared: Vec<DeclaredEnvironment>) {
        let gauges = EnvironmentGauges::default();
        let listed = i64::try_from(declared.len()).unwrap_or(i64::MAX);
        gauges.omitted.set(declared.first().map_or(0, |first| first.total - listed));
        for is in declared {
            let environment = [("organization", is.organization), ("environment", is.name)];
            gauges.silent.get_or_create(&environment).set(is.is_silent.into());
            gauges.artifacts.get_or_create(&environment).set(is.artifacts);
            if let Some(at) = is.last_report_at {
                gauges.last_report.get_or_create(&environment).set(at.seconds());
            }
            // The artifacts of a silent environment are unknown.
            let current = match is.compliance {
                Compliance::Compliant if is.is_silent => Compliance::Unknown,
                compliance => compliance,
            };
            for (compliance, status) in [
                (Compliance::Compliant, "compliant"),
                (Compliance::NonCompliant, "non-compliant"),
                (Compliance::Unknown, "unknown"),
            ] {
                let [organization, name] = environment.clone();
                let labels = [organization, name, ("status", status.to_owned())];
                gauges.compliance.get_or_create(&labels).set((current == compliance).into());
            }
        }
        *self.environments.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(gauges);
    }

    /// All metrics, in the OpenMetrics text format. `open` and `idle`: connections to the database, where `open` includes
    /// the idle ones; `issuers`: organization and URL of each, and whether it is down.
    pub(crate) fn text(
        &self,
        open: u32,
        idle: u32,
        issuers: impl Iterator<Item = (String, String, bool)>,
    ) -> String {
        self.issuers.clear();
        for (organization, issuer, is_down) in issuers {
            self.issuers
                .get_or_create(&[("organization", organization), ("issuer", issuer)])
                .set(is_down.into());
        }
        let set = |state, count: u32| self.connections.get_or_create(&[("state", state)]).set(count.into());
        set("idle", idle);
        set("used", open.saturating_sub(idle));
        metrics::text(&self.registry)
    }
}
