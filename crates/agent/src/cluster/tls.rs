//! TLS to an API server: its certificate authorities, and the client certificate.
//!
//! Called by `configuration`, `credentials` and `transport`. Accepts what Go's `crypto/tls` and `crypto/x509` accept, and
//! rustls does not:
//!
//! - a client certificate of X.509 version 1: the client need not parse it (rustls/rustls#2364);
//! - the certificate of the server itself among the trusted ones (rustls/webpki trusts only issuers);
//! - a certificate of a server for any purpose (`anyExtendedKeyUsage`).
//!
//! Like Go, and unlike webpki, it trusts no issuer that has expired or is no certificate authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use webpki::{EndEntityCert, KeyUsage};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

use crate::cluster::kubeconfig::pem;

/// A client certificate cannot be used. The message quotes neither file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityError {
    NoCertificate,
    NoKey,
    Mismatch,
}

/// No certificate authority is valid.
#[derive(Debug)]
pub(super) struct NoAuthority;

/// Reads a client certificate with its chain, and its key.
pub(super) fn identity(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, IdentityError> {
    let chain: Vec<_> = certificates(certificate, |_| true);
    let leaf = chain.first().ok_or(IdentityError::NoCertificate)?;
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let key = pem::blocks(key).into_iter().find(|block| is_key(&block.label)).ok_or(IdentityError::NoKey)?;
    // Detects the format: Go ignores the label, too.
    let key = PrivateKeyDer::try_from(key.content).map_err(|_| IdentityError::NoKey)?;
    let key = provider().key_provider.load_private_key(key).map_err(|_| IdentityError::NoKey)?;
    if !is_key_of(&*key, leaf) {
        return Err(IdentityError::Mismatch);
    }
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// Whether the key belongs to the certificate, of any version of X.509. The server decides on one in an unknown form.
fn is_key_of(key: &dyn SigningKey, certificate: &CertificateDer<'_>) -> bool {
    match (key.public_key(), webpki::anchor_from_trusted_cert(certificate)) {
        // Without the tag and length of the sequence.
        (Some(public), Ok(parsed)) => public.as_ref().ends_with(parsed.subject_public_key_info.as_ref()),
        _ => true,
    }
}

fn certificates(pem: &[u8], is_used: impl Fn(&pem::Block) -> bool) -> Vec<CertificateDer<'static>> {
    let blocks = pem::blocks(pem).into_iter().filter(|block| block.label == "CERTIFICATE" && is_used(block));
    blocks.map(|block| block.content.into()).collect()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Verifies the certificate of a server with the certificates of a bundle.
#[derive(Debug)]
pub(super) struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Uses the valid certificates of a bundle, and skips the others.
    pub(super) fn new(bundle: &[u8]) -> Result<Self, NoAuthority> {
        let trusted = certificates(bundle, |block| !block.has_headers);
        if trusted.iter().all(|certificate| webpki::anchor_from_trusted_cert(certificate).is_err()) {
            return Err(NoAuthority);
        }
        Ok(Self { provider: provider(), trusted })
    }

    /// The certificates that may issue others now, or that are the server's own.
    fn issuers(&self, server: &CertificateDer<'_>, now: UnixTime) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let used = self.trusted.iter().filter(|trusted| *trusted == server || is_issuer(trusted, now));
        roots.add_parsable_certificates(used.cloned());
        Arc::new(roots)
    }

    /// Verifies a chain whose certificates are for any purpose, as far as they say.
    fn verify_for_any_purpose(
        &self,
        server: &ParsedCertificate<'_>,
        chain: &Chain<'_>,
        name: &ServerName<'_>,
    ) -> bool {
        let Ok(certificate) = EndEntityCert::try_from(chain.server) else { return false };
        let verified = certificate.verify_for_usage(
            self.provider.signature_verification_algorithms.all,
            &chain.issuers.roots,
            chain.intermediates,
            chain.now,
            KeyUsage::required_if_present(ANY_PURPOSE),
            None,
            None,
        );
        verified.is_ok() && verify_server_name(server, name).is_ok()
    }
}

/// `anyExtendedKeyUsage` (RFC 5280, section 4.2.1.12): 2.5.29.37.0.
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// The certificate of a server with those that may have issued it.
struct Chain<'a> {
    server: &'a CertificateDer<'a>,
    intermediates: &'a [CertificateDer<'a>],
    issuers: &'a RootCertStore,
    now: UnixTime,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Without intermediate certificates, an error is about this certificate.
        let is_trusted = self.trusted.iter().any(|trusted| trusted == end_entity);
        let intermediates = if is_trusted { &[] } else { intermediates };
        let issuers = self.issuers(end_entity, now);
        let chain = Chain { server: end_entity, intermediates, issuers: &issuers, now };
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&issuers), Arc::clone(&self.provider));
        // Without issuers.
        let verifier = verifier.build().map_err(|_| CertificateError::UnknownIssuer)?;
        match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(why)) if is_about_purpose(&why) => {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                if self.verify_for_any_purpose(&parsed, &chain, server_name) {
                    Ok(ServerCertVerified::assertion())
                } else {
                    Err(why.into())
                }
            }
            Err(Error::InvalidCertificate(why)) if is_trusted && is_about_issuer(&why) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate may issue others at this time, by the rules of Go's `CheckSignatureFrom`. Versions before 3 have
