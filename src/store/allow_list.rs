//! Changes the allow-lists of environments by operation.

use sqlx::types::Uuid;

use super::from_row::optional_from_row;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::log::Kind;
use crate::domain::model::{Fingerprint, Timestamp};

/// An open entry of an allow-list.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OpenAllowance {
    id: Uuid,
    /// Why the artifact is allowed.
    pub reason: String,
    /// The author of the entry.
    pub author: String,
    /// Whether the bootstrap file lists it.
    pub is_declared: bool,
}

impl Transaction {
    /// The open entry for an artifact in an environment.
    pub async fn allowance(
        &mut self,
        organization: &str,
        environment: &str,
        artifact: Fingerprint,
    ) -> Result<Option<OpenAllowance>, Error> {
        const SELECT: &str = "
            SELECT id, reason, author, is_declared FROM allowances
            WHERE organization = $1 AND environment = $2 AND fingerprint = $3 AND closed_at IS NULL";
        Ok(on!(self, |connection| {
            let select = sqlx::query(SELECT).bind(organization).bind(environment);
            let select = select.bind(artifact.bytes().as_slice());
            select.fetch_optional(connection).await.and_then(optional_from_row)?
        }))
    }

    /// Adds an entry without expiry, in place of an open one.
    pub async fn allow_artifact(
        &mut self,
        organization: &str,
        environment: &str,
        artifact: Fingerprint,
        (reason, author): (&str, &str),
        replaced: Option<&OpenAllowance>,
        now: Timestamp,
    ) -> Result<(), Error> {
        const CLOSE: &str = "UPDATE allowances SET closed_at = $1 WHERE id = $2";
        const INSERT: &str = "
            INSERT INTO allowances
                (id, organization, environment, fingerprint, reason, author, created_at, is_declared)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        if let Some(replaced) = replaced {
            on!(self, |connection| {
                sqlx::query(CLOSE).bind(now.micros()).bind(replaced.id).execute(connection).await?;
            });
            self.log().row(Kind::AllowanceEnd, replaced.id);
        }
        let id = Uuid::now_v7();
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(id).bind(organization).bind(environment);
            let insert = insert.bind(artifact.bytes().as_slice()).bind(reason).bind(author);
            insert.bind(now.micros()).bind(false).execute(connection).await?;
        });
        self.log().row(Kind::Allowance, id);
        Ok(())
    }
}
