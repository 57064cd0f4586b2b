//! State of one environment: whether it may be reported, its unreported departed pods, and the result of
//! its reports.
//!
//! `shared` keeps one per environment; reporters, probes and scrapes read it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::metrics::{self, Metrics};
use super::timing::TrackDeparted;
use super::watch_state::{WatchState, WatchTarget};
use crate::EnvironmentConfig;
use crate::live::confirmation::{self, Emptiness, Existence, Facts, Withheld};
use crate::live::departed_pods::{DepartedPods, Limits};
use crate::live::departure::{Departure, Revision};
use crate::live::live_set::{LiveSet, Tally};
use model::NamespaceName;

pub(super) struct EnvironmentState {
    pub(super) config: EnvironmentConfig,
    /// Indices of the watches that cover its namespaces.
    pub(super) watches: Vec<usize>,
    pub(super) departed_pods: Option<DepartedPods>,
    /// Results of the lookups of named namespaces without pods.
    pub(super) existence: BTreeMap<NamespaceName, Existence>,
    /// Once confirmed, an empty environment may be reported.
    pub(super) is_confirmed: bool,
    /// Revision and presence of departed pods that the reporter last saw; `None` if it could not report.
    pub(super) last_view: Option<(Revision, bool)>,
    /// Result of its reports, for scrapes.
    pub(super) reports: ReportState,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ReportState {
    pub(super) last_accepted: Option<SystemTime>,
    pub(super) pending_since: Option<Instant>,
    pub(super) withheld: Option<&'static str>,
}

impl EnvironmentState {
    pub(super) fn new(
        config: &EnvironmentConfig,
        watches: &[WatchState],
        track_departed: TrackDeparted,
    ) -> Self {
        let selection = &config.selection;
        let departed_pods = DepartedPods::new(Limits::default());
        let is_needed = |watch: &WatchState| match &watch.target {
            WatchTarget::Pods(scope) => scope.as_ref().is_none_or(|name| selection.selects(name.as_str())),
            WatchTarget::Namespaces => selection.has_label_selector(),
        };
        let needed = watches.iter().enumerate().filter(|(_, watch)| is_needed(watch));
        Self {
            watches: needed.map(|(n, _)| n).collect(),
            config: config.clone(),
            departed_pods: (track_departed == TrackDeparted::On).then_some(departed_pods),
            existence: BTreeMap::new(),
            is_confirmed: false,
            last_view: None,
            reports: ReportState::default(),
        }
    }

    /// Records that a pod departed; `left` is the first revision without it, and `selected` the first one in which the
    /// environment selected its namespace: no earlier report contained the pod.
    pub(super) fn record_departure(&mut self, departure: &Departure, left: Revision, selected: Revision) {
        if let Some(departed_pods) = &mut self.departed_pods {
            let since = departure.since.max(selected);
            departed_pods.insert(Departure { since, ..departure.clone() }, left);
        }
    }

    /// Counts a departed pod that was dropped before the labels of its namespace were known, if they may select it.
    pub(super) fn record_dropped(&mut self, departure: &Departure) {
        if self.config.selection.label_selector_for(&departure.artifact.namespace).is_some()
            && let Some(departed_pods) = &mut self.departed_pods
        {
            departed_pods.record_dropped();
        }
    }

    /// Whether the reporter must run. While reports are withheld, contact with the API server is sufficient.
    pub(super) fn has_changed(&self, n: usize, live_set: &LiveSet) -> bool {
        self.reports.withheld.is_some()
            || self.last_view != Some((live_set.revision(n), self.has_departed_pods()))
    }

    /// Whether there are unreported departed pods.
    pub(super) fn has_departed_pods(&self) -> bool {
        self.departed_pods.as_ref().is_some_and(|departed_pods| !departed_pods.is_empty())
    }

    /// Returns why reports are withheld. After the first confirmation, only unreadable pods or namespaces can withhold them.
    pub(super) fn confirm(&mut self, n: usize, live_set: &LiveSet) -> Option<Withheld> {
        let tally = live_set.tally(n);
        let facts = Facts {
            artifacts: usize::try_from(tally.artifacts).unwrap_or(usize::MAX),
            has_pods: live_set.has_seen_any(n),
            unreadable: live_set.unattributed(n) + tally.unreadable(),
        };
        let emptiness = if self.is_confirmed { Emptiness::Allowed } else { self.config.empty };
        let existence = |name: &NamespaceName| self.existence_of(name, live_set);
        let confirmed = confirmation::confirm(&self.config.selection, emptiness, facts, existence);
        self.is_confirmed |= confirmed.is_ok();
        confirmed.err()
    }

    pub(super) fn existence_of(&self, name: &NamespaceName, live_set: &LiveSet) -> Existence {
        match self.existence.get(name) {
            _ if live_set.has_seen(name.as_str()) => Existence::Exists,
            Some(existence) => *existence,
            None => Existence::Unknown,
        }
    }

    pub(super) fn measure(&self, tally: &Tally, metrics: &Metrics, now: Instant) {
        let name = self.config.name.as_str();
        let label = metrics::labels([("environment", name)]);
        metrics.count(name, tally);
        // Starts the series at 0: an alert on its increase misses a first value above 0.
        metrics.other_writers.get_or_create(&label).inc_by(0);
        let ReportState { last_accepted, pending_since, withheld } = &self.reports;
        if let Some(accepted) = last_accepted {
            let accepted = accepted.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            metrics.last_accepted.get_or_create(&label).set(accepted.as_secs_f64());
        }
        let pending = pending_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        metrics.pending.get_or_create(&label).set(pending.as_secs_f64());
        for reason in metrics::WITHHELD {
            let label = metrics::labels([("environment", name), ("reason", reason)]);
            metrics.withheld.get_or_create(&label).set(i64::from(*withheld == Some(reason)));
        }
        if let Some(departed_pods) = &self.departed_pods {
            metrics.departed_pods.get_or_create(&label).set(metrics::integer(departed_pods.len() as u64));
            let deduplicated = metrics.departed_pods_deduplicated.get_or_create(&label);
            deduplicated.inc_by(departed_pods.counts().deduplicated.saturating_sub(deduplicated.get()));
            let dropped = metrics.departed_pods_dropped.get_or_create(&label);
            dropped.inc_by(departed_pods.counts().dropped.saturating_sub(dropped.get()));
        }
    }
}
