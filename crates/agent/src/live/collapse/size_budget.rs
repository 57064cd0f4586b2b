//! Limits the stored size of one pod.
//!
//! The API server accepts pods of 1.5 MiB, filled with owners or container statuses. Without a limit, a few
//! such pods would exhaust the memory of the agent and make every report too large for the service.

use std::collections::BTreeSet;

use super::Container;
use model::OwnerReference;
use model::escape::needs_escape;

/// Maximum stored size of one pod, in bytes.
const MAX_POD_BYTES: usize = 16 * 1024;

/// Approximate overhead of a container or an owner, in bytes.
const ENTRY_BYTES: usize = 128;

/// The remaining budget of a pod, in bytes.
#[derive(Debug)]
struct SizeBudget(usize);

impl Default for SizeBudget {
    fn default() -> Self {
        Self(MAX_POD_BYTES)
    }
}

impl SizeBudget {
    /// Reserves space for an entry with these texts. Returns whether it fits.
    fn reserve<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let size = texts.into_iter().fold(ENTRY_BYTES, |size, text| size.saturating_add(text.len()));
        match self.0.checked_sub(size) {
            Some(remaining) => {
                self.0 = remaining;
                true
            }
            None => false,
        }
    }
}

/// What a container is the first to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Priority {
    Digest,
    /// A name of a digest.
    Name,
    /// Nothing: another container has the same image.
    Repeated,
}

/// The part of a pod that fits into the budget.
pub(super) struct Fitting {
    pub(super) containers: Vec<Container>,
    pub(super) owners: Box<[OwnerReference]>,
    /// Names of the remembered ones among the containers.
    pub(super) remembered: BTreeSet<Box<str>>,
    /// Number of current containers whose image is omitted.
    pub(super) too_many: u64,
}

/// Selects what fits: each digest once, then other names of the same digests, then owners, then containers with the same
/// image. Many containers can thus hide no digest. The containers from `current` on are remembered ones.
pub(super) fn fitting(known: Vec<Container>, current: usize, owners: Vec<OwnerReference>) -> Fitting {
    let (mut digests, mut images) = (BTreeSet::new(), BTreeSet::new());
    let priorities: Vec<_> = known
        .iter()
        .map(|container| {
            let is_new_digest = digests.insert(container.digest);
            let is_new_image = images.insert(container.image());
            if is_new_digest {
                Priority::Digest
            } else if is_new_image {
                Priority::Name
            } else {
                Priority::Repeated
            }
        })
        .collect();
    let mut budget = SizeBudget::default();
    let mut fits = vec![false; known.len()];
    let mut reserve = |chosen: Priority, budget: &mut SizeBudget| {
        for ((fits, container), priority) in fits.iter_mut().zip(&known).zip(&priorities) {
            *fits |= *priority == chosen && budget.reserve([&*container.name, &*container.image]);
        }
    };
    reserve(Priority::Digest, &mut budget);
    reserve(Priority::Name, &mut budget);
    let owners = fitting_owners(owners, &mut budget);
    reserve(Priority::Repeated, &mut budget);
    images.clear();
    images.extend(known.iter().zip(&fits).filter(|(_, fits)| **fits).map(|(container, _)| container.image()));
    let is_omitted = |container: &Container| !images.contains(&container.image());
    let too_many = known.iter().take(current).filter(|container| is_omitted(container)).count() as u64;
    let kept = known.iter().zip(&fits).skip(current).filter(|(_, fits)| **fits);
    let remembered = kept.map(|(container, _)| container.name.clone()).collect();
    let containers = known.into_iter().zip(fits).filter_map(|(container, fits)| fits.then_some(container));
    Fitting { containers: containers.collect(), owners, remembered, too_many }
}

/// The owners that fit into the budget, in order. Owners with a control or invisible character are dropped: no object has
/// such a name (Kubernetes documentation, "Object Names and IDs"), and escaping multiplies its size by six.
fn fitting_owners(mut owners: Vec<OwnerReference>, budget: &mut SizeBudget) -> Box<[OwnerReference]> {
    owners.retain(|owner| {
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let texts = [api_version, kind, name, uid].map(|text| text.as_deref().unwrap_or_default());
        !texts.iter().any(|text| text.contains(needs_escape)) && budget.reserve(texts)
    });
    owners.into()
}
