//! One-time sign-in links, in place of a typed token.
//!
//! A process that embeds the service, such as the demo, can create a link; `serve` does not. Only the hash of the code is
//! kept, in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use subtle::ConstantTimeEq;

use crate::maintenance::random::random;
use model::Fingerprint;

#[derive(Debug, Default)]
pub(crate) struct Invitation(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotCreated,
    Open {
        code: Fingerprint,
        token: Fingerprint,
        until: Instant,
    },
    Used,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redeemed {
    NotCreated,
    /// Signs in with this token; no other request can.
    Token(Fingerprint),
    /// The code is wrong, expired or used.
    Invalid,
}

impl Invitation {
    /// Creates the code of a link for a token: 128 random bits, so that the link fits a line. It replaces an earlier link.
    pub(crate) fn open(&self, token: Fingerprint, until: Instant) -> Result<String, getrandom::Error> {
        let code = random::<16>()?;
        *self.lock() = State::Open { code: Fingerprint::from_content(code.as_bytes()), token, until };
        Ok(code)
    }

    /// Redeems a code, which is used up.
    pub(crate) fn redeem(&self, offered: Fingerprint, now: Instant) -> Redeemed {
        let mut state = self.lock();
        let token = match &*state {
            State::NotCreated => return Redeemed::NotCreated,
            State::Open { code, token, until }
                if bool::from(code.bytes().ct_eq(offered.bytes())) && now < *until =>
            {
                *token
            }
            State::Open { .. } | State::Used => return Redeemed::Invalid,
        };
        *state = State::Used;
        Redeemed::Token(token)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn link_signs_in_once_with_its_code_before_it_expires() {
        let (token, now) = (Fingerprint::from_content(b"token"), Instant::now());
        let hash = |code: &str| Fingerprint::from_content(code.as_bytes());
        let invitation = Invitation::default();
        assert_eq!(invitation.redeem(hash(""), now), Redeemed::NotCreated);
        let until = now + Duration::from_secs(1);
        let code = invitation.open(token, until).unwrap();
        assert_eq!(code.len(), 32);
        assert_eq!(invitation.redeem(hash("guessed"), now), Redeemed::Invalid);
        assert_eq!(invitation.redeem(hash(&code), until), Redeemed::Invalid, "expired");
        assert_eq!(
            invitation.redeem(hash(&code), now),
            Redeemed::Token(token),
            "a wrong code does not use up the link"
        );
        assert_eq!(invitation.redeem(hash(&code), now), Redeemed::Invalid, "already used");
        let again = invitation.open(token, until).unwrap();
        assert_ne!(again, code);
        assert_eq!(invitation.redeem(hash(&code), now), Redeemed::Invalid);
        assert_eq!(invitation.redeem(hash(&again), now), Redeemed::Token(token));
    }
}
