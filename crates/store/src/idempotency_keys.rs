//! Requests that clients may repeat, by the keys that they sent with them.

use crate::database::transaction::{execute, fetch_optional};
use crate::{Error, Transaction};
use model::{Fingerprint, Timestamp};

/// The key of a request. Callers choose their keys, so each has its own.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    pub organization: &'a str,
    /// The hash of the caller.
    pub caller: Fingerprint,
    /// The hash of the key.
    pub key: Fingerprint,
}

/// The first request with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct FirstRequest {
    /// The hash of its content.
    pub request: Fingerprint,
    pub created_at: Timestamp,
}

pub async fn first_request(
    transaction: &mut Transaction,
    key: IdempotencyKey<'_>,
) -> Result<Option<FirstRequest>, Error> {
    const SELECT: &str = "
        SELECT request, created_at FROM idempotency_keys
        WHERE organization = $1 AND caller = $2 AND idempotency_key = $3";
    Ok(fetch_optional!(transaction, SELECT, key.organization, key.caller, key.key))
}

/// Records a request, in the transaction of its effect. Replaces one whose key is too old to count.
pub async fn record(
    transaction: &mut Transaction,
    key: IdempotencyKey<'_>,
    first: FirstRequest,
) -> Result<(), Error> {
    const UPSERT: &str = "
        INSERT INTO idempotency_keys (organization, caller, idempotency_key, request, created_at)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (organization, caller, idempotency_key) DO UPDATE
        SET request = excluded.request, created_at = excluded.created_at";
    let FirstRequest { request, created_at } = first;
    execute!(transaction, UPSERT, key.organization, key.caller, key.key, request, created_at);
    Ok(())
}