/// no extension that says so.
fn is_issuer(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let is_authority = match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    let may_sign = match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.flags == 0 || usage.value.key_cert_sign()),
        Err(_) => false,
    };
    is_authority && may_sign && now.is_some_and(|now| certificate.validity().is_valid_at(now))
}

/// Whether only the issuer of a certificate is in question, or that it is a CA. webpki checks its validity before, as the
/// tests below show.
fn is_about_issuer(why: &CertificateError) -> bool {
    match why {
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => true,
        CertificateError::Other(why) => {
            matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// Whether a certificate is not for servers.
fn is_about_purpose(why: &CertificateError) -> bool {
    matches!(why, CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        KeyUsagePurpose, date_time_ymd,
    };

    use super::*;

    struct Issued {
        certificate: rcgen::Certificate,
        key: KeyPair,
    }

    /// A certificate for `server.example.com`, signed by the issuer or by itself.
    fn issue(
        issuer: Option<&CertifiedIssuer<'_, KeyPair>>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["server.example.com".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "server");
        change(&mut params);
        let certificate = match issuer {
            Some(issuer) => params.signed_by(&key, issuer),
            None => params.self_signed(&key),
        };
        Issued { certificate: certificate.unwrap(), key }
    }

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn verify(bundle: &str, server: &Issued, name: &str) -> Result<ServerCertVerified, Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_790_000_000));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let verifier = Verifier::new(bundle.as_bytes()).unwrap();
        verifier.verify_server_cert(server.certificate.der(), &[], &name, &[], now)
    }

    #[test]
    fn certificate_of_the_server_itself_is_trusted_while_name_and_validity_are_checked() {
        let authority = authority();
        let is_ca = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        for server in [issue(Some(&authority), |_| {}), issue(None, |_| {}), issue(None, is_ca)] {
            let own = server.certificate.pem();
            assert!(verify(&own, &server, "server.example.com").is_ok());
            assert!(verify(&format!("{}{own}", authority.pem()), &server, "server.example.com").is_ok());
            assert!(verify(&own, &server, "other.example.com").is_err());
            let others = issue(Some(&authority), |_| {}).certificate.pem();
            assert!(verify(&others, &server, "server.example.com").is_err());
        }
        let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
        let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2090, 1, 1);
        let of_client = |params: &mut CertificateParams| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        };
        for server in [
            issue(Some(&authority), expired),
            issue(Some(&authority), future),
            issue(Some(&authority), of_client),
            issue(None, expired),
            issue(None, |params| {
                is_ca(params);
                expired(params);
            }),
        ] {
            let pem = server.certificate.pem();
            assert!(verify(&pem, &server, "server.example.com").is_err(), "{pem}");
        }
    }

    #[test]
    fn certificate_for_any_purpose_is_one_of_a_server() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let authority = authority();
        for (purposes, is_trusted) in [
            (vec![ServerAuth], true),
            (vec![Any], true),
            (vec![ClientAuth, Any], true),
            (vec![ClientAuth], false),
        ] {
            let change = |params: &mut CertificateParams| params.extended_key_usages.clone_from(&purposes);
            let server = issue(Some(&authority), change);
            let verified = verify(&authority.pem(), &server, "server.example.com");
            assert_eq!(verified.is_ok(), is_trusted, "{purposes:?}: {verified:?}");
            assert!(verify(&authority.pem(), &server, "other.example.com").is_err(), "{purposes:?}");
            assert!(verify(&self::authority().pem(), &server, "server.example.com").is_err(), "{purposes:?}");
        }
        let expired = issue(Some(&authority), |params| {
            params.extended_key_usages = vec![Any];
            params.not_after = date_time_ymd(2020, 1, 1);
        });
        assert!(verify(&authority.pem(), &expired, "server.example.com").is_err());
    }

    type Change = fn(&mut CertificateParams);

    #[test]
    fn issuer_is_trusted_only_while_it_is_a_valid_authority() {
        let is_ca = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cases: [(&str, Change, bool); 7] = [
            ("authority", |_| {}, true),
            ("CA:FALSE", |params| params.is_ca = IsCa::ExplicitNoCa, false),
            ("no basicConstraints", |params| params.is_ca = IsCa::NoCa, false),
            ("expired", |params| params.not_after = date_time_ymd(2020, 1, 1), false),
            ("not yet valid", |params| params.not_before = date_time_ymd(2090, 1, 1), false),
            ("signs CRLs", |params| params.key_usages = vec![KeyUsagePurpose::CrlSign], false),
            ("signs certificates", |params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign], true),
        ];
        for (name, change, is_trusted) in cases {
            let mut params = CertificateParams::new(["server.example.com".to_owned()]).unwrap();
            is_ca(&mut params);
            change(&mut params);
            let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let server = issue(Some(&issuer), |_| {});
            let verified = verify(&issuer.pem(), &server, "server.example.com");
            assert_eq!(verified.is_ok(), is_trusted, "{name}: {verified:?}");
            // Beside the server's own certificate, it is not needed.
            let both = format!("{}{}", issuer.pem(), server.certificate.pem());
            assert!(verify(&both, &server, "server.example.com").is_ok(), "{name}");
        }
    }

    #[test]
    fn bundle_is_used_without_its_invalid_certificates() {
        let authority = authority();
        let (server, good) = (issue(Some(&authority), |_| {}), authority.pem());
        let cut: String = good.lines().take(3).fold(String::new(), |cut, line| cut + line + "\n");
        let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for bundle in [format!("{cut}{good}"), format!("{no_certificate}{good}"), format!("{good}{cut}")] {
            assert!(verify(&bundle, &server, "server.example.com").is_ok(), "{bundle}");
        }
        for bundle in ["", &cut, no_certificate, &server.key.serialize_pem()] {
            assert!(Verifier::new(bundle.as_bytes()).is_err(), "{bundle}");
        }
    }

    #[test]
    fn client_certificate_needs_its_own_key_in_any_format() {
        let (client, other) = (issue(None, |_| {}), issue(None, |_| {}));
        let identity = |certificate: &str, key: &str| {
            super::identity(certificate.as_bytes(), key.as_bytes()).map(|identity| identity.cert.len())
        };
        let (certificate, key) = (client.certificate.pem(), client.key.serialize_pem());
        assert_eq!(identity(&certificate, &key), Ok(1));
        assert_eq!(identity(&format!("{certificate}{}", other.certificate.pem()), &key), Ok(2));
        let both = format!("{key}{certificate}");
        assert_eq!(identity(&both, &both), Ok(1));
        let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        let relabeled = key.replace("PRIVATE KEY", "EC PRIVATE KEY");
        assert_eq!(identity(&certificate, &format!("{parameters}{relabeled}")), Ok(1));
        assert_eq!(identity(&certificate, &other.key.serialize_pem()), Err(IdentityError::Mismatch));
        assert_eq!(identity(&key, &key), Err(IdentityError::NoCertificate));
        assert_eq!(identity(&certificate, &certificate), Err(IdentityError::NoKey));
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY").replace("MIG", "AAA");
        assert_eq!(identity(&certificate, &encrypted), Err(IdentityError::NoKey));
    }
}
