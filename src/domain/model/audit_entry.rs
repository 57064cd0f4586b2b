//! Entries of the audit log.

use serde::Serialize;

use super::Timestamp;

/// A change by the bootstrap file or by a token, a sign-in, or a refused attestation. Not in the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The entry's identifier.
    pub id: String,
    /// Time of the change.
    pub at: Timestamp,
    /// The token, or the bootstrap file with its generation.
    pub actor: String,
    /// The change.
    pub change: String,
}
