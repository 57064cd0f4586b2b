//! Issuers of tokens in the bootstrap file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bootstrap::file::Span;
use crate::bootstrap::file::action::Reference;
use rules::identity::Rule;

/// Issuer of tokens (OIDC), such as a cluster or a CI system.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Name of the issuer. Its callers are shown as NAME/SUBJECT.
    #[schemars(regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub name: String,
    /// URL of the issuer, exactly as in the claim iss of its tokens. Its keys are requested from there, unless jwks is set.
    #[serde(rename = "issuer")]
    pub url: String,
    /// Audience that its tokens must have in the claim aud. Required, unless signIn is set: it is then clientId.
    #[serde(default)]
    pub audience: Option<String>,
    /// Keys of an issuer that the service cannot reach.
    #[serde(default)]
    pub jwks: Option<Jwks>,
    /// Sign-in of people to pages at this issuer (OIDC).
    #[serde(default, rename = "signIn")]
    pub sign_in: Option<SignIn>,
    /// Permissions of its tokens. The first rule that matches applies; without one, the token is rejected.
    pub rules: Vec<Rule>,
}

/// Client of the service at an OIDC provider. Register BASE_URL/ui/sign-in/callback/ORGANIZATION/NAME there as redirect URI.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignIn {
    /// Client ID.
    pub client_id: String,
    /// Client secret; without one, the service is a public client.
    #[serde(default)]
    pub client_secret: Option<Reference>,
    /// Scopes to request besides openid, profile and email, such as groups.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Maximum time since a person authenticated at the provider, such as 8h (default: unlimited).
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub max_age: Option<Span>,
}

/// Keys of an issuer: a JSON Web Key Set (RFC 7517), or the file with one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jwks {
    /// Path of a JSON Web Key Set, relative to the bootstrap file.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// JSON Web Keys, as `supercargo issuer from-context` prints them.
    #[serde(default)]
    pub keys: Option<Vec<Map<String, Value>>>,
    /// The key set.
    #[serde(skip)]
    pub text: String,
}
