//! The client certificate of a kubeconfig. Its files are reread for each request, so that a renewed certificate is used
//! like with kubectl, which rereads them every five minutes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret, SecretSlice};

use crate::cluster::kubeconfig::{Content, quoted};
use crate::cluster::tls::{self, IdentityError};
use model::failure_log::{FailureLog, LogAction};
use runtime::error_causes;
use runtime::files::{BlockingCall, read_regular};

/// Maximum size of each file, in bytes. A certificate chain takes a few thousand.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Interval between log lines about files that cannot be used.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// The client certificate cannot be used. The message does not quote the files.
#[derive(Debug, thiserror::Error)]
pub(in crate::cluster) enum CertificateError {
    #[error("failed to read {}", quoted(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("reading its client certificate timed out after {0:?}")]
    TimedOut(Duration),
    #[error("{0}: expected a certificate in PEM")]
    NoCertificate(String),
    #[error("{0}: expected a private key in PEM (PKCS #8, PKCS #1 or SEC 1) without a passphrase")]
    NoKey(String),
    #[error("{certificate}: {key} does not match it")]
    Mismatch { certificate: String, key: String },
}

pub(in crate::cluster) struct Certificate {
    source: Source,
    reads: BlockingCall<Result<Pair, CertificateError>>,
    last: Mutex<Last>,
}

#[derive(Clone)]
struct Source {
    certificate: Content,
    key: Content,
}

/// The content of both files.
struct Pair {
    certificate: Vec<u8>,
    key: SecretSlice<u8>,
}

struct Last {
    pair: Pair,
    identity: Arc<CertifiedKey>,
    failures: FailureLog,
}

impl Certificate {
    /// Reads the files for the first time.
    pub(in crate::cluster) fn open(certificate: Content, key: Content) -> Result<Self, CertificateError> {
        let source = Source { certificate, key };
        let pair = source.read()?;
        let identity = source.identity(&pair)?;
        let last = Last { pair, identity, failures: FailureLog::new(REMINDER_INTERVAL) };
        Ok(Self { source, reads: BlockingCall::default(), last: Mutex::new(last) })
    }

    /// The certificate of the next request. While the files are unusable, such as between the writes of both, this is the
    /// last one.
    pub(super) async fn next(&self, within: Duration) -> Arc<CertifiedKey> {
        if let (Content::Inline(_), Content::Inline(_)) = (&self.source.certificate, &self.source.key) {
            return Arc::clone(&self.last.lock().unwrap_or_else(PoisonError::into_inner).identity);
        }
        let source = self.source.clone();
        let read = self.reads.run(within, move || source.read()).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read
            .unwrap_or(Err(CertificateError::TimedOut(within)))
            .and_then(|pair| last.replace(&self.source, pair))
        {
            Ok(()) => {
                last.failures.recovered(Instant::now());
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                if last.failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                    tracing::warn!("{cause}; using the last client certificate");
                }
            }
        }
        Arc::clone(&last.identity)
    }
}

impl Last {
    fn replace(&mut self, source: &Source, pair: Pair) -> Result<(), CertificateError> {
        let is_same = pair.certificate == self.pair.certificate
            && pair.key.expose_secret() == self.pair.key.expose_secret();
        if !is_same {
            self.identity = source.identity(&pair)?;
            self.pair = pair;
            tracing::info!("using the renewed client certificate of the kubeconfig");
        }
        Ok(())
    }
}

impl Source {
    fn read(&self) -> Result<Pair, CertificateError> {
        let read = |content: &Content| match content {
            Content::Inline(bytes) => Ok(bytes.clone()),
            Content::File(path) => read_regular(MAX_FILE_BYTES, path)
                .map_err(|error| CertificateError::Unreadable(path.clone(), error)),
        };
        Ok(Pair { certificate: read(&self.certificate)?, key: read(&self.key)?.into() })
    }

    fn identity(&self, pair: &Pair) -> Result<Arc<CertifiedKey>, CertificateError> {
        let named = |key: &str, content: &Content| match content {
            Content::File(file) => format!("its {key} {}", quoted(Path::new(file))),
            Content::Inline(_) => format!("its {key}-data"),
        };
        let certificate = || named("client-certificate", &self.certificate);
        let key = || named("client-key", &self.key);
        tls::identity(&pair.certificate, pair.key.expose_secret()).map_err(|error| match error {
            IdentityError::NoCertificate => CertificateError::NoCertificate(certificate()),
            IdentityError::NoKey => CertificateError::NoKey(key()),
            IdentityError::Mismatch => CertificateError::Mismatch { certificate: certificate(), key: key() },
        })
    }
}
