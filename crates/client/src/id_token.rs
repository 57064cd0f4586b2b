//! Requests ID tokens (OIDC) from GitHub Actions.

use std::time::Duration;

use http::StatusCode;
use http::header::ACCEPT;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use model::retry::{StatusClass, classify};

/// Age at which another token is requested: they are valid for five minutes.
pub(super) const MAX_AGE: Duration = Duration::from_mins(1);

/// Maximum size of a response, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A failed request. The message never shows a token, or the response, which may contain one.
#[derive(Debug, thiserror::Error)]
pub enum IdTokenError {
    /// No response.
    #[error("no response")]
    Unreachable(#[source] reqwest::Error),
    /// No response in time.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// A redirect, which is not followed with the token of the job.
    #[error("{0}: the redirect is not followed")]
    Redirect(StatusCode),
    /// Another status than 200.
    #[error("{0}")]
    Status(StatusCode),
    /// Larger than a token needs to be.
    #[error("the response is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The response has no token.
    #[error("the response is not JSON with a \"value\"")]
    NoToken,
}

impl IdTokenError {
    /// Whether another request may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) => true,
            Self::Status(status) => classify(status.as_u16()) == StatusClass::Transient,
            _ => false,
        }
    }
}

/// Sends the request, which names the audience, with the token of the job.
pub(super) async fn request(
    http: &reqwest::Client,
    url: &Url,
    bearer: &SecretString,
) -> Result<SecretString, IdTokenError> {
    #[derive(Deserialize)]
    struct Issued {
        value: String,
    }
    let unreachable = |error: reqwest::Error| IdTokenError::Unreachable(error.without_url());
    let request =
        http.get(url.clone()).bearer_auth(bearer.expose_secret()).header(ACCEPT, "application/json");
    let mut response = request.send().await.map_err(unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(IdTokenError::Redirect(status)),
        status => return Err(IdTokenError::Status(status)),
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return Err(IdTokenError::TooLarge);
        }
    }
    let issued: Issued = serde_json::from_slice(&body).map_err(|_| IdTokenError::NoToken)?;
    Ok(SecretString::from(issued.value))
}
