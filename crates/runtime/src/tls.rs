//! Loads a certificate and its key from two files, and reloads them when their content changes.
//!
//! The files are polled: an update of a Kubernetes Secret replaces a symbolic link, which file watchers miss.
//! Invalid files leave the certificate in use. Used by the service's listener.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error as RustlsError, InconsistentKeys, ServerConfig};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::error_causes;
use super::files::{BlockingCall, quoted, read_up_to};
use model::Fingerprint;
use model::failure_log::{FailureLog, LogAction};

/// Paths of a certificate and its key in PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The server certificate, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the server certificate.
    pub key: PathBuf,
}

/// The configuration for new connections.
pub type Current = watch::Receiver<Arc<ServerConfig>>;

/// Invalid files. Messages do not quote their content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("failed to read the {what} file {}", quoted(.path))]
    Unreadable {
        /// `certificate` or `key`.
        what: &'static str,
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// Reading timed out, such as for a pipe without a writer.
    #[error(
        "reading the certificate file {} or the key file {} timed out after {READ_TIMEOUT:?}",
        quoted(&.0.certificate), quoted(&.0.key)
    )]
    TimedOut(Files),
    #[error(
        "no certificate in file {}: expected PEM, the server certificate first",
        quoted(.0)
    )]
    NoCertificate(PathBuf),
    #[error("invalid certificate in file {}: expected X.509 in PEM", quoted(.0))]
    InvalidCertificate(PathBuf),
    #[error(
        "no private key in file {}: expected PEM (PKCS #8, PKCS #1 or SEC 1) without a passphrase",
        quoted(.0)
    )]
    NoKey(PathBuf),
    #[error("invalid private key in file {}: expected RSA, ECDSA or Ed25519 in PEM", quoted(.0))]
    InvalidKey(PathBuf),
    #[error(
        "the key in file {} does not match the certificate in {}",
        quoted(&.0.key), quoted(&.0.certificate)
    )]
    Mismatch(Files),
    /// The TLS library rejects its configuration.
    #[error("failed to configure TLS")]
    Unsupported(#[source] RustlsError),
}

/// Maximum size of each file, in bytes. A certificate chain takes a few thousand.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Timeout of reading both files.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between log lines about the same problem.
const REMINDER_INTERVAL: Duration = Duration::from_hours(1);

/// Content of both files.
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate and key in use.
pub struct Identity {
    files: Files,
    /// Fingerprints of the files' content.
    content: [Fingerprint; 2],
    current: watch::Sender<Arc<ServerConfig>>,
    reads: BlockingCall<Result<Content, TlsError>>,
}

impl Identity {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for invalid files.
    pub async fn load(files: Files) -> Result<Self, TlsError> {
        let reads = BlockingCall::default();
        let content = content(&files, &reads, READ_TIMEOUT).await?;
        let (current, _) = watch::channel(Arc::new(config(&files, &content)?));
        Ok(Self { files, content: content.fingerprints(), current, reads })
    }

    #[must_use]
    pub fn current(&self) -> Current {
        self.current.subscribe()
    }

    /// Reloads both files at an interval, and on `request`, until `shutdown`.
    pub async fn reload_periodically(
        mut self,
        interval: Duration,
        request: Arc<Notify>,
        shutdown: CancellationToken,
    ) {
        let mut failures = FailureLog::new(REMINDER_INTERVAL);
        let reloads = async {
            loop {
                tokio::select! {
                    () = request.notified() => {}
                    () = sleep(interval) => {}
                }
                let result = self.reload().await;
                log_reload(&mut failures, result);
            }
        };
        shutdown.run_until_cancelled(reloads).await;
    }

    /// Reloads both files and returns whether their content changed.
    async fn reload(&mut self) -> Result<bool, TlsError> {
        let content = content(&self.files, &self.reads, READ_TIMEOUT).await?;
        let fingerprints = content.fingerprints();
        if fingerprints == self.content {
            return Ok(false);
        }
        self.current.send_replace(Arc::new(config(&self.files, &content)?));
        self.content = fingerprints;
        Ok(true)
    }
}

fn log_reload(failures: &mut FailureLog, result: Result<bool, TlsError>) {
    match result {
        Ok(is_new) => {
            let was_failing = failures.recovered(Instant::now()).is_some();
            if is_new {
                tracing::info!("reloaded the certificate for new connections");
            } else if was_failing {
                tracing::info!("the certificate files match the certificate in use again");
            }
        }
        Err(error) => {
            let cause = error_causes::describe(&error);
            if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                tracing::error!("{cause}; the previous certificate stays in use");
            }
        }
    }
}

async fn content(
    files: &Files,
    reads: &BlockingCall<Result<Content, TlsError>>,
    time: Duration,
) -> Result<Content, TlsError> {
    let paths = files.clone();
    let content = reads.run(time, move || read(&paths)).await;
    content.unwrap_or_else(|| Err(TlsError::TimedOut(files.clone())))
}

fn read(files: &Files) -> Result<Content, TlsError> {
    let read = |what, path: &Path| {
        read_up_to(MAX_FILE_BYTES, path).map_err(|error| TlsError::Unreadable {
            what,
            path: path.to_owned(),
            error,
        })
    };
    Ok(Content { certificate: read("certificate", &files.certificate)?, key: read("key", &files.key)? })
}

