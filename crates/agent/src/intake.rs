//! Adds pods from lists and watches to the live set.
//!
//! Called once per pod, by `gather` for a single run and by `daemon` for its watches. Logs the pods and
//! containers left out, and returns problems to the caller, which limits the number of warnings.

use tracing::Level;

use super::Plan;
use crate::cluster::Unreadable;
use crate::live::collapse::{self, PodSkip};
use crate::live::departure::Departure;
use crate::live::live_set::{ApplyResult, LiveSet, UnreadableItem};
use crate::live::pod::{ContainerView, Phase, PodView};
use model::escape::{Escaped, shortened};
use model::{NamespaceName, pluralize};

/// Maximum number of unreadable pods named in warnings: per single run, and per watch and minute in the daemon.
pub(super) const MAX_NAMED: u32 = 10;

/// Maximum length of the description of an unreadable pod in a warning, in characters.
const MAX_PROBLEM: usize = 512;

/// The result of adding one pod.
#[derive(Default)]
pub(super) struct Added {
    /// Artifacts that are no longer running.
    pub(super) departures: Vec<Departure>,
    /// Why the pod is unreadable, if an environment selects its namespace.
    pub(super) problem: Option<String>,
    /// Namespace and name of the pod, if the current list contained it before.
    pub(super) repeated: Option<String>,
}

/// Adds a pod from the list or watch of `scope`; `None` is the whole cluster.
pub(super) fn add(
    plan: &Plan,
    live_set: &mut LiveSet,
    scope: Option<&NamespaceName>,
    pod: Result<PodView, Unreadable>,
) -> Added {
    let pod = match pod {
        Ok(pod) if plan.excludes(&pod) => return Added::default(),
        Ok(pod) => pod,
        Err(Unreadable { pod, problem, .. }) => {
            let name = pod.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
            let is_taken = live_set.unreadable(scope, name) != UnreadableItem::NotSelected;
            return Added { problem: is_taken.then_some(problem), ..Added::default() };
        }
    };
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    if tracing::enabled!(Level::DEBUG) && may_report(plan, live_set, &pod) {
        log_two_names(plan, &pod);
    }
    let applied = live_set.apply(scope, pod);
    log_skips(&namespace, &name, &applied);
    let ApplyResult { departures, skip, is_repeated, .. } = applied;
    Added {
        departures,
        problem: (skip == Some(PodSkip::Unreadable)).then(|| problem(&namespace, &name)),
        repeated: is_repeated.then(|| format!("{namespace}/{name}")),
    }
}

/// The warning about an unreadable pod.
pub(super) fn warning(problem: &str) -> String {
    format!("unreadable pod left out: {}", Escaped(&shortened(problem, MAX_PROBLEM)))
}

pub(super) fn namespace_warning(problem: &str) -> String {
    format!("labels of an unreadable namespace ignored: {}", Escaped(&shortened(problem, MAX_PROBLEM)))
}

/// Logs a pod or containers left out at debug level; the summary contains their number.
fn log_skips(namespace: &str, name: &str, applied: &ApplyResult) {
    let (namespace, name) = (Escaped(namespace), Escaped(name));
    if let Some(why) = &applied.skip {
        tracing::debug!("left out: pod {namespace}/{name}, {}", why.description());
    }
    for (why, n) in &applied.skipped_containers {
        tracing::debug!(
            "left out: {} of {namespace}/{name}, {}",
            pluralize(*n, "container"),
            why.description()
        );
    }
}

/// Whether the pod is in a report, or may be once the labels of its namespace are known.
fn may_report(plan: &Plan, live_set: &LiveSet, PodView { namespace, phase, .. }: &PodView) -> bool {
    let is_selected = |n| live_set.selected_since(n, namespace).is_some();
    *phase == Phase::Alive
        && ((0..plan.environments.len()).any(is_selected) || live_set.awaits_labels(namespace))
}

fn log_two_names(plan: &Plan, pod: &PodView) {
    let (namespace, name) = (Escaped(&pod.namespace), Escaped(&pod.name));
    for ContainerView { name: container, image, spec_image, .. } in
        collapse::containers_with_two_names(pod, plan.counting)
    {
        tracing::debug!(
            "pod {namespace}/{name}: container \"{}\" is reported as \"{}\", as in its status, and not as \"{}\", as in its specification",
            Escaped(container),
            Escaped(image),
            Escaped(spec_image),
        );
    }
}

/// Describes a pod whose metadata cannot be reported.
fn problem(namespace: &str, name: &str) -> String {
    let why = match (namespace, name) {
        ("", _) => "has no namespace",
        (_, "") => "has no name",
        _ => "has no creation time or an invalid name",
    };
    format!("\"{namespace}/{name}\" {why}")
}
