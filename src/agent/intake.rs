//! Adds the pods that lists and watches bring to the live set.
//!
//! Called by `gather` for the one shot and by `daemon` for its watches, once per pod. Logs the pods and
//! containers that are left out, and returns what the caller has to warn about: only the caller can bound
//! the number of warnings.

use super::Plan;
use super::summary::counted;
use crate::cluster::Unreadable;
use crate::domain::escape::{Visible, shortened};
use crate::domain::live::collapse::PodSkip;
use crate::domain::live::departure::Departure;
use crate::domain::live::live_set::{Applied, Roster, Unread};
use crate::domain::live::pod::PodView;
use crate::domain::model::NamespaceName;

/// Maximum number of unreadable pods that are named in warnings: by the one shot, and by each watch of the
/// daemon per minute.
pub(super) const MAX_NAMED: u32 = 10;

/// Maximum length of the description of an unreadable pod in a warning, in characters.
const MAX_PROBLEM: usize = 512;

/// The result of adding one pod.
#[derive(Default)]
pub(super) struct Added {
    /// The artifacts that are no longer running.
    pub(super) departures: Vec<Departure>,
    /// Why the pod cannot be read, if an environment selects its namespace.
    pub(super) problem: Option<String>,
    /// The pod's namespace and name, if the current list has named it before.
    pub(super) repeated: Option<String>,
}

/// Adds a pod from the list or watch of this namespace, or of the whole cluster.
pub(super) fn add(
    plan: &Plan,
    roster: &mut Roster,
    of: Option<&NamespaceName>,
    pod: Result<PodView, Unreadable>,
) -> Added {
    let pod = match pod {
        Ok(pod) if plan.leaves_out(&pod) => return Added::default(),
        Ok(pod) => pod,
        Err(Unreadable { pod, problem }) => {
            let name = pod.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
            let is_taken = roster.unreadable(of, name) != Unread::NotTaken;
            return Added { problem: is_taken.then_some(problem), ..Added::default() };
        }
    };
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    let applied = roster.apply(of, pod);
    log_skips(&namespace, &name, &applied);
    let Applied { departures, left_out, is_repeated, .. } = applied;
    Added {
        departures,
        problem: (left_out == Some(PodSkip::Unreadable)).then(|| problem(&namespace, &name)),
        repeated: is_repeated.then(|| format!("{namespace}/{name}")),
    }
}

/// The warning about a pod that cannot be read.
pub(super) fn warning(problem: &str) -> String {
    format!("a pod cannot be read and is left out: {}", Visible(&shortened(problem, MAX_PROBLEM)))
}

/// Logs a pod that is left out, or containers that are, at debug level: the summary has their number.
fn log_skips(namespace: &str, name: &str, applied: &Applied) {
    let (namespace, name) = (Visible(namespace), Visible(name));
    if let Some(why) = &applied.left_out {
        tracing::debug!("left out: the pod {namespace}/{name}, {why}");
    }
    for (why, n) in &applied.skipped {
        tracing::debug!("left out: {} of {namespace}/{name}, {why}", counted(*n, "container"));
    }
}

/// Describes a pod whose metadata cannot be reported.
fn problem(namespace: &str, name: &str) -> String {
    let why = match (namespace, name) {
        ("", _) => "has no namespace",
        (_, "") => "has no name",
        _ => "has no creation time, or a name that no pod can have",
    };
    format!("\"{namespace}/{name}\" {why}")
}
