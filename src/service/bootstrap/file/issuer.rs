//! Issuers of tokens in the bootstrap file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Span;
use super::action::Reference;

use crate::domain::evidence::access::Role;

/// Issuer of tokens (OIDC), such as a cluster or a CI system.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Issuer {
    /// Name of the issuer. Its callers are shown as NAME/SUBJECT.
    #[schemars(regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._~-]*$"))]
    pub(in crate::service::bootstrap) name: String,
    /// URL of the issuer, exactly as in the claim iss of its tokens. Its keys are requested from there, unless jwks is set.
    #[serde(rename = "issuer")]
    pub(in crate::service::bootstrap) url: String,
    /// Audience that its tokens must have in the claim aud. Required, unless signIn is set: it is then clientId.
    #[serde(default)]
    pub(in crate::service::bootstrap) audience: Option<String>,
    /// Keys of an issuer that the service cannot reach.
    #[serde(default)]
    pub(in crate::service::bootstrap) jwks: Option<Jwks>,
    /// Sign-in of people to pages at this issuer (OIDC).
    #[serde(default, rename = "signIn")]
    pub(in crate::service::bootstrap) sign_in: Option<SignIn>,
    /// Permissions of its tokens. The first rule that matches applies; without one, the token is rejected.
    pub(in crate::service::bootstrap) rules: Vec<Rule>,
}

/// Client of the service at an OIDC provider. Register BASE_URL/ui/sign-in/callback/ORGANIZATION/NAME there as redirect URI.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in crate::service::bootstrap) struct SignIn {
    /// Client ID.
    pub(in crate::service::bootstrap) client_id: String,
    /// Client secret; without one, the service is a public client.
    #[serde(default)]
    pub(in crate::service::bootstrap) client_secret: Option<Reference>,
    /// Scopes to request besides openid, profile and email, such as groups.
    #[serde(default)]
    pub(in crate::service::bootstrap) scopes: Vec<String>,
    /// Maximum time since a person authenticated at the provider, such as 8h (default: unlimited).
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(in crate::service::bootstrap) max_age: Option<Span>,
}

/// Keys of an issuer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Jwks {
    /// Path of a JSON Web Key Set, relative to the bootstrap file.
    pub(in crate::service::bootstrap) file: PathBuf,
}

/// Permissions of tokens with certain claims.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::service::bootstrap) struct Rule {
    /// Claims and their values, all of which must match, at least one. A value that ends with * matches a prefix. A claim
    /// with a list matches if the list contains the value.
    #[schemars(extend("minProperties" = 1))]
    pub(in crate::service::bootstrap) claims: BTreeMap<String, String>,
    /// Permissions, as of a token with this role.
    pub(in crate::service::bootstrap) role: Role,
    /// Environments of the role report or approve; "*" for all.
    #[serde(default)]
    pub(in crate::service::bootstrap) environments: Vec<String>,
    /// Whether reports of the role report create environments that this file does not list.
    #[serde(default)]
    pub(in crate::service::bootstrap) create: bool,
    /// Flows of the role attest or approve; "*" for all.
    #[serde(default)]
    pub(in crate::service::bootstrap) flows: Vec<String>,
}
