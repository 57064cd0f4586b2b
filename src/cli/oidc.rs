//! `--oidc`: where a command gets an ID token (OIDC) of its CI system.

use std::path::PathBuf;
use std::str::FromStr;

use secrecy::SecretString;
use url::Url;

use crate::api::{BaseUrl, PlainHttp, TokenSource};
use crate::process::loopback::is_loopback;

/// The value of `--oidc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Oidc {
    Github,
    Gitlab,
    Circleci,
    Buildkite,
    File(PathBuf),
}

/// A job that cannot get an ID token, and how to configure it.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The CI system did not set a variable.
    #[error("the variable {0} is not set (--oidc): {1}")]
    Missing(&'static str, String),
    /// The token of the job would be sent unencrypted.
    #[error(
        "invalid ACTIONS_ID_TOKEN_REQUEST_URL: expected an https URL, or --allow-http in a trusted network"
    )]
    Url,
    /// The audience is configured elsewhere.
    #[error("--oidc-audience works with --oidc github and buildkite only: {0}")]
    Audience(&'static str),
}

impl FromStr for Oidc {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(match word {
            "github" => Self::Github,
            "gitlab" => Self::Gitlab,
            "circleci" => Self::Circleci,
            "buildkite" => Self::Buildkite,
            _ => match word.strip_prefix("file:").filter(|path| !path.is_empty()) {
                Some(path) => Self::File(path.into()),
                None => return Err("expected github, gitlab, circleci, buildkite or file:PATH"),
            },
        })
    }
}

impl Oidc {
    /// The source of tokens for this audience, by default that of the service.
    pub(super) fn source(
        &self,
        audience: Option<&String>,
        service: &BaseUrl,
        plain_http: PlainHttp,
    ) -> Result<TokenSource, OidcError> {
        let elsewhere = match self {
            Self::Github | Self::Buildkite => None,
            Self::Gitlab => Some("set \"aud\" in \"id_tokens\" of the job"),
            Self::Circleci => {
                Some("the audience of CIRCLE_OIDC_TOKEN_V2 is the identifier of the organization")
            }
            Self::File(_) => Some("the program that writes the file chooses the audience"),
        };
        if let (Some(elsewhere), Some(_)) = (elsewhere, audience) {
            return Err(OidcError::Audience(elsewhere));
        }
        let audience = audience.cloned().unwrap_or_else(|| service.origin());
        Ok(match self {
            Self::Github => {
                const FIX: &str = "give the job \"permissions: {id-token: write}\"";
                let url = variable("ACTIONS_ID_TOKEN_REQUEST_URL", || FIX.to_owned())?;
                let bearer = variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN", || FIX.to_owned())?;
                let mut url = Url::parse(&url).map_err(|_| OidcError::Url)?;
                let is_safe =
                    url.scheme() == "https" || plain_http == PlainHttp::Anywhere || is_loopback(&url);
                if !is_safe || !url.has_host() {
                    return Err(OidcError::Url);
                }
                url.query_pairs_mut().append_pair("audience", &audience);
                TokenSource::Github(url, SecretString::from(bearer))
            }
            Self::Gitlab => {
                const NAME: &str = "SUPERCARGO_ID_TOKEN";
                let fix = || format!("add \"id_tokens: {{{NAME}: {{aud: {audience}}}}}\" to the job");
                TokenSource::Variable(NAME, variable(NAME, fix)?.into())
            }
            Self::Circleci => {
                const NAME: &str = "CIRCLE_OIDC_TOKEN_V2";
                let fix = || "run in a job of CircleCI, which sets it".to_owned();
                TokenSource::Variable(NAME, variable(NAME, fix)?.into())
            }
            Self::Buildkite => {
                variable("BUILDKITE_JOB_ID", || "run in a job of Buildkite, which sets it".to_owned())?;
                TokenSource::Buildkite(audience)
            }
            Self::File(path) => TokenSource::File(path.clone()),
        })
    }
}

fn variable(name: &'static str, fix: impl FnOnce() -> String) -> Result<String, OidcError> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| OidcError::Missing(name, fix()))?;
    Ok(value.to_string_lossy().into_owned())
}