/// A configuration with TLS 1.2 and 1.3, for HTTP/1.1.
fn config(files: &Files, content: &Content) -> Result<ServerConfig, TlsError> {
    let invalid = || TlsError::InvalidCertificate(files.certificate.clone());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content.certificate).collect();
    // The library's error quotes the invalid line.
    let chain = chain.map_err(|_| invalid())?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    // rustls checks only the first certificate; clients would reject an invalid chain without a reason.
    if chain.iter().any(|certificate| ParsedCertificate::try_from(certificate).is_err()) {
        return Err(invalid());
    }
    let key = PrivateKeyDer::from_pem_slice(&content.key).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::NoKey(files.key.clone()),
        _ => TlsError::InvalidKey(files.key.clone()),
    })?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key =
        provider.key_provider.load_private_key(key).map_err(|_| TlsError::InvalidKey(files.key.clone()))?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(RustlsError::InconsistentKeys(_)) => return Err(TlsError::Mismatch(files.clone())),
        Err(_) => return Err(invalid()),
    }
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unsupported)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

impl Content {
    fn fingerprints(&self) -> [Fingerprint; 2] {
        [Fingerprint::from_content(&self.certificate), Fingerprint::from_content(&self.key)]
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};
    use tempfile::TempDir;

    use super::*;

    fn folder(certificate: &str, key: &str) -> (TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
        (folder, files)
    }

    /// Generates a certificate and its key in PEM.
    fn generate() -> (String, String) {
        let Generated { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    /// The message of the error, which must not quote the files.
    async fn error_of(certificate: &str, key: &str) -> String {
        let (_folder, files) = folder(certificate, key);
        let error = Identity::load(files).await.err().unwrap();
        let message = error_causes::describe(&error);
        for file in [certificate, key] {
            for line in file.lines().filter(|line| line.len() > 4) {
                assert!(!format!("{message} {error:?}").contains(line), "{message}");
            }
        }
        message
    }

    #[tokio::test]
    async fn invalid_file_is_named_with_the_expected_content_and_not_quoted() {
        let ((certificate, key), (other, _)) = (generate(), generate());
        let cut = |pem: &str| pem.lines().take(3).collect::<Vec<_>>().join("\n");
        let emptied = |what| format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
        let large = " ".repeat(1024 * 1024 + 1);
        for (certificate, key, words) in [
            ("", &*key, &["tls.crt", "no certificate", "PEM"][..]),
            (&key, &key, &["tls.crt", "no certificate", "PEM"]),
            (&cut(&certificate), &key, &["tls.crt", "invalid certificate", "X.509"]),
            (&emptied("CERTIFICATE"), &key, &["tls.crt", "invalid certificate", "X.509"]),
            (&(certificate.clone() + &emptied("CERTIFICATE")), &key, &["tls.crt", "invalid certificate"]),
            (&certificate, "", &["tls.key", "no private key", "without a passphrase"]),
            (&certificate, &certificate, &["tls.key", "no private key"]),
            (&certificate, &emptied("ENCRYPTED PRIVATE KEY"), &["tls.key", "without a passphrase"]),
            (&certificate, &cut(&key), &["tls.key", "invalid private key", "ECDSA"]),
            (&certificate, &emptied("PRIVATE KEY"), &["tls.key", "invalid private key", "ECDSA"]),
            (&other, &key, &["tls.key", "does not match", "tls.crt"]),
            (&large, &key, &["tls.crt", "longer than"]),
        ] {
            let message = error_of(certificate, key).await;
            for word in words {
                assert!(message.contains(word), "{word}: {message}");
            }
        }
    }

    #[tokio::test]
    async fn certificate_stays_in_use_until_both_files_match_again() {
        let ((certificate, key), (next, its_key)) = (generate(), generate());
        let (_folder, files) = folder(&certificate, &key);
        let mut identity = Identity::load(files.clone()).await.unwrap();
        let mut current = identity.current();
        assert!(!identity.reload().await.unwrap());
        std::fs::write(&files.certificate, &next).unwrap();
        assert!(matches!(identity.reload().await, Err(TlsError::Mismatch(_))));
        std::fs::remove_file(&files.key).unwrap();
        assert!(matches!(identity.reload().await, Err(TlsError::Unreadable { what: "key", .. })));
        assert!(!current.has_changed().unwrap());
        std::fs::write(&files.key, &its_key).unwrap();
        assert!(identity.reload().await.unwrap());
        assert!(current.has_changed().unwrap());
        current.mark_unchanged();
        assert!(!identity.reload().await.unwrap());
        assert!(!current.has_changed().unwrap());
    }

    #[tokio::test]
    async fn pipe_without_a_writer_blocks_one_thread_after_several_attempts() {
        let (certificate, key) = generate();
        let (_folder, files) = folder(&certificate, "");
        std::fs::remove_file(&files.key).unwrap();
        assert!(Command::new("mkfifo").arg(&files.key).status().unwrap().success());
        let reads = BlockingCall::default();
        let short = Duration::from_millis(20);
        for _ in 0..3 {
            assert!(matches!(content(&files, &reads, short).await, Err(TlsError::TimedOut(_))));
        }
        // The first read opened the pipe, so it receives the key.
        std::fs::write(&files.key, &key).unwrap();
        let content = loop {
            match content(&files, &reads, short).await {
                Err(TlsError::TimedOut(_)) => tokio::task::yield_now().await,
                content => break content.ok().unwrap(),
            }
        };
        assert!(content.key == key.as_bytes());
    }
}
