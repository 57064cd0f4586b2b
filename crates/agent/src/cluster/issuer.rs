//! Reads the issuer of the tokens of service accounts: `OpenID` Connect Discovery 1.0 and JSON Web Keys (RFC 7517), which each
//! API server publishes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::connect::Cluster;
use super::error::{Error, Permission};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// As large as the service accepts.
const MAX_BYTES: usize = 256 * 1024;

/// The issuer of a cluster's tokens.
#[derive(Debug)]
pub struct ClusterIssuer {
    /// Its URL, the claim `iss` of its tokens.
    pub url: String,
    pub keys: Vec<PublicKey>,
}

/// A JSON Web Key, with the members of public keys only.
#[derive(Debug, Deserialize, Serialize)]
pub struct PublicKey {
    kty: String,
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    usage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<PublicKey>,
}

impl Cluster {
    /// Reads the issuer and its keys. Requires the `ClusterRole` `system:service-account-issuer-discovery`.
    ///
    /// # Errors
    ///
    /// [`Error`] for any response other than these documents, and without a key.
    pub async fn issuer(&self) -> Result<ClusterIssuer, Error> {
        let Configuration { issuer: url } = self.document(CONFIGURATION).await?;
        let KeySet { keys } = self.document(KEYS).await?;
        if keys.is_empty() {
            let request = self.request(KEYS, Permission::ReadIssuer);
            return Err(Error::UnexpectedResponse { request, problem: "expected a key".to_owned() });
        }
        Ok(ClusterIssuer { url, keys })
    }

    async fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let request = self.request(path, Permission::ReadIssuer);
        // The server answers 406 to `application/json` alone for the keys.
        let (_, body) =
            self.read(&request, path, "application/json, application/jwk-set+json", MAX_BYTES).await?;
        serde_json::from_slice(&body)
            .map_err(|error| self.redacted(Error::UnexpectedResponse { request, problem: error.to_string() }))
    }
}
