//! Records events and, in the same transaction, their notifications in the outbox.
//!
//! A target has at most `MAX_WAITING` notifications of one environment and trigger that wait for their first attempt.
//! Further events are merged into the newest of them: a notification for the latest event replaces it, and counts the
//! others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::types::Uuid;
use sqlx::types::uuid::{self, ContextV7};

use crate::database::columns::{Json, json};
use crate::database::transaction::{fetch_all, fetch_for_all, fetch_optional_scalar, for_all, insert};
use crate::{Error, Tenant, Transaction};
use model::{Timestamp, Trigger};
use rules::notification::{CheckpointContent, EventContent};

#[derive(Debug)]
pub struct NewEvent {
    pub environment: Uuid,
    pub content: EventContent,
}

/// The notifications of recorded events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queued {
    pub notifications: usize,
    /// Number of notifications that were merged into a later one.
    pub merged: usize,
}

/// Maximum number of notifications of one environment and trigger that wait for their first attempt, per target.
pub const MAX_WAITING: usize = 10;

/// In an action's list of environments: all environments.
pub const ALL_ENVIRONMENTS: &str = "*";

/// Records events, and a notification for each target of each matching action.
///
/// Waits for no lock of a notification or a target, so that concurrent evaluations and senders cannot deadlock.
pub async fn insert(tenant: &mut Tenant<'_>, events: &[NewEvent], at: Timestamp) -> Result<Queued, Error> {
    if events.is_empty() {
        return Ok(Queued::default());
    }
    let targets = targets(tenant).await?;
    // Readers see it as the start of the artifact, or in the verdict: it is recorded to be sent.
    let is_recorded = |event: &&NewEvent| {
        event.content.trigger() != Trigger::NonCompliantArtifact
            || targets.iter().any(|target| target.matches(&event.content))
    };
    let events = events.iter().filter(is_recorded);
    let rows = events.map(|event| Ok((crate::new_id(), event, json(&event.content)?)));
    let events = rows.collect::<Result<Vec<_>, Error>>()?;
    insert!(
        tenant.tx,
        "INSERT INTO events (organization, id, environment, kind, occurred_at, content) ",
        "",
        &events,
        |values, (id, event, json)| {
            values.push_bind(tenant.name).push_bind(*id).push_bind(event.environment);
            values.push_bind(event.content.trigger()).push_bind(at).push_bind(json);
        }
    );
    let mut groups: BTreeMap<Group, Vec<Uuid>> = BTreeMap::new();
    for target in targets {
        for (id, event, _) in events.iter().filter(|(_, event, _)| target.matches(&event.content)) {
            let trigger = event.content.trigger();
            let group = Group { target: target.id, environment: event.environment, trigger };
            groups.entry(group).or_default().push(*id);
        }
    }
    queue(tenant, groups, at).await
}

/// Every event refers to an environment: one of an organization to its first one. An organization without environments has
/// no events.
pub(crate) async fn first_environment(tenant: &mut Tenant<'_>) -> Result<Option<Uuid>, Error> {
    const FIRST: &str = "SELECT id FROM environments WHERE organization = $1 ORDER BY name LIMIT 1";
    Ok(fetch_optional_scalar!(tenant.tx, FIRST, tenant.name))
}

/// Records a checkpoint of the organization's log for the targets that ask for it.
pub async fn insert_checkpoint(
    transaction: &mut Transaction,
    checkpoint: CheckpointContent,
    at: Timestamp,
) -> Result<Queued, Error> {
    let organization = &checkpoint.organization.clone();
    let tenant = &mut transaction.of(organization);
    let targets = targets(tenant).await?;
    if !targets.iter().any(|target| target.triggers.contains(&Trigger::Checkpoint)) {
        return Ok(Queued::default());
    }
    let environment = first_environment(tenant).await?;
    let Some(environment) = environment else { return Ok(Queued::default()) };
    let event = NewEvent { environment, content: EventContent::Checkpoint(checkpoint) };
    insert(tenant, &[event], at).await
}

