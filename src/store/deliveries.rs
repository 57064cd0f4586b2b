//! What was sent of an action's events, and what came of it, for people who look at it.

use sqlx::types::Uuid;

use super::row_limit::{AtMost, one_more_than};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::notification::Content;
use crate::domain::model::Timestamp;

/// As many deliveries as are read at a time.
const PAGE: usize = 50;

/// An event on its way to a target, or at the end of it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The notification's identifier, which is the same at each try.
    pub id: Uuid,
    /// The target's name.
    pub target: String,
    /// Whether the target was taken out since.
    pub is_closed: bool,
    /// What happened.
    pub content: Content,
    /// How often it was tried.
    pub tries: i64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived.
    Sent(Timestamp),
    /// It was given up, and why.
    Dropped(Timestamp, String),
    /// It is tried at this time, or since; and what the last try failed at.
    Waits(Timestamp, Option<String>),
}

type Row = (Uuid, i64, i64, Option<i64>, Option<i64>, Option<String>, String);

impl Transaction {
    /// What was sent of an action's events to the targets that it has or had, the newest first, older than one of
    /// these notifications.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn deliveries(
        &mut self,
        organization: &str,
        action: i64,
        before: Option<Uuid>,
    ) -> Result<AtMost<Delivery>, Error> {
        const TARGETS: &str = "
            SELECT id, name, closed_at IS NOT NULL FROM targets WHERE organization = $1 AND action = $2";
        // One look into an index for each target, however much was sent.
        const SELECT: &str = "
            SELECT n.id, n.due_at, n.tries, n.sent_at, n.dropped_at, n.problem, v.content
            FROM notifications n JOIN events v ON v.id = n.event
            WHERE n.target = $1 AND n.id < $2 ORDER BY n.id DESC LIMIT $3";
        let targets: Vec<(Uuid, String, bool)> = on!(self, |connection| {
            sqlx::query_as(TARGETS).bind(organization).bind(action).fetch_all(connection).await?
        });
        let before = before.unwrap_or(Uuid::max());
        let mut listed = Vec::new();
        for (target, name, is_closed) in targets {
            let rows: Vec<Row> = on!(self, |connection| {
                let select = sqlx::query_as(SELECT).bind(target).bind(before).bind(one_more_than(PAGE));
                select.fetch_all(connection).await?
            });
            listed.extend(rows.into_iter().map(|row| (name.clone(), is_closed, row)));
        }
        listed.sort_unstable_by_key(|(_, _, row)| std::cmp::Reverse(row.0));
        let AtMost { listed, has_more } = AtMost::of(PAGE, listed);
        let listed = listed.into_iter().map(|(target, is_closed, row)| read(target, is_closed, row));
        Ok(AtMost { listed: listed.collect::<Result<_, Error>>()?, has_more })
    }
}

fn read(target: String, is_closed: bool, row: Row) -> Result<Delivery, Error> {
    let (id, due, tries, sent, dropped, problem, content) = row;
    let outcome = match (sent, dropped) {
        (Some(sent), _) => Outcome::Sent(Timestamp::from_micros(sent)),
        (None, Some(at)) => Outcome::Dropped(Timestamp::from_micros(at), problem.unwrap_or_default()),
        (None, None) => Outcome::Waits(Timestamp::from_micros(due), problem),
    };
    let content = serde_json::from_str(&content).map_err(|_| Error::Unreadable("an event"))?;
    Ok(Delivery { id, target, is_closed, content, tries, outcome })
}
