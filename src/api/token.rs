//! Reads or requests the token that authenticates to the service.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use url::Url;

use super::id_token::{IdTokenError, MAX_AGE, request};
use crate::domain::escape::{Escaped, redact_secret};
use crate::process::files::{BlockingCall, read_regular};

/// Maximum size of a token file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

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
    /// The file is not readable.
    #[error(
        "failed to read the token file \"{}\" (--token-file, SUPERCARGO_TOKEN_FILE)", Escaped(&.0.display().to_string())
    )]
    Unreadable(PathBuf, #[source] io::Error),
    /// The token is invalid: the source and the reason.
    #[error("invalid token from {0}: {1}")]
    Invalid(String, &'static str),
    /// GitHub Actions issued no ID token.
    #[error("failed to request an ID token from GitHub Actions (--oidc github)")]
    NotIssued(#[source] IdTokenError),
}

impl TokenError {
    /// Whether another attempt may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotIssued(error) if error.is_transient())
    }
}

/// Reads or requests the token for each request, and counts rotations.
pub(super) struct TokenReader {
    source: TokenSource,
    reads: BlockingCall<Result<Token, TokenError>>,
    /// The client for requests of ID tokens.
    http: reqwest::Client,
    last: Mutex<Option<SecretString>>,
    /// The last ID token, and when it was requested.
    issued: Mutex<Option<(Instant, Token)>>,
    rotations: AtomicU64,
}

/// A token, and its header.
#[derive(Clone)]
pub(super) struct Token {
    token: SecretString,
    header: HeaderValue,
}

impl TokenSource {
    /// Checks that there is a valid token. An ID token is requested later, so that the request is retried.
    ///
    /// # Errors
    ///
    /// Returns [`TokenError`] if the token is unreadable, empty, or not suitable for a header.
    pub fn check(&self) -> Result<(), TokenError> {
        match self {
            Self::Variable(token) => self.parse(token).map(drop),
            Self::File(path) => self.read(path).map(drop),
            Self::Github(..) => Ok(()),
        }
    }

    fn read(&self, path: &Path) -> Result<Token, TokenError> {
        let bytes = read_regular(MAX_BYTES, path).map_err(|e| TokenError::Unreadable(path.to_owned(), e))?;
        self.parse(&SecretString::from(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn parse(&self, text: &SecretString) -> Result<Token, TokenError> {
        let token = text.expose_secret().trim();
        let problem = if token.is_empty() {
            "it is empty"
        } else if token.len() as u64 > MAX_BYTES {
            "it is longer than 64 KiB"
        } else if token.starts_with("-----BEGIN ") {
            "expected a token in one line, got a key or certificate in PEM"
        } else if token.contains(['\n', '\r']) {
            "expected one line, got a line break"
        } else if !token.bytes().all(|b| b.is_ascii_graphic()) {
            "it contains a space, a control character or a non-ASCII character"
        } else if let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {token}")) {
            // Libraries redact sensitive values in logs.
            header.set_sensitive(true);
            return Ok(Token { token: SecretString::from(token), header });
        } else {
            "it is not valid in a header"
        };
        Err(TokenError::Invalid(self.to_string(), problem))
    }
}

impl std::fmt::Display for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(_) => f.write_str("the variable SUPERCARGO_TOKEN"),
            Self::File(path) => {
                write!(
                    f,
                    "the file \"{}\" (--token-file, SUPERCARGO_TOKEN_FILE)",
                    Escaped(&path.display().to_string())
                )
            }
            Self::Github(..) => f.write_str("GitHub Actions (--oidc github)"),
        }
    }
}

impl TokenReader {
    pub(super) fn new(source: TokenSource, http: reqwest::Client) -> Self {
        Self {
            source,
            reads: BlockingCall::default(),
            http,
            last: Mutex::default(),
            issued: Mutex::default(),
            rotations: AtomicU64::new(0),
        }
    }

    pub(super) fn source(&self) -> &TokenSource {
        &self.source
    }

