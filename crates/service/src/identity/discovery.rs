//! Requests the metadata and keys of an issuer (OIDC Discovery 1.0, section 4), and ID tokens.
//!
//! Called by the task in `refresh` and by `sign_in`, with a client that permits only the internal addresses of
//! `--allow-internal`, and no redirects.

use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;
use url::form_urlencoded::byte_serialize;

use crate::identity::key_set::{KeySet, KeySetError, without_mark};
use crate::identity::remote_keys::{DEFAULT_AGE, Discovered, Endpoints};
use crate::outbound::GuardedClient;
use model::escape::{Escaped, shortened};

/// Timeout of both requests for keys, and of the request for an ID token.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response, in bytes. Sets of keys with certificates take some kilobytes.
const MAX_BYTES: usize = 512 * 1024;

/// Maximum length of an error code in the log, in characters.
const MAX_ERROR: usize = 100;

/// A failed request for keys. The operator sees it in the log, and clients do not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    #[error("failed to create an HTTP client with the certificate authorities of the bootstrap file")]
    Client(#[source] reqwest::Error),
    #[error("invalid URL \"{}\"", Escaped(.0))]
    Url(String),
    #[error("failed to resolve the address of {0}")]
    Address(String, #[source] io::Error),
    #[error("failed to request {0}")]
    Http(String, #[source] reqwest::Error),
    #[error("expected status 200 from {0}, got {1}")]
    Status(String, StatusCode),
    #[error("the response of {0} is larger than {MAX_BYTES} bytes")]
    TooLarge(String),
    #[error("the response of {0} is not the expected JSON")]
    Malformed(String, #[source] serde_json::Error),
    #[error(
        "expected issuer \"{}\" in the response of {url}, got \"{}\"",
        Escaped(expected),
        Escaped(actual)
    )]
    OtherIssuer { url: String, expected: String, actual: String },
    #[error("no usable key in the response of {0}")]
    Keys(String, #[source] KeySetError),
    #[error("the metadata of the issuer has no {0} with http or https")]
    Endpoint(&'static str),
    #[error("{0} returned the error \"{code}\"", code = Escaped(.1))]
    Rejected(String, String),
    #[error("expected JSON with \"id_token\" in the response of {0}")]
    NoIdToken(String),
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
}

/// The metadata of an issuer, which must name exactly the expected URL as its issuer.
async fn metadata(client: &GuardedClient, issuer: &str) -> Result<Metadata, DiscoveryError> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let url: Url = url.parse().map_err(|_| DiscoveryError::Url(url))?;
    let (body, _) = get(client, &url).await?;
    let metadata: Metadata = parse(&url, &body)?;
    if metadata.issuer != issuer {
        return Err(DiscoveryError::OtherIssuer {
            url: url.into(),
            expected: issuer.to_owned(),
            actual: metadata.issuer,
        });
    }
    Ok(metadata)
}

/// The keys and endpoints of an issuer, and how long they may be cached.
pub(crate) async fn discover(
    client: &GuardedClient,
    issuer: &str,
) -> Result<(Discovered, Duration), DiscoveryError> {
    let metadata = metadata(client, issuer).await?;
    let url = metadata.jwks_uri;
    let url: Url = url.parse().map_err(|_| DiscoveryError::Url(url))?;
    let (body, max_age) = get(client, &url).await?;
    let keys = match KeySet::parse(&body) {
        Ok(keys) => keys,
        Err(error) => return Err(DiscoveryError::Keys(url.into(), error)),
    };
    // Pages link to them.
    let endpoint =
        |url: Option<String>| url?.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let endpoints = Endpoints {
        authorization: endpoint(metadata.authorization_endpoint),
        token: endpoint(metadata.token_endpoint),
        end_session: endpoint(metadata.end_session_endpoint),
    };
    Ok((Discovered { keys, endpoints }, max_age.unwrap_or(DEFAULT_AGE)))
}

/// The ID token for a code (OIDC Core 1.0, section 3.1.3). `credentials` are the client ID and secret.
pub(crate) async fn exchange(
    client: &GuardedClient,
    url: &Url,
    credentials: Option<(&str, &str)>,
    form: String,
) -> Result<String, DiscoveryError> {
    /// The members of either response that are used.
    #[derive(Deserialize)]
    struct Response {
        id_token: Option<String>,
        error: Option<String>,
    }
    let mut request = permitted(client, url).await?.post(url.clone()).header(ACCEPT, "application/json");
    request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
    if let Some((id, secret)) = credentials {
        // Both are encoded before (RFC 6749, section 2.3.1).
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        request = request.basic_auth(encoded(id), Some(encoded(secret)));
    }
    let (status, _, body) = send(url, request).await?;
    let response: Result<Response, _> = parse(url, &body);
    match response {
        Ok(Response { id_token: Some(token), .. }) if status == StatusCode::OK => Ok(token),
        Ok(Response { error: Some(error), .. }) => {
            Err(DiscoveryError::Rejected(url.to_string(), shortened(&error, MAX_ERROR)))
        }
        _ if status != StatusCode::OK => Err(DiscoveryError::Status(url.to_string(), status)),
        // The cause may quote a token.
        _ => Err(DiscoveryError::NoIdToken(url.to_string())),
    }
}

fn parse<T: DeserializeOwned>(url: &Url, body: &[u8]) -> Result<T, DiscoveryError> {
    serde_json::from_slice(without_mark(body))
        .map_err(|error| DiscoveryError::Malformed(url.to_string(), error))
}

async fn get(client: &GuardedClient, url: &Url) -> Result<(Vec<u8>, Option<Duration>), DiscoveryError> {
    let request = permitted(client, url).await?.get(url.clone()).header(ACCEPT, "application/json");
    match send(url, request).await? {
        (StatusCode::OK, max_age, body) => Ok((body, max_age)),
        (status, ..) => Err(DiscoveryError::Status(url.to_string(), status)),
    }
}

async fn permitted<'a>(client: &'a GuardedClient, url: &Url) -> Result<&'a reqwest::Client, DiscoveryError> {
    client.client(url).await.map_err(|error| DiscoveryError::Address(url.to_string(), error))
}

/// Sends a request. Returns status, `max-age` and body of the response.
async fn send(
    url: &Url,
    request: reqwest::RequestBuilder,
) -> Result<(StatusCode, Option<Duration>, Vec<u8>), DiscoveryError> {
    let failed = |error: reqwest::Error| DiscoveryError::Http(url.to_string(), error.without_url());
    let mut response = request.send().await.map_err(failed)?;
    let max_age = max_age(response.headers());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(DiscoveryError::TooLarge(url.to_string()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), max_age, body))
}

/// The `max-age` of a response (RFC 9111, section 5.2.2.1).
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = values.flat_map(|value| value.split(',')).map(str::trim);
    let seconds = directives.find_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| value.trim_matches('"').parse().ok())?
    });
    seconds.map(Duration::from_secs)
}
