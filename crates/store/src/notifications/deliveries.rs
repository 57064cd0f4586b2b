//! Reads the deliveries of an action's events, for the pages.

use sqlx::types::Uuid;

use crate::database::columns::Json;
use crate::database::row_limit::{AtMost, one_more_than};
use crate::database::transaction::fetch_all;
use crate::{Error, Tenant};
use model::Timestamp;
use rules::notification::EventContent;

/// Number of deliveries per page.
const PAGE_SIZE: usize = 50;

/// An event for a target.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Delivery {
    /// The notification's identifier, the same for each attempt.
    pub id: Uuid,
    #[sqlx(skip)]
    pub target: String,
    /// Whether the target was removed since.
    #[sqlx(skip)]
    pub is_closed: bool,
    #[sqlx(try_from = "Json<EventContent>")]
    pub content: EventContent,
    /// Number of earlier events that were merged into it.
    pub merged_events: i64,
    pub attempts: i64,
    /// When the next attempt is due, unless it was sent or dropped.
    pub due_at: Timestamp,
    pub sent_at: Option<Timestamp>,
    pub dropped_at: Option<Timestamp>,
    pub last_error: Option<String>,
}

/// The deliveries to an action's current and former targets, newest first, optionally only those before a
/// notification.
pub async fn list(
    tenant: &mut Tenant<'_>,
    action: i64,
    before: Option<Uuid>,
) -> Result<AtMost<Delivery>, Error> {
    const TARGETS: &str = "
        SELECT id, name, closed_at IS NOT NULL FROM targets
        WHERE organization = $1 AND action = $2";
    // One index lookup per target, however many notifications there are.
    const SELECT: &str = "
        SELECT n.id, n.due_at, n.attempts, n.merged_events, n.sent_at, n.dropped_at, n.last_error, v.content
        FROM notifications n JOIN events v ON v.organization = n.organization AND v.id = n.event
        WHERE n.organization = $1 AND n.target = $2 AND n.id < $3 ORDER BY n.id DESC LIMIT $4";
    let targets: Vec<(Uuid, String, bool)> = fetch_all!(tenant.tx, TARGETS, tenant.name, action);
    let before = before.unwrap_or(Uuid::max());
    let mut listed = Vec::new();
    for (id, name, is_closed) in targets {
        let rows: Vec<Delivery> =
            fetch_all!(tenant.tx, SELECT, tenant.name, id, before, one_more_than(PAGE_SIZE));
        listed.extend(rows.into_iter().map(|row| Delivery { target: name.clone(), is_closed, ..row }));
    }
    listed.sort_unstable_by_key(|delivery| std::cmp::Reverse(delivery.id));
    Ok(AtMost::from_rows(PAGE_SIZE, listed))
}
