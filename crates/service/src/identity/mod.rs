//! Identities without secrets: tokens that issuers of an organization sign (OIDC).
//!
//! `access` calls [`Identities::authenticate`] for a bearer token that is a JWT. The database has the issuers, so that all
//! replicas accept the same tokens; each process keeps their keys in memory. Pages call `sign_in`.
//!
//! | file | content |
//! |---|---|
//! | `key_set` | parses a JSON Web Key Set |
//! | `token` | form, header and signature of a token |
//! | `remote_keys` | cached keys of an issuer, and when to refresh them |
//! | `discovery` | the requests to an issuer |
//! | `refresh` | the task that refreshes keys |
//! | `sign_in` | sign-in of people at an issuer |
//!
//! A row of an issuer never changes, so a process keeps it by its identifier. Each request of a person evaluates the
//! rules of now. HTTP is our own: openidconnect depends on rsa (RUSTSEC-2023-0071).

pub(crate) mod access;
pub(crate) mod authentication;
pub(crate) mod invitation;

mod discovery;
pub(crate) mod key_set;
pub(crate) mod refresh;
pub(crate) mod remote_keys;
pub(crate) mod sign_in;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::types::Uuid;

pub(crate) use crate::identity::key_set::KeySet;
use crate::identity::remote_keys::{RemoteKeyRegistry, RemoteKeys};
pub(crate) use crate::identity::token::is_jwt;
use crate::identity::token::{Token, unverified_issuer};
use model::escape::shortened;
use model::{Fingerprint, Timestamp};
use rules::identity::{Claims, Issuer, Person, Rule, TokenError};
use runtime::error_causes::describe;
use store::tokens::authentication::Token as Grant;
use store::tokens::issuers::StoredIssuer;
use store::{Error, Store};

/// The issuers of all organizations.
#[derive(Default)]
pub(crate) struct Identities {
    issuers: RwLock<Arc<Issuers>>,
    /// Keys of issuers, by discovery.
    pub(crate) remote: RemoteKeyRegistry,
}

/// Issuers by the identifier of their row, whose content never changes.
pub(crate) type Issuers = HashMap<Uuid, Arc<KnownIssuer>>;

pub(crate) struct KnownIssuer {
    organization: String,
    issuer: Issuer,
    keys: Keys,
}

/// An issuer where people sign in.
pub(crate) struct Provider {
    /// The row of the issuer.
    pub(crate) id: Uuid,
    pub(crate) organization: String,
    pub(crate) issuer: Issuer,
    pub(crate) remote: Arc<RemoteKeys>,
}

enum Keys {
    /// From the bootstrap file.
    Fixed(Arc<KeySet>),
    Remote(Arc<RemoteKeys>),
}

/// Why a token of an issuer is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error(transparent)]
    Invalid(#[from] TokenError),
    /// The service cannot tell.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

/// Whether a request may wait for an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Permitted,
    Denied,
}

impl Identities {
    /// The permissions of a token for an organization.
    pub(crate) async fn authenticate(
        &self,
        store: &Store,
        organization: &str,
        text: &str,
        now: Timestamp,
        waiting: Waiting,
    ) -> Result<Grant, AuthenticationError> {
        let url = unverified_issuer(text).ok_or(TokenError::UnknownIssuer)?;
        let mut issuers = self.open(store, organization, &url).await?;
        // Tokens of people only open sessions, which know the name and address of the person.
        issuers.retain(|known| known.issuer.sign_in.is_none());
        if issuers.is_empty() {
            return Err(TokenError::UnknownIssuer.into());
        }
        let token = Token::parse(text)?;
        let mut error = None;
        for known in issuers {
            let KnownIssuer { issuer, keys, .. } = known.as_ref();
            let verified = self.verify(&token, keys, now, waiting).await;
            match verified.and_then(|claims| Ok(permissions(issuer, organization, &claims, now)?)) {
                Ok(grant) => return Ok(grant),
                // Keep the error of the issuer whose key fits.
                Err(AuthenticationError::Invalid(TokenError::UnknownKey | TokenError::UnknownKeyOfFile))
                    if error.is_some() => {}
                Err(failed) => error = Some(failed),
            }
        }
        Err(error.unwrap_or(TokenError::UnknownIssuer.into()))
    }

    /// Whether a token gives permissions by what this process knows. Waits for nothing, so that a stranger's guesses cost
    /// no query.
    pub(crate) fn grants(&self, organization: &str, text: &str, now: Timestamp) -> bool {
        let (Some(url), Ok(token)) = (unverified_issuer(text), Token::parse(text)) else { return false };
        let known = self.known();
        let mut issuers = known.values().filter(|known| {
            known.organization == organization && known.issuer.url == url && known.issuer.sign_in.is_none()
        });
        issuers.any(|known| {
            let claims = match &known.keys {
                Keys::Fixed(keys) => token.verify(keys).ok(),
                Keys::Remote(remote) => remote.current(now).and_then(|found| token.verify(&found.keys).ok()),
            };
            claims.is_some_and(|claims| permissions(&known.issuer, organization, &claims, now).is_ok())
        })
    }

