//! `--oidc github`: an ID token (OIDC) of a GitHub Actions job instead of a secret.
//!
//! Other CI systems put the token into a variable or a file: `SUPERCARGO_TOKEN` or `--token-file`.

use clap::ValueEnum;
use secrecy::SecretString;
use url::Url;

use client::{BaseUrl, PlainHttp, TokenSource};
use runtime::loopback::is_loopback;

/// The value of `--oidc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Oidc {
    Github,
}

/// A job that cannot get an ID token, and how to configure it.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// GitHub Actions did not set a variable.
    #[error("the variable {0} is not set (--oidc github): give the job \"permissions: {{id-token: write}}\"")]
    Missing(&'static str),
    /// The token of the job would be sent unencrypted.
    #[error(
        "invalid ACTIONS_ID_TOKEN_REQUEST_URL: expected an https URL, or --allow-http in a trusted network"
    )]
    Url,
}

impl Oidc {
    /// The source of tokens for this audience, by default that of the service.
    pub(crate) fn source(
        self,
        audience: Option<&String>,
        service: &BaseUrl,
        plain_http: PlainHttp,
    ) -> Result<TokenSource, OidcError> {
        let Self::Github = self;
        let audience = audience.cloned().unwrap_or_else(|| service.origin());
        let url = variable("ACTIONS_ID_TOKEN_REQUEST_URL")?;
        let bearer = variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN")?;
        let mut url = Url::parse(&url).map_err(|_| OidcError::Url)?;
        let is_safe = url.scheme() == "https" || plain_http == PlainHttp::Anywhere || is_loopback(&url);
        if !is_safe || !url.has_host() {
            return Err(OidcError::Url);
        }
        url.query_pairs_mut().append_pair("audience", &audience);
        Ok(TokenSource::Github(url, SecretString::from(bearer)))
    }
}

fn variable(name: &'static str) -> Result<String, OidcError> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty()).ok_or(OidcError::Missing(name))?;
    Ok(value.to_string_lossy().into_owned())
}
