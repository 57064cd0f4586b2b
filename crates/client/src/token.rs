//! The token that authenticates to the service.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use tokio::time::timeout;
use url::Url;

use super::id_token::{IdTokenError, MAX_AGE, request};
pub(super) use runtime::token_file::Token;
use runtime::token_file::{InvalidToken, TokenFile, TokenFileError};

/// Sources in messages.
const FILE: &str = " (--token-file, SUPERCARGO_TOKEN_FILE)";
const VARIABLE: &str = "the variable SUPERCARGO_TOKEN";
const GITHUB: &str = "GitHub Actions (--oidc github)";

/// The source of the token.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// `--token-file` or `SUPERCARGO_TOKEN_FILE`. Read for every request, so that a running process uses a rotated
    /// token.
    File(PathBuf),
    /// `SUPERCARGO_TOKEN`.
    Variable(SecretString),
    /// GitHub Actions issues ID tokens for requests to a URL, which names the audience, with this token of the job.
    Github(Url, SecretString),
}

/// A missing or invalid token. The message never shows the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token file has no token.
    #[error(transparent)]
    File(#[from] TokenFileError),
    /// The token is invalid.
    #[error("invalid token from {0}: {1}")]
    Invalid(&'static str, InvalidToken),
    /// GitHub Actions issued no ID token.
    #[error("failed to request an ID token from {GITHUB}")]
    NotIssued(#[source] IdTokenError),
}

impl TokenError {
    /// Whether another attempt may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotIssued(error) if error.is_transient())
    }
}

/// Reads or requests the token for each request.
pub(super) enum TokenReader {
    File(TokenFile),
    Variable(Token),
    Github {
        url: Url,
        bearer: SecretString,
        http: reqwest::Client,
        /// The last ID token, and when it was requested.
        issued: Mutex<Option<(Instant, Token)>>,
    },
}

impl TokenReader {
    /// Checks that there is a valid token. An ID token is requested later with `http`, so that the request is retried.
    pub(super) fn open(source: TokenSource, http: reqwest::Client) -> Result<Self, TokenError> {
        Ok(match source {
            TokenSource::File(path) => Self::File(TokenFile::open(path, FILE)?),
            TokenSource::Variable(token) => Self::Variable(parse(&token, VARIABLE)?),
            TokenSource::Github(url, bearer) => Self::Github { url, bearer, http, issued: Mutex::default() },
        })
    }

    /// Reads or requests the token, within a time.
    pub(super) async fn read(&self, within: Duration) -> Result<Token, TokenError> {
        let (url, bearer, http, issued) = match self {
            Self::File(file) => return Ok(file.read(within).await),
            Self::Variable(token) => return Ok(token.clone()),
            Self::Github { url, bearer, http, issued } => (url, bearer, http, issued),
        };
        let last = issued.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, token)) = last.filter(|(at, _)| at.elapsed() < MAX_AGE) {
            return Ok(token);
        }
        let at = Instant::now();
        let requested = timeout(within, request(http, url, bearer)).await;
        let response = requested.unwrap_or(Err(IdTokenError::TimedOut(within)));
        let token = parse(&response.map_err(TokenError::NotIssued)?, GITHUB)?;
        *issued.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, token.clone()));
        Ok(token)
    }

    /// How often the token file had another token than before.
    pub(super) fn rotations(&self) -> u64 {
        match self {
            Self::File(file) => file.rotations(),
            Self::Variable(_) | Self::Github { .. } => 0,
        }
    }
}

/// Where the token comes from.
impl fmt::Display for TokenReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "the file {}", file.name()),
            Self::Variable(_) => f.write_str(VARIABLE),
            Self::Github { .. } => f.write_str(GITHUB),
        }
    }
}

fn parse(token: &SecretString, source: &'static str) -> Result<Token, TokenError> {
    Token::parse(token).map_err(|error| TokenError::Invalid(source, error))
}
