//! Sessions of browsers: the signed-in user, and the permits to render a page.
//!
//! Each page below `/ui/{organization}` takes an [`OrganizationPage`]. The extractor is the only code that parses an
//! organization from the path of a page, so a page cannot show an organization to anybody else.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::parts::cookie::Cookie;
use super::parts::refusal::Refusal;
use crate::domain::evidence::access::{Operation, Scope};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::service::access::{PathRest, find_token, path_parameters};
use crate::service::app::App;
use crate::service::http::context::{RequestContext, SignedIn};
use crate::service::http::problem::Problem;
use crate::store;

/// A valid session.
struct Session {
    user: SignedIn,
    /// The hash of the session's token.
    token: Fingerprint,
}

/// A browser, signed in or not.
pub(super) struct Browser(pub(super) Option<SignedIn>);

/// A page of an organization, requested by one of its users: `Rest` is the parameters of the path after `{organization}`.
pub(super) struct OrganizationPage<Rest = ()> {
    pub(super) organization: String,
    pub(super) rest: Rest,
    pub(super) user: SignedIn,
    /// Permits of the token, of its organization and of all pages; they end with the handler.
    _permits: [OwnedSemaphorePermit; 3],
}

impl FromRequestParts<App> for Browser {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let context = RequestContext::from_request_parts(parts, app).await?;
        Ok(Self(session(app, &context, &parts.headers).await?.map(|session| session.user)))
    }
}

/// Redirects anonymous browsers to the sign-in page. Returns 404 outside the user's organization, whether or not the
/// other organization exists.
impl<Rest: PathRest> FromRequestParts<App> for OrganizationPage<Rest> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let (organization, rest) = path_parameters::<Rest>(parts).await?;
        let context = RequestContext::from_request_parts(parts, app).await?;
        let Some(Session { user, token }) = session(app, &context, &parts.headers).await? else {
            return Err(Refusal::SignIn { target: app.site.links.seen(&context.target) });
        };
        // The token's own permit comes first, so that its pages wait only for each other.
        let permits = async {
            let own = app.pages_by.get(token).acquire_owned().await?;
            let shared = app.pages_of.get(user.organization.clone()).acquire_owned().await?;
            Ok::<_, AcquireError>([own, shared, Arc::clone(&app.pages).acquire_owned().await?])
        };
        let permits = timeout(app.limits.permit_timeout, permits).await.ok().and_then(Result::ok);
        let permits = permits.ok_or_else(|| {
            Problem::unavailable("too many pages are being rendered; retry after the time in Retry-After")
        })?;
        if user.organization != organization {
            return Err(Refusal::NotFound);
        }
        Ok(Self { organization, rest, user, _permits: permits })
    }
}

async fn session(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Option<Session>, store::Error> {
    let Some(secret) = Cookie::from_base_url(app.site.links.base()).read(headers) else {
        return Ok(None);
    };
    let hash = Fingerprint::from_content(secret.as_bytes());
    let session = app.site.store.read().await?.session(hash).await?;
    let (now, timeouts) = (app.site.now(), &app.limits.session);
    let Some(session) = session.filter(|session| !session.times.is_expired(now, timeouts)) else {
        return Ok(None);
    };
    // A session ends with its token.
    let Some(user) = user_of_token(app, session.token, &context.target).await? else { return Ok(None) };
    if session.times.needs_touch(now, timeouts)
        && let Err(error) = record_use(app, hash, now).await
    {
        // The page is shown anyway; the session expires earlier.
        tracing::warn!("failed to record the use of a session: {error}");
    }
    context.set_token_name(&user.name);
    context.set_user(&user);
    Ok(Some(Session { user, token: session.token }))
}

async fn record_use(app: &App, session: Fingerprint, now: Timestamp) -> Result<(), store::Error> {
    let mut transaction = app.site.store.write().await?;
    transaction.record_session_use(session, now).await?;
    transaction.commit().await
}

/// The user of a token that is valid and may read.
pub(super) async fn user_of_token(
    app: &App,
    token: Fingerprint,
    target: &str,
) -> Result<Option<SignedIn>, store::Error> {
    let Some(token) = find_token(app, Some(token)).await? else { return Ok(None) };
    let may_read = token.role.permits(&Scope::default(), Operation::Read).is_ok();
    let user = SignedIn { organization: token.organization, name: token.name, target: target.to_owned() };
    Ok(may_read.then_some(user))
}
