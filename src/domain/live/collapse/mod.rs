//! From one pod to what a report says of it.
//!
//! The roster calls it for every pod that it is given, with what it remembers of that pod. Pure: it
//! sees a [`PodView`], never a socket or a clock, and it cannot fail: what it cannot use is a skip with
//! a reason.

mod digest;
mod reference;
mod size_budget;

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::sync::Arc;

pub use digest::{ContainerSkip, digest_of};

use self::size_budget::Room;
use super::pod::{ContainerKind, ContainerView, Phase, PodView};
use crate::domain::model::{Digests, Fingerprint, Workload};

/// In bytes. The longest that distribution's grammar allows, with a tag and a digest of SHA-512, has 520.
const LONGEST_NAME: usize = 1_024;

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

/// What became of one pod, without what tells it from others of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Collapsed {
    /// What is reported of it, or why nothing is.
    pub workload: Result<Arc<Workload>, PodSkip>,
    /// How many containers were left out of a pod that has started, by reason.
    pub skipped: Box<[(ContainerSkip, u64)]>,
    /// The containers whose digests are known, sorted: what is to be remembered of the pod.
    pub containers: Box<[Container]>,
}

/// A container whose digest is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container {
    name: Box<str>,
    /// The image's name in full.
    image: Box<str>,
    digest: Fingerprint,
    is_config_digest: bool,
}

impl Collapsed {
    /// Of a pod of which nothing is reported.
    #[must_use]
    pub fn left_out(why: PodSkip) -> Self {
        Self { workload: Err(why), skipped: Box::default(), containers: Box::default() }
    }

    /// How many containers are known by their image's configuration digest alone.
    #[must_use]
    pub fn config_digests(&self) -> u64 {
        self.containers.iter().filter(|c| c.is_config_digest).count() as u64
    }
}

/// Collapses one pod, of which these containers are remembered.
///
/// A pod is live, and so an artifact, from the moment that any of its containers has a digest
/// until its phase is Succeeded or Failed. Containers that have ended count while their pod lives.
/// After a node has rebooted, the kubelet rebuilds statuses without image IDs, and some not at all: a
/// container keeps the digest that is remembered of it until it shows another.
#[must_use]
pub fn collapse(pod: PodView, counting: Counting, remembered: &[Container]) -> Collapsed {
    if pod.phase == Phase::Ended {
        return Collapsed::left_out(PodSkip::Ended);
    }
    let (mut containers, mut missing) = (Vec::<Container>::new(), Vec::new());
    let mut room = Room::default();
    for container in
        pod.containers.iter().filter(|c| counting == Counting::All || c.kind == ContainerKind::App)
    {
        match digest::parse(&container.image_id) {
            Ok(id) => {
                let image = name_of(container, &id);
                if room.takes([&*container.name, &*image]) {
                    containers.push(Container {
                        name: container.name.as_str().into(),
                        image: image.into(),
                        digest: id.digest,
                        is_config_digest: id.repository.is_none(),
                    });
                } else {
                    missing.push((&container.name, ContainerSkip::TooMany));
                }
            }
            Err(reason) => missing.push((&container.name, reason)),
        }
    }
    let shown = containers.len();
    for old in remembered {
        if !containers.iter().take(shown).any(|c| c.name == old.name) && room.takes([&*old.name, &*old.image])
        {
            containers.push(old.clone());
        }
    }
    // What is remembered is sorted.
    let kept = containers.get(shown..).unwrap_or_default();
    let is_remembered = |name: &str| kept.binary_search_by(|c| (*c.name).cmp(name)).is_ok();
    let mut skipped = BTreeMap::<_, u64>::new();
    for (name, reason) in missing {
        if reason != ContainerSkip::NotStarted || !is_remembered(name) {
            *skipped.entry(reason).or_default() += 1;
        }
    }
    if containers.is_empty() && skipped.keys().all(|reason| *reason == ContainerSkip::NotStarted) {
        return Collapsed::left_out(PodSkip::NotStarted);
    }
    containers.sort_unstable();
    let workload = match pod.created_at {
        _ if containers.is_empty() => Err(PodSkip::NoDigest),
        Some(_) if !pod.name.is_empty() && !pod.namespace.is_empty() => {
            let owners = size_budget::owners(pod.owners, room);
            Ok(Arc::new(Workload { digests: digests(&containers), owners }))
        }
        _ => Err(PodSkip::Unreadable),
    };
    Collapsed { workload, skipped: skipped.into_iter().collect(), containers: containers.into() }
}

/// The image's name: what the runtime shows, else what the pod asked for, else the repository that
/// the digest came from, else the digest itself. A name with a control character, or that is longer than any
/// can be, is none.
fn name_of(container: &ContainerView, id: &digest::ImageId<'_>) -> String {
    [container.image.as_str(), container.spec_image.as_str(), id.repository.unwrap_or_default()]
        .into_iter()
        .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)
        .find(|name| !digest::is_bare(name) && !name.contains(char::is_control))
        .map_or_else(|| format!("sha256:{}", id.digest), |name| reference::in_full(name).into_owned())
}

fn digests(containers: &[Container]) -> Digests {
    one_name_one_digest(containers.iter().map(|c| (String::from(&*c.image), c.digest)).collect())
}

/// Where one name stands for several digests (a tag that moved between two pulls), pins each, so
/// that all are kept.
#[must_use]
pub fn one_name_one_digest(mut images: Vec<(String, Fingerprint)>) -> Digests {
    let (mut alone, mut shared) = (BTreeMap::new(), BTreeSet::new());
    while let Some((name, digest)) = images.pop() {
        // A pin may meet a name that some other container already carries, with another digest: then both
        // are pinned. It ends, since a pin is true to its own digest, and stays.
        if shared.contains(&name) {
            let pin = reference::pinned(&name, digest);
            if pin != name {
                images.push((pin, digest));
                continue;
            }
        }
        match alone.entry(name) {
            Entry::Vacant(free) => {
                free.insert(digest);
            }
            Entry::Occupied(taken) if *taken.get() == digest => {}
            Entry::Occupied(taken) => {
                let (name, other) = taken.remove_entry();
                images.extend([(name.clone(), digest), (name.clone(), other)]);
                shared.insert(name);
            }
        }
    }
    alone.into_iter().map(|(name, digest)| (name.into(), digest)).collect()
}

#[cfg(test)]
mod tests;
