//! The environments and containers to report, for a single run and for the daemon.

use super::EnvironmentConfig;
use crate::live::collapse::Counting;
use crate::live::pod::PodView;

#[derive(Debug, Clone)]
pub struct Plan {
    /// Environments, in the order in which a single run reports them.
    pub environments: Vec<EnvironmentConfig>,
    pub counting: Counting,
    /// The agent's own pod, if it must be excluded (`--exclude-self`).
    pub own_pod: Option<OwnPod>,
}

/// The agent's own pod, from the downward API (Kubernetes documentation, "Downward API").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl Plan {
    /// Whether the pod is the agent's own and excluded.
    pub(super) fn excludes(&self, pod: &PodView) -> bool {
        self.own_pod.as_ref().is_some_and(|own| own.uid == pod.uid && own.name == pod.name)
    }
}
