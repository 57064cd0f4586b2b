//! The top level of the bootstrap file; what is below is in `store::bootstrap::file`.
//!
//! The JSON Schema and docs/reference/configuration.md are generated from the doc comments. `resolve` follows references and
//! finds contradictions.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::notify::SmtpTls;
use store::bootstrap::file::{Organization, Reference};

/// Organizations, tokens, flows and environments of `supercargo serve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "supercargo bootstrap file")]
pub(crate) struct File {
    /// Generation of the file. Increment it with each change; the service never applies a lower one than before.
    #[schemars(range(min = 0))]
    pub(crate) generation: i64,
    /// Path of a PEM file with certificate authorities for notification targets, in addition to those of the system.
    /// Relative to the bootstrap file.
    pub(crate) authorities: Option<PathBuf>,
    /// Mail server for targets of type EMAIL.
    pub(crate) smtp: Option<Smtp>,
    /// Whether people can sign in to pages with a token (default: true).
    pub(crate) token_sign_in: Option<bool>,
    /// Organizations, at least one. Removing one disables it and its tokens; its data stays, and its last retention still applies.
    pub(crate) organizations: Vec<Organization>,
}

/// Mail server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Smtp {
    /// Host name, which must match the server's certificate.
    pub(crate) host: String,
    /// Port (default: 587 for starttls, 465 for implicit, 25 for none).
    #[schemars(range(min = 1))]
    pub(crate) port: Option<u16>,
    /// Encryption of the connection (default: starttls).
    #[serde(default)]
    pub(crate) tls: SmtpTls,
    /// Sender address, such as supercargo@example.com.
    pub(crate) from: String,
    /// Username; without one, mail is sent without authentication.
    pub(crate) username: Option<String>,
    /// Password of the user.
    pub(crate) password: Option<Reference>,
}

#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}
