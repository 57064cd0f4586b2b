//! Signing in and out: a token of role `read` or `admin` is exchanged for a session, and so is an invitation to one.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use url::{Position, Url, form_urlencoded};

use super::parts::cookie::Cookie;
use super::parts::layout;
use super::parts::refusal::Refusal;
use super::session::{Browser, Peer, Visitor, reader};
use crate::domain::model::Fingerprint;
use crate::service::app::App;
use crate::service::http::body::{Paced, announced};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::Problem;
use crate::service::invitation::Answer;
use crate::service::maintenance::random::random;

/// What is signed in with. It holds a token: no `Debug`.
struct Offered {
    token: String,
    next: String,
}

/// The largest form, in bytes: anybody may send one, and no token or path of ours comes near.
const FORM: u64 = 16 * 1024;

impl Offered {
    async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let length = announced(headers, "the form", FORM)?.unwrap_or_default();
        let body = Paced::new(body, app.policy.pace);
        let received = body.read("the form", FORM, length, app.inbound.share("")).await?;
        let mut offered = Self { token: String::new(), next: String::new() };
        for (name, value) in form_urlencoded::parse(&received.bytes) {
            match &*name {
                "token" => offered.token = value.into_owned(),
                "next" => offered.next = value.into_owned(),
                _ => {}
            }
        }
        Ok(offered)
    }
}

/// The start: the visitor's own organization.
pub(super) async fn home(State(app): State<App>, Browser(signed): Browser) -> Redirect {
    Redirect::to(&match signed {
        Ok(visitor) => app.links.page(&[&visitor.organization]),
        Err(_) => app.links.page(&["sign-in"]),
    })
}

/// Signs in by an invitation, or asks for a token.
pub(super) async fn form(
    State(app): State<App>,
    Peer(peer): Peer,
    Browser(signed): Browser,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let from = Parameters::read(&uri, &["next", "once"])?;
    let form = |problem| asked(&app, from.text("next").unwrap_or_default(), problem).into_response();
    // Who only asks what would be answered does not use it up.
    let Some(code) = from.text("once").filter(|_| method == Method::GET) else { return Ok(form(None)) };
    let code = Fingerprint::of(code.as_bytes());
    let token = match app.invitation.take(code, Instant::now()) {
        Answer::NeverMade => return Ok(form(None)),
        Answer::SignsIn(token) => Some(token),
        Answer::Nothing => None,
    };
    if let Some(token) = token
        && let Some(visitor) = reader(&app, token).await?
    {
        return open(&app, token, &visitor, &headers, "").await;
    }
    if let Ok(visitor) = signed {
        // The same link once more, in the browser that it signed in.
        return Ok(Redirect::to(&app.links.page(&[&visitor.organization])).into_response());
    }
    // What is right need not wait, whatever others guessed from the same machine: nobody guesses a code.
    app.throttle.check(peer, Some(code))?;
    app.throttle.refused(peer, Some(code));
    let problem = "This link was used, or its time is over: it signs in once.";
    Ok((StatusCode::FORBIDDEN, form(Some(problem))).into_response())
}

fn asked(app: &App, next: &str, problem: Option<&str>) -> axum::response::Html<String> {
    let content = html! {
        section.narrow {
            h1 { "Sign in" }
            p { "With a token of role " code { "read" } " or " code { "admin" } ". It is exchanged for a session, which "
                "ends when nobody uses it, or with the token." }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form method="post" action=(app.links.page(&["sign-in"])) {
                // Password managers keep a password under a name, and there is but one here.
                input type="text" value="token" autocomplete="username" hidden;
                label for="token" { "Token" }
                input id="token" name="token" type="password" autocomplete="current-password" required autofocus;
                input type="hidden" name="next" value=(next);
                button type="submit" { "Sign in" }
            }
        }
    };
    layout::page(app, "Sign in", None, &content)
}

/// Exchanges a token for a session.
pub(super) async fn sign_in(
    State(app): State<App>,
    Peer(peer): Peer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    from_here(&app, &headers)?;
    let offered = Offered::read(&app, &headers, body).await?;
    let token = Fingerprint::of(offered.token.trim().as_bytes());
    app.throttle.check(peer, Some(token))?;
    let Some(visitor) = reader(&app, token).await? else {
        app.throttle.refused(peer, Some(token));
        let problem = "No valid token of role read or admin.";
        return Ok((StatusCode::FORBIDDEN, asked(&app, &offered.next, Some(problem))).into_response());
    };
    app.throttle.admitted(token);
    open(&app, token, &visitor, &headers, &offered.next).await
}

/// Opens a session of a token in the place of the one that the browser had, and leads to what was wanted.
async fn open(
    app: &App,
    token: Fingerprint,
    visitor: &Visitor,
    headers: &HeaderMap,
    next: &str,
) -> Result<Response, Refusal> {
    let secret = random::<32>().map_err(|error| {
        tracing::error!("the system gives no random bytes: {error}");
        Problem::defect()
    })?;
    let now = app.now();
    let mut transaction = app.store.write().await?;
    let policy = &app.policy.session;
    transaction.remove_sessions(now.earlier(policy.idle), now.earlier(policy.most)).await?;
    let cookie = Cookie::of(app.links.base());
    if let Some(earlier) = cookie.read(headers) {
        transaction.close_session(Fingerprint::of(earlier.as_bytes())).await?;
    }
    transaction.open_session(Fingerprint::of(secret.as_bytes()), token, now, policy.of_one).await?;
    transaction.commit().await?;
    let next = ours(app, next).unwrap_or_else(|| app.links.page(&[&visitor.organization]));
    Ok(([(SET_COOKIE, cookie.set(&secret))], Redirect::to(&next)).into_response())
}

/// Ends the session.
pub(super) async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Result<Response, Refusal> {
    from_here(&app, &headers)?;
    let cookie = Cookie::of(app.links.base());
    if let Some(secret) = cookie.read(&headers) {
        let mut transaction = app.store.write().await?;
        transaction.close_session(Fingerprint::of(secret.as_bytes())).await?;
        transaction.commit().await?;
    }
    Ok(([(SET_COOKIE, cookie.clear())], Redirect::to(&app.links.page(&["sign-in"]))).into_response())
}

/// Refuses a form that another site's page sent: browsers say where a form comes from (Fetch Standard, section
/// 3.2, "`Origin` header").
fn from_here(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN).and_then(|origin| Url::parse(origin).ok());
    let host = |scheme: &str| text(HOST).and_then(|host| Url::parse(&format!("{scheme}://{host}")).ok());
    let is_here = origin.is_some_and(|origin| {
        let public = Url::parse(app.links.base()).is_ok_and(|public| public.origin() == origin.origin());
        // In the clear, TLS may have ended at a proxy; where it ends here, nothing else is the same host.
        let scheme = if app.links.is_tls() { "https" } else { origin.scheme() };
        public || host(scheme).is_some_and(|host| host.origin() == origin.origin())
    });
    if is_here { Ok(()) } else { Err(Problem::foreign()) }
}

/// The path of a page of ours that is wanted, as browsers would read it.
fn ours(app: &App, next: &str) -> Option<String> {
    let base = Url::parse(app.links.base()).ok()?;
    let url = base.join(next).ok().filter(|url| next.starts_with('/') && url.origin() == base.origin())?;
    let rest = url.path().strip_prefix(app.links.page(&[]).as_str())?;
    (rest.is_empty() || rest.starts_with('/'))
        .then(|| url[Position::BeforePath..Position::AfterQuery].to_owned())
}
