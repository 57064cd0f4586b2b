//! A certificate authority for one test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
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
