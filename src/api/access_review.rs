//! Review who may make an artifact compliant: an extension of the interface.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Parsed, time};
use crate::domain::evidence::access::Scope;
use crate::domain::model::{EnvironmentName, Timestamp};

/// A review of the tokens that may make artifacts compliant in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AccessReview {
    /// One way for each requirement of the policy.
    pub requirements: Vec<Way>,
    /// Ways around all requirements.
    pub alternatives: Vec<Way>,
}

/// A way to fulfil a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Way {
    /// The requirement of the policy.
    pub requirement: String,
    /// The action that fulfils it.
    pub action: String,
    /// Whether the action is a change of the bootstrap file.
    #[serde(default)]
    pub in_bootstrap_file: bool,
    /// The tokens that permit the action.
    #[serde(default)]
    pub tokens: Vec<TokenGrant>,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TokenGrant {
    /// Its name.
    pub name: String,
    /// The claims that a token of the issuer needs; `None` for a static token.
    #[serde(default)]
    pub claims: Option<String>,
    /// Its role.
    pub role: String,
    /// The environments and flows that the role applies to.
    #[serde(default)]
    pub scope: Scope,
    /// When it expires.
    #[serde(default, deserialize_with = "time")]
    pub expires_at: Option<Timestamp>,
}

impl Client {
    /// GETs the access review of an environment: `/environments/{org}/{env_name}/access-review`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx with a review.
    pub async fn access_review(&self, environment: &EnvironmentName) -> Result<Parsed<AccessReview>, Error> {
        let path = ["environments", self.organization().as_str(), environment.as_str(), "access-review"];
        self.send(self.request(Method::GET, &path)).await
    }
}
