//! Reads actions and their targets, for the API and the pages (interface, "Action / environment notification").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::database::columns::Json;
use crate::database::transaction::fetch_all;
use crate::{Error, Tenant};
use model::{TargetKind, Timestamp, Trigger};

/// The part of a target's address that is not secret, as it is stored and as responses have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PublicAddress {
    /// The address of a webhook; only scheme and host unless the caller is an admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The channel of a chat webhook.
    #[serde(rename = "context", default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<model::Channel>,
    /// The recipients of an email.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
}

/// An open action.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ListedAction {
    pub name: String,
    /// `env`.
    #[serde(rename = "type")]
    pub kind: String,
    pub number: i64,
    /// Environment names; `*` is all environments.
    #[sqlx(try_from = "Json<Vec<String>>")]
    pub environments: Vec<String>,
    #[sqlx(try_from = "Json<Vec<Trigger>>")]
    pub triggers: Vec<Trigger>,
    /// In order of creation.
    #[sqlx(skip)]
    pub targets: Vec<ListedTarget>,
    pub created_by: String,
    pub is_created_from_chat_app: bool,
    pub last_modified_at: Timestamp,
    /// Whether the last delivery to a target failed; `null` before the first delivery.
    #[sqlx(skip)]
    pub is_failing: Option<bool>,
    #[sqlx(skip)]
    pub last_success_timestamp: Option<Timestamp>,
    #[sqlx(skip)]
    pub last_failure_timestamp: Option<Timestamp>,
    /// When the number was first used.
    pub created_at: Timestamp,
}

/// A target of an action. The interface defines `webhook` and `context`, but not `name` and `recipients`.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
#[schema(as = Target)]
pub struct ListedTarget {
    #[serde(rename = "type")]
    pub kind: TargetKind,
    /// Its name, unique in its action.
    pub name: String,
    #[serde(flatten)]
    #[sqlx(rename = "content", try_from = "Json<PublicAddress>")]
    pub address: PublicAddress,
    /// Time of the last successful delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// Time of the last failed delivery, or of the last one that did not reach all recipients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_at: Option<Timestamp>,
    /// Why the last delivery failed, or which recipients it did not reach. Not in Kosli's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

#[derive(sqlx::FromRow)]
struct TargetOfAction {
    action: i64,
    #[sqlx(flatten)]
    target: ListedTarget,
}

impl From<Json<Self>> for PublicAddress {
    fn from(Json(address): Json<Self>) -> Self {
        address
    }
}

impl ListedTarget {
    /// Whether the last delivery failed, or did not reach all recipients; `None` before the first delivery.
    #[must_use]
    pub fn is_failing(&self) -> Option<bool> {
        match (self.last_success_at, self.last_failure_at) {
            (None, None) => None,
            (success, failure) => Some(failure >= success),
        }
    }
}

/// The open actions of an organization by number, or the one with this number. Only the bootstrap file creates them.
pub async fn list(tenant: &mut Tenant<'_>, number: Option<i64>) -> Result<Vec<ListedAction>, Error> {
    const ACTIONS: &str = "
        SELECT name, 'env' AS kind, number, environments, triggers, 'bootstrap' AS created_by,
               FALSE AS is_created_from_chat_app, modified_at AS last_modified_at, created_at
        FROM actions
        WHERE organization = $1 AND closed_at IS NULL AND ($2 IS NULL OR number = $2) ORDER BY number";
    const TARGETS: &str = "
        SELECT action, name, kind, content, last_success_at, last_failure_at, last_error FROM targets
        WHERE organization = $1 AND closed_at IS NULL ORDER BY created_at, id";
    let mut actions: Vec<ListedAction> = fetch_all!(tenant.tx, ACTIONS, tenant.name, number);
    let targets: Vec<TargetOfAction> = fetch_all!(tenant.tx, TARGETS, tenant.name);
    let mut by_action: BTreeMap<i64, Vec<ListedTarget>> = BTreeMap::new();
    for TargetOfAction { action, target } in targets {
        by_action.entry(action).or_default().push(target);
    }
    for action in &mut actions {
        action.targets = by_action.remove(&action.number).unwrap_or_default();
        let targets = action.targets.iter();
        action.is_failing = targets.clone().filter_map(ListedTarget::is_failing).max();
        action.last_success_timestamp = targets.clone().filter_map(|target| target.last_success_at).max();
        action.last_failure_timestamp = targets.filter_map(|target| target.last_failure_at).max();
    }
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(last_success_at: Option<Timestamp>, last_failure_at: Option<Timestamp>) -> ListedTarget {
        let webhook = Some("https://hooks.example.com".to_owned());
        let address = PublicAddress { webhook, ..PublicAddress::default() };
        ListedTarget {
            kind: TargetKind::Webhook,
            name: "ops".into(),
            address,
            last_success_at,
            last_failure_at,
            last_error: None,
        }
    }

    #[test]
    fn target_is_failing_if_its_last_delivery_failed() {
        let at = |seconds: i64| Some(Timestamp::from_micros(seconds * 1_000_000));
        for (last_success_at, last_failure_at, expected) in [
            (None, None, None),
            (at(1), None, Some(false)),
            (None, at(1), Some(true)),
            (at(1), at(2), Some(true)),
            (at(2), at(1), Some(false)),
            (at(1), at(1), Some(true)),
        ] {
            assert_eq!(target(last_success_at, last_failure_at).is_failing(), expected);
        }
    }

    #[test]
    fn target_is_tagged_with_its_type() {
        assert_eq!(
            serde_json::to_string(&target(Some(Timestamp::from_micros(1_500_000)), None)).unwrap(),
            r#"{"type":"WEBHOOK","name":"ops","webhook":"https://hooks.example.com","last_success_at":1.5}"#
        );
    }
}
