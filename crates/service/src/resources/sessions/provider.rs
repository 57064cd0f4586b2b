//! Sign-in at an identity provider (OIDC): sends the browser there, and opens a session when it returns.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Uri};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use sqlx::types::Uuid;
use url::form_urlencoded;

use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::parameters::Parameters;
use crate::http::problem::Problem;
use crate::identity::sign_in::{Attempt, AuthorizationCode, SignInError};
use crate::identity::{Provider, cause};
use crate::layout::parts::cookie::Cookie;
use crate::layout::parts::refusal::Refusal;
use crate::layout::session;
use crate::resources::sessions::sign_in::{denied, open_session};
use model::escape::{Escaped, shortened};

/// Maximum length of a provider's error code on a page, in characters.
const MAX_ERROR: usize = 100;

/// Redirects to the provider.
pub(crate) async fn start(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let parameters = Parameters::read(&uri, &["issuer", "next"])?;
    let next = parameters.text("next").unwrap_or_default();
    let Some(provider) = find(&app, parameters.parsed("issuer")?) else {
        return Ok(denied(&app, next, "This provider was changed or removed. Sign in again."));
    };
    let (attempt, cookie) = Attempt::new(&provider, next).map_err(|error| {
        tracing::error!("failed to start a sign-in: {error}");
        Problem::defect()
    })?;
    let cookie = Cookie::sign_in(app.site.links.base()).set(&cookie);
    match provider.authorization_url(&attempt, &redirect_uri(&app, &provider), app.site.now()) {
        Ok(url) => Ok(([(SET_COOKIE, cookie)], Redirect::to(url.as_str())).into_response()),
        Err(error) => rejected(&app, &provider, next, error),
    }
}

/// Completes the sign-in. Its cookie is deleted in any case, so that each response of a provider is used once.
pub(crate) async fn callback(
    State(app): State<App>,
    context: RequestContext,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let response = complete(&app, &context, &uri, &headers).await;
    let cookie = Cookie::sign_in(app.site.links.base()).clear();
    (AppendHeaders([(SET_COOKIE, cookie)]), response).into_response()
}

async fn complete(
    app: &App,
    context: &RequestContext,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    // Before the provider is asked: a limited address must not make the service send many requests.
    let (limited, _permit) = app.limiter.admit_sign_in(context.peer)?;
    let refused = |response| {
        app.limiter.refused(context.peer, None);
        limited.map_or(response, |problem| Err(problem.into()))
    };
    // Providers add parameters of their own.
    let query = uri.query().unwrap_or_default();
    let parameters: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let parameter = |name: &str| parameters.get(name).map(String::as_str);
    let state = parameter("state").unwrap_or_default();
    let cookie = Cookie::sign_in(app.site.links.base()).read(headers);
    let attempt = cookie.and_then(|cookie| Attempt::from_cookie(cookie, state));
    let found = attempt.and_then(|attempt| Some((find(app, attempt.issuer())?, attempt)));
    // A response of another provider has its path, and may name it (RFC 9207).
    let found = found.filter(|(provider, _)| {
        redirect_uri(app, provider).ends_with(uri.path())
            && parameter("iss").is_none_or(|url| url == provider.issuer.url)
    });
    let Some((provider, attempt)) = found else {
        let problem = "This sign-in is no longer valid: it took longer than 10 minutes, another tab started one, or this \
                       browser did not start it. Sign in again.";
        return refused(Ok(denied(app, "", problem)));
    };
    let (name, next) = (&provider.issuer.name, &attempt.next);
    let Some(code) = parameter("code").filter(|_| parameter("error").is_none()) else {
        let error = shortened(parameter("error").unwrap_or("no code in the response"), MAX_ERROR);
        let problem = format!(
            "{name} did not sign you in: {error}. Sign in again, or ask the administrator of {name}."
        );
        return refused(Ok(denied(app, next, &problem)));
    };
    let (allowed, book, now) = (&app.allowed_internal, app.addresses.current(), app.site.now());
    let redirect_uri = redirect_uri(app, &provider);
    let code = AuthorizationCode { code, redirect_uri: &redirect_uri };
    let person = match app.identities.person(&provider, &attempt, code, allowed, &book, now).await {
        Ok(person) => person,
        Err(error) if error.is_invalid() => return refused(rejected(app, &provider, next, error)),
        Err(error) => return rejected(app, &provider, next, error),
    };
    let token = app.identities.permissions(&app.site.store, &person, app.site.now()).await?;
    let Some((token, user)) =
        token.and_then(|token| session::user(&token, Some(&person), "").map(|user| (token, user)))
    else {
        let caller = Escaped(&person.caller()).to_string();
        tracing::info!("denied: sign-in of {caller}: no rule with role read, approve or admin matches");
        let problem = format!(
            "You are {person} at {name}, but may not read pages of this service. Ask its administrator for access."
        );
        return refused(Ok(denied(app, next, &problem)));
    };
    open_session(app, token.sha256, Some(&person), &user, headers, next).await
}

fn redirect_uri(app: &App, provider: &Provider) -> String {
    app.site.links.sign_in_callback(&provider.organization, &provider.issuer.name)
}

fn find(app: &App, id: Option<Uuid>) -> Option<Provider> {
    app.identities.providers().into_iter().find(|provider| Some(provider.id) == id)
}

/// The response to a failed sign-in. The operator sees the cause in the log, and the browser no more than its kind.
fn rejected(app: &App, provider: &Provider, next: &str, error: SignInError) -> Result<Response, Refusal> {
    let name = Escaped(&provider.issuer.name).to_string();
    tracing::warn!("failed sign-in at issuer {name} of {}: {}", provider.organization, cause(&error));
    match error {
        SignInError::Unavailable(error) => Err(error.into()),
        SignInError::Token(_) | SignInError::Provider(_) => {
            let problem = format!(
                "Sign-in with {name} failed: {error}. Sign in again, or ask the administrator of the service."
            );
            Ok(denied(app, next, &problem))
        }
    }
}
