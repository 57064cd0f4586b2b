//! Credentials of requests to an API server, as client-go selects and renews them.
//!
//! `configuration` creates them, and `connect` asks for them before each request. This is the one place that decides
//! which credential a request gets:
//!
//! - a bearer token of the kubeconfig, a file (`TokenFile`), a plugin or an OIDC provider (`issued`), or a password;
//! - a client certificate of the kubeconfig, its files (`certificate`), or a plugin.
//!
//! Connections are made for one client certificate: another one starts a new client.

mod certificate;
mod issue;
mod issued;
mod oidc;
mod plugin;
mod renewal;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use rustls::sign::CertifiedKey;
use secrecy::SecretString;

use super::timeouts::ClusterTimeouts;
use super::transport::Transport;
use crate::cluster::kubeconfig::secrets;
use runtime::token_file::{Token, TokenFile};

pub(super) use certificate::Certificate;
pub(super) use issued::Issued;
pub(super) use oidc::Oidc;
pub(super) use plugin::Plugin;

/// The plugin or the provider issued no credential. The messages contain no secrets.
pub(super) type IssueError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialError {
    #[error("no credentials after {0:?}")]
    TimedOut(Duration),
    #[error(transparent)]
    Issue(IssueError),
}

/// The `Authorization` header.
pub(super) enum Authorization {
    None,
    Fixed(HeaderValue, SecretString),
    File(TokenFile),
    Issued(Issued),
}

pub(super) struct Credentials {
    authorization: Authorization,
    certificate: Option<Certificate>,
    transport: Transport,
    last: Mutex<Option<LastClient>>,
    timeouts: ClusterTimeouts,
}

/// The client for the last client certificate.
struct LastClient {
    identity: Option<Arc<CertifiedKey>>,
    client: kube::Client,
}

/// The credential of one request.
pub(super) struct Credential {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) client: kube::Client,
    pub(super) number: CredentialNumber,
}

/// Which of the issued credentials a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CredentialNumber(u64);

impl CredentialNumber {
    fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Authorization {
    pub(super) fn bearer(token: &Token) -> Self {
        Self::Fixed(token.header(), token.secret().clone())
    }
}

impl Credentials {
    pub(super) fn new(
        authorization: Authorization,
        certificate: Option<Certificate>,
        transport: Transport,
        timeouts: ClusterTimeouts,
    ) -> Self {
        Self { authorization, certificate, transport, last: Mutex::default(), timeouts }
    }

    /// Runs the plugin or asks the provider, if there is one, before the first request.
    pub(super) async fn prepare(&self, within: Duration) -> Result<(), CredentialError> {
        match &self.authorization {
            Authorization::Issued(issued) => issued.renew(within).await,
            _ => Ok(()),
        }
    }

    /// The credential of the next request.
    pub(super) async fn next(&self) -> Result<Credential, CredentialError> {
        let (authorization, identity, number) = match &self.authorization {
            Authorization::None => (None, None, CredentialNumber::default()),
            Authorization::Fixed(header, _) => (Some(header.clone()), None, CredentialNumber::default()),
            Authorization::File(file) => {
                let token = file.read(self.timeouts.token_file).await;
                (Some(token.header()), None, CredentialNumber::default())
            }
            Authorization::Issued(issued) => {
                let (issue, number) = issued.next(self.timeouts.headers).await?;
                (issue.token.map(|token| token.header()), issue.identity, number)
            }
        };
        let identity = match &self.certificate {
            Some(certificate) => Some(certificate.next(self.timeouts.token_file).await),
            None => identity,
        };
        Ok(Credential { authorization, client: self.client(identity), number })
    }

    /// The server answered a request with this credential.
    pub(super) fn answered(&self, number: CredentialNumber, status: StatusCode) {
        if let Authorization::Issued(issued) = &self.authorization {
            issued.answered(number, status);
        }
    }

    fn client(&self, identity: Option<Arc<CertifiedKey>>) -> kube::Client {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // With the same certificate, the key is the same.
        let chain =
            |identity: &Option<Arc<CertifiedKey>>| identity.as_ref().map(|identity| identity.cert.clone());
        match &*last {
            Some(last) if chain(&last.identity) == chain(&identity) => last.client.clone(),
            _ => {
                let client = self.transport.client(identity.as_ref());
                *last = Some(LastClient { identity, client: client.clone() });
                client
            }
        }
    }

    /// Redacts credentials in a text from a server, which may echo them.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let secret = match &self.authorization {
            Authorization::None => None,
            Authorization::Fixed(_, secret) => Some(secret.clone()),
            Authorization::File(file) => Some(file.last().secret().clone()),
            Authorization::Issued(issued) => issued.token().map(|token| token.secret().clone()),
        };
        secrets::redact(text, secret.as_ref())
    }
}
