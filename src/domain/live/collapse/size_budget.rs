//! How much of one pod is kept.
//!
//! The API server takes 1.5 MiB for one, and whoever makes a pod may fill that with owners, or whoever writes
//! statuses with containers: a few such pods would take the memory of the agent, and make a report that no
//! service takes.

use crate::domain::model::OwnerReference;

/// What is kept of one pod, in bytes.
const MOST: usize = 16 * 1024;

/// What a container or an owner takes beside its texts, about.
const EACH: usize = 128;

/// The room that is left for a pod.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Room {
    /// Whether there is room for what has these texts, which it then takes.
    pub(crate) fn takes<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let size = texts.into_iter().fold(EACH, |size, text| size.saturating_add(text.len()));
        match self.0.checked_sub(size) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

/// The owners for which there is room, in their order. One with a control character is none: no object has
/// such a name (Kubernetes documentation, "Object Names and IDs"), and in a report it takes six times the bytes.
pub(crate) fn owners(mut owners: Vec<OwnerReference>, mut room: Room) -> Box<[OwnerReference]> {
    owners.retain(|owner| {
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let texts = [api_version, kind, name, uid].map(|text| text.as_deref().unwrap_or_default());
        !texts.iter().any(|text| text.contains(char::is_control)) && room.takes(texts)
    });
    owners.into()
}
