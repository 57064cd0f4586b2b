//! Sessions of browsers: the signed-in user, and the permits to render a page.
//!
//! Each page below `/ui/{organization}` takes an [`OrganizationPage`], and each form that changes data an
//! [`OrganizationForm`]. These extractors are the only code that parses an organization from the path of a page, so a page
//! cannot show or change an organization for anybody else.

use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::http::context::{RequestContext, SignedIn};
use crate::http::problem::Problem;
use crate::identity::access::{Caller, PathRest, path_parameters, run, use_connection};
use crate::identity::authentication::{SessionToken, find_token};
use crate::layout::form::check_origin;
use crate::layout::parts::cookie::Cookie;
use crate::layout::parts::refusal::Refusal;
use crate::limits::permit::Permit;
use model::access::{Operation, Scope};
use model::{Fingerprint, Timestamp};
use rules::identity::Person;
use store::tokens::authentication::Token;

/// The header of a live page's update, which is no use of the session.
const UPDATE: &str = "supercargo-update";

struct Session {
    user: SignedIn,
    /// The session's token, or the permissions of its person.
    token: Token,
}

/// A browser, signed in or not.
pub(crate) struct Browser(pub(crate) Option<SignedIn>);

/// A page of an organization, requested by one of its users: `Rest` is the parameters of the path after `{organization}`.
pub(crate) struct OrganizationPage<Rest = ()> {
    pub(crate) organization: String,
    pub(crate) rest: Rest,
    pub(crate) user: SignedIn,
}

/// A form that one of the organization's users submitted from a page of this service.
pub(crate) struct OrganizationForm<Rest> {
    pub(crate) organization: String,
    pub(crate) rest: Rest,
    /// The token of the session, whose role the form must check.
    pub(crate) caller: Caller,
}

impl FromRequestParts<App> for Browser {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let context = RequestContext::from_request_parts(parts, app).await?;
        Ok(Self(signed_in(app, &context, &parts.headers).await?))
    }
}

/// Redirects anonymous browsers to the sign-in page. Returns 404 outside the user's organization, whether or not the
/// other organization exists.
impl<Rest: PathRest> FromRequestParts<App> for OrganizationPage<Rest> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let (organization, parameters) = path_parameters(parts).await?;
        let context = RequestContext::from_request_parts(parts, app).await?;
        let Session { mut user, .. } = require_session(app, &context, parts).await?;
        let permits = vec![run(app, &user.organization)?, use_connection(app, &user.organization).await?];
        context.admit(&user.organization, permits);
        if user.organization != organization {
            return Err(Refusal::NotFound);
        }
        // Before the page is read: it shows at least the changes until then.
        if let Some(replica) = &app.replica_site {
            user.replayed_until = replica.store.replayed_until().await?;
        }
        Ok(Self { organization, rest: Rest::parse(&parameters)?, user })
    }
}

/// As [`OrganizationPage`]; also returns 403 for a form that a page of another site sent.
impl<Rest: PathRest> FromRequestParts<App> for OrganizationForm<Rest> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        check_origin(app, &parts.headers)?;
        let (organization, parameters) = path_parameters(parts).await?;
        let context = RequestContext::from_request_parts(parts, app).await?;
        let Session { user, token } = require_session(app, &context, parts).await?;
        context.admit(&user.organization, vec![run(app, &user.organization)?]);
        if user.organization != organization {
            return Err(Refusal::NotFound);
        }
        let SignedIn { name, display_name, role, scope, .. } = user;
        let caller = Caller { name, display_name, token: token.sha256, role, scope, can_create: false };
        Ok(Self { organization, rest: Rest::parse(&parameters)?, caller })
    }
}

/// The session of a request; without one, the browser signs in first.
async fn require_session(app: &App, context: &RequestContext, parts: &Parts) -> Result<Session, Refusal> {
    let session = session(app, context, &parts.headers).await?;
    session.ok_or_else(|| {
        let target = app.site.links.seen(&context.target);
        Refusal::SignIn { target, cookie: ended_cookie(app, &parts.headers) }
    })
}

/// Lets a browser open the data of a page: a GET request without `Authorization` has the token of its session.
pub(crate) async fn use_session(
    State(app): State<App>,
    context: RequestContext,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let headers = request.headers();
    if request.method() == Method::GET
        && !headers.contains_key(AUTHORIZATION)
        && let Some(session) = session(&app, &context, headers).await?
    {
        request.extensions_mut().insert(SessionToken(session.token));
    }
    Ok(next.run(request).await)
}

