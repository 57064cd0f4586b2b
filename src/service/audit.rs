//! The audit log, as the operator sees it: what the bootstrap file and tokens of role admin changed. The
//! database keeps the same.

use crate::domain::visible::Visible;

/// Logs a change that was recorded.
pub(super) fn tell(actor: &str, organization: &str, change: &str) {
    let (actor, organization, change) = (Visible(actor), Visible(organization), Visible(change));
    tracing::info!(
        target: "supercargo::audit",
        actor = %actor, organization = %organization, change = %change,
        "audit: {actor}, {organization}: {change}"
    );
}
