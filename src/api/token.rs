//! The token by which the service knows us.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::escape::{Visible, without_secret};
use crate::process::files::read_anew;

/// The largest token file that is read, in bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// Where the token comes from.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// `--token-file` or `SUPERCARGO_TOKEN_FILE`; read for every request, so that a token can be
    /// rotated under a running process.
    File(PathBuf),
    /// `SUPERCARGO_TOKEN`.
    Variable(SecretString),
}

/// There is no usable token. The token itself is never shown.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error(
        "the token file \"{}\" (--token-file, SUPERCARGO_TOKEN_FILE) cannot be read", Visible(&.0.display().to_string())
    )]
    Unreadable(PathBuf, #[source] io::Error),
    /// It is not a token.
    #[error("the token from {0} {1}")]
    Invalid(String, &'static str),
}

/// A source that is read for each request, and how often it gave another token than before.
pub(super) struct Rotating {
    source: TokenSource,
    last: Mutex<Option<SecretString>>,
    rotations: AtomicU64,
}

/// A token that was read, and the header that carries it.
pub(super) struct Token {
    token: SecretString,
    header: HeaderValue,
}

impl TokenSource {
    /// Whether a token can be had now.
    ///
    /// # Errors
    ///
    /// [`TokenError`] where it cannot be read, is empty, or holds what a header cannot carry.
    pub fn check(&self) -> Result<(), TokenError> {
        self.read().map(|_| ())
    }

    pub(super) fn read(&self) -> Result<Token, TokenError> {
        let text = match self {
            Self::Variable(token) => token.clone(),
            Self::File(path) => {
                let bytes =
                    read_anew(MOST_BYTES, path).map_err(|e| TokenError::Unreadable(path.clone(), e))?;
                SecretString::from(String::from_utf8_lossy(&bytes).into_owned())
            }
        };
        let token = text.expose_secret().trim();
        let problem = if token.is_empty() {
            "is empty"
        } else if token.len() as u64 > MOST_BYTES {
            "is longer than 64 KiB"
        } else if token.starts_with("-----BEGIN ") {
            "is a key or a certificate in PEM; a token was expected, in one line"
        } else if token.contains(['\n', '\r']) {
            "holds a line break; one line was expected"
        } else if !token.bytes().all(|b| b.is_ascii_graphic()) {
            "holds a space, a control character or a letter outside ASCII; a token was expected"
        } else if let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {token}")) {
            // No library shows a value that is marked so.
            header.set_sensitive(true);
            return Ok(Token { token: SecretString::from(token), header });
        } else {
            "cannot be sent in a header"
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
                    Visible(&path.display().to_string())
                )
            }
        }
    }
}

impl Rotating {
    pub(super) fn new(source: TokenSource) -> Self {
        Self { source, last: Mutex::default(), rotations: AtomicU64::new(0) }
    }

    pub(super) fn source(&self) -> &TokenSource {
        &self.source
    }

    pub(super) fn read(&self) -> Result<Token, TokenError> {
        let token = self.source.read()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.expose_secret() != token.token.expose_secret()) {
            self.rotations.fetch_add(1, Ordering::Relaxed);
        }
        *last = Some(token.token.clone());
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

    /// A text from outside without the token, should it have been sent back.
    pub(super) fn redacted(&self, text: &str) -> String {
        without_secret(text, self.token.expose_secret(), "[token]")
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
    fn white_space_around_a_token_is_left_off() {
        for text in ["t0ken", " t0ken\n", "t0ken\r\n"] {
            assert_eq!(variable(text).read().unwrap().header(), "Bearer t0ken");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_with_its_source_and_never_shown() {
        for (text, problem) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("s3cret\ns3cret", "line break"),
            (
                "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n",
                "is a key or a certificate in PEM",
            ),
            ("s3cret s3cret", "a space"),
            ("s3cret\0", "control character"),
            ("s3crét", "outside ASCII"),
        ] {
            let error = variable(text).check().unwrap_err();
            assert!(error.to_string().contains(problem) && error.to_string().contains("SUPERCARGO_TOKEN"));
            assert!(!format!("{error} {error:?} {:?}", variable(text)).contains("s3cr"));
        }
        let huge = variable(&"x".repeat(65 * 1024)).check().unwrap_err().to_string();
        assert!(huge.contains("64 KiB"), "{huge}");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_token_file_is_an_error_that_nobody_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("token");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let TokenError::Unreadable(_, error) = TokenSource::File(pipe).check().unwrap_err() else { panic!() };
        assert!(error.to_string().contains("it is a pipe"), "{error}");
    }

    #[test]
    fn a_token_file_is_read_again_each_time() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let source = TokenSource::File(file.path().to_owned());
        let error = source.check().unwrap_err().to_string();
        assert!(error.contains("--token-file") && error.contains("is empty"), "{error}");
        writeln!(file, "first").unwrap();
        assert_eq!(source.read().unwrap().header(), "Bearer first");
        let rotating = Rotating::new(source.clone());
        for (text, header, rotations) in
            [("first", "Bearer first", 0), ("first\n", "Bearer first", 0), ("second", "Bearer second", 1)]
        {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(rotating.read().unwrap().header(), header);
            assert_eq!(rotating.rotations(), rotations);
        }
        drop(file);
        assert!(matches!(source.check(), Err(TokenError::Unreadable(..))));
    }
}
