//! The authorities in a bundle of certificates that somebody gave to be trusted.
//!
//! What makes a client takes them unread, and says nothing of the file where it cannot use one.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// What is wrong with a bundle, after its name. Nothing of what it holds is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is none in it.
    #[error("holds no certificate in PEM, which begins with \"-----BEGIN CERTIFICATE-----\"")]
    None,
    /// What begins as PEM is none.
    #[error("was expected to hold certificates in PEM; a part of it has no end, or is not base64")]
    NoPem,
    /// One is no certificate.
    #[error("holds a certificate that cannot be read, number {0} in it; X.509 in PEM was expected")]
    Garbled(usize),
}

/// Reads a bundle in PEM.
///
/// # Errors
///
/// [`Unusable`] where it holds none, or one that cannot be read.
pub fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|_| Unusable::NoPem)?;
    if read.is_empty() {
        return Err(Unusable::None);
    }
    let mut store = RootCertStore::empty();
    let garbled = read.iter().position(|certificate| store.add(certificate.clone()).is_err());
    garbled.map_or(Ok(read), |n| Err(Unusable::Garbled(n + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_refused_with_what_is_wrong_and_not_with_what_it_holds() {
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (good, key) = (certificate.cert.pem(), certificate.signing_key.serialize_pem());
        let block =
            |base64: &str| format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
        assert_eq!(read(format!("{key}{good}{good}").as_bytes()).map(|all| all.len()), Ok(2));
        for (bundle, expected) in [
            ("", Unusable::None),
            (&key, Unusable::None),
            (&block("!!!!"), Unusable::NoPem),
            (&good.replace("END", "AND"), Unusable::NoPem),
            (&format!("{good}{}", block("aGVsbG8=")), Unusable::Garbled(2)),
        ] {
            assert_eq!(read(bundle.as_bytes()), Err(expected), "{bundle}");
        }
        assert_eq!(read(certificate.cert.der()), Err(Unusable::None));
    }
}
