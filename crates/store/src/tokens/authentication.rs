//! Looks up tokens, for authentication and access reviews, and counts organizations.

use std::fmt;

use serde::Serialize;

use crate::database::columns::Json;
use crate::database::connect::authenticate;
use crate::database::transaction::{fetch_all, fetch_scalar, fetch_scalars};
use crate::{Error, Store, Tenant};
use model::access::{Role, Scope};
use model::{Fingerprint, Timestamp};

/// An open token. Its hash is not serialized.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Token {
    /// The organization that it belongs to.
    #[serde(skip)]
    pub organization: String,
    /// Its name, recorded with reports and attestations.
    pub name: String,
    /// SHA-256 of its text.
    #[serde(skip)]
    pub sha256: Fingerprint,
    /// Its role.
    pub role: Role,
    /// The environments or flows that the role applies to.
    #[serde(flatten)]
    #[sqlx(try_from = "Json<Scope>")]
    pub scope: Scope,
    /// Whether its reports create environments.
    #[serde(rename = "create")]
    pub can_create: bool,
    /// `null` for never.
    pub expires_at: Option<Timestamp>,
    /// When it was created, or declared.
    pub created_at: Timestamp,
    /// The name of the token that created it; `null` if the bootstrap file declares it.
    pub created_by: Option<String>,
    /// Up to an hour late; `null` for never.
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether another token has the same text, name and permissions.
    pub(crate) fn grants_as(&self, other: &Self) -> bool {
        let of = |token: &Self| (token.sha256, token.role, token.can_create, token.expires_at);
        of(self) == of(other) && (&self.name, &self.scope) == (&other.name, &other.scope)
    }
}

/// Describes permissions for the audit log.
pub(crate) fn describe(role: Role, scope: &Scope, can_create: bool) -> String {
    let scope = if *scope == Scope::default() { String::new() } else { format!(" for {scope}") };
    let create = if can_create { ", which creates environments," } else { "" };
    format!("role {}{scope}{create}", role.as_str())
}

/// Describes the token for the audit log.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} of {}", self.name, describe(self.role, &self.scope, self.can_create))
    }
}

/// The open tokens of an organization by name, also expired ones.
pub async fn tokens(tenant: &mut Tenant<'_>) -> Result<Vec<Token>, Error> {
    const SELECT: &str = "
        SELECT organization, name, sha256, role, scope, can_create, expires_at, created_at, created_by, last_used_at
        FROM tokens WHERE organization = $1 AND closed_at IS NULL ORDER BY name, id";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name))
}

/// The open token with this hash.
pub async fn find(store: &Store, sha256: Fingerprint) -> Result<Option<Token>, Error> {
    const SELECT: &str = "
        SELECT organization, name, sha256, role, scope, can_create, expires_at, created_at, created_by, last_used_at
        FROM tokens WHERE sha256 = $1 AND closed_at IS NULL";
    Ok(authenticate!(store, fetch_optional, optional_from_row, SELECT, sha256))
}

/// The hashes of all open tokens.
pub async fn open_tokens(store: &Store) -> Result<Vec<Fingerprint>, Error> {
    const SELECT: &str = "SELECT sha256 FROM tokens WHERE closed_at IS NULL";
    let mut transaction = store.read().await?;
    Ok(fetch_scalars!(&mut transaction, SELECT))
}

/// The open tokens that were created since a time.
pub async fn created_since(store: &Store, since: Timestamp) -> Result<Vec<Fingerprint>, Error> {
    const SELECT: &str = "SELECT sha256 FROM tokens WHERE closed_at IS NULL AND created_at >= $1";
    let mut transaction = store.read().await?;
    Ok(fetch_scalars!(&mut transaction, SELECT, since))
}

/// The number of open organizations.
pub async fn organizations(store: &Store) -> Result<i64, Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM organizations WHERE closed_at IS NULL";
    let mut transaction = store.read().await?;
    Ok(fetch_scalar!(&mut transaction, COUNT))
}
