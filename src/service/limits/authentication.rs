//! Wrong tokens cost whoever sends them a wait, before the database is asked.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::domain::evidence::rate_limit;
use crate::domain::model::Fingerprint;
use crate::process::peers::network;
use crate::service::app::Policy;
use crate::service::http::problem::Problem;

/// Shared by all requests. Requests that are asked about at once are all let through: what is bounded is what
/// follows, and how many there are at once is bounded elsewhere.
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<rate_limit::Throttle<IpAddr, Fingerprint>>);

impl Throttle {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self(Mutex::new(rate_limit::Throttle::new(policy.wrong_tokens, policy.wrong_tokens_within)))
    }

    /// 429 where too many wrong tokens came from this peer.
    pub(crate) fn check(&self, peer: IpAddr, token: Option<Fingerprint>) -> Result<(), Problem> {
        match self.lock().wait(network(peer), token, Instant::now()) {
            None => Ok(()),
            Some(wait) => Err(Problem::too_many(wait)),
        }
    }

    /// A wrong token came from this peer, or none.
    pub(crate) fn refused(&self, peer: IpAddr, token: Option<Fingerprint>) {
        let waits = self.lock().refused(network(peer), token, Instant::now());
        if waits {
            tracing::warn!(
                %peer,
                "too many wrong tokens came from {peer}: for a while, others of it that are wrong are not looked up"
            );
        }
    }

    /// This token is valid.
    pub(crate) fn admitted(&self, token: Fingerprint) {
        self.lock().admitted(token);
    }

    fn lock(&self) -> MutexGuard<'_, rate_limit::Throttle<IpAddr, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
