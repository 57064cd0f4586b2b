//! Stores the files that are attached to attestations.

use crate::database::transaction::execute;
use crate::{Error, Tenant};
use model::{Fingerprint, Timestamp};

/// Stores a file, once per organization and content. Stores it again if the retention removed it.
pub async fn insert(
    tenant: &mut Tenant<'_>,
    sha256: Fingerprint,
    content: &[u8],
    at: Timestamp,
) -> Result<(), Error> {
    const INSERT: &str = "
        INSERT INTO attachments (organization, sha256, content, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    execute!(tenant.tx, INSERT, tenant.name, sha256, content, at);
    Ok(())
}
