//! Rate limit for requests without a valid token or session. It applies before the database is queried.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::domain::evidence::rate_limit;
use crate::domain::model::Fingerprint;
use crate::process::peers::network;
use crate::service::http::problem::Problem;
use crate::service::limits::Limits;

/// Shared by all requests. Concurrent requests may pass the check together; their number is limited elsewhere.
#[derive(Debug)]
pub(crate) struct AuthenticationLimiter(Mutex<rate_limit::RateLimiter<IpAddr, Fingerprint>>);

impl AuthenticationLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(Mutex::new(rate_limit::RateLimiter::new(limits.invalid_tokens, limits.invalid_tokens_within)))
    }

    /// Returns 429 if this peer sent too many invalid tokens or sessions, unless this one was valid before.
    pub(crate) fn check(&self, peer: IpAddr, token: Option<Fingerprint>) -> Result<(), Problem> {
        match self.lock().retry_after(network(peer), token, Instant::now()) {
            None => Ok(()),
            Some(wait) => Err(Problem::too_many(wait)),
        }
    }

    /// Records a request with an invalid token or session, or without one.
    pub(crate) fn refused(&self, peer: IpAddr, token: Option<Fingerprint>) {
        let waits = self.lock().record_failure(network(peer), token, Instant::now());
        if waits {
            tracing::warn!(
                %peer,
                "rate limit: too many invalid tokens from {peer}; its requests without a valid token or session get 429"
            );
        }
    }

    /// Records that this token is valid.
    pub(crate) fn admitted(&self, token: Fingerprint) {
        self.lock().record_success(token);
    }

    /// Records that this session is valid.
    pub(crate) fn session_admitted(&self, session: Fingerprint) {
        self.lock().record_session(session);
    }

    fn lock(&self) -> MutexGuard<'_, rate_limit::RateLimiter<IpAddr, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
