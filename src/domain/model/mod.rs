//! The words of the compliance service's interface, as types that cannot hold wrong values.
//!
//! Every room uses them. Parsing is the one place that can fail; what stands here is never checked
//! again.

mod artifact;
mod fingerprint;
mod name;

pub use artifact::{Artifact, Digests, OwnerReference, Workload};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use name::{EnvironmentName, FlowName, InvalidName, NamespaceName, OrganizationName};
