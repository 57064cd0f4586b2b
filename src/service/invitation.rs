//! A link that signs in once, in place of a token that is typed.
//!
//! A process that embeds the service can ask for one; `serve` does not. Only the hash of the link's code is kept, in
//! memory.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use subtle::ConstantTimeEq;

use crate::domain::model::Fingerprint;
use crate::service::maintenance::random::random;

/// What may be signed in with once.
#[derive(Debug, Default)]
pub(in crate::service) struct Invitation(Mutex<Stands>);

#[derive(Debug, Default)]
enum Stands {
    /// Nobody made a link.
    #[default]
    NeverMade,
    /// It was not used yet.
    Open { code: Fingerprint, token: Fingerprint, until: Instant },
    /// It was used.
    Used,
}

/// What a code is good for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nobody ever made a link here.
    NeverMade,
    /// A session of this token, which no other request gets.
    SignsIn(Fingerprint),
    /// Nothing, or nothing any more.
    Nothing,
}

impl Invitation {
    /// Makes the link's code, of 128 random bits, so that the link fits a line, for a token; one that was made before is void.
    pub(in crate::service) fn open(
        &self,
        token: Fingerprint,
        until: Instant,
    ) -> Result<String, getrandom::Error> {
        let code = random::<16>()?;
        *self.lock() = Stands::Open { code: Fingerprint::of(code.as_bytes()), token, until };
        Ok(code)
    }

    /// What a code is good for; once it was good for something, it no longer is.
    pub(crate) fn take(&self, offered: Fingerprint, now: Instant) -> Answer {
        let mut stands = self.lock();
        let token = match &*stands {
            Stands::NeverMade => return Answer::NeverMade,
            Stands::Open { code, token, until }
                if bool::from(code.bytes().ct_eq(offered.bytes())) && now < *until =>
            {
                *token
            }
            Stands::Open { .. } | Stands::Used => return Answer::Nothing,
        };
        *stands = Stands::Used;
        Answer::SignsIn(token)
    }

    fn lock(&self) -> MutexGuard<'_, Stands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_link_signs_in_once_and_only_by_its_code_and_only_in_time() {
        let (token, now) = (Fingerprint::of(b"token"), Instant::now());
        let hash = |code: &str| Fingerprint::of(code.as_bytes());
        let invitation = Invitation::default();
        assert_eq!(invitation.take(hash(""), now), Answer::NeverMade);
        let until = now + Duration::from_secs(1);
        let code = invitation.open(token, until).unwrap();
        assert_eq!(code.len(), 32);
        assert_eq!(invitation.take(hash("guessed"), now), Answer::Nothing);
        assert_eq!(invitation.take(hash(&code), until), Answer::Nothing, "too late");
        assert_eq!(invitation.take(hash(&code), now), Answer::SignsIn(token), "no guess takes it away");
        assert_eq!(invitation.take(hash(&code), now), Answer::Nothing, "it was used");
        let again = invitation.open(token, until).unwrap();
        assert_ne!(again, code);
        assert_eq!(invitation.take(hash(&code), now), Answer::Nothing);
        assert_eq!(invitation.take(hash(&again), now), Answer::SignsIn(token));
    }
}
