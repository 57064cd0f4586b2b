//! Operations 3 and 9: list environment notifications, and get one action. The interface gives both the
//! same fields, of which a list leaves out `flows` and get-action may leave out `environments`.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::raw_response::{Kept, null_is_default, time, whole};
use crate::domain::model::Timestamp;

/// An action: what is sent where when something happens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Action {
    /// Its number, which no other action ever had.
    #[serde(deserialize_with = "whole")]
    pub number: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub r#type: String,
    /// The environments that it is for.
    #[serde(default)]
    pub environments: Option<Vec<String>>,
    /// The flows that it is for.
    #[serde(default)]
    pub flows: Option<Vec<String>>,
    /// What has to happen; words that are not known here too.
    pub triggers: Vec<String>,
    /// Where something is sent.
    pub targets: Vec<Target>,
    /// Who made it.
    pub created_by: String,
    /// Whether it was made from a chat application.
    #[serde(alias = "is_created_from_slack_app")]
    pub is_created_from_chat_app: bool,
    /// When it was last changed.
    #[serde(default, deserialize_with = "time")]
    pub last_modified_at: Option<Timestamp>,
    /// Whether what it sends does not arrive.
    #[serde(default)]
    pub is_failing: Option<bool>,
    /// When something last arrived.
    #[serde(default, deserialize_with = "time")]
    pub last_success_timestamp: Option<Timestamp>,
    /// When something last did not.
    #[serde(default, deserialize_with = "time")]
    pub last_failure_timestamp: Option<Timestamp>,
    /// When it was made.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
}

/// Where something is sent. Which fields there are depends on its kind (interface, "Targets").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Target {
    /// Its kind.
    #[serde(default)]
    pub r#type: Option<String>,
    /// The address of a webhook, as far as it may be seen.
    #[serde(default)]
    pub webhook: Option<String>,
    /// The channel of a chat.
    #[serde(default)]
    pub context: Option<Channel>,
    /// Its name, which is not in the interface.
    #[serde(default)]
    pub name: Option<String>,
    /// Who gets an email, which is not in the interface.
    #[serde(default, deserialize_with = "null_is_default")]
    pub recipients: Vec<String>,
    /// When something last arrived there.
    #[serde(default, deserialize_with = "time")]
    pub last_success_at: Option<Timestamp>,
    /// When something last did not.
    #[serde(default, deserialize_with = "time")]
    pub last_failure_at: Option<Timestamp>,
}

/// A channel of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Channel {
    /// Its name.
    #[serde(default)]
    pub channel_name: Option<String>,
}

impl Client {
    /// GETs the actions of all environments: `/organizations/{org}/environments_notifications`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn notifications(&self) -> Result<Vec<Kept<Action>>, Error> {
        let path = ["organizations", self.organization().as_str(), "environments_notifications"];
        self.get(self.request(Method::GET, &path)).await
    }

    /// GETs an action: `/actions/{org}/{action_number}`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn action(&self, number: u64) -> Result<Kept<Action>, Error> {
        let path = ["actions", self.organization().as_str(), &number.to_string()];
        self.get(self.request(Method::GET, &path)).await
    }
}
