//! Organizations and tokens, as far as a request needs them.

use super::columns::fingerprint;
use super::{Error, Store};
use crate::domain::model::{Fingerprint, Timestamp};

/// A token that is open.
#[derive(Debug, Clone)]
pub struct Token {
    /// The organization that it belongs to.
    pub organization: String,
    /// Its name, by which reports and attestations say who sent them.
    pub name: String,
    /// The hash that it is known by.
    pub sha256: Fingerprint,
    /// The interface's word for its role.
    pub role: String,
    /// The environments or flows that it is for, a JSON list.
    pub scope: String,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

type Row = (String, String, Vec<u8>, String, String, Option<i64>);

const OPEN_TOKEN: &str = "
    SELECT organization, name, sha256, role, scope, expires_at
    FROM tokens WHERE sha256 = $1 AND closed_at IS NULL";

impl Store {
    /// The open token of this hash.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn token(&self, sha256: Fingerprint) -> Result<Option<Token>, Error> {
        let hash = sha256.bytes().as_slice();
        let row: Option<Row> = match self {
            Self::Sqlite(pools) => {
                sqlx::query_as(OPEN_TOKEN).bind(hash).fetch_optional(pools.readers()?).await?
            }
            Self::Postgres(pools) => {
                sqlx::query_as(OPEN_TOKEN).bind(hash).fetch_optional(&pools.readers).await?
            }
        };
        row.map(|(organization, name, sha256, role, scope, expires_at)| {
            let expires_at = expires_at.map(Timestamp::from_micros);
            Ok(Token { organization, name, sha256: fingerprint(&sha256)?, role, scope, expires_at })
        })
        .transpose()
    }

    /// How many organizations are open.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn organizations(&self) -> Result<i64, Error> {
        const OPEN: &str = "SELECT COUNT(*) FROM organizations WHERE closed_at IS NULL";
        Ok(match self {
            Self::Sqlite(pools) => sqlx::query_scalar(OPEN).fetch_one(pools.readers()?).await?,
            Self::Postgres(pools) => sqlx::query_scalar(OPEN).fetch_one(&pools.readers).await?,
        })
    }
}
