//! A certificate and its key, from two files: read at the start, and again when the files hold others.
//!
//! A Kubernetes Secret is renewed by another link to another folder, which says nothing to who watches the
//! file, so the files are read every so often and compared by what they hold. Files that cannot be used
//! leave what was there.

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
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::error_causes;
use super::files::read_up_to;
use crate::domain::failure_log::{Outage, Say};
use crate::domain::model::Fingerprint;

/// Where a certificate and its key are, in PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The server's own certificate, and then those between it and an authority.
    pub certificate: PathBuf,
    /// The key of the first of them.
    pub key: PathBuf,
}

/// What new connections are to be answered with.
pub type Current = watch::Receiver<Arc<ServerConfig>>;

/// Files that cannot be used. Nothing of what they hold is said.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("the {what} file \"{}\" cannot be read", .path.display())]
    Unreadable {
        /// Which of both.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A file is not read to its end: a pipe that nobody writes to.
    #[error(
        "the certificate file \"{}\" or the key file \"{}\" could not be read within {TIME:?}",
        .0.certificate.display(), .0.key.display()
    )]
    TooSlow(Files),
    /// There is no certificate in it.
    #[error(
        "there is no certificate in the file \"{}\": PEM was expected, the server's own certificate first",
        .0.display()
    )]
    NoCertificate(PathBuf),
    /// There is something in it that is no certificate.
    #[error("the certificate in the file \"{}\" cannot be read: X.509 in PEM was expected", .0.display())]
    GarbledCertificate(PathBuf),
    /// There is no key in it.
    #[error(
        "there is no private key in the file \"{}\": one in PEM was expected (PKCS #8, PKCS #1 or SEC 1), \
         without a passphrase",
        .0.display()
    )]
    NoKey(PathBuf),
    /// There is something in it that is no key, or of a kind that is not known.
    #[error(
        "the private key in the file \"{}\" cannot be used: RSA, ECDSA or Ed25519 in PEM was expected",
        .0.display()
    )]
    GarbledKey(PathBuf),
    /// They do not belong together.
    #[error(
        "the key in the file \"{}\" does not belong to the certificate in \"{}\"",
        .0.key.display(), .0.certificate.display()
    )]
    Apart(Files),
    /// TLS cannot be spoken at all.
    #[error("TLS cannot be set up")]
    Unsupported(#[source] RustlsError),
}

/// The most that either file may hold, in bytes: a chain takes a few thousand.
const MOST: u64 = 1024 * 1024;

/// How long reading them may take.
const TIME: Duration = Duration::from_secs(10);

/// From one line about files that cannot be used to the next that says the same.
const REMIND: Duration = Duration::from_hours(1);

/// What two files hold.
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate and its key, as the files held them when they could last be used.
pub struct Identity {
    files: Files,
    /// What they held then.
    content: [Fingerprint; 2],
    current: watch::Sender<Arc<ServerConfig>>,
    /// A reading that was given up, and that its thread did not: there is never another beside it.
    reading: Option<JoinHandle<Result<Content, TlsError>>>,
}

impl Identity {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// [`TlsError`] where they cannot be used.
    pub async fn load(files: Files) -> Result<Self, TlsError> {
        let mut reading = None;
        let content = content(&files, &mut reading, TIME).await?;
        let (current, _) = watch::channel(Arc::new(config(&files, &content)?));
        Ok(Self { files, content: content.fingerprints(), current, reading })
    }

    /// What new connections are to be answered with, now and later.
    #[must_use]
    pub fn current(&self) -> Current {
        self.current.subscribe()
    }