/// The permits of an organization to write a session, acquired before a connection of the database, as for a heartbeat:
/// the writes of one organization must not occupy all connections.
pub(crate) async fn write_permits(
    app: &App,
    organization: &str,
    timeout: Duration,
) -> Result<[Permit; 2], store::Error> {
    Ok([run(app, organization)?, app.organization_locks.heartbeat(organization, timeout).await?])
}

/// The cookie of a request without a valid session, to delete it: a browser that keeps it would send an unknown session
/// with each request.
pub(crate) fn ended_cookie(app: &App, headers: &HeaderMap) -> Option<Cookie> {
    Cookie::session(app.site.links.base()).sent_in(headers)
}

/// The hash of the request's session, and the session, whether or not it has expired. A session that never existed counts
/// like an invalid token: returns 429 after too many of them from one address, and then looks up one at a time.
pub(crate) async fn stored_session(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Option<(Fingerprint, store::tokens::sessions::Session)>, Problem> {
    let Some(secret) = Cookie::session(app.site.links.base()).read(headers) else {
        return Ok(None);
    };
    let hash = Fingerprint::from_content(secret.as_bytes());
    let session = app
        .limiter
        .look_up_session(context.peer, hash, store::tokens::sessions::get(&app.site.store, hash))
        .await?;
    Ok(session.map(|session| (hash, session)))
}

/// The user whom the request's session belongs to.
pub(crate) async fn signed_in(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Option<SignedIn>, Problem> {
    Ok(session(app, context, headers).await?.map(|session| session.user))
}

async fn session(
    app: &App,
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Option<Session>, Problem> {
    let Some((hash, session)) = stored_session(app, context, headers).await? else { return Ok(None) };
    let (now, timeouts) = (app.site.now(), &app.limits.session);
    let token = if session.times.is_expired(now, timeouts) {
        None
    } else {
        // A session ends with its token, or with the permissions of its person.
        session_token(app, &session).await?
    };
    let user = token.as_ref().and_then(|token| user(token, session.person.as_ref(), &context.target));
    let Some((token, user)) = token.zip(user) else {
        app.limiter.session_ended(hash);
        return Ok(None);
    };
    app.limiter.session_admitted(hash);
    if session.times.needs_touch(now, timeouts)
        && !headers.contains_key(UPDATE)
        && let Err(error) = record_use(app, &user.organization, hash, now).await
    {
        // The page is shown anyway; the session expires earlier.
        tracing::warn!("failed to record the use of a session: {error}");
    }
    context.set_token_name(&user.name);
    context.set_user(&user);
    Ok(Some(Session { user, token }))
}

/// Timeout of the permit to record the use of a session. Short, since a page waits for it and the next page retries.
const MAX_WAIT_TO_RECORD_USE: Duration = Duration::from_secs(1);

async fn record_use(
    app: &App,
    organization: &str,
    session: Fingerprint,
    now: Timestamp,
) -> Result<(), store::Error> {
    let timeout = app.limits.permit_timeout.min(MAX_WAIT_TO_RECORD_USE);
    let _permits = write_permits(app, organization, timeout).await?;
    let mut transaction = app.site.store.write().await?;
    store::tokens::sessions::record_use(&mut transaction, session, now).await?;
    transaction.commit().await
}

/// The token of a session, if it is valid, or the current permissions of its person.
pub(crate) async fn session_token(
    app: &App,
    session: &store::tokens::sessions::Session,
) -> Result<Option<Token>, store::Error> {
    match &session.person {
        None => find_token(app, Some(session.token)).await,
        Some(person) => app.identities.permissions(&app.site.store, person, app.site.now()).await,
    }
}

/// The user of a token or person that may read.
pub(crate) fn user(token: &Token, person: Option<&Person>, target: &str) -> Option<SignedIn> {
    let may_read = token.role.permits(&Scope::default(), Operation::Read).is_ok();
    may_read.then(|| SignedIn {
        organization: token.organization.clone(),
        name: token.name.clone(),
        display_name: person.map_or_else(|| token.name.clone(), ToString::to_string),
        role: token.role,
        scope: token.scope.clone(),
        target: target.to_owned(),
        replayed_until: None,
    })
}

/// The user of a static token that is valid and may read.
pub(crate) async fn user_of_token(app: &App, token: Fingerprint) -> Result<Option<SignedIn>, store::Error> {
    Ok(find_token(app, Some(token)).await?.and_then(|token| user(&token, None, "")))
}
