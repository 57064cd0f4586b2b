//! Webhooks and chats: a POST of JSON, without proxies and redirects.

use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::engine::notify::message::{Message, SendError};
use crate::engine::notify::signature::{self, ID, SIGNATURE};
use crate::outbound::GuardedClient;

/// Sends a notification to a webhook, signed with each of the secrets.
pub(crate) async fn send_webhook(
    client: &GuardedClient,
    url: &SecretString,
    secrets: &[SecretString],
    message: &Message<'_>,
    seconds: i64,
) -> Result<(), SendError> {
    let id = &message.notification.id;
    let body = serde_json::to_vec(&message.notification).map_err(SendError::Serialize)?;
    let signature = signature::sign(secrets, seconds, id, &body);
    post(client, url, body, &[(ID, id), (SIGNATURE, &signature)]).await
}

/// Sends JSON to a chat or to PagerDuty.
pub(crate) async fn send_json(
    client: &GuardedClient,
    url: &SecretString,
    message: &Message<'_>,
    body: &Value,
) -> Result<(), SendError> {
    post(client, url, body.to_string().into_bytes(), &[(ID, &message.notification.id)]).await
}

async fn post(
    client: &GuardedClient,
    url: &SecretString,
    body: Vec<u8>,
    headers: &[(&str, &str)],
) -> Result<(), SendError> {
    let url: Url = url.expose_secret().parse().map_err(|_| SendError::NoUrl)?;
    let client = client.client(&url).await.map_err(SendError::Address)?;
    let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    // The URL is a credential: errors must not contain it.
    let response = request.body(body).send().await.map_err(|error| SendError::Http(error.without_url()))?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(SendError::Status(status.as_u16())),
    }
}
