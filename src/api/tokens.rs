//! Create and revoke tokens: extensions of the interface.

use http::Method;
use serde_json::Value;

use super::client::Client;
use super::error::Error;
use super::resources::Object;
use crate::domain::model::TokenName;

impl Client {
    /// POSTs a token: `/tokens/{org}`. Only this response has its secret.
    pub async fn create_token(&self, token: &Value) -> Result<Object, Error> {
        let path = ["tokens", self.organization().as_str()];
        self.send_json(self.request(Method::POST, &path), token).await
    }

    /// Deletes a token: `/tokens/{org}/{token_name}`.
    pub async fn revoke_token(&self, name: &TokenName) -> Result<(), Error> {
        let path = ["tokens", self.organization().as_str(), name.as_str()];
        self.send(self.request(Method::DELETE, &path)).await.map(|_: Value| ())
    }
}
