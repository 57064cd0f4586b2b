//! Operations 3 and 9: list environment notifications, and get one action.
//!
//! Both have the same fields, but a list omits `flows`, and get-action may omit `environments`.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Parsed, integer, null_is_default, time};
use crate::domain::model::Timestamp;

/// An action: sends events to targets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Action {
    /// Its number, never reused.
    #[serde(deserialize_with = "integer")]
    pub number: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub r#type: String,
    /// The environments that it applies to.
    pub environments: Option<Vec<String>>,
    /// The flows that it applies to.
    pub flows: Option<Vec<String>>,
    /// The events that it sends; may contain unknown names.
    pub triggers: Vec<String>,
    /// Its targets.
    pub targets: Vec<Target>,
    /// Its author.
    pub created_by: String,
    /// Whether it was created from a chat application.
    #[serde(alias = "is_created_from_slack_app")]
    pub is_created_from_chat_app: bool,
    /// When it was last changed.
    #[serde(default, deserialize_with = "time")]
    pub last_modified_at: Option<Timestamp>,
    /// Whether its deliveries fail.
    pub is_failing: Option<bool>,
    /// When a delivery last succeeded.
    #[serde(default, deserialize_with = "time")]
    pub last_success_timestamp: Option<Timestamp>,
    /// When a delivery last failed.
    #[serde(default, deserialize_with = "time")]
    pub last_failure_timestamp: Option<Timestamp>,
    /// When it was created.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
}

/// A target of an action. Its fields depend on its kind (interface, "Targets").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// Its kind.
    #[serde(default)]
    pub r#type: Option<String>,
    /// The address of a webhook, possibly redacted.
    pub webhook: Option<String>,
    /// The channel of a chat.
    pub context: Option<Channel>,
    /// Its name; an extension of the interface.
    pub name: Option<String>,
    /// The recipients of an email; an extension of the interface.
    #[serde(default, deserialize_with = "null_is_default")]
    pub recipients: Vec<String>,
    /// When a delivery last succeeded.
    #[serde(default, deserialize_with = "time")]
    pub last_success_at: Option<Timestamp>,
    /// When a delivery last failed.
    #[serde(default, deserialize_with = "time")]
    pub last_failure_at: Option<Timestamp>,
}

/// A channel of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Channel {
    /// Its name.
    pub channel_name: Option<String>,
}

impl Client {
    /// GETs the actions of all environments: `/organizations/{org}/environments_notifications`.
    pub async fn notifications(&self) -> Result<Vec<Parsed<Action>>, Error> {
        let path = ["organizations", self.organization().as_str(), "environments_notifications"];
        self.send(self.request(Method::GET, &path)).await
    }

    /// GETs an action: `/actions/{org}/{action_number}`.
    pub async fn action(&self, number: u64) -> Result<Parsed<Action>, Error> {
        let path = ["actions", self.organization().as_str(), &number.to_string()];
        self.send(self.request(Method::GET, &path)).await
    }
}
