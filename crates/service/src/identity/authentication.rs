//! Authentication: the token, or the session, of a request.
//!
//! `access` calls [`authenticate`] before it authorizes a request of the API. Sign-in to the pages uses [`find_token`].

use std::sync::PoisonError;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::problem::Problem;
use crate::identity::{AuthenticationError, Waiting, is_jwt};
use crate::limits::TOKEN_USE_INTERVAL;
use model::Fingerprint;
use model::escape::Escaped;
use rules::identity::TokenError;
use store::tokens::authentication::Token;

/// The permissions of a session in place of a request's `Authorization`, for the data of a page.
#[derive(Clone)]
pub(crate) struct SessionToken(pub(crate) Token);

/// The token of a request. Returns 401 without a valid one, and 429 after too many requests without one. Tokens of issuers
/// are valid for the organization of the path.
pub(crate) async fn authenticate(
    app: &App,
    context: &RequestContext,
    parts: &Parts,
    organization: Option<&str>,
) -> Result<Token, Problem> {
    if let Some(SessionToken(token)) = parts.extensions.get() {
        return Ok(token.clone());
    }
    let bearer = bearer(&parts.headers);
    let hash = bearer.map(Fingerprint::from_content);
    let mut problem = Problem::unauthorized();
    let jwt = bearer.and_then(|token| str::from_utf8(token).ok()).filter(|token| is_jwt(token));
    if let Some((jwt, hash)) = jwt.zip(hash) {
        match authenticate_jwt(app, context, organization, jwt, hash).await? {
            Ok(token) => return Ok(token),
            // A static token may have the form of a JWT.
            Err(unknown_issuer) => problem = unknown_issuer,
        }
    }
    app.limiter.check(context.peer, hash)?;
    let Some(token) = find_token(app, hash).await? else {
        app.limiter.refused(context.peer, hash);
        return Err(problem);
    };
    app.limiter.admitted(token.sha256);
    context.set_token_name(&token.name);
    Ok(token)
}

/// The permissions of a token of an issuer, or the response to one of an unknown issuer. A valid token is new each hour, so
/// those of a limited address are verified: at once by the keys that are known, and otherwise one at a time.
async fn authenticate_jwt(
    app: &App,
    context: &RequestContext,
    organization: Option<&str>,
    jwt: &str,
    hash: Fingerprint,
) -> Result<Result<Token, Problem>, Problem> {
    let Some(organization) = organization else {
        return Ok(Err(Problem::invalid_token("tokens of issuers have no default organization")));
    };
    let is_limited = app.limiter.check(context.peer, Some(hash)).is_err();
    // Others of the address sent too many invalid tokens: this one is not refused for them.
    let (limited, _permit) = if is_limited && app.identities.grants(organization, jwt, app.site.now()) {
        (None, None)
    } else {
        app.limiter.admit_unknown(context.peer, hash)?
    };
    let waiting = if limited.is_some() { Waiting::Denied } else { Waiting::Permitted };
    let store = &app.site.store;
    match app.identities.authenticate(store, organization, jwt, app.site.now(), waiting).await {
        Ok(token) => {
            app.limiter.admitted(hash);
            context.set_token_name(&token.name);
            Ok(Ok(token))
        }
        Err(AuthenticationError::Unavailable(error)) => Err(error.into()),
        Err(AuthenticationError::Invalid(error)) => {
            if limited.is_none() {
                tracing::info!("denied: token of an issuer for {}: {error}", Escaped(organization));
            }
            let problem = Problem::invalid_token(&error);
            if error == TokenError::UnknownIssuer {
                return Ok(Err(problem));
            }
            app.limiter.refused(context.peer, Some(hash));
            Err(limited.unwrap_or(problem))
        }
    }
}

/// The token with this hash, if it is open and has not expired.
pub(crate) async fn find_token(app: &App, hash: Option<Fingerprint>) -> Result<Option<Token>, store::Error> {
    let Some(hash) = hash else { return Ok(None) };
    let Some(token) = store::tokens::authentication::find(&app.site.store, hash).await? else {
        return Ok(None);
    };
    let (is_same, now) = (bool::from(token.sha256.bytes().ct_eq(hash.bytes())), app.site.now());
    if !is_same || token.expires_at.is_some_and(|end| end <= now) {
        // The client gets a plain 401; the operator sees the reason.
        let name = Escaped(&token.name).to_string();
        tracing::info!(token = name, "denied: token \"{name}\" of {} has expired", token.organization);
        return Ok(None);
    }
    if token.last_used_at.is_none_or(|last| now.since(last) >= TOKEN_USE_INTERVAL) {
        app.used_tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(hash);
    }
    Ok(Some(token))
}

/// The token of `Authorization: Bearer …` (RFC 6750, section 2.1). The scheme is case-insensitive (RFC 9110, section
/// 11.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}
