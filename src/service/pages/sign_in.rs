//! Signing in and out: a token of role `read` or `admin` is exchanged for a session.

use axum::extract::{Form, Query, State};
use axum::http::header::{HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;
use url::Url;

use super::cookie::Cookie;
use super::layout;
use super::refusal::Refusal;
use super::visitor::{Browser, Peer, reader};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::service::app::App;
use crate::service::problem::Problem;

/// What is signed in with. It holds a token: no `Debug`.
#[derive(Deserialize)]
pub(super) struct Offered {
    token: String,
    #[serde(default)]
    next: String,
}

/// Where one comes from.
#[derive(Debug, Deserialize)]
pub(super) struct From {
    #[serde(default)]
    next: String,
}

/// The start: the visitor's own organization.
pub(super) async fn home(State(app): State<App>, Browser(signed): Browser) -> Redirect {
    Redirect::to(&match signed {
        Ok(visitor) => app.links.page(&[&visitor.organization]),
        Err(_) => app.links.page(&["sign-in"]),
    })
}

/// Asks for a token.
pub(super) async fn form(State(app): State<App>, Query(from): Query<From>) -> Response {
    asked(&app, &from.next, None).into_response()
}

fn asked(app: &App, next: &str, problem: Option<&str>) -> axum::response::Html<String> {
    let content = html! {
        section.narrow {
            h1 { "Sign in" }
            p { "With a token of role " code { "read" } " or " code { "admin" } ". It is exchanged for a session, which "
                "ends when nobody uses it, or with the token." }
            @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
            form method="post" action=(app.links.page(&["sign-in"])) {
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
    Form(offered): Form<Offered>,
) -> Result<Response, Refusal> {
    from_here(&app, &headers)?;
    let token = Fingerprint::of(offered.token.trim().as_bytes());
    app.throttle.check(peer, Some(token))?;
    let Some(visitor) = reader(&app, token).await? else {
        app.throttle.refused(peer, Some(token));
        let problem = "No valid token of role read or admin.";
        return Ok((StatusCode::FORBIDDEN, asked(&app, &offered.next, Some(problem))).into_response());
    };
    app.throttle.admitted(token);
    let secret = secret()?;
    let now = app.now();
    let mut transaction = app.store.write().await?;
    let policy = &app.policy.session;
    let before = |span: std::time::Duration| {
        Timestamp::from_micros(
            now.micros().saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)),
        )
    };
    transaction.remove_sessions(before(policy.idle), before(policy.most)).await?;
    transaction.open_session(Fingerprint::of(secret.as_bytes()), token, now).await?;
    transaction.commit().await?;
    let home = app.links.page(&[&visitor.organization]);
    let next = if is_ours(&app, &offered.next) { offered.next } else { home };
    let cookie = Cookie::of(app.links.base()).set(&secret);
    Ok(([(SET_COOKIE, cookie)], Redirect::to(&next)).into_response())
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
    let host = text(HOST).and_then(|host| Url::parse(&format!("http://{host}")).ok());
    let is_here = origin.is_some_and(|origin| {
        let public = Url::parse(app.links.base()).is_ok_and(|public| public.origin() == origin.origin());
        let same =
            host.is_some_and(|host| host.host_str() == origin.host_str() && host.port() == origin.port());
        public || same
    });
    if is_here { Ok(()) } else { Err(Problem::foreign()) }
}

/// Whether a path leads to a page of ours, and nowhere else.
fn is_ours(app: &App, next: &str) -> bool {
    let home = app.links.page(&[]);
    let rest = next.strip_prefix(home.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        && !next.contains(['\\', '\r', '\n'])
}

/// 256 random bits.
fn secret() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!("the system gives no random bytes: {error}");
        Problem::defect()
    })?;
    Ok(hex::encode(bytes))
}
