//! Who asks, and whether they may: decided before a body is read.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::app::App;
use super::http::problem::Problem;
use crate::domain::escape::Visible;
use crate::domain::evidence::access::{Operation, Refusal, Role, Scope};
use crate::domain::model::Fingerprint;
use crate::process::listener::Peer;
use crate::store;
use crate::store::access::Token;

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The token's name.
    pub(super) name: String,
    /// What it may do.
    pub(super) role: Role,
}

/// What of a request says who asks. It holds the token: no `Debug`.
pub(super) struct Asking {
    pub(super) headers: HeaderMap,
    /// Where it comes from.
    peer: IpAddr,
    /// Where the name of its token is left for the log, once it is known.
    known_as: KnownAs,
    /// Where its turn is left, until the answer was sent.
    turn: Turn,
}

/// The turn of a request that reads, its token's and its organization's, and that organization, among the request's
/// extensions.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn(Arc<OnceLock<([OwnedSemaphorePermit; 2], String)>>);

impl Turn {
    /// The organization; `""` where there is no turn.
    pub(super) fn organization(&self) -> &str {
        self.0.get().map_or("", |(_, organization)| organization)
    }
}

/// The name of the valid token that a request came with, among the request's extensions.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownAs(Arc<OnceLock<String>>);

impl KnownAs {
    /// Leaves the name there.
    pub(super) fn is(&self, name: &str) {
        let _ = self.0.set(name.to_owned());
    }

    /// The name, fit for a log; empty where nobody is known.
    pub(super) fn shown(&self) -> String {
        self.0.get().map_or_else(String::new, |name| Visible(name).to_string())
    }
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The listener names the peer of every request.
        let peer = parts.extensions.get().map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(peer)| peer.ip());
        let known_as = parts.extensions.get().cloned().unwrap_or_default();
        let turn = parts.extensions.get().cloned().unwrap_or_default();
        Ok(Self { headers: parts.headers.clone(), peer, known_as, turn })
    }
}

/// Lets a request in, or says 401 without a valid token, 403 outside the token's role or organization, and 429
/// where too many came without a valid token.
pub(super) async fn admit(
    app: &App,
    asking: &Asking,
    organization: &str,
    operation: Operation<'_>,
) -> Result<Caller, Problem> {
    let hash = bearer(&asking.headers).map(Fingerprint::of);
    app.throttle.check(asking.peer, hash)?;
    let Some(known) = valid(app, hash).await? else {
        app.throttle.refused(asking.peer, hash);
        return Err(Problem::unauthorized());
    };
    app.throttle.admitted(known.sha256);
    asking.known_as.is(&known.name);
    let role: Role = known.role.parse().map_err(|_| store::Error::Unreadable("a role"))?;
    let scope: Scope = serde_json::from_str(&known.scope).map_err(|_| store::Error::Unreadable("a scope"))?;
    let permitted = match &known.organization {
        home if home == organization => role.permits(&scope, operation),
        _ => Err(Refusal::Organization),
    };
    if let Err(refusal) = permitted {
        let (role, home) = (role.as_str(), &known.organization);
        let name = Visible(&known.name).to_string();
        tracing::info!(
            token = name,
            role,
            "refused: the token \"{name}\" of {home}, of role {role}, may not do this"
        );
        return Err(Problem::forbidden(refusal));
    }
    if operation == Operation::Read {
        // However slowly its answers are read, one token has but so many of them in memory, and of the connections to
        // the database, and so have all tokens of an organization together. Who waits for their own token's waits with
        // nobody else.
        let until = Instant::now() + app.policy.turn;
        let own = turn(app.reading_by.of(known.sha256), until, "token").await?;
        let of_all = turn(app.reading_of.of(known.organization.clone()), until, "organization").await?;
        let _ = asking.turn.0.set(([own, of_all], known.organization));
    }
    Ok(Caller { name: known.name, role })
}

async fn turn(places: Arc<Semaphore>, until: Instant, whose: &str) -> Result<OwnedSemaphorePermit, Problem> {
    let turn = timeout_at(until, places.acquire_owned()).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        Problem::unavailable(format!("this {whose} has as many answers under way as it may have at a time"))
    })
}

/// The token of this hash, while it is open and has not expired.
pub(super) async fn valid(app: &App, hash: Option<Fingerprint>) -> Result<Option<Token>, store::Error> {
    let Some(hash) = hash else { return Ok(None) };
    let Some(known) = app.store.token(hash).await? else { return Ok(None) };
    let is_same = bool::from(known.sha256.bytes().ct_eq(hash.bytes()));
    if !is_same || known.expires_at.is_some_and(|end| end <= app.now()) {
        // What the client is not told, its operator is.
        let name = Visible(&known.name).to_string();
        tracing::info!(token = name, "refused: the token \"{name}\" of {} has expired", known.organization);
        return Ok(None);
    }
    Ok(Some(known))
}

/// The token of `Authorization: Bearer …` (RFC 6750, section 2.1; the scheme in any case, RFC 9110,
/// section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}
