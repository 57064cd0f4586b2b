//! Who looks at a page: the token behind the session that a browser's cookie names.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::parts::cookie::Cookie;
use super::parts::refusal::Refusal;
use crate::domain::evidence::access::{Operation, Role, Scope};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::process::listener;
use crate::service::access::{KnownAs, valid};
use crate::service::app::App;
use crate::service::http::problem::Problem;
use crate::store;

/// Who looks at a page, and may read what is of their organization.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// The organization.
    pub(super) organization: String,
    /// The token's name.
    pub(super) name: String,
    /// The path and query of what they look at, once they do.
    pub(super) looks_at: String,
    /// The hash of the token.
    token: Fingerprint,
    /// Their turn, of their token's, of their organization's and of all, while their page is made.
    #[expect(dead_code, reason = "it is held, and ends with the page")]
    turn: Option<Arc<[OwnedSemaphorePermit; 3]>>,
}

/// Where a visitor is left for the page that refuses what they asked for, among the request's extensions.
pub(super) type Looking = Arc<OnceLock<Visitor>>;

/// Who is not signed in, and what they wanted to see.
#[derive(Debug, Clone)]
pub(super) struct Stranger {
    /// The path and query of that.
    pub(super) wanted: String,
}

/// A browser, signed in or not.
pub(super) type Signed = Result<Visitor, Stranger>;

/// A request's [`Signed`].
pub(super) struct Browser(pub(super) Signed);

impl FromRequestParts<App> for Browser {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let wanted = parts.uri.path_and_query().map_or("/ui", |path| path.as_str());
        let visitor = visitor(app, parts, wanted).await?;
        Ok(Self(visitor.ok_or_else(|| Stranger { wanted: wanted.to_owned() })))
    }
}

/// Only who is signed in: others are sent to sign in, and come back.
impl FromRequestParts<App> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let Browser(signed) = Browser::from_request_parts(parts, app).await?;
        let visitor =
            signed.map_err(|stranger| Refusal::SignIn { wanted: app.links.seen(&stranger.wanted) })?;
        // Who waits for their own token's waits with nobody else, and so of an organization's at most two wait with
        // others.
        let turns = async {
            let own = app.looking_by.of(visitor.token).acquire_owned().await?;
            let of_all = app.looking_of.of(visitor.organization.clone()).acquire_owned().await?;
            Ok::<_, AcquireError>([own, of_all, Arc::clone(&app.looking).acquire_owned().await?])
        };
        let turn = timeout(app.policy.turn, turns).await;
        let busy = || {
            Problem::unavailable("many look at pages at the same time; Retry-After says when to try again")
        };
        let turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
        Ok(Self { turn: Some(Arc::new(turn)), ..visitor })
    }
}

impl Visitor {
    /// 404 outside of the visitor's organization, whether it is there or not.
    pub(super) fn of(&self, organization: &str) -> Result<(), Refusal> {
        if self.organization == organization { Ok(()) } else { Err(Refusal::NotFound) }
    }

    /// Whether this is the path of what they look at. A proxy may have taken off what the public URL has before `/ui`.
    pub(super) fn is_at(&self, path: &str) -> bool {
        path.ends_with(self.looks_at.split('?').next().unwrap_or_default())
    }
}

/// Where a request comes from.
pub(super) struct Peer(pub(super) IpAddr);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The listener names the peer of every request.
        let peer = parts.extensions.get::<listener::Peer>();
        Ok(Self(peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip())))
    }
}

async fn visitor(app: &App, parts: &Parts, looks_at: &str) -> Result<Option<Visitor>, store::Error> {
    let Some(secret) = Cookie::of(app.links.base()).read(&parts.headers) else { return Ok(None) };
    let hash = Fingerprint::of(secret.as_bytes());
    let session = app.store.read().await?.session(hash).await?;
    let (now, policy) = (app.now(), &app.policy.session);
    let Some(session) = session.filter(|session| !session.used.is_over(now, policy)) else { return Ok(None) };
    // With its token the session is gone.
    let Some(visitor) = reader(app, session.token).await? else { return Ok(None) };
    if session.used.has_to_be_noted(now, policy)
        && let Err(error) = note(app, hash, now).await
    {
        // The page can be shown all the same; the session ends the earlier.
        tracing::warn!("the use of a session cannot be noted: {error}");
    }
    if let Some(known_as) = parts.extensions.get::<KnownAs>() {
        known_as.is(&visitor.name);
    }
    let visitor = Visitor { looks_at: looks_at.to_owned(), ..visitor };
    if let Some(looking) = parts.extensions.get::<Looking>() {
        let _ = looking.set(visitor.clone());
    }
    Ok(Some(visitor))
}

async fn note(app: &App, session: Fingerprint, now: Timestamp) -> Result<(), store::Error> {
    let mut transaction = app.store.write().await?;
    transaction.note_session(session, now).await?;
    transaction.commit().await
}

/// Whose token this is, while it is valid and may read.
pub(super) async fn reader(app: &App, token: Fingerprint) -> Result<Option<Visitor>, store::Error> {
    let Some(known) = valid(app, Some(token)).await? else { return Ok(None) };
    let role: Role = known.role.parse().map_err(|_| store::Error::Unreadable("a role"))?;
    let may_read = role.permits(&Scope::default(), Operation::Read).is_ok();
    let (organization, name) = (known.organization, known.name);
    let visitor = Visitor { organization, name, looks_at: String::new(), token, turn: None };
    Ok(may_read.then_some(visitor))
}