/// Inserts notifications for the events of each group, which are in order of creation.
async fn queue(
    tenant: &mut Tenant<'_>,
    groups: BTreeMap<Group, Vec<Uuid>>,
    at: Timestamp,
) -> Result<Queued, Error> {
    let waiting = waiting(tenant, &groups).await?;
    let full = waiting.values().filter(|ids| ids.len() >= MAX_WAITING);
    let replaced = remove_waiting(tenant, full.filter_map(|ids| ids.iter().max().copied())).await?;
    let matches: usize = groups.values().map(Vec::len).sum();
    let mut notifications = Vec::new();
    for (group, events) in groups {
        let waiting = waiting.get(&group).map_or(0, Vec::len);
        let earlier = replaced.get(&group).map_or(0, |merged_events| merged_events + 1);
        let merged = merge(events, waiting, earlier);
        notifications.extend(merged.into_iter().map(|(event, merged_events)| (event, group, merged_events)));
    }
    notifications.sort_unstable();
    let ids = identifiers(notifications.len(), at);
    let notifications: Vec<_> = ids.into_iter().zip(notifications).collect();
    insert!(
        tenant.tx,
        "INSERT INTO notifications (organization, id, event, target, created_at, due_at, attempts, environment, kind,
                                    priority, merged_events) ",
        "",
        &notifications,
        |values, (id, (event, group, merged_events))| {
            values.push_bind(tenant.name).push_bind(*id).push_bind(*event).push_bind(group.target);
            // 0: due immediately, independent of clocks.
            values.push_bind(at).push_bind(0_i64).push_bind(0_i64);
            values.push_bind(group.environment).push_bind(group.trigger);
            values.push_bind(priority(group.trigger)).push_bind(*merged_events);
        }
    );
    let notifications = notifications.len();
    Ok(Queued { notifications, merged: matches + replaced.len() - notifications })
}

async fn waiting(
    tenant: &mut Tenant<'_>,
    groups: &BTreeMap<Group, Vec<Uuid>>,
) -> Result<HashMap<Group, Vec<Uuid>>, Error> {
    let environments: BTreeSet<Uuid> = groups.keys().map(|group| group.environment).collect();
    let targets: BTreeSet<Uuid> = groups.keys().map(|group| group.target).collect();
    let rows: Vec<WaitingRow> = fetch_for_all!(
        tenant.tx,
        |query| {
            query.push(SELECT_ROWS).push_bind(tenant.name);
            query.push(" AND COALESCE(sent_at, dropped_at) IS NULL AND attempts = 0 AND environment IN (");
            let mut list = query.separated(", ");
            for environment in &environments {
                list.push_bind(*environment);
            }
            query.push(") AND target IN (");
        },
        targets,
        ")"
    );
    let mut waiting: HashMap<Group, Vec<Uuid>> = HashMap::new();
    for row in rows {
        if groups.contains_key(&row.group) {
            waiting.entry(row.group).or_default().push(row.id);
        }
    }
    Ok(waiting)
}

/// Removes those of these notifications that still wait. Returns their numbers of merged events.
async fn remove_waiting(
    tenant: &mut Tenant<'_>,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Group, i64>, Error> {
    const DELETE: &str = "DELETE FROM notifications WHERE organization = ? AND id IN (?)";
    // Skips rows that a replica is leasing.
    let lock = match tenant.tx {
        Transaction::Sqlite(_) => "",
        Transaction::Postgres(_) => "FOR UPDATE SKIP LOCKED",
    };
    // CASE, so that the primary key is used, and no index of pending rows.
    let select = format!(
        "{SELECT_ROWS}? AND id IN (?)
         AND CASE WHEN attempts = 0 THEN sent_at IS NULL AND dropped_at IS NULL END {lock}"
    );
    let rows: Vec<WaitingRow> = fetch_for_all!(tenant.tx, select, ids, tenant.name);
    for_all!(tenant.tx, DELETE, rows.iter().map(|row| row.id), tenant.name);
    Ok(rows.into_iter().map(|row| (row.group, row.merged_events)).collect())
}

/// The open targets of an organization's actions.
async fn targets(tenant: &mut Tenant<'_>) -> Result<Vec<SubscribedTarget>, Error> {
    const SELECT: &str = "
        SELECT t.id, a.environments, a.triggers
        FROM actions a JOIN targets t ON t.organization = a.organization AND t.action = a.number
        WHERE a.organization = $1 AND a.closed_at IS NULL AND t.closed_at IS NULL ORDER BY t.id";
    Ok(fetch_all!(tenant.tx, SELECT, tenant.name))
}

/// The events of one environment and trigger for one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, sqlx::FromRow)]
struct Group {
    target: Uuid,
    environment: Uuid,
    #[sqlx(rename = "kind")]
    trigger: Trigger,
}

