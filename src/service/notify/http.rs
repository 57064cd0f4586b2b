//! Webhooks and chats: a POST of JSON, without proxies and redirects.

use ipnet::IpNet;
use reqwest::header::CONTENT_TYPE;
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::message::{Message, SendError};
use super::signature::{self, ID, SIGNATURE};
use crate::service::outbound::GuardedClient;

/// Sends over HTTP.
#[derive(Debug, Clone)]
pub(super) struct Http(GuardedClient);

impl Http {
    pub(super) fn new(
        allowed: &[IpNet],
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, reqwest::Error> {
        GuardedClient::new(allowed, authorities).map(Self)
    }

    /// Sends JSON, signed with each of the secrets.
    pub(super) async fn webhook(
        &self,
        url: &SecretString,
        secrets: &[SecretString],
        message: &Message<'_>,
        seconds: i64,
    ) -> Result<(), SendError> {
        let signature = signature::sign(secrets, seconds, &message.id, &message.body);
        self.post(url, message.body.clone(), &[(ID, &message.id), (SIGNATURE, &signature)]).await
    }

    /// Sends JSON to a chat or to PagerDuty.
    pub(super) async fn json(
        &self,
        url: &SecretString,
        message: &Message<'_>,
        body: &Value,
    ) -> Result<(), SendError> {
        self.post(url, body.to_string().into_bytes(), &[(ID, &message.id)]).await
    }

    async fn post(
        &self,
        url: &SecretString,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<(), SendError> {
        let url: Url = url.expose_secret().parse().map_err(|_| SendError::NoUrl)?;
        let client = self.0.client(&url).await.map_err(SendError::Address)?;
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The URL is a credential: errors must not contain it.
        let response =
            request.body(body).send().await.map_err(|error| SendError::Http(error.without_url()))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status.as_u16())),
        }
    }
}