    /// The open issuers of an organization with this URL, by name.
    async fn open(
        &self,
        store: &Store,
        organization: &str,
        url: &str,
    ) -> Result<Vec<Arc<KnownIssuer>>, Error> {
        let ids = store::tokens::issuers::ids(store, organization, url).await?;
        let mut known = self.known();
        if ids.iter().any(|id| !known.contains_key(id)) {
            known = self.load(store).await?;
        }
        let mut issuers: Vec<_> = ids.iter().filter_map(|id| known.get(id)).cloned().collect();
        issuers.sort_by(|one, other| one.issuer.name.cmp(&other.issuer.name));
        Ok(issuers)
    }

    /// The issuers where people sign in, by name, as this process knows them: a change may be some seconds old.
    pub(crate) fn providers(&self) -> Vec<Provider> {
        let known = self.known();
        let provider = |(id, known): (&Uuid, &Arc<KnownIssuer>)| match &known.keys {
            Keys::Remote(remote) if known.issuer.sign_in.is_some() => Some(Provider {
                id: *id,
                organization: known.organization.clone(),
                issuer: known.issuer.clone(),
                remote: Arc::clone(remote),
            }),
            _ => None,
        };
        let mut providers: Vec<_> = known.iter().filter_map(provider).collect();
        providers.sort_by(|one, other| (&one.issuer.name, one.id).cmp(&(&other.issuer.name, other.id)));
        providers
    }

    /// The permissions of a person by the rules of now; `None` if the identity has ended, or its issuer or rule was removed.
    pub(crate) async fn permissions(
        &self,
        store: &Store,
        person: &Person,
        now: Timestamp,
    ) -> Result<Option<Grant>, Error> {
        if person.expires_at <= now {
            return Ok(None);
        }
        let issuers = self.open(store, &person.organization, &person.url).await?;
        let issuer = issuers.iter().map(|known| &known.issuer).find(|issuer| issuer.name == person.issuer);
        let rule = issuer
            .filter(|issuer| issuer.sign_in.is_some() && issuer.audience == person.client_id)
            .and_then(|issuer| issuer.rule_for_person(person));
        let id = format!("{}\0{}\0{}", person.organization, person.issuer, person.subject);
        let id = Fingerprint::from_content(id.as_bytes());
        Ok(rule
            .map(|rule| grant(rule, &person.organization, person.caller(), id, Some(person.expires_at), now)))
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
            Keys::Fixed(keys) => {
                let of_file = |error| match error {
                    TokenError::UnknownKey => TokenError::UnknownKeyOfFile,
                    error => error,
                };
                return Ok(token.verify(keys).map_err(of_file)?);
            }
            Keys::Remote(remote) => remote,
        };
        let verify = || remote.current(now).map(|found| token.verify(&found.keys));
        let mut verified = verify();
        if matches!(verified, None | Some(Err(TokenError::UnknownKey | TokenError::Signature))) {
            match waiting {
                Waiting::Permitted if remote.refreshed(&self.remote, now).await? => verified = verify(),
                Waiting::Permitted => {}
                Waiting::Denied => remote.want(&self.remote, now),
            }
        }
        Ok(verified.ok_or(NO_KEYS)??)
    }

    /// Reads the issuers from the database. Keys of those that are known already stay in memory.
    pub(crate) async fn load(&self, store: &Store) -> Result<Arc<Issuers>, Error> {
        let mut transaction = store.read().await?;
        let stored = store::tokens::issuers::list(&mut transaction, None).await?;
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
        Ok(KnownIssuer { organization: organization.to_owned(), issuer, keys })
    }

    fn known(&self) -> Arc<Issuers> {
        Arc::clone(&self.issuers.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The permissions of a token with a valid signature.
fn permissions(
    issuer: &Issuer,
    organization: &str,
    claims: &Claims,
    now: Timestamp,
) -> Result<Grant, TokenError> {
    claims.check(&issuer.url, &issuer.audience, now)?;
    let caller = format!("{}/{}", issuer.name, claims.subject()?);
    let rule = issuer.rule(claims).ok_or_else(|| TokenError::NoRule(issuer.name.clone()))?;
    let id = rule_id(organization, issuer, rule);
    Ok(grant(rule, organization, caller, id, claims.expiry(), now))
}

/// Identifies the callers of a rule, in place of the hash of a static token. Limits count them together: an issuer may have
/// any number of subjects, such as one per branch. No static token has this hash, since a header contains no NUL.
pub(crate) fn rule_id(organization: &str, issuer: &Issuer, rule: &Rule) -> Fingerprint {
    let claims = serde_json::json!(rule.claims);
    let id = format!("{organization}\0{}\0{claims}\0{}", issuer.name, rule.role.as_str());
    Fingerprint::from_content(id.as_bytes())
}

/// The permissions of a rule for a caller. `sha256` identifies the caller, in place of the hash of a static token.
fn grant(
    rule: &Rule,
    organization: &str,
    name: String,
    sha256: Fingerprint,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Grant {
    Grant {
        organization: organization.to_owned(),
        name,
        sha256,
        role: rule.role,
        scope: rule.scope(),
        can_create: rule.create,
        expires_at,
        created_at: now,
        created_by: None,
        last_used_at: None,
    }
}

/// Describes an error for the log. It may quote a response of any length.
pub(crate) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    const MAX: usize = 500;
    shortened(&describe(error), MAX)
}