    /// Reads or requests the token. Fails after `within`.
    pub(super) async fn read(&self, within: Duration) -> Result<Token, TokenError> {
        let source = self.source.clone();
        let token = match &self.source {
            TokenSource::Variable(token) => source.parse(token),
            TokenSource::File(path) => {
                let timed_out = || {
                    let error =
                        io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {within:?}"));
                    Err(TokenError::Unreadable(path.clone(), error))
                };
                let file = path.clone();
                self.reads.run(within, move || source.read(&file)).await.unwrap_or_else(timed_out)
            }
            TokenSource::Github(url, bearer) => match self.recently_issued() {
                Some(token) => Ok(token),
                None => self.request(url, bearer, within).await,
            },
        }?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.expose_secret() != token.token.expose_secret()) {
            self.rotations.fetch_add(1, Ordering::Relaxed);
        }
        *last = Some(token.token.clone());
        Ok(token)
    }

    fn recently_issued(&self) -> Option<Token> {
        let issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        issued.as_ref().filter(|(at, _)| at.elapsed() < MAX_AGE).map(|(_, token)| token.clone())
    }

    /// Requests an ID token.
    async fn request(&self, url: &Url, bearer: &SecretString, within: Duration) -> Result<Token, TokenError> {
        let at = Instant::now();
        let issued = timeout(within, request(&self.http, url, bearer)).await;
        let issued = issued.unwrap_or(Err(IdTokenError::TimedOut(within))).map_err(TokenError::NotIssued)?;
        let token = self.source.parse(&issued)?;
        *self.issued.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, token.clone()));
        Ok(token)
    }

    pub(super) fn rotations(&self) -> u64 {
        self.rotations.load(Ordering::Relaxed)
    }
}

impl Token {
    /// `Bearer …`.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Redacts the token in a text of the server.
    pub(super) fn redacted(&self, text: &str) -> String {
        redact_secret(text, self.token.expose_secret(), "[token]")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn variable(token: &str) -> TokenSource {
        TokenSource::Variable(SecretString::from(token))
    }

    #[test]
    fn whitespace_around_token_is_trimmed() {
        for text in ["t0ken", " t0ken\n", "t0ken\r\n"] {
            assert_eq!(variable(text).parse(&text.into()).unwrap().header(), "Bearer t0ken");
        }
    }

    #[test]
    fn invalid_token_is_rejected_with_its_source_and_redacted() {
        for (text, problem) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("s3cret\ns3cret", "got a line break"),
            (
                "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n",
                "got a key or certificate in PEM",
            ),
            ("s3cret s3cret", "a space"),
            ("s3cret\0", "control character"),
            ("s3crét", "non-ASCII"),
        ] {
            let error = variable(text).check().unwrap_err();
            assert!(error.to_string().contains(problem) && error.to_string().contains("SUPERCARGO_TOKEN"));
            assert!(!format!("{error} {error:?} {:?}", variable(text)).contains("s3cr"));
        }
        let huge = variable(&"x".repeat(65 * 1024)).check().unwrap_err().to_string();
        assert!(huge.contains("64 KiB"), "{huge}");
    }

    #[test]
    fn named_pipe_as_token_file_is_rejected_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("token");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let TokenError::Unreadable(_, error) = TokenSource::File(pipe).check().unwrap_err() else { panic!() };
        assert!(error.to_string().contains("got a pipe"), "{error}");
    }

    #[tokio::test]
    async fn token_file_is_read_for_each_request() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let source = TokenSource::File(file.path().to_owned());
        let error = source.check().unwrap_err().to_string();
        assert!(error.contains("--token-file") && error.contains("is empty"), "{error}");
        writeln!(file, "first").unwrap();
        source.check().unwrap();
        let reader = TokenReader::new(source.clone(), reqwest::Client::new());
        for (text, header, rotations) in
            [("first", "Bearer first", 0), ("first\n", "Bearer first", 0), ("second", "Bearer second", 1)]
        {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(reader.read(Duration::from_mins(1)).await.unwrap().header(), header);
            assert_eq!(reader.rotations(), rotations);
        }
        drop(file);
        assert!(matches!(source.check(), Err(TokenError::Unreadable(..))));
    }
}
