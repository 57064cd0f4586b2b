//! Looks up the issuers of organizations, for authentication and access reviews.

use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::connect::authenticate;
use crate::database::transaction::fetch_all;
use crate::{Error, Store, Transaction};
use rules::identity::Issuer;

#[derive(Debug, Clone)]
pub struct StoredIssuer {
    /// Identifies its content, which never changes.
    pub id: Uuid,
    pub organization: String,
    pub issuer: Issuer,
}

/// The open issuers of an organization with this URL: clusters often share one.
pub async fn ids(store: &Store, organization: &str, url: &str) -> Result<Vec<Uuid>, Error> {
    const SELECT: &str = "SELECT id FROM issuers WHERE organization = $1 AND url = $2 AND closed_at IS NULL";
    Ok(authenticate!(store, fetch_all, all_scalars, SELECT, organization, url))
}

/// The open issuers of an organization, or of all.
pub async fn list(
    transaction: &mut Transaction,
    organization: Option<&str>,
) -> Result<Vec<StoredIssuer>, Error> {
    const SELECT: &str = "
        SELECT id, organization, content FROM issuers
        WHERE closed_at IS NULL AND ($1 IS NULL OR organization = $1) ORDER BY id";
    let rows: Vec<(Uuid, String, Json<Issuer>)> = fetch_all!(transaction, SELECT, organization);
    let stored = |(id, organization, Json(issuer))| StoredIssuer { id, organization, issuer };
    Ok(rows.into_iter().map(stored).collect())
}
