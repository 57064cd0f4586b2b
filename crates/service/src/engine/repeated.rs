//! Requests that clients repeat because they did not get the response: a request with an `Idempotency-Key`
//! (draft-ietf-httpapi-idempotency-key-header) has one effect.
//!
//! The key is recorded in the transaction of the effect, under the lock of the organization, so a repetition waits for the
//! first request. A request that failed is not recorded: it may be repeated anyway.

use std::time::Duration;

use axum::http::HeaderMap;

use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::{Fingerprint, FingerprintHasher, Timestamp};
use store::Tenant;
use store::idempotency_keys::{self, FirstRequest, IdempotencyKey};

/// Time for which a key counts.
pub(crate) const KEY_RETENTION: Duration = Duration::from_hours(24);

const HEADER: &str = "idempotency-key";

/// Maximum length of a key, in bytes.
const MAX_KEY: usize = 255;

/// A request that its client may repeat.
pub(crate) struct KeyedRequest {
    caller: Fingerprint,
    key: Fingerprint,
}

impl KeyedRequest {
    /// `None` without a key.
    pub(crate) fn read(headers: &HeaderMap, caller: &Caller) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(HEADER).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        // A string of structured fields is quoted (RFC 9651, section 3.3.3); many clients send it bare.
        let key = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let is_valid = (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid || values.next().is_some() {
            return Err(Problem::invalid(
                "invalid header Idempotency-Key: expected one value of 1 to 255 visible ASCII characters",
            ));
        }
        // Callers of one rule of an issuer share its hash, but not their names.
        let caller = hash(&[caller.token.bytes().as_slice(), caller.name.as_bytes()]);
        Ok(Some(Self { caller, key: Fingerprint::from_content(key.as_bytes()) }))
    }

    fn key<'a>(&self, organization: &'a str) -> IdempotencyKey<'a> {
        IdempotencyKey { organization, caller: self.caller, key: self.key }
    }

    /// Whether the same request was recorded; 422 if the key belongs to another one. The caller has locked the organization.
    pub(crate) async fn is_recorded(
        &self,
        tenant: &mut Tenant<'_>,
        request: Fingerprint,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        let first = idempotency_keys::first_request(tenant.tx, self.key(tenant.name)).await?;
        match first.filter(|first| now.distance(first.created_at) < KEY_RETENTION) {
            None => Ok(false),
            Some(first) if first.request == request => Ok(true),
            Some(_) => Err(Problem::reused_key()),
        }
    }

    /// Records the request with its effect.
    pub(crate) async fn record(
        &self,
        tenant: &mut Tenant<'_>,
        request: Fingerprint,
        now: Timestamp,
    ) -> Result<(), store::Error> {
        let first = FirstRequest { request, created_at: now };
        idempotency_keys::record(tenant.tx, self.key(tenant.name), first).await
    }
}

/// The hash of the parts of a request.
pub(crate) fn hash(parts: &[&[u8]]) -> Fingerprint {
    let mut hasher = FingerprintHasher::default();
    for part in parts {
        hasher.update(&part.len().to_be_bytes());
        hasher.update(part);
    }
    hasher.finish()
}
