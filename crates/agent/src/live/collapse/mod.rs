//! Converts one pod into one artifact of a report.
//!
//! The live set calls it for every applied pod, with the digests that it remembers of the pod. Pure: takes a
//! [`PodView`], uses no socket or clock, and cannot fail. Unusable input becomes a skip with a reason.

mod reference;
mod size_budget;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::escape::needs_escape;
use model::image_id::{self, ImageId, InvalidImageId};

use self::size_budget::Fitting;
use super::pod::{ContainerKind, ContainerView, Phase, PodView};
use model::{Digests, Fingerprint, Workload, words};

/// Maximum length of an image name, in bytes. The longest valid one with a tag and a SHA-512 digest has 520.
const MAX_NAME_BYTES: usize = 1_024;

/// Containers that a report includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Regular, init and ephemeral containers, and mounted images: all code that runs, or ran, in the pod.
    #[default]
    All,
    /// Regular containers only.
    App,
}

words! {
    /// Why a pod is not reported, with the label of its metric.
    PodSkip {
        /// Its phase is Succeeded or Failed.
        Ended "ended",
        /// No container has an image ID yet.
        NotStarted "not_started",
        /// No image ID contains a SHA-256 digest.
        NoDigest "no_digest",
        /// The pod cannot be decoded, or lacks a name, a namespace or a creation time.
        Unreadable "unreadable",
        /// It has the annotation that excludes it, in an environment that permits it.
        Excluded "excluded",
    }
}

impl PodSkip {
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::NoDigest => "without a SHA-256 digest",
            Self::Ended | Self::Unreadable | Self::Excluded => self.as_str(),
        }
    }
}

words! {
    /// Why a container is not in the report, with the label of its metric.
    ContainerSkip {
        /// No image ID: the image is not pulled, or the kubelet lost the status.
        NotStarted "not_started",
        /// Its digest is not SHA-256, which the interface requires.
        OtherAlgorithm "other_algorithm",
        /// Its image ID contains no digest.
        NoDigest "no_digest",
        /// The pod exceeds its size budget.
        TooMany "too_many",
    }
}

impl From<InvalidImageId> for ContainerSkip {
    fn from(invalid: InvalidImageId) -> Self {
        match invalid {
            InvalidImageId::NotStarted => Self::NotStarted,
            InvalidImageId::OtherAlgorithm => Self::OtherAlgorithm,
            InvalidImageId::NoDigest => Self::NoDigest,
        }
    }
}

impl ContainerSkip {
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::OtherAlgorithm => "with a digest other than SHA-256",
            Self::NoDigest => "without a digest in the image ID",
            Self::TooMany => "above the size limit of a pod",
        }
    }
}

/// A collapsed pod, without the fields that differ between pods of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collapsed {
    /// The reported workload, or why the pod is skipped.
    pub workload: Result<Arc<Workload>, PodSkip>,
    /// Number of skipped containers of a started pod, by reason.
    pub skipped: Box<[(ContainerSkip, u64)]>,
    /// The containers with a known digest, sorted; to be remembered for the next event of the pod.
    pub containers: Box<[Container]>,
}

/// A container with a known digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container {
    name: Box<str>,
    /// The normalized image name.
    image: Box<str>,
    digest: Fingerprint,
    is_config_digest: bool,
}

impl Container {
    fn image(&self) -> (Fingerprint, &str) {
        (self.digest, &self.image)
    }
}

impl Collapsed {
    /// A pod that is not reported.
    #[must_use]
    pub fn skipped(reason: PodSkip) -> Self {
        Self { workload: Err(reason), skipped: Box::default(), containers: Box::default() }
    }

    /// Number of containers of which only the digest of the image configuration is known.
    #[must_use]
    pub fn config_digests(&self) -> u64 {
        self.containers.iter().filter(|c| c.is_config_digest).count() as u64
    }
}

/// Collapses one pod; `remembered` are the containers of its previous state.
///
/// A pod is reported from the first digest of a container until its phase is Succeeded or Failed. Ended
/// containers count until then. After a reboot of a node, the kubelet restores statuses without image IDs, or
/// not at all, so a container keeps its remembered digest until it has another.
#[must_use]
pub fn collapse(pod: PodView, counting: Counting, remembered: &[Container]) -> Collapsed {
    if pod.phase == Phase::Ended {
        return Collapsed::skipped(PodSkip::Ended);
    }
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for container in pod.containers.iter().filter(|container| counting.includes(container)) {
        match image_id::parse(&container.image_id) {
            Ok(id) => known.push(Container {
                name: container.name.as_str().into(),
                image: image_name(container, &id).into(),
                digest: id.digest,
                is_config_digest: id.repository.is_none(),
            }),
            Err(invalid) => missing.push((&container.name, invalid.into())),
        }
    }
    let current = known.len();
    for old in remembered {
        if !known.iter().take(current).any(|c| c.name == old.name) {
            known.push(old.clone());
        }
    }
    let Fitting { mut containers, owners, remembered, too_many } =
        size_budget::fitting(known, current, pod.owners);
    let mut skipped = BTreeMap::<_, u64>::new();
    if too_many > 0 {
        skipped.insert(ContainerSkip::TooMany, too_many);
    }
    for (name, reason) in missing {
        if reason != ContainerSkip::NotStarted || !remembered.contains(name.as_str()) {
            *skipped.entry(reason).or_default() += 1;
        }
    }
    if containers.is_empty() && skipped.keys().all(|reason| *reason == ContainerSkip::NotStarted) {
        return Collapsed::skipped(PodSkip::NotStarted);
    }
    containers.sort_unstable();
    let workload = match pod.created_at {
        _ if containers.is_empty() => Err(PodSkip::NoDigest),
        Some(_) if !pod.name.is_empty() && !pod.namespace.is_empty() => {
            let (digests, is_excluded) = (digests(&containers), pod.is_excluded);
            Ok(Arc::new(Workload { digests, owners, is_excluded }))
        }
        _ => Err(PodSkip::Unreadable),
    };
    Collapsed { workload, skipped: skipped.into_iter().collect(), containers: containers.into() }
}

/// The containers to report whose status names another repository than the specification. A node has one digest under several
/// names, or the specification already names the next image.
pub fn containers_with_two_names(pod: &PodView, counting: Counting) -> impl Iterator<Item = &ContainerView> {
    pod.containers.iter().filter(move |container| {
        counting.includes(container)
            && is_image_name(&container.image)
            && is_image_name(&container.spec_image)
            && reference::repository(&container.image) != reference::repository(&container.spec_image)
    })
}

impl Counting {
    fn includes(self, container: &ContainerView) -> bool {
        self == Self::All || container.kind == ContainerKind::App
    }
}

/// Whether a name can be reported: not too long, without control or invisible characters, and more than a digest.
fn is_image_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !image_id::is_bare_digest(name)
        && !name.contains(needs_escape)
}

/// The image name: from the status, else from the specification, which may already name the next image, else the repository
/// of the digest, else the digest itself.
fn image_name(container: &ContainerView, id: &ImageId<'_>) -> String {
    [container.image.as_str(), container.spec_image.as_str(), id.repository.unwrap_or_default()]
        .into_iter()
        .find(|name| is_image_name(name))
        .map_or_else(|| format!("sha256:{}", id.digest), |name| reference::normalize(name).into_owned())
}

fn digests(containers: &[Container]) -> Digests {
    Digests::from_images(containers.iter().map(|c| (String::from(&*c.image), c.digest)).collect())
}

#[cfg(test)]
mod tests;
