//! Limits the stored size of one pod.
//!
//! The API server accepts pods of 1.5 MiB, filled with owners or container statuses. Without a limit, a few
//! such pods would exhaust the memory of the agent and make every report too large for the service.

use model::OwnerReference;

/// Maximum stored size of one pod, in bytes.
const MAX_POD_BYTES: usize = 16 * 1024;

/// Approximate overhead of a container or an owner, in bytes.
const ENTRY_BYTES: usize = 128;

/// The remaining budget of a pod, in bytes.
#[derive(Debug)]
pub(super) struct SizeBudget(usize);

impl Default for SizeBudget {
    fn default() -> Self {
        Self(MAX_POD_BYTES)
    }
}

impl SizeBudget {
    /// Reserves space for an entry with these texts. Returns whether it fits.
    pub(super) fn reserve<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> bool {
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

/// The owners that fit into the budget, in order. Owners with a control character are dropped: no object has
/// such a name (Kubernetes documentation, "Object Names and IDs"), and escaping multiplies its size by six.
pub(super) fn owners(mut owners: Vec<OwnerReference>, mut budget: SizeBudget) -> Box<[OwnerReference]> {
    owners.retain(|owner| {
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let texts = [api_version, kind, name, uid].map(|text| text.as_deref().unwrap_or_default());
        !texts.iter().any(|text| text.contains(char::is_control)) && budget.reserve(texts)
    });
    owners.into()
}
