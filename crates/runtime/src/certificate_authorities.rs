//! Reads a bundle of trusted certificate authorities.
//!
//! Called before a client is built, whose own errors do not describe the file.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// An invalid bundle. Messages follow the name of the file and do not quote its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("contains no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")")]
    Empty,
    #[error("contains invalid PEM: a certificate has no end, or is not base64")]
    InvalidPem,
    /// The nth certificate is not X.509.
    #[error("contains an invalid certificate: number {0} is not X.509 in PEM")]
    InvalidCertificate(usize),
}

/// Reads a bundle in PEM.
///
/// # Errors
///
/// [`BundleError`] for a bundle without certificates, or with an invalid one.
pub fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BundleError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|_| BundleError::InvalidPem)?;
    if read.is_empty() {
        return Err(BundleError::Empty);
    }
    let mut store = RootCertStore::empty();
    let invalid = read.iter().position(|certificate| store.add(certificate.clone()).is_err());
    invalid.map_or(Ok(read), |n| Err(BundleError::InvalidCertificate(n + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bundle_is_rejected_with_the_reason() {
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (good, key) = (certificate.cert.pem(), certificate.signing_key.serialize_pem());
        let block =
            |base64: &str| format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
        assert_eq!(read(format!("{key}{good}{good}").as_bytes()).map(|all| all.len()), Ok(2));
        for (bundle, expected) in [
            ("", BundleError::Empty),
            (&key, BundleError::Empty),
            (&block("!!!!"), BundleError::InvalidPem),
            (&good.replace("END", "AND"), BundleError::InvalidPem),
            (&format!("{good}{}", block("aGVsbG8=")), BundleError::InvalidCertificate(2)),
        ] {
            assert_eq!(read(bundle.as_bytes()), Err(expected), "{bundle}");
        }
        assert_eq!(read(certificate.cert.der()), Err(BundleError::Empty));
    }
}
