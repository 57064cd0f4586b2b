//! Sign-in and sign-out: exchanges a token of role `read`, `approve` or `admin`, or a one-time link, for a session. `provider`
//! opens the sessions of people who sign in at an issuer.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use url::form_urlencoded::Serializer;
use url::{Position, Url};

use crate::app::App;
use crate::engine::audit::Audit;
use crate::http::context::{RequestContext, SignedIn};
use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::Provider;
use crate::identity::invitation::Redeemed;
use crate::layout::form::{Form, check_origin};
use crate::layout::parts::cookie::Cookie;
use crate::layout::parts::escape::text;
use crate::layout::parts::layout;
use crate::layout::parts::refusal::Refusal;
use crate::layout::session::{
    Browser, ended_cookie, session_token, signed_in, stored_session, user_of_token, write_permits,
};
use crate::maintenance::random::random;
use model::Fingerprint;
use rules::identity::Person;

/// Maximum size of the form, in bytes. Anonymous clients may send it.
const MAX_FORM_BYTES: u64 = 16 * 1024;

/// Redirects to the organization of the user, or to the sign-in page.
pub(crate) async fn home(State(app): State<App>, Browser(user): Browser, headers: HeaderMap) -> Response {
    if let Some(user) = user {
        return Redirect::to(&app.site.links.page(&[&user.organization])).into_response();
    }
    let cookie = ended_cookie(&app, &headers).map(|cookie| [(SET_COOKIE, cookie.clear())]);
    (cookie, Redirect::to(&app.site.links.page(&["sign-in"]))).into_response()
}

/// Signs in with a one-time link, or shows the form for a token. The form needs no look-up of a session: a browser with an
/// expired session can sign in even if its address is rate limited.
pub(crate) async fn form(
    State(app): State<App>,
    context: RequestContext,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let parameters = Parameters::read(&uri, &["next", "once"])?;
    let next = parameters.text("next").unwrap_or_default();
    let form = || form_page(&app, next, None).into_response();
    // A HEAD request does not use up the link.
    let Some(code) = parameters.text("once").filter(|_| method == Method::GET) else { return Ok(form()) };
    let code = Fingerprint::from_content(code.as_bytes());
    let token = match app.invitation.redeem(code, Instant::now()) {
        Redeemed::NotCreated => return Ok(form()),
        Redeemed::Token(token) => Some(token),
        Redeemed::Invalid => None,
    };
    if let Some(token) = token
        && let Some(user) = user_of_token(&app, token).await?
    {
        return open_session(&app, token, None, &user, &headers, "").await;
    }
    if let Some(user) = signed_in(&app, &context, &headers).await? {
        // The browser has used this link before.
        return Ok(Redirect::to(&app.site.links.page(&[&user.organization])).into_response());
    }
    // Only invalid codes are rate limited: a code of 128 bits cannot be guessed.
    app.limiter.check(context.peer, Some(code))?;
    app.limiter.refused(context.peer, Some(code));
    Ok(denied(&app, next, "This link was used or has expired. A link signs in once."))
}

/// The form, with the reason why the sign-in failed.
pub(crate) fn denied(app: &App, next: &str, problem: &str) -> Response {
    (StatusCode::FORBIDDEN, form_page(app, next, Some(problem))).into_response()
}

/// The form, below the providers of the organization of `next`, or of all.
fn form_page(app: &App, next: &str, problem: Option<&str>) -> layout::HtmlPage {
    let path = local_path(app, next).unwrap_or_default();
    let below = path.strip_prefix(&app.site.links.page(&[])).unwrap_or_default();
    let organization = below.split(['/', '?']).nth(1).unwrap_or_default();
    let mut providers = app.identities.providers();
    providers.retain(|provider| organization.is_empty() || organization == provider.organization);
    let takes_token = !app.addresses.current().is_token_sign_in_off;
    let content = html! {
        section.narrow {
            h1 { "Sign in" }
            @if let Some(problem) = problem { p.problem role="alert" { (text(problem)) } }
            @for provider in &providers {
                @let query = Serializer::new(String::new())
                    .append_pair("issuer", &provider.id.to_string()).append_pair("next", next).finish();
                p {
                    a.button href={ (app.site.links.page(&["sign-in", "provider"])) "?" (query) } {
                        "Sign in with " (text(&provider.issuer.name))
                    }
                }
            }
            @if takes_token {
                p { @if providers.is_empty() { "Use" } @else { "Or use" } " a token of role " code { "read" } ", "
                    code { "approve" } " or " code { "admin" } ". The session ends after inactivity, or with the token." }
                form method="post" action=(app.site.links.page(&["sign-in"])) {
                    // Password managers store a password under a user name.
                    input type="text" value="token" autocomplete="username" hidden;
                    label for="token" { "Token" }
                    input id="token" name="token" type="password" autocomplete="current-password" required
                        autofocus[providers.is_empty()];
                    input type="hidden" name="next" value=(next);
                    button type="submit" { "Sign in" }
                }
            } @else if providers.is_empty() {
                p { "No provider for sign-in is available here. Ask the administrator of the service." }
            }
        }
    };
    layout::page(&app.site, "Sign in", None, &content)
}