/// A notification that waits for its first attempt.
#[derive(sqlx::FromRow)]
struct WaitingRow {
    id: Uuid,
    #[sqlx(flatten)]
    group: Group,
    merged_events: i64,
}

const SELECT_ROWS: &str =
    "SELECT id, target, environment, kind, merged_events FROM notifications WHERE organization = ";

/// The events of a group that get a notification, and the number of events that are merged into each. `waiting`: the
/// number of notifications of the group; `earlier`: the number of events of the one that was removed.
fn merge(mut events: Vec<Uuid>, waiting: usize, earlier: i64) -> Vec<(Uuid, i64)> {
    let Some(last) = events.pop() else { return Vec::new() };
    // The notification of the last event counts those that exceed the limit.
    let singles = MAX_WAITING.saturating_sub(waiting + 1).min(events.len());
    let merged = i64::try_from(events.split_off(singles).len()).unwrap_or(i64::MAX);
    let singles = events.into_iter().map(|event| (event, 0));
    singles.chain([(last, merged.saturating_add(earlier))]).collect()
}

/// The order of notifications of a target: compliance and silence come first.
const fn priority(trigger: Trigger) -> i64 {
    match trigger {
        Trigger::NonCompliantEnvironment
        | Trigger::CompliantEnvironment
        | Trigger::SilentEnvironment
        | Trigger::ReportingEnvironment
        | Trigger::NonCompliantArtifact
        | Trigger::Test => 0,
        Trigger::StartedArtifact
        | Trigger::ExitedArtifact
        | Trigger::ScaledArtifact
        | Trigger::AllowedArtifact
        | Trigger::Checkpoint => 1,
    }
}

/// A target with the filters of its action.
#[derive(sqlx::FromRow)]
struct SubscribedTarget {
    id: Uuid,
    #[sqlx(try_from = "Json<Vec<String>>")]
    environments: Vec<String>,
    #[sqlx(try_from = "Json<Vec<Trigger>>")]
    triggers: Vec<Trigger>,
}

impl SubscribedTarget {
    fn matches(&self, content: &EventContent) -> bool {
        let mut environments = self.environments.iter();
        let is_of_environment = match content {
            EventContent::Environment(event) => {
                environments.any(|name| name == ALL_ENVIRONMENTS || *name == event.environment)
            }
            EventContent::Checkpoint(_) | EventContent::Test(_) => true,
        };
        is_of_environment && self.triggers.contains(&content.trigger())
    }
}

/// Identifiers of notifications, in the order in which a target gets them: by the time of their events, which the clocks of
/// replicas do not change.
fn identifiers(number: usize, at: Timestamp) -> Vec<Uuid> {
    let context = ContextV7::new().with_additional_precision();
    let micros = at.micros().unsigned_abs();
    let nanos = u32::try_from(micros % 1_000_000 * 1_000).unwrap_or_default();
    let id = || Uuid::new_v7(uuid::Timestamp::from_unix(&context, micros / 1_000_000, nanos));
    std::iter::repeat_with(id).take(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_limit_are_merged_into_the_last() {
        let ids: Vec<Uuid> = (0..30).map(Uuid::from_u128).collect();
        for (events, waiting, earlier, expected) in [
            (1, 0, 0, &[0][..]),
            (3, 7, 0, &[0, 0, 0]),
            (4, 7, 0, &[0, 0, 1]),
            (5, 9, 0, &[4]),
            (1, 10, 1, &[1]),
            (30, 10, 8, &[37]),
            // A replica is leasing the notification that would have been replaced.
            (3, 10, 0, &[2]),
            // An earlier limit was higher.
            (1, 12, 1, &[1]),
        ] {
            let merged = merge(ids[..events].to_vec(), waiting, earlier);
            let counts: Vec<i64> = merged.iter().map(|(_, merged_events)| *merged_events).collect();
            assert_eq!(counts, expected, "{events} events, {waiting} waiting");
            assert_eq!(merged.last().unwrap().0, ids[events - 1]);
        }
    }

    #[test]
    fn identifiers_are_in_the_order_of_events() {
        let at =
            [0, 1, 2, 999, 1_000, 1_790_000_000_000_000, 1_790_000_000_000_001].map(Timestamp::from_micros);
        let ids: Vec<Uuid> = at.into_iter().flat_map(|at| identifiers(3, at)).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:#?}");
    }
}
