//! A notification as it is sent, and the errors of sending it.

use std::io;
use std::time::Duration;

use crate::domain::evidence::notification::EventContent;

/// A notification, in all formats.
pub(super) struct Message<'a> {
    pub(super) id: String,
    pub(super) content: &'a EventContent,
    /// The URL of the environment's page.
    pub(super) html_url: &'a str,
    /// Number of earlier events that were merged into it.
    pub(super) merged_events: i64,
    /// The body for webhooks, JSON.
    pub(super) body: Vec<u8>,
}

/// A failed attempt. Messages contain no address and no secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("HTTP status {0}")]
    Status(u16),
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    #[error("failed to send the request")]
    Http(#[source] reqwest::Error),
    #[error("failed to resolve the address")]
    Address(#[source] io::Error),
    #[error("failed to send the mail")]
    Smtp(#[source] lettre::transport::smtp::Error),
    #[error("failed to compose the mail")]
    Mail(#[source] lettre::error::Error),
    #[error("no mail server: set smtp in the bootstrap file")]
    NoMailServer,
    #[error("the address is not a URL")]
    NoUrl,
    #[error("this replica does not know the address")]
    Unknown,
    #[error("failed to parse the stored event")]
    Unreadable,
    #[error("failed to serialize the notification")]
    Serialize(#[source] serde_json::Error),
}
