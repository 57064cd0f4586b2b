//! Requests the keys of an issuer (OIDC Discovery 1.0, section 4).
//!
//! Called by the task in `refresh`, with a client that permits no internal addresses and no redirects.

use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CACHE_CONTROL, HeaderMap};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::key_set::{KeySet, KeySetError};
use super::remote_keys::DEFAULT_AGE;
use crate::domain::escape::Escaped;
use crate::service::outbound::GuardedClient;

/// Maximum size of a response, in bytes. Sets of keys with certificates take some kilobytes.
const MAX_BYTES: usize = 512 * 1024;

/// A failed request for keys. The operator sees it in the log, and clients do not.
#[derive(Debug, thiserror::Error)]
pub(in crate::service) enum DiscoveryError {
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
    #[error("expected status 200 of {0}, got {1}; redirects are not followed")]
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
    #[error("the response of {0} has no usable key")]
    Keys(String, #[source] KeySetError),
}

/// The metadata of an issuer.
#[derive(Deserialize)]
pub(in crate::service) struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The metadata of an issuer, which must name exactly the expected URL as its issuer.
pub(in crate::service) async fn metadata(
    client: &GuardedClient,
    issuer: &str,
) -> Result<Metadata, DiscoveryError> {
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

/// The keys of an issuer, and how long they may be cached.
pub(super) async fn keys(client: &GuardedClient, issuer: &str) -> Result<(KeySet, Duration), DiscoveryError> {
    let url = metadata(client, issuer).await?.jwks_uri;
    let url: Url = url.parse().map_err(|_| DiscoveryError::Url(url))?;
    let (body, max_age) = get(client, &url).await?;
    match KeySet::parse(&body) {
        Ok(keys) => Ok((keys, max_age.unwrap_or(DEFAULT_AGE))),
        Err(error) => Err(DiscoveryError::Keys(url.into(), error)),
    }
}

fn parse<T: DeserializeOwned>(url: &Url, body: &[u8]) -> Result<T, DiscoveryError> {
    serde_json::from_slice(body).map_err(|error| DiscoveryError::Malformed(url.to_string(), error))
}

async fn get(client: &GuardedClient, url: &Url) -> Result<(Vec<u8>, Option<Duration>), DiscoveryError> {
    let failed = |error: reqwest::Error| DiscoveryError::Http(url.to_string(), error.without_url());
    let permitted =
        client.client(url).await.map_err(|error| DiscoveryError::Address(url.to_string(), error))?;
    let mut response =
        permitted.get(url.clone()).header(ACCEPT, "application/json").send().await.map_err(failed)?;
    if response.status() != StatusCode::OK {
        return Err(DiscoveryError::Status(url.to_string(), response.status()));
    }
    let max_age = max_age(response.headers());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(DiscoveryError::TooLarge(url.to_string()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, max_age))
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
