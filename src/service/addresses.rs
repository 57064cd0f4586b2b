//! Where targets are, with the secrets that it takes: kept in memory alone, as the bootstrap file refers to
//! them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use lettre::message::Mailbox;
use rustls::pki_types::CertificateDer;
use secrecy::SecretString;

/// The target of an action: its organization, the action's number, and its name there.
pub type TargetKey = (String, i64, String);

/// Where a target is.
#[derive(Debug, Clone)]
pub enum Address {
    /// An address that takes JSON, signed with each of the secrets.
    Webhook {
        /// The URL, which is a credential.
        url: SecretString,
        /// One, or two during a rotation.
        secrets: Vec<SecretString>,
    },
    /// A chat's incoming webhook.
    Slack {
        /// The URL, which is a credential.
        url: SecretString,
    },
    /// Mail boxes.
    Email {
        /// Who gets it.
        recipients: Vec<Mailbox>,
    },
}

/// How mail is sent.
#[derive(Clone)]
pub struct Smtp {
    /// The server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: SmtpTls,
    /// Who sends.
    pub from: Mailbox,
    /// Who signs in, and the password.
    pub credentials: Option<(String, SecretString)>,
}

/// How a connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    /// By STARTTLS, or mail is not sent (RFC 3207).
    #[default]
    Starttls,
    /// From the start (RFC 8314, section 3).
    Implicit,
    /// Not at all.
    None,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct AddressBook {
    /// Authorities that are trusted beside the system's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// How mail is sent.
    pub smtp: Option<Smtp>,
    /// Where targets are.
    pub targets: BTreeMap<TargetKey, Address>,
}

/// The address book as it was last read.
#[derive(Debug, Default)]
pub(in crate::service) struct Addresses(RwLock<Arc<AddressBook>>);

impl Addresses {
    pub(in crate::service) fn replace(&self, book: AddressBook) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
    }

    pub(in crate::service) fn current(&self) -> Arc<AddressBook> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SMTP at {}:{}", self.host, self.port)
    }
}
