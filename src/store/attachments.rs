//! Stores the files that are attached to attestations.

use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::model::{Fingerprint, Timestamp};

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
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(organization).bind(sha256.bytes().as_slice()).bind(content);
            insert.bind(at.micros()).execute(connection).await?;
        });
        Ok(())
    }
}
