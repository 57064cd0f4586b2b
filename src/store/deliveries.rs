//! Reads the deliveries of an action's events, for the pages.

use sqlx::types::Uuid;

use super::columns::Json;
use super::row_limit::{AtMost, one_more_than};
use super::transaction::fetch_all;
use super::{Error, Transaction};
use crate::domain::evidence::notification::Content;
use crate::domain::model::Timestamp;

/// Number of deliveries per page.
const PAGE_SIZE: usize = 50;

/// An event for a target.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The notification's identifier, the same for each attempt.
    pub id: Uuid,
    /// The target's name.
    pub target: String,
    /// Whether the target was removed since.
    pub is_closed: bool,
    /// The event.
    pub content: Content,
    /// Number of earlier events that were merged into it.
    pub merged_events: i64,
    /// Number of attempts.
    pub attempts: i64,
    /// Whether it was sent.
    pub state: DeliveryState,
}

/// The state of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// When it was sent.
    Sent(Timestamp),
    /// When it was dropped, and why.
    Dropped(Timestamp, String),
    /// When it is due, and the error of the last attempt.
    Pending(Timestamp, Option<String>),
}

#[derive(sqlx::FromRow)]
struct TargetRow {
    id: Uuid,
    name: String,
    is_closed: bool,
}

#[derive(sqlx::FromRow)]
struct DeliveryRow {
    id: Uuid,
    due_at: Timestamp,
    attempts: i64,
    merged_events: i64,
    sent_at: Option<Timestamp>,
    dropped_at: Option<Timestamp>,
    last_error: Option<String>,
    content: Json<Content>,
}

impl DeliveryRow {
    fn delivery(self, target: String, is_closed: bool) -> Delivery {
        let state = match (self.sent_at, self.dropped_at) {
            (Some(sent), _) => DeliveryState::Sent(sent),
            (None, Some(dropped)) => DeliveryState::Dropped(dropped, self.last_error.unwrap_or_default()),
            (None, None) => DeliveryState::Pending(self.due_at, self.last_error),
        };
        let Self { id, attempts, merged_events, content: Json(content), .. } = self;
        Delivery { id, target, is_closed, content, merged_events, attempts, state }
    }
}

impl Transaction {
    /// The deliveries to an action's current and former targets, newest first, optionally only those before a
    /// notification.
    pub async fn deliveries(
        &mut self,
        organization: &str,
        action: i64,
        before: Option<Uuid>,
    ) -> Result<AtMost<Delivery>, Error> {
        const TARGETS: &str = "
            SELECT id, name, closed_at IS NOT NULL AS is_closed FROM targets
            WHERE organization = $1 AND action = $2";
        // One index lookup per target, however many notifications there are.
        const SELECT: &str = "
            SELECT n.id, n.due_at, n.attempts, n.merged_events, n.sent_at, n.dropped_at, n.last_error, v.content
            FROM notifications n JOIN events v ON v.organization = n.organization AND v.id = n.event
            WHERE n.organization = $1 AND n.target = $2 AND n.id < $3 ORDER BY n.id DESC LIMIT $4";
        let targets: Vec<TargetRow> = fetch_all!(self, TARGETS, organization, action);
        let before = before.unwrap_or(Uuid::max());
        let mut listed = Vec::new();
        for target in targets {
            let rows: Vec<DeliveryRow> =
                fetch_all!(self, SELECT, organization, target.id, before, one_more_than(PAGE_SIZE));
            listed.extend(rows.into_iter().map(|row| (target.name.clone(), target.is_closed, row)));
        }
        listed.sort_unstable_by_key(|(_, _, row)| std::cmp::Reverse(row.id));
        let AtMost { listed, has_more } = AtMost::from_rows(PAGE_SIZE, listed);
        let listed = listed.into_iter().map(|(target, is_closed, row)| row.delivery(target, is_closed));
        Ok(AtMost { listed: listed.collect(), has_more })
    }
}
