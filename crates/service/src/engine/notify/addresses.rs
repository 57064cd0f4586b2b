//! Addresses of notification targets, secrets and the switch of the token form, from the bootstrap file. They are kept in
//! memory only.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use lettre::message::Mailbox;
use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

/// A target: its organization, the number of its action, and its name within the action.
pub type TargetKey = (String, i64, String);

#[derive(Debug, Clone)]
pub enum Address {
    /// A webhook. Requests are signed with each of the secrets.
    Webhook {
        /// The URL, which is a credential.
        url: SecretString,
        /// One, or two during a rotation.
        secrets: Vec<SecretString>,
    },
    /// An incoming webhook of a chat.
    Slack {
        /// The URL, which is a credential.
        url: SecretString,
    },
    /// A webhook of a workflow of Teams.
    Teams {
        /// The URL, which is a credential.
        url: SecretString,
    },
    /// PagerDuty's Events API v2.
    PagerDuty {
        url: SecretString,
        /// The integration key of a service.
        routing_key: SecretString,
    },
    Email {
        recipients: Vec<Mailbox>,
    },
}

#[derive(Debug, Clone)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    pub from: Mailbox,
    pub credentials: Option<(String, SecretString)>,
}

/// Encryption of a connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    /// STARTTLS (RFC 3207), required.
    #[default]
    Starttls,
    /// TLS from the start (RFC 8314, section 3).
    Implicit,
    /// No encryption.
    None,
}

/// All addresses and secrets of the bootstrap file.
#[derive(Debug, Clone, Default)]
pub struct AddressBook {
    /// Certificate authorities, in addition to the system's.
    pub authorities: Vec<CertificateDer<'static>>,
    pub smtp: Option<Smtp>,
    pub targets: BTreeMap<TargetKey, Address>,
    /// Client secret per organization and issuer.
    pub client_secrets: BTreeMap<(String, String), SecretString>,
    /// Whether a token cannot be exchanged for a session.
    pub is_token_sign_in_off: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Addresses(RwLock<Arc<AddressBook>>);

impl Addresses {
    pub(crate) fn replace(&self, book: AddressBook) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
    }

    pub(crate) fn current(&self) -> Arc<AddressBook> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
