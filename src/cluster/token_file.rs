//! A bearer token in a file that is rotated, such as the token of a service account.
//!
//! `connect` reads it for each request. kube would cache it for a minute and include a trailing line break.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::escape::Escaped;
use crate::domain::failure_log::{FailureLog, LogAction};
use crate::process::files::{BlockingCall, read_regular};

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Interval between log lines about an unreadable file.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// The file, and the last token that was read from it.
#[derive(Clone)]
pub(super) struct TokenFile {
    path: PathBuf,
    reads: Arc<BlockingCall<Result<HeaderValue, String>>>,
    last: Arc<Mutex<Last>>,
}

struct Last {
    header: HeaderValue,
    failures: FailureLog,
}

impl TokenFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    ///
    /// A description of the problem, without the content of the file.
    pub(super) fn open(path: PathBuf) -> Result<Self, String> {
        let header = read(&path).map_err(|why| {
            let path = path.display().to_string();
            format!("the token file \"{}\" {why}", Escaped(&path))
        })?;
        let last = Last { header, failures: FailureLog::new(REMINDER_INTERVAL) };
        Ok(Self { path, reads: Arc::default(), last: Arc::new(Mutex::new(last)) })
    }

    /// The last token that was sent.
    pub(super) fn last(&self) -> SecretString {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let header = String::from_utf8_lossy(last.header.as_bytes());
        SecretString::from(header.trim_start_matches("Bearer "))
    }

    /// The Authorization header with the current token. If the file is unreadable, such as during a rotation,
    /// or reading it takes longer than `within`, the last token is used, as in client-go.
    pub(super) async fn header(&self, within: Duration) -> HeaderValue {
        let path = self.path.clone();
        let result = self.reads.run(within, move || read(&path)).await;
        let result = result.unwrap_or_else(|| Err(format!("is unreadable: timed out after {within:?}")));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(header) => {
                last.header = header;
                last.failures.recovered(Instant::now());
            }
            Err(why) => {
                if last.failures.failed(&why, Instant::now()) != LogAction::Suppress {
                    let path = self.path.display().to_string();
                    tracing::warn!(
                        "the API server's token file \"{}\" {why}; using the last token",
                        Escaped(&path)
                    );
                }
            }
        }
        last.header.clone()
    }
}

/// Errors do not contain the content of the file.
fn read(path: &Path) -> Result<HeaderValue, String> {
    let bytes = read_regular(MAX_BYTES, path).map_err(|error| format!("is unreadable: {error}"))?;
    let text = SecretString::from(String::from_utf8_lossy(&bytes).into_owned());
    let token = text.expose_secret().trim();
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"))
        .ok()
        .filter(|_| token.bytes().all(|byte| byte.is_ascii_graphic()));
    let mut header = header.ok_or("contains characters that are invalid in a header")?;
    // Libraries do not log sensitive values.
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn token_is_reread_for_each_request_and_kept_while_the_file_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let Err(error) = TokenFile::open(path.clone()) else { panic!("there is no file yet") };
        assert!(error.contains("is unreadable"), "{error}");
        std::fs::write(&path, "first\n").unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        let header = async || file.header(Duration::from_mins(1)).await;
        assert_eq!(header().await, "Bearer first");
        for content in ["second", "", "a b"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(header().await, "Bearer second", "{content:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(header().await, "Bearer second");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(header().await, "Bearer second");
        assert!(header().await.is_sensitive());
    }
}
