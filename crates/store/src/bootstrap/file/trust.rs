//! Signers of evidence in the bootstrap file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use rules::trust::{self, Identity};

/// Signers whose evidence `attest bundle` accepts, by the identity in a certificate or by a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Name that policies and pages show.
    #[schemars(regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub name: String,
    /// Trusted root of Sigstore (default: for identities, that of the public instance; for keys, none, so that no log is needed).
    #[serde(default)]
    pub root: Option<TrustedRoot>,
    /// Identities of signers.
    #[serde(default)]
    pub identities: Vec<Identity>,
    /// Keys of signers.
    #[serde(default)]
    pub keys: Vec<TrustedKey>,
    /// The entry with the content of its files.
    #[serde(skip)]
    pub resolved: Option<trust::Trust>,
}

/// File with a trusted root.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustedRoot {
    /// Path of a trusted root in JSON, relative to the bootstrap file.
    pub file: PathBuf,
}

/// File with a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustedKey {
    /// Path of a public key in PEM, relative to the bootstrap file.
    pub file: PathBuf,
}
