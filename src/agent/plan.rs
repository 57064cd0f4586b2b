//! What to report: the same for the one shot and the daemon.

use super::Environment;
use crate::domain::live::collapse::Counting;
use crate::domain::live::pod::PodView;

/// What to report.
#[derive(Debug, Clone)]
pub struct Plan {
    /// To which environments, in this order.
    pub environments: Vec<Environment>,
    /// Which containers count.
    pub counting: Counting,
    /// The pod that this runs in, where it is left out.
    pub own_pod: Option<OwnPod>,
}

/// The pod that this runs in, by the downward API (Kubernetes documentation, "Downward API").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl Plan {
    /// Whether a pod is left out, since it is the one that this runs in.
    pub(super) fn leaves_out(&self, pod: &PodView) -> bool {
        self.own_pod.as_ref().is_some_and(|own| own.uid == pod.uid && own.name == pod.name)
    }
}
