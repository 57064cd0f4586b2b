//! Identities without secrets: tokens that issuers of an organization sign (OIDC).
//!
//! `access` calls [`Identities::authenticate`] for a bearer token that is a JWT. The database has the issuers, so that all
//! replicas accept the same tokens; each process keeps their keys in memory. Other users of an issuer take its keys from
//! [`RemoteKeyRegistry`], verify a token with [`Token::verify`] and check it with
//! [`Claims::check`](crate::domain::evidence::identity::Claims::check).
//!
//! | file | content |
//! |---|---|
//! | `key_set` | parses a JSON Web Key Set |
//! | `token` | form, header and signature of a token |
//! | `remote_keys` | cached keys of an issuer, and when to refresh them |
//! | `discovery` | the requests to an issuer |
//! | `refresh` | the task that refreshes keys |

mod discovery;
mod key_set;
pub(in crate::service) mod refresh;
pub(in crate::service) mod remote_keys;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::types::Uuid;

pub(in crate::service) use self::key_set::KeySet;
use self::remote_keys::{RemoteKeyRegistry, RemoteKeys};
pub(in crate::service) use self::token::is_jwt;
use self::token::{Token, unverified_issuer};
use crate::domain::evidence::identity::{Claims, Issuer, Rule, TokenError};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::access::Token as Grant;
use crate::store::issuers::StoredIssuer;
use crate::store::{Error, Store};

/// The issuers of all organizations.
#[derive(Default)]
pub(in crate::service) struct Identities {
    issuers: RwLock<Arc<Issuers>>,
    /// Keys of issuers, by discovery.
    pub(in crate::service) remote: RemoteKeyRegistry,
}

/// Issuers by the identifier of their row, whose content never changes.
type Issuers = HashMap<Uuid, Arc<KnownIssuer>>;

struct KnownIssuer {
    issuer: Issuer,
    keys: Keys,
}

enum Keys {
    /// From the bootstrap file.
    Fixed(Arc<KeySet>),
    Remote(Arc<RemoteKeys>),
}

/// Why a token of an issuer is not accepted.
#[derive(Debug, thiserror::Error)]
pub(in crate::service) enum AuthenticationError {
    /// The token is invalid.
    #[error(transparent)]
    Invalid(#[from] TokenError),
    /// The service cannot tell.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

impl AuthenticationError {
    pub(in crate::service) fn is_unknown_issuer(&self) -> bool {
        matches!(self, Self::Invalid(TokenError::UnknownIssuer))
    }
}

/// Whether a request may wait for an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum Waiting {
    Permitted,
    Denied,
}

impl Identities {
    /// The permissions of a token for an organization.
    pub(in crate::service) async fn authenticate(
        &self,
        store: &Store,
        organization: &str,
        text: &str,
        now: Timestamp,
        waiting: Waiting,
    ) -> Result<Grant, AuthenticationError> {
        let url = unverified_issuer(text).ok_or(TokenError::UnknownIssuer)?;
        let ids = store.issuer_ids(organization, &url).await?;
        if ids.is_empty() {
            return Err(TokenError::UnknownIssuer.into());
        }
        let token = Token::parse(text)?;
        let mut known = self.known();
        if ids.iter().any(|id| !known.contains_key(id)) {
            known = self.load(store).await?;
        }
        let mut issuers: Vec<_> = ids.iter().filter_map(|id| known.get(id)).collect();
        issuers.sort_by(|one, other| one.issuer.name.cmp(&other.issuer.name));
        let mut error = AuthenticationError::Invalid(TokenError::UnknownIssuer);
        for known in issuers {
            let KnownIssuer { issuer, keys } = known.as_ref();
            let verified = self.verify(&token, keys, now, waiting).await;
            match verified.and_then(|claims| Ok(grant(issuer, organization, &claims, now)?)) {
                Ok(grant) => return Ok(grant),
                // Another issuer with this URL had the key.
                Err(AuthenticationError::Invalid(TokenError::UnknownKey)) if !error.is_unknown_issuer() => {}
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Verifies the signature, with new keys if the current ones do not fit: the issuer may have rotated them.
    async fn verify(
        &self,
        token: &Token<'_>,
        keys: &Keys,
        now: Timestamp,
        waiting: Waiting,
    ) -> Result<Claims, AuthenticationError> {
        const NO_KEYS: Error = Error::Busy(
            "the keys of the issuer of this token are not available yet; they are requested again",
        );
        let remote = match keys {
            Keys::Fixed(keys) => return Ok(token.verify(keys)?),
            Keys::Remote(remote) => remote,
        };
        let verify = || remote.current(now).map(|keys| token.verify(&keys));
        let mut verified = verify();
        if matches!(verified, None | Some(Err(TokenError::UnknownKey | TokenError::Signature)))
            && waiting == Waiting::Permitted
            && remote.refreshed(&self.remote, now).await?
        {
            verified = verify();
        }
        Ok(verified.ok_or(NO_KEYS)??)
    }

    /// Reads the issuers from the database. Keys of those that are known already stay in memory.
    async fn load(&self, store: &Store) -> Result<Arc<Issuers>, Error> {
        let mut transaction = store.read().await?;
        let stored = transaction.issuers(None).await?;
        drop(transaction);
        let known = self.known();
        let mut issuers = Issuers::with_capacity(stored.len());
        for StoredIssuer { id, organization, issuer } in stored {
            let issuer = match known.get(&id) {
                Some(known) => Arc::clone(known),
                None => Arc::new(self.know(&organization, issuer)?),
            };
            issuers.insert(id, issuer);
        }
        let issuers = Arc::new(issuers);
        *self.issuers.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&issuers);
        Ok(issuers)
    }

    fn know(&self, organization: &str, issuer: Issuer) -> Result<KnownIssuer, Error> {
        let keys = match &issuer.jwks {
            None => Keys::Remote(self.remote.get(organization, &issuer.url)),
            Some(jwks) => {
                let keys = KeySet::parse(jwks.as_bytes());
                Keys::Fixed(Arc::new(keys.map_err(|_| Error::Unreadable("the keys of an issuer"))?))
            }
        };
        Ok(KnownIssuer { issuer, keys })
    }

    fn known(&self) -> Arc<Issuers> {
        Arc::clone(&self.issuers.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The permissions of a token with a valid signature.
fn grant(issuer: &Issuer, organization: &str, claims: &Claims, now: Timestamp) -> Result<Grant, TokenError> {
    claims.check(&issuer.url, &issuer.audience, now)?;
    let subject = claims.subject()?;
    let rule = issuer.rules.iter().find(|rule| rule.matches(claims));
    let rule = rule.ok_or_else(|| TokenError::NoRule(issuer.name.clone()))?;
    Ok(Grant {
        organization: organization.to_owned(),
        name: format!("{}/{subject}", issuer.name),
        sha256: identifier(organization, &issuer.name, rule),
        role: rule.role,
        scope: rule.scope.clone(),
        can_create: rule.can_create,
        expires_at: claims.expiry(),
        created_at: now,
        created_by: None,
        last_used_at: None,
    })
}

/// Identifies the callers of a rule for limits, in place of the hash of a static token. Not each subject: an issuer may
/// have any number of them, such as one per branch. No token has this hash, since a header contains no NUL.
fn identifier(organization: &str, issuer: &str, rule: &Rule) -> Fingerprint {
    Fingerprint::from_content(format!("{organization}\0{issuer}\0{rule}\0{}", rule.role.as_str()).as_bytes())
}
