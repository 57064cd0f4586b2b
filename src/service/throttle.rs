//! Wrong tokens cost whoever sends them a wait, before the database is asked.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::app::Policy;
use super::problem::Problem;
use crate::domain::model::Fingerprint;
use crate::domain::throttle;
use crate::process::peers::network;

/// Shared by all requests. Requests that are asked about at once are all let through: what is bounded is what
/// follows, and how many there are at once is bounded elsewhere.
#[derive(Debug)]
pub(super) struct Throttle(Mutex<throttle::Throttle<IpAddr, Fingerprint>>);

impl Throttle {
    pub(super) fn new(policy: &Policy) -> Self {
        Self(Mutex::new(throttle::Throttle::new(policy.wrong_tokens, policy.wrong_tokens_within)))
    }

    /// 429 where too many wrong tokens came from this peer.
    pub(super) fn check(&self, peer: IpAddr, token: Option<Fingerprint>) -> Result<(), Problem> {
        match self.lock().wait(network(peer), token, Instant::now()) {
            None => Ok(()),
            Some(wait) => Err(Problem::too_many(wait)),
        }
    }

    /// A wrong token came from this peer, or none.
    pub(super) fn refused(&self, peer: IpAddr, token: Option<Fingerprint>) {
        let waits = self.lock().refused(network(peer), token, Instant::now());
        if waits {
            tracing::warn!(
                %peer,
                "too many wrong tokens came from {peer}: for a while, others of it that are wrong are not looked up"
            );
        }
    }

    /// This token is valid.
    pub(super) fn admitted(&self, token: Fingerprint) {
        self.lock().admitted(token);
    }

    fn lock(&self) -> MutexGuard<'_, throttle::Throttle<IpAddr, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