/// Exchanges a token for a session.
pub(crate) async fn sign_in(
    State(app): State<App>,
    context: RequestContext,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    check_origin(&app, &headers)?;
    let mut form = Form::read(&app, "", &headers, body, MAX_FORM_BYTES).await?;
    let next = form.take("next");
    if app.addresses.current().is_token_sign_in_off {
        return Ok(denied(&app, &next, "Tokens cannot sign in here. Use a provider."));
    }
    let token = Fingerprint::from_content(form.take("token").trim().as_bytes());
    app.limiter.check(context.peer, Some(token))?;
    let Some(user) = user_of_token(&app, token).await? else {
        app.limiter.refused(context.peer, Some(token));
        return Ok(denied(&app, &next, "Invalid token. Use a token of role read, approve or admin."));
    };
    app.limiter.admitted(token);
    open_session(&app, token, None, &user, &headers, &next).await
}

/// Replaces the session of the browser by a new one of this token or person, and redirects to the page `next`.
pub(crate) async fn open_session(
    app: &App,
    token: Fingerprint,
    person: Option<&Person>,
    user: &SignedIn,
    headers: &HeaderMap,
    next: &str,
) -> Result<Response, Refusal> {
    let secret = random::<32>().map_err(|error| {
        tracing::error!("failed to get random bytes from the system: {error}");
        Problem::defect()
    })?;
    let now = app.site.now();
    let _permits = write_permits(app, &user.organization, app.limits.permit_timeout).await?;
    let mut transaction = app.site.store.write().await?;
    let timeouts = &app.limits.session;
    store::tokens::sessions::remove(
        &mut transaction,
        now.earlier(timeouts.idle),
        now.earlier(timeouts.max_age),
    )
    .await?;
    let cookie = Cookie::session(app.site.links.base());
    if let Some(previous) = cookie.read(headers) {
        store::tokens::sessions::close(&mut transaction, Fingerprint::from_content(previous.as_bytes()))
            .await?;
    }
    let session = Fingerprint::from_content(secret.as_bytes());
    store::tokens::sessions::open(&mut transaction, session, token, person, now, timeouts.max_per_token)
        .await?;
    let audit = Audit::from_token(&user.name, &user.organization, "signed in".to_owned());
    audit.record_once(&mut transaction, now).await?;
    transaction.commit().await?;
    audit.log();
    app.limiter.session_admitted(session);
    let next = local_path(app, next).unwrap_or_else(|| app.site.links.page(&[&user.organization]));
    Ok(([(SET_COOKIE, cookie.set(&secret))], Redirect::to(&next)).into_response())
}

/// Ends the session. If a provider opened it, links to the page that ends the session there.
pub(crate) async fn sign_out(
    State(app): State<App>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    check_origin(&app, &headers)?;
    let cookie = Cookie::session(app.site.links.base());
    let mut signed_out = Redirect::to(&app.site.links.page(&["sign-in"])).into_response();
    if let Some((session, stored)) = stored_session(&app, &context, &headers).await? {
        // Sessions of invalid tokens share the permits of an organization without a name.
        let token = session_token(&app, &stored).await?;
        let organization = token.map(|token| token.organization).unwrap_or_default();
        let _permits = write_permits(&app, &organization, app.limits.permit_timeout).await?;
        let mut transaction = app.site.store.write().await?;
        store::tokens::sessions::close(&mut transaction, session).await?;
        transaction.commit().await?;
        app.limiter.session_ended(session);
        if let Some(page) = stored.person.and_then(|person| signed_out_page(&app, &person)) {
            signed_out = page.into_response();
        }
    }
    Ok(([(SET_COOKIE, cookie.clear())], signed_out).into_response())
}

/// The page with a link to sign out at the provider (OIDC RP-Initiated Logout 1.0), if that has one.
fn signed_out_page(app: &App, person: &Person) -> Option<layout::HtmlPage> {
    let is_theirs = |provider: &Provider| {
        provider.organization == person.organization && provider.issuer.name == person.issuer
    };
    let Provider { issuer, remote, .. } = app.identities.providers().into_iter().find(is_theirs)?;
    let mut url = remote.current(app.site.now())?.endpoints.end_session.clone()?;
    url.query_pairs_mut()
        .append_pair("client_id", &issuer.audience)
        .append_pair("post_logout_redirect_uri", &app.site.links.sign_in());
    let content = html! {
        section.narrow {
            h1 { "Signed out" }
            p { "You are signed out." }
            p { a.button href=(url) { "Sign out at " (text(&issuer.name)) ", too" } }
            p { a href=(app.site.links.page(&["sign-in"])) { "Sign in" } }
        }
    };
    Some(layout::page(&app.site, "Signed out", None, &content))
}

/// Resolves `next` like a browser. `None` unless it is a page of this service, to prevent open redirects.
fn local_path(app: &App, next: &str) -> Option<String> {
    let base = Url::parse(app.site.links.base()).ok()?;
    let url = base.join(next).ok().filter(|url| next.starts_with('/') && url.origin() == base.origin())?;
    let rest = url.path().strip_prefix(app.site.links.page(&[]).as_str())?;
    (rest.is_empty() || rest.starts_with('/'))
        .then(|| url[Position::BeforePath..Position::AfterQuery].to_owned())
}
