//! A certificate authority for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PublicKeyData, SigningKey,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};
use std::sync::Arc;

use crate::fake::kube::base64;

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Identity {
    pub fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }

    /// A server that presents this certificate, and accepts any client certificate: of any issuer and version of X.509.
    pub fn server(&self) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_client_cert_verifier(Arc::new(AnyClient));
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        builder.with_single_cert(vec![self.der().into()], key).unwrap()
    }
}

/// Requests a client certificate, and accepts any and none.
#[derive(Debug)]
struct AnyClient;

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn client(&self, name: &str) -> Identity {
        let (certificate, key) = self.issue(name, vec![]);
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A client certificate of X.509 version 1 (RFC 5280, section 4.1), as `openssl x509 -req` writes it.
    pub fn client_v1(&self, name: &str) -> Identity {
        let der = |tag: u8, parts: &[&[u8]]| {
            let content = parts.concat();
            let length = match content.len() {
                short @ ..0x80 => vec![short as u8],
                long @ ..0x100 => vec![0x81, long as u8],
                long => [&[0x82], &(long as u16).to_be_bytes()[..]].concat(),
            };
            [&[tag][..], &length, &content].concat()
        };
        let name_of = |name: &str| {
            let common_name = der(0x30, &[b"\x06\x03\x55\x04\x03", &der(0x0c, &[name.as_bytes()])]);
            der(0x30, &[&der(0x31, &[&common_name])])
        };
        let key = KeyPair::generate().unwrap();
        let ecdsa_with_sha256 = der(0x30, &[b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"]);
        let validity = der(0x30, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"490101000000Z"])]);
        let certificate = der(
            0x30,
            &[
                b"\x02\x01\x01",
                &ecdsa_with_sha256,
                &name_of("test authority"),
                &validity,
                &name_of(name),
                &key.subject_public_key_info(),
            ],
        );
        let signature = self.issuer.key().sign(&certificate).unwrap();
        let signed = der(0x30, &[&certificate, &ecdsa_with_sha256, &der(0x03, &[&[0], &signature])]);
        let certificate = base64(&signed);
        let certificate = format!("-----BEGIN CERTIFICATE-----\n{certificate}\n-----END CERTIFICATE-----\n");
        Identity { certificate, key: key.serialize_pem() }
    }

    /// A server certificate for loopback.
    pub fn host(&self, name: &str) -> Identity {
        let (certificate, key) = self.issue(name, vec!["127.0.0.1".into(), "localhost".into()]);
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A server configuration that presents the authority's own certificate.
    pub fn server_with_ca_certificate(&self) -> ServerConfig {
        let key = PrivateKeyDer::try_from(self.issuer.key().serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_no_client_auth();
        builder.with_single_cert(vec![self.issuer.der().clone()], key).unwrap()
    }

    /// A server on loopback. With `clients`, requires a client certificate of that authority.
    pub fn server(&self, clients: Option<&Authority>) -> ServerConfig {
        self.configuration(&["127.0.0.1", "localhost"], clients)
    }

    /// A server whose certificate is valid for this name, but not for loopback.
    pub fn server_named(&self, name: &str) -> ServerConfig {
        self.configuration(&[name], None)
    }

    fn configuration(&self, hosts: &[&str], clients: Option<&Authority>) -> ServerConfig {
        let (certificate, key) = self.issue("server", hosts.iter().map(|host| (*host).into()).collect());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(clients.issuer.der().to_vec())).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }

    fn issue(&self, name: &str, hosts: Vec<String>) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}
