//! Bearer tokens, and files with one that is rotated, such as the token of a service account.
//!
//! Read for each request, by `client` and `agent::cluster`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::error_causes;
use super::files::{BlockingCall, quoted, read_regular};
use model::escape::redact_secret;
use model::failure_log::{FailureLog, LogAction};

/// Maximum size of a token file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Interval between log lines about an unusable file.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// A token, and its header.
#[derive(Clone)]
pub struct Token {
    secret: SecretString,
    header: HeaderValue,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidToken(&'static str);

/// A file without a token. The message never shows its content.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("failed to read the token file {0}")]
    Unreadable(String, #[source] io::Error),
    #[error("invalid token in the file {0}: {1}")]
    Invalid(String, InvalidToken),
}

/// A token file, and the last token that was read from it.
pub struct TokenFile {
    path: PathBuf,
    /// The quoted path, and the option that names it.
    name: String,
    reads: BlockingCall<Result<Token, TokenFileError>>,
    last: Mutex<Last>,
}

struct Last {
    token: Token,
    rotations: u64,
    failures: FailureLog,
}

impl Token {
    /// The token in a text, without white space around it.
    ///
    /// # Errors
    ///
    /// [`InvalidToken`] if the text is empty, or not suitable for a header.
    pub fn parse(text: &SecretString) -> Result<Self, InvalidToken> {
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
            return Ok(Self { secret: SecretString::from(token), header });
        } else {
            "it is not valid in a header"
        };
        Err(InvalidToken(problem))
    }

    /// `Bearer …`.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    #[must_use]
    pub fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Redacts the token in a text of a server, which may echo it.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        redact_secret(text, self.secret.expose_secret(), "[token]")
    }
}

impl TokenFile {
    /// Reads the file for the first time. `option` is the option that names it in messages, such as ` (--token-file)`.
    ///
    /// # Errors
    ///
    /// [`TokenFileError`] if there is no token in it.
    pub fn open(path: PathBuf, option: &str) -> Result<Self, TokenFileError> {
        let token = read(&path, &name(&path, option))?;
        Ok(Self::with_last(path, option, token))
    }

    /// A file that may not be readable yet: `token` is the last one that is known.
    #[must_use]
    pub fn with_last(path: PathBuf, option: &str, token: Token) -> Self {
        let name = name(&path, option);
        let last = Last { token, rotations: 0, failures: FailureLog::new(REMINDER_INTERVAL) };
        Self { path, name, reads: BlockingCall::default(), last: Mutex::new(last) }
    }

    /// Reads the token. If the file is unusable, such as during a rotation, or reading it takes longer than `within`, this is
    /// the last token, as in client-go.
    pub async fn read(&self, within: Duration) -> Token {
        let (path, name) = (self.path.clone(), self.name.clone());
        let result = self.reads.run(within, move || read(&path, &name)).await;
        let timed_out = || {
            let error = io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {within:?}"));
            Err(TokenFileError::Unreadable(self.name.clone(), error))
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match result.unwrap_or_else(timed_out) {
            Ok(token) => {
                if token.secret.expose_secret() != last.token.secret.expose_secret() {
                    last.rotations += 1;
                }
                last.token = token;
                last.failures.recovered(Instant::now());
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                if last.failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                    tracing::warn!("{cause}; using the last token");
                }
            }
        }
        last.token.clone()
    }

    #[must_use]
    pub fn last(&self) -> Token {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).token.clone()
    }

    /// How often the file had another token than before.
    #[must_use]
    pub fn rotations(&self) -> u64 {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).rotations
    }

    /// The quoted path, and the option that names it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn name(path: &Path, option: &str) -> String {
    format!("{}{option}", quoted(path))
}

fn read(path: &Path, name: &str) -> Result<Token, TokenFileError> {
    let bytes =
        read_regular(MAX_BYTES, path).map_err(|error| TokenFileError::Unreadable(name.to_owned(), error))?;
    let text = SecretString::from(String::from_utf8_lossy(&bytes).into_owned());
    Token::parse(&text).map_err(|error| TokenFileError::Invalid(name.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn parse(text: &str) -> Result<Token, InvalidToken> {
        Token::parse(&text.into())
    }

    #[test]
    fn whitespace_around_token_is_trimmed() {
        for text in ["t0ken", " t0ken\n", "t0ken\r\n"] {
            let header = parse(text).unwrap().header();
            assert!(header == "Bearer t0ken" && header.is_sensitive());
        }
    }

    #[test]
    fn invalid_token_is_rejected_and_not_shown() {
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
            (&"x".repeat(65 * 1024), "64 KiB"),
        ] {
            let Err(error) = parse(text) else { panic!("{text}") };
            assert!(error.to_string().contains(problem), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cr"));
        }
    }

    #[tokio::test]
    async fn token_is_reread_for_each_request_and_kept_while_the_file_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let open = || TokenFile::open(path.clone(), " (--token-file)");
        let open_error = || error_causes::describe(&open().err().unwrap());
        let name = format!("\"{}\" (--token-file)", path.display());
        assert_eq!(
            open_error(),
            format!("failed to read the token file {name}: No such file or directory (os error 2)")
        );
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(open_error(), format!("invalid token in the file {name}: it is empty"));
        std::fs::write(&path, "first\n").unwrap();
        let file = open().unwrap();
        let read = async || (file.read(LONG).await.header(), file.rotations());
        assert_eq!(read().await, ("Bearer first".parse().unwrap(), 0));
        std::fs::write(&path, "first").unwrap();
        assert_eq!(read().await, ("Bearer first".parse().unwrap(), 0));
        for content in ["second", "", "a b"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read().await, ("Bearer second".parse().unwrap(), 1), "{content:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read().await, ("Bearer second".parse().unwrap(), 1));
        // A pipe without a writer, which would block.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(read().await, ("Bearer second".parse().unwrap(), 1));
        let error = open_error();
        assert!(error.contains("got a pipe"), "{error}");
        assert_eq!(file.last().secret().expose_secret(), "second");
    }
}
