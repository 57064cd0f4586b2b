//! A pod that cannot be read, and how much of it is known all the same.
//!
//! All decoders hand it out in the place of the pod, so that one odd pod spoils no other.

use prost::Message;

use super::messages::{NameMeta, NamedOnly, legible};
use crate::domain::escape::Visible;

/// A pod that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which one, where that much of it can be read.
    pub pod: Option<PodName>,
    /// What is wrong with it, fit for a terminal.
    pub problem: String,
}

/// What tells a pod from all others at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Unreadable {
    pub(super) fn of_protobuf(pod: &[u8], problem: &prost::DecodeError) -> Self {
        let NameMeta { namespace, name } =
            NamedOnly::decode(pod).unwrap_or_default().metadata.unwrap_or_default();
        let (namespace, name) = (legible(namespace), legible(name));
        let named = if name.is_empty() { String::new() } else { format!("a Pod, \"{namespace}/{name}\": ") };
        let problem = Visible(&format!("{named}{problem}")).to_string();
        Self { pod: PodName { namespace, name }.known(), problem }
    }
}

impl PodName {
    /// Itself, where it names a pod.
    pub(super) fn known(self) -> Option<Self> {
        (!self.namespace.is_empty() && !self.name.is_empty()).then_some(self)
    }
}
