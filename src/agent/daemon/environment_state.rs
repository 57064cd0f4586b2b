//! How one environment stands: whether it may be reported, what came and went unreported, and how its
//! reports go.
//!
//! `shared` keeps one for each environment; its reporter, probes and scrapes look at it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::metrics::{self, Metrics};
use super::timing::Witnessing;
use super::watch_state::Watched;
use crate::agent::Environment;
use crate::domain::live::confirmation::{self, Emptiness, Existence, Facts, Withheld};
use crate::domain::live::departed_pods::{Bounds, Witness};
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::live_set::{Roster, Tally};
use crate::domain::model::NamespaceName;

/// What is known of one environment.
pub(super) struct Standing {
    pub(super) environment: Environment,
    /// The watches that it needs.
    pub(super) watches: Vec<usize>,
    pub(super) witness: Option<Witness>,
    /// What the API server said of the namespaces that it names and that hold no pod.
    pub(super) existence: BTreeMap<NamespaceName, Existence>,
    /// That there are no other pods is no guess any more.
    pub(super) is_confirmed: bool,
    /// What its task last saw of it; nothing, where that was no state to report.
    pub(super) looked_at: Option<(Revision, bool)>,
    /// What its task last said of itself, for scrapes.
    pub(super) reported: Reported,
}

/// How an environment's reports go.
#[derive(Debug, Clone, Default)]
pub(super) struct Reported {
    pub(super) last_accepted: Option<SystemTime>,
    pub(super) pending_since: Option<Instant>,
    pub(super) withheld: Option<&'static str>,
}

impl Standing {
    /// Of an environment of which nothing is known yet.
    pub(super) fn new(environment: &Environment, watches: &[Watched], witnessing: Witnessing) -> Self {
        let is_needed =
            |watched: &Watched| watched.of.as_ref().is_none_or(|of| environment.selection.takes(of.as_str()));
        let needed = watches.iter().enumerate().filter(|(_, watched)| is_needed(watched));
        Self {
            watches: needed.map(|(n, _)| n).collect(),
            environment: environment.clone(),
            witness: (witnessing == Witnessing::On).then(|| Witness::new(Bounds::default())),
            existence: BTreeMap::new(),
            is_confirmed: false,
            looked_at: None,
            reported: Reported::default(),
        }
    }

    /// A pod left the set; `left` is the first revision without it.
    pub(super) fn departed(&mut self, departure: &Departure, left: Revision) {
        if self.environment.selection.takes(&departure.artifact.namespace)
            && let Some(witness) = &mut self.witness
        {
            witness.departed(departure.clone(), left);
        }
    }

    /// Whether there is something that its task has not seen. While nothing is reported, all may be: to hear of
    /// the cluster again is enough.
    pub(super) fn has_news(&self, n: usize, roster: &Roster) -> bool {
        self.reported.withheld.is_some() || self.looked_at != Some((roster.revision(n), self.has_witnessed()))
    }

    /// Whether there are pods to witness.
    pub(super) fn has_witnessed(&self) -> bool {
        self.witness.as_ref().is_some_and(|witness| !witness.is_empty())
    }

    /// Why it may not be reported as it is; once that there is no more was confirmed, only pods that
    /// cannot be read raise a doubt again.
    pub(super) fn confirm(&mut self, n: usize, roster: &Roster) -> Option<Withheld> {
        let tally = roster.tally(n);
        let facts = Facts {
            artifacts: usize::try_from(tally.artifacts).unwrap_or(usize::MAX),
            has_pods: roster.has_seen_any(n),
            unreadable: roster.lost() + tally.unreadable(),
        };
        let emptiness = if self.is_confirmed { Emptiness::Allowed } else { self.environment.empty };
        let existence = |name: &NamespaceName| self.existence_of(name, roster);
        let confirmed = confirmation::confirm(&self.environment.selection, emptiness, facts, existence);
        self.is_confirmed |= confirmed.is_ok();
        confirmed.err()
    }

    pub(super) fn existence_of(&self, name: &NamespaceName, roster: &Roster) -> Existence {
        match self.existence.get(name) {
            _ if roster.has_seen(name.as_str()) => Existence::Exists,
            Some(existence) => *existence,
            None => Existence::Unsaid,
        }
    }

    pub(super) fn measure(&self, tally: &Tally, metrics: &Metrics, now: Instant) {
        let label = metrics::Environment { environment: self.environment.name.as_str().to_owned() };
        metrics.count(&label, tally);
        // A series that begins above 0 has no increase for an alert to see.
        metrics.other_writers.get_or_create(&label).inc_by(0);
        let Reported { last_accepted, pending_since, withheld } = &self.reported;
        if let Some(accepted) = last_accepted {
            let accepted = accepted.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            metrics.last_accepted.get_or_create(&label).set(accepted.as_secs_f64());
        }
        let pending = pending_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        metrics.pending.get_or_create(&label).set(pending.as_secs_f64());
        for reason in metrics::WITHHELD {
            let label = metrics::Reason { environment: label.environment.clone(), reason };
            metrics.withheld.get_or_create(&label).set(i64::from(*withheld == Some(reason)));
        }
        if let Some(witness) = &self.witness {
            metrics.witnessed.get_or_create(&label).set(metrics::integer(witness.len() as u64));
            let thinned = metrics.witness_thinned.get_or_create(&label);
            thinned.inc_by(witness.counts().stood_for.saturating_sub(thinned.get()));
            let dropped = metrics.witness_dropped.get_or_create(&label);
            dropped.inc_by(witness.counts().lost.saturating_sub(dropped.get()));
        }
    }
}
