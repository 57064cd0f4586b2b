//! The fields of a pod that supercargo reads.
//!
//! `cluster` decodes them from protobuf, JSON or YAML; `collapse` reads them. Environment variables,
//! arguments, annotations other than [`EXCLUDE`] and volumes other than images are never decoded. Text is bytes until it is converted: it need
//! not be UTF-8.

use model::{OwnerReference, Timestamp};

/// The annotation that excludes a pod, in environments that permit it.
pub const EXCLUDE: &str = "supercargo.dev/exclude";

/// Its value; any other value excludes nothing.
pub const EXCLUDE_VALUE: &str = "true";

/// The fields of a pod that a report depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodView {
    /// `metadata.namespace`; empty if absent.
    pub namespace: String,
    /// `metadata.name`; empty if absent.
    pub name: String,
    /// `metadata.uid`: distinguishes a pod from a later one with the same name; empty if absent.
    pub uid: String,
    /// `metadata.creationTimestamp`, in seconds of Unix time.
    pub created_at: Option<i64>,
    /// `status.phase`.
    pub phase: Phase,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// The containers with a status, and the mounted volumes with an image.
    pub containers: Vec<ContainerView>,
    /// Whether it has the annotation [`EXCLUDE`].
    pub is_excluded: bool,
}

impl PodView {
    /// The creation time for a report: `None` before 1970, at most the year 9999. The service rejects a report
    /// with any other time.
    #[must_use]
    pub fn reported_creation_time(&self) -> Option<i64> {
        self.created_at.filter(|at| *at >= 0).map(|at| at.min(Timestamp::LAST_SECOND))
    }
}

/// The status of a container, or of a volume with an image, with the image of its specification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct ContainerView {
    /// The list of the pod that contains it.
    pub kind: ContainerKind,
    /// Its name, unique in the pod; `volume/` and the name of a volume, since a container may have the same name.
    pub name: String,
    /// `status.*ContainerStatuses[].image`; empty for a volume.
    pub image: String,
    /// `status.*ContainerStatuses[].imageID`, or `volumeMounts[].volumeStatus.image.imageRef` there; empty until
    /// the image was pulled.
    pub image_id: String,
    /// `image` of the container, or `image.reference` of the volume, of the same name in the pod's specification.
    pub spec_image: String,
}

/// The three kinds of containers (Kubernetes documentation, "Pods"), and volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ContainerKind {
    #[default]
    App,
    /// A container that runs first, or beside the others as a native sidecar.
    Init,
    /// A container attached to a running pod, for example by `kubectl debug`.
    Ephemeral,
    /// A volume with the content of an image, such as a model.
    Volume,
}

/// Phase of a pod (Kubernetes documentation, "Pod Lifecycle").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Phase {
    /// Succeeded or Failed: all containers have ended and will not restart.
    Ended,
    /// Any other phase: in Pending an init container may run, in Unknown the pod may still run, and
    /// Kubernetes may add phases.
    #[default]
    Alive,
}

impl Phase {
    /// Parses `status.phase`.
    #[must_use]
    pub fn from_status(phase: &str) -> Self {
        match phase {
            "Succeeded" | "Failed" => Self::Ended,
            _ => Self::Alive,
        }
    }
}
