//! Rate limit for requests without a valid token or session. It applies before the database is queried, except for one
//! look-up at a time: the process may not have seen a valid session before, for example after a restart. Likewise, a few
//! sign-ins at a time are completed at their provider, since others behind the same address may have failed.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::http::problem::Problem;
use crate::limits::Limits;
use model::Fingerprint;
use rules::rate_limit;
use runtime::peers::network;

/// Shared by all requests. Concurrent requests may pass the check together; their number is limited elsewhere.
#[derive(Debug)]
pub(crate) struct AuthenticationLimiter {
    limiter: Mutex<rate_limit::RateLimiter<IpAddr, Fingerprint>>,
    /// One permit: to look up an unknown session, or verify a new token of an issuer, of a limited address.
    look_up: Semaphore,
    /// Permits to ask a provider about a sign-in of a limited address.
    sign_ins: Semaphore,
}

/// Sign-ins of limited addresses that are completed at the same time.
pub(super) const LIMITED_SIGN_INS: usize = 8;

impl AuthenticationLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let limiter = rate_limit::RateLimiter::new(limits.invalid_tokens, limits.invalid_tokens_within);
        let [look_up, sign_ins] = [1, LIMITED_SIGN_INS].map(Semaphore::new);
        Self { limiter: Mutex::new(limiter), look_up, sign_ins }
    }

    /// Returns 429 if this peer sent too many invalid tokens or sessions, unless this token was valid before.
    pub(crate) fn check(&self, peer: IpAddr, token: Option<Fingerprint>) -> Result<(), Problem> {
        match self.lock().retry_after(network(peer), token, Instant::now()) {
            None => Ok(()),
            Some(wait) => Err(Problem::too_many(wait)),
        }
    }

    /// Looks up a session. `None` if it does not exist. A session that is known to have ended is not looked up.
    ///
    /// If this peer sent too many invalid tokens or sessions and the session was not valid before, it is looked up only
    /// if no other session of a limited peer is. Returns 429 otherwise, and for a session that does not exist.
    pub(crate) async fn look_up_session<Session>(
        &self,
        peer: IpAddr,
        session: Fingerprint,
        look_up: impl Future<Output = Result<Option<Session>, store::Error>>,
    ) -> Result<Option<Session>, Problem> {
        if self.lock().has_ended(session) {
            return Ok(None);
        }
        let (limited, _permit) = self.admit_unknown(peer, session)?;
        let found = look_up.await?;
        if found.is_none() {
            let reached = self.lock().record_unknown_session(network(peer), session, Instant::now());
            warn_if(reached, peer);
            if let Some(problem) = limited {
                return Err(problem);
            }
        }
        Ok(found)
    }

    /// Admits a token or session that may be valid although the process has not seen it. For a peer that sent too many
    /// invalid ones, returns the response in case it is invalid, and the only permit to look it up.
    pub(crate) fn admit_unknown(
        &self,
        peer: IpAddr,
        token: Fingerprint,
    ) -> Result<(Option<Problem>, Option<SemaphorePermit<'_>>), Problem> {
        self.admit(peer, Some(token), &self.look_up)
    }

    /// Admits a sign-in that the provider may confirm. For a peer that sent too many invalid tokens, returns the response in
    /// case it is invalid, and one of few permits to ask the provider.
    pub(crate) fn admit_sign_in(
        &self,
        peer: IpAddr,
    ) -> Result<(Option<Problem>, Option<SemaphorePermit<'_>>), Problem> {
        self.admit(peer, None, &self.sign_ins)
    }

    fn admit<'a>(
        &self,
        peer: IpAddr,
        token: Option<Fingerprint>,
        permits: &'a Semaphore,
    ) -> Result<(Option<Problem>, Option<SemaphorePermit<'a>>), Problem> {
        let Err(problem) = self.check(peer, token) else { return Ok((None, None)) };
        let permit = permits.try_acquire().map_err(|_| problem.clone())?;
        Ok((Some(problem), Some(permit)))
    }

    /// Records a request with an invalid token, or without one.
    pub(crate) fn refused(&self, peer: IpAddr, token: Option<Fingerprint>) {
        let reached = self.lock().record_failure(network(peer), token, Instant::now());
        warn_if(reached, peer);
    }

    /// Records that this token is valid.
    pub(crate) fn admitted(&self, token: Fingerprint) {
        self.lock().record_success(token);
    }

    /// Records that this session is valid.
    pub(crate) fn session_admitted(&self, session: Fingerprint) {
        self.lock().record_session(session);
    }

    pub(crate) fn session_ended(&self, session: Fingerprint) {
        self.lock().record_session_end(session);
    }

    fn lock(&self) -> MutexGuard<'_, rate_limit::RateLimiter<IpAddr, Fingerprint>> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs that this peer has reached the limit.