    /// Reads both files every so often, and whenever it is asked to, until `shutdown`.
    pub async fn keep(mut self, every: Duration, asked: Arc<Notify>, shutdown: CancellationToken) {
        let mut failing = Outage::new(REMIND);
        let keeping = async {
            loop {
                tokio::select! {
                    () = asked.notified() => {}
                    () = sleep(every) => {}
                }
                let outcome = self.reload().await;
                told(&mut failing, outcome);
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = keeping => {}
        }
    }

    /// Whether the files held something else than before, which is then what new connections get.
    async fn reload(&mut self) -> Result<bool, TlsError> {
        let content = content(&self.files, &mut self.reading, TIME).await?;
        let fingerprints = content.fingerprints();
        if fingerprints == self.content {
            return Ok(false);
        }
        self.current.send_replace(Arc::new(config(&self.files, &content)?));
        self.content = fingerprints;
        Ok(true)
    }
}

/// Tells an operator what came of a reading.
fn told(failing: &mut Outage, outcome: Result<bool, TlsError>) {
    match outcome {
        Ok(is_new) => {
            let was_failing = failing.over(Instant::now()).is_some();
            if is_new {
                tracing::info!("the certificate was read again: new connections get what its files hold now");
            } else if was_failing {
                tracing::info!("the files of the certificate hold again what is in use");
            }
        }
        Err(error) => {
            let words = error_causes::said_once(&error).join(": ");
            match failing.failed(&words, Instant::now()) {
                Say::Nothing => {}
                Say::This | Say::Still(..) => {
                    tracing::error!("{words}; the certificate that is in use stays");
                }
            }
        }
    }
}

/// What both files hold, unless that takes too long: `reading` is then what is still at it.
async fn content(
    files: &Files,
    reading: &mut Option<JoinHandle<Result<Content, TlsError>>>,
    time: Duration,
) -> Result<Content, TlsError> {
    let start = || {
        let files = files.clone();
        spawn_blocking(move || read(&files))
    };
    let mut begun = reading.take().unwrap_or_else(start);
    match timeout(time, &mut begun).await {
        Ok(Ok(content)) => content,
        // Reading does not panic; a runtime that ends may not get to it any more.
        Ok(Err(_)) => Err(TlsError::TooSlow(files.clone())),
        Err(_) => {
            *reading = Some(begun);
            Err(TlsError::TooSlow(files.clone()))
        }
    }
}

fn read(files: &Files) -> Result<Content, TlsError> {
    let read = |what, path: &Path| {
        read_up_to(MOST, path).map_err(|error| TlsError::Unreadable { what, path: path.to_owned(), error })
    };
    Ok(Content { certificate: read("certificate", &files.certificate)?, key: read("key", &files.key)? })
}

/// TLS 1.2 and 1.3, and HTTP/1.1 on it.
fn config(files: &Files, content: &Content) -> Result<ServerConfig, TlsError> {
    let garbled = || TlsError::GarbledCertificate(files.certificate.clone());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content.certificate).collect();
    // A library's words about PEM quote the line that it could not read.
    let chain = chain.map_err(|_| garbled())?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.certificate.clone()));
    }
    // The library itself looks at the first alone, and a client that cannot read the others would only say no.
    if chain.iter().any(|certificate| ParsedCertificate::try_from(certificate).is_err()) {
        return Err(garbled());
    }
    let key = PrivateKeyDer::from_pem_slice(&content.key).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::NoKey(files.key.clone()),
        _ => TlsError::GarbledKey(files.key.clone()),
    })?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key =
        provider.key_provider.load_private_key(key).map_err(|_| TlsError::GarbledKey(files.key.clone()))?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(RustlsError::InconsistentKeys(_)) => return Err(TlsError::Apart(files.clone())),
        Err(_) => return Err(garbled()),
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
        [Fingerprint::of(&self.certificate), Fingerprint::of(&self.key)]
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use tempfile::TempDir;

    use super::*;

    /// A folder with these two files in it.
    fn folder(certificate: &str, key: &str) -> (TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
        (folder, files)
    }

    /// A certificate and its key, in PEM.
    fn made() -> (String, String) {
        let Made { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    async fn said(certificate: &str, key: &str) -> String {
        let (_folder, files) = folder(certificate, key);
        let error = Identity::load(files).await.err().unwrap();
        let said = error_causes::said_once(&error).join(": ");
        for file in [certificate, key] {
            for line in file.lines().filter(|line| line.len() > 4) {
                assert!(!format!("{said} {error:?}").contains(line), "{said}");
            }
        }
        said
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_named_with_what_was_expected_and_never_quoted() {
        let ((certificate, key), (other, _)) = (made(), made());
        let cut = |pem: &str| pem.lines().take(3).collect::<Vec<_>>().join("\n");
        let emptied = |what| format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
        let large = " ".repeat(1024 * 1024 + 1);
        for (certificate, key, words) in [
            ("", &*key, &["tls.crt", "no certificate", "PEM"][..]),
            (&key, &key, &["tls.crt", "no certificate", "PEM"]),
            (&cut(&certificate), &key, &["tls.crt", "cannot be read", "X.509"]),
            (&emptied("CERTIFICATE"), &key, &["tls.crt", "cannot be read", "X.509"]),
            (&(certificate.clone() + &emptied("CERTIFICATE")), &key, &["tls.crt", "cannot be read"]),
            (&certificate, "", &["tls.key", "no private key", "without a passphrase"]),
            (&certificate, &certificate, &["tls.key", "no private key"]),
            (&certificate, &emptied("ENCRYPTED PRIVATE KEY"), &["tls.key", "without a passphrase"]),
            (&certificate, &cut(&key), &["tls.key", "cannot be used", "ECDSA"]),
            (&certificate, &emptied("PRIVATE KEY"), &["tls.key", "cannot be used", "ECDSA"]),
            (&other, &key, &["tls.key", "does not belong", "tls.crt"]),
            (&large, &key, &["tls.crt", "longer than"]),
        ] {
            let said = said(certificate, key).await;
            for word in words {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_in_use_stays_until_both_files_hold_something_else_that_fits() {
        let ((certificate, key), (next, its_key)) = (made(), made());
        let (_folder, files) = folder(&certificate, &key);
        let mut identity = Identity::load(files.clone()).await.unwrap();
        let mut current = identity.current();
        assert!(!identity.reload().await.unwrap());
        std::fs::write(&files.certificate, &next).unwrap();
        assert!(matches!(identity.reload().await, Err(TlsError::Apart(_))));
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
    async fn a_pipe_that_nobody_writes_to_holds_one_thread_however_often_it_is_tried() {
        let (certificate, key) = made();
        let (_folder, files) = folder(&certificate, "");
        std::fs::remove_file(&files.key).unwrap();
        assert!(Command::new("mkfifo").arg(&files.key).status().unwrap().success());
        let mut reading = None;
        for _ in 0..3 {
            let slow = content(&files, &mut reading, Duration::from_millis(20)).await;
            assert!(matches!(slow, Err(TlsError::TooSlow(_))));
        }
        // It is the first reading that gets what is written now: it opened the pipe before.
        std::fs::write(&files.key, &key).unwrap();
        let content = content(&files, &mut reading, Duration::from_mins(1)).await.ok().unwrap();
        assert!(content.key == key.as_bytes() && reading.is_none());
    }
}
