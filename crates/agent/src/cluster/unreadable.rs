//! An object that cannot be decoded, with its name if that is readable.
//!
//! Decoders return it in place of the object, so that an invalid one does not affect others.

use prost::Message;

use super::messages::{NameMeta, NamedOnly, lossy_string};
use model::escape::Escaped;

/// An object that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the pod, if readable; `None` for a namespace.
    pub pod: Option<PodName>,
    /// Name of the namespace, if readable; `None` for a pod.
    pub namespace: Option<String>,
    /// Description of the problem, escaped.
    pub problem: String,
}

/// Namespace and name, which identify a pod at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Unreadable {
    pub(super) fn from_protobuf(object: &[u8], kind: &str, problem: &prost::DecodeError) -> Self {
        let NameMeta { namespace, name } =
            NamedOnly::decode(object).unwrap_or_default().metadata.unwrap_or_default();
        let (namespace, name) = (lossy_string(namespace), lossy_string(name));
        let separator = if namespace.is_empty() { "" } else { "/" };
        let named = match name.as_str() {
            "" => String::new(),
            name => format!("a {kind}, \"{namespace}{separator}{name}\": "),
        };
        let problem = Escaped(&format!("{named}{problem}")).to_string();
        if kind == "Pod" {
            Self { pod: PodName { namespace, name }.non_empty(), namespace: None, problem }
        } else {
            Self { pod: None, namespace: Some(name).filter(|name| !name.is_empty()), problem }
        }
    }
}

impl PodName {
    /// `None` if the namespace or the name is empty.
    pub(super) fn non_empty(self) -> Option<Self> {
        (!self.namespace.is_empty() && !self.name.is_empty()).then_some(self)
    }
}
