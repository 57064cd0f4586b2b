//! Webhooks and chats: a POST of JSON, without proxies and redirects.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::engine::notify::message::{Message, SendError};
use crate::engine::notify::signature::{self, ID, SIGNATURE};
use crate::outbound::GuardedClient;
use model::Timestamp;
use model::retry::retry_after;

/// Sends a notification to a webhook, signed with each of the secrets.
pub(crate) async fn send_webhook(
    client: &GuardedClient,
    url: &SecretString,
    secrets: &[SecretString],
    message: &Message<'_>,
    now: Timestamp,
) -> Result<(), SendError> {
    let id = &message.notification.id;
    let body = serde_json::to_vec(&message.notification).map_err(SendError::Serialize)?;
    let signature = signature::sign(secrets, now.micros() / 1_000_000, id, &body);
    post(client, url, body, &[(ID, id), (SIGNATURE, &signature)], now).await
}

/// Sends JSON to a chat or to PagerDuty.
pub(crate) async fn send_json(
    client: &GuardedClient,
    url: &SecretString,
    message: &Message<'_>,
    body: &Value,
    now: Timestamp,
) -> Result<(), SendError> {
    post(client, url, body.to_string().into_bytes(), &[(ID, &message.notification.id)], now).await
}

async fn post(
    client: &GuardedClient,
    url: &SecretString,
    body: Vec<u8>,
    headers: &[(&str, &str)],
    now: Timestamp,
) -> Result<(), SendError> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(now.micros().try_into().unwrap_or_default());
    let url: Url = url.expose_secret().parse().map_err(|_| SendError::NoUrl)?;
    let client = client.client(&url).await.map_err(SendError::Address)?;
    let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    // The URL is a credential: errors must not contain it.
    let response = request.body(body).send().await.map_err(|error| SendError::Http(error.without_url()))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let wanted = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = wanted.and_then(|value| retry_after(value, now));
    Err(SendError::Status { status: status.as_u16(), retry_after })
}
