//! Stores the files that are attached to attestations.

use super::transaction::execute;
use super::{Error, Transaction};
use model::{Fingerprint, Timestamp};

impl Transaction {
    /// Stores a file, once per organization and content. Stores it again if the retention removed it.
    pub async fn insert_attachment(
        &mut self,
        organization: &str,
        sha256: Fingerprint,
        content: &[u8],
        at: Timestamp,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO attachments (organization, sha256, content, created_at) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        execute!(self, INSERT, organization, sha256, content, at);
        Ok(())
    }
}