fn warn_if(reached: bool, peer: IpAddr) {
    if reached {
        tracing::warn!(
            %peer,
            "rate limit: too many invalid tokens from {peer}; its requests without a valid token or session get 429"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::net::Ipv4Addr;
    use std::pin::pin;

    use axum::http::StatusCode;
    use futures_util::FutureExt;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn limiter() -> AuthenticationLimiter {
        AuthenticationLimiter::new(&Limits { invalid_tokens: 1, ..Limits::default() })
    }

    /// The result for a session, or the status of the error, and whether the session was looked up.
    async fn look_up(
        limiter: &AuthenticationLimiter,
        session: Fingerprint,
        is_stored: bool,
    ) -> (Result<bool, StatusCode>, bool) {
        let mut was_looked_up = false;
        let stored = async {
            was_looked_up = true;
            Ok(is_stored.then_some(()))
        };
        let found = limiter.look_up_session(PEER, session, stored).await;
        (found.map(|found| found.is_some()).map_err(|problem| problem.status()), was_looked_up)
    }

    #[tokio::test]
    async fn limited_peer_looks_up_one_unknown_session_at_a_time() {
        let limiter = limiter();
        let [known, unseen, guess] =
            [b"known-", b"unseen", b"guess-"].map(|secret| Fingerprint::from_content(secret));
        let rejected = Err(StatusCode::TOO_MANY_REQUESTS);
        limiter.session_admitted(known);
        assert_eq!(look_up(&limiter, guess, false).await, (Ok(false), true));
        assert_eq!(look_up(&limiter, guess, false).await, (rejected, true), "limited from here");
        {
            let waiting = pending::<Result<Option<()>, store::Error>>();
            let mut waiting = pin!(limiter.look_up_session(PEER, guess, waiting));
            assert!(waiting.as_mut().now_or_never().is_none());
            assert_eq!(look_up(&limiter, guess, false).await, (rejected, false));
            assert_eq!(look_up(&limiter, unseen, true).await, (rejected, false));
            assert_eq!(look_up(&limiter, known, true).await, (Ok(true), true), "exempt");
            let other = Ipv4Addr::new(192, 0, 2, 1).into();
            let found = limiter.look_up_session(other, unseen, ready(Ok(Some(())))).await;
            assert!(found.is_ok_and(|found| found.is_some()), "another peer is not limited");
        }
        // A disconnected client releases the permit.
        assert_eq!(look_up(&limiter, unseen, true).await, (Ok(true), true));
    }

    #[test]
    fn limited_peer_completes_few_sign_ins_at_a_time() {
        let limiter = limiter();
        assert!(matches!(limiter.admit_sign_in(PEER), Ok((None, None))), "not limited");
        limiter.refused(PEER, None);
        let mut admitted: Vec<_> = (0..LIMITED_SIGN_INS).map(|_| limiter.admit_sign_in(PEER).ok()).collect();
        assert!(admitted.iter().all(|admitted| matches!(admitted, Some((Some(_), Some(_))))));
        let refused = limiter.admit_sign_in(PEER).map(|_| ()).map_err(|problem| problem.status());
        assert_eq!(refused, Err(StatusCode::TOO_MANY_REQUESTS));
        admitted.pop();
        assert!(limiter.admit_sign_in(PEER).is_ok());
    }

    #[tokio::test]
    async fn ended_session_is_neither_looked_up_nor_counted() {
        let limiter = limiter();
        let [removed, closed] = [b"removed", b"closed-"].map(|secret| Fingerprint::from_content(secret));
        limiter.session_admitted(removed);
        assert_eq!(look_up(&limiter, removed, false).await, (Ok(false), true));
        limiter.session_ended(closed);
        for session in [removed, closed, removed, closed] {
            assert_eq!(look_up(&limiter, session, true).await, (Ok(false), false));
        }
        assert!(limiter.check(PEER, None).is_ok());
    }
}
