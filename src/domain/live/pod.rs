//! What supercargo keeps of a pod.
//!
//! `cluster` makes it, from protobuf, JSON or YAML alike; `collapse` reads it. Nothing else of a
//! pod (environment, arguments, annotations, volumes) is ever looked at.

use crate::domain::model::{OwnerReference, Timestamp};

/// The dozen fields of a pod that decide what is reported of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodView {
    /// `metadata.namespace`; empty where there was none.
    pub namespace: String,
    /// `metadata.name`; empty where there was none.
    pub name: String,
    /// `metadata.uid`: what tells a pod from a later one of its name; empty where there was none.
    pub uid: String,
    /// `metadata.creationTimestamp`, in seconds of Unix time.
    pub created_at: Option<i64>,
    /// `status.phase`.
    pub phase: Phase,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// One for each container that has a status.
    pub containers: Vec<ContainerView>,
}

impl PodView {
    /// When it was created, as a report can say it: nothing before 1970, and no later than the year 9999. A
    /// service refuses the whole report for any other time.
    #[must_use]
    pub fn time(&self) -> Option<i64> {
        self.created_at.filter(|at| *at >= 0).map(|at| at.min(Timestamp::LAST_SECOND))
    }
}

/// A container's status, with the image that its specification asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct ContainerView {
    /// Which of the pod's three lists it stands in.
    pub kind: ContainerKind,
    /// Its name, which no other container of the pod has.
    pub name: String,
    /// `status.*ContainerStatuses[].image`.
    pub image: String,
    /// `status.*ContainerStatuses[].imageID`; empty until the image was pulled.
    pub image_id: String,
    /// `image` of the container of the same name in the pod's specification.
    pub spec_image: String,
}

/// The three kinds of containers (Kubernetes documentation, "Pods").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ContainerKind {
    /// A regular one.
    #[default]
    App,
    /// One that runs first, or beside the others as a native sidecar.
    Init,
    /// One attached to a running pod, as `kubectl debug` does.
    Ephemeral,
}

/// Where a pod is in its life (Kubernetes documentation, "Pod Lifecycle").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Phase {
    /// Succeeded or Failed: all its containers have ended and none will start again.
    Ended,
    /// Anything else. Pending, since an init container may run; Unknown, since nobody knows that
    /// it stopped; and any word that a later Kubernetes may add.
    #[default]
    Alive,
}

impl Phase {
    /// Reads `status.phase`.
    #[must_use]
    pub fn from_status(phase: &str) -> Self {
        match phase {
            "Succeeded" | "Failed" => Self::Ended,
            _ => Self::Alive,
        }
    }
}
