//! From one pod to one artifact of a K8S report.
//!
//! Called for every pod that a cluster lists or a file holds. Pure: it sees a [`PodView`], never a
//! socket or a clock, and it cannot fail: what it cannot use is a skip with a reason.

mod digest;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use digest::ContainerSkip;

use super::model::{Artifact, Digests, Fingerprint, Workload};
use super::pod::{ContainerKind, ContainerView, Phase, PodView};

/// Which containers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Regular, init and ephemeral ones: all code that runs, or ran, in the pod.
    #[default]
    All,
    /// Regular ones alone.
    App,
}

/// Why a pod is not in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodSkip {
    /// Its phase is Succeeded or Failed.
    Ended,
    /// None of its containers has an image ID yet.
    NotStarted,
    /// Its containers have image IDs, none of which holds a SHA-256 digest.
    NoDigest,
    /// It has no name, namespace or creation time, or could not be read at all.
    Unreadable,
}

impl fmt::Display for PodSkip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "ended",
            Self::NotStarted => "not started",
            Self::NoDigest => "without a SHA-256 digest",
            Self::Unreadable => "unreadable",
        })
    }
}

/// What became of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collapsed {
    /// The artifact, or why there is none.
    pub artifact: Result<Artifact, PodSkip>,
    /// The reason for each container that was left out of a pod that has started.
    pub skipped: Vec<ContainerSkip>,
    /// How many containers are known by their image's configuration digest alone.
    pub config_digests: u32,
}

/// Collapses one pod.
///
/// A pod is live, and so an artifact, from the moment that any of its containers has a digest
/// until its phase is Succeeded or Failed. Containers that have ended count while their pod lives.
#[must_use]
pub fn collapse(pod: PodView, counting: Counting) -> Collapsed {
    let mut collapsed = Collapsed { artifact: Err(PodSkip::Ended), skipped: Vec::new(), config_digests: 0 };
    if pod.phase == Phase::Ended {
        return collapsed;
    }
    let mut images = BTreeSet::new();
    for container in
        pod.containers.iter().filter(|c| counting == Counting::All || c.kind == ContainerKind::App)
    {
        match digest::parse(&container.image_id) {
            Ok(id) => {
                collapsed.config_digests += u32::from(id.repository.is_none());
                images.insert((name_of(container, &id), id.digest));
            }
            Err(reason) => collapsed.skipped.push(reason),
        }
    }
    if images.is_empty() && collapsed.skipped.iter().all(|s| *s == ContainerSkip::NotStarted) {
        return Collapsed { artifact: Err(PodSkip::NotStarted), skipped: Vec::new(), ..collapsed };
    }
    collapsed.artifact = match pod.created_at {
        _ if images.is_empty() => Err(PodSkip::NoDigest),
        Some(created_at) if !pod.name.is_empty() && !pod.namespace.is_empty() => Ok(Artifact {
            namespace: pod.namespace.into(),
            pod_name: pod.name.into(),
            created_at,
            workload: Arc::new(Workload { digests: one_name_one_digest(images), owners: pod.owners.into() }),
        }),
        _ => Err(PodSkip::Unreadable),
    };
    collapsed
}

/// The image's name: what the runtime shows, else what the pod asked for, else the repository that
/// the digest came from, else the digest itself.
fn name_of(container: &ContainerView, id: &digest::ImageId<'_>) -> String {
    [container.image.as_str(), container.spec_image.as_str(), id.repository.unwrap_or_default()]
        .into_iter()
        .find(|name| !name.is_empty() && !digest::is_bare(name))
        .map_or_else(|| format!("sha256:{}", id.digest), |name| reference::in_full(name).into_owned())
}

/// Where one name stands for several digests (a tag that moved between two pulls), pins each, so
/// that all are kept.
fn one_name_one_digest(mut images: BTreeSet<(String, Fingerprint)>) -> Digests {
    loop {
        let mut digests_of = BTreeMap::<&str, usize>::new();
        for (name, _) in &images {
            *digests_of.entry(name).or_default() += 1;
        }
        if digests_of.values().all(|&n| n == 1) {
            return images.into_iter().map(|(name, digest)| (name.into(), digest)).collect();
        }
        // A pin may meet a name that some other container already carries, with another digest:
        // then both are pinned in the next round. It ends, since a pin is true to its own digest.
        images = images
            .iter()
            .map(|(name, digest)| {
                let shared = digests_of.get(name.as_str()).is_some_and(|&n| n > 1);
                (if shared { reference::pinned(name, *digest) } else { name.clone() }, *digest)
            })
            .collect();
    }
}

#[cfg(test)]
mod tests;
