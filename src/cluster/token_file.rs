//! A bearer token in a file, as a service account's is, which the kubelet writes anew long before the old
//! one expires.
//!
//! `connect` reads it for each request. kube would keep it for a minute, and send the line break at its
//! end along.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::escape::Visible;
use crate::domain::failure_log::{Outage, Say};
use crate::process::files::read_anew;

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// How often it is said that the file cannot be read.
const REMIND: Duration = Duration::from_mins(1);

/// The file, and what was last read from it.
#[derive(Clone)]
pub(super) struct TokenFile {
    path: PathBuf,
    last: Arc<Mutex<Last>>,
}

struct Last {
    header: HeaderValue,
    outage: Outage,
}

impl TokenFile {
    /// Reads it for the first time.
    ///
    /// # Errors
    ///
    /// What is wrong with it, where it holds no token.
    pub(super) fn open(path: PathBuf) -> Result<Self, String> {
        let header = read(&path).map_err(|why| {
            let shown = path.display().to_string();
            format!("the token file \"{}\" {why}", Visible(&shown))
        })?;
        let last = Last { header, outage: Outage::new(REMIND) };
        Ok(Self { path, last: Arc::new(Mutex::new(last)) })
    }

    /// The token that was last sent.
    pub(super) fn last(&self) -> SecretString {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let header = String::from_utf8_lossy(last.header.as_bytes());
        SecretString::from(header.trim_start_matches("Bearer "))
    }

    /// `Bearer …`: the token that the file holds now. One that cannot be read now, as in the middle of a
    /// rotation, leaves the last one in place, as client-go does.
    pub(super) fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read(&self.path) {
            Ok(header) => {
                last.header = header;
                last.outage.over(Instant::now());
            }
            Err(why) => {
                if last.outage.failed(&why, Instant::now()) != Say::Nothing {
                    let shown = self.path.display().to_string();
                    tracing::warn!(
                        "the API server's token file \"{}\" {why}; the last token is used",
                        Visible(&shown)
                    );
                }
            }
        }
        last.header.clone()
    }
}

/// What is wrong with the file is said without what it holds.
fn read(path: &std::path::Path) -> Result<HeaderValue, String> {
    let bytes = read_anew(MOST_BYTES, path).map_err(|error| format!("cannot be read: {error}"))?;
    let text = SecretString::from(String::from_utf8_lossy(&bytes).into_owned());
    let token = text.expose_secret().trim();
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"))
        .ok()
        .filter(|_| token.bytes().all(|byte| byte.is_ascii_graphic()));
    let mut header = header.ok_or("holds what a header cannot carry")?;
    // No library shows a value that is marked so.
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_the_token_that_the_file_holds_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let Err(error) = TokenFile::open(path.clone()) else { panic!("there is no file yet") };
        assert!(error.contains("cannot be read"), "{error}");
        std::fs::write(&path, "first\n").unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        assert_eq!(file.header(), "Bearer first");
        for (content, header) in
            [("second", "Bearer second"), ("", "Bearer second"), ("a b", "Bearer second")]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(file.header(), header, "{content:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.header(), "Bearer second");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(file.header(), "Bearer second");
        assert!(file.header().is_sensitive());
    }
}
