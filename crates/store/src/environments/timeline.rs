//! Reads the snapshots of one environment, and the changes and events between them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros, json};
use crate::database::rows::{Bytes, converted, flag, rows};
use crate::database::transaction::{fetch_all, fetch_one, fetch_scalars};
use crate::{Error, Tenant, Transaction};
use model::{Fingerprint, Timestamp};
use rules::compliance::Compliance;
use rules::notification::Content;
use rules::validity::Validity;

/// Maximum number of periods without reports that are read per snapshot.
const MAX_GAPS: i64 = 5;

/// The snapshots that retention has not removed.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct AvailableSnapshots {
    /// The number of the first; `None` before the first report.
    pub first: Option<i64>,
    /// Retention removed everything that ended before this time.
    pub horizon_at: Option<Timestamp>,
}

/// A snapshot, without its artifacts.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Snapshot {
    #[sqlx(rename = "snapshot")]
    pub number: i64,
    pub received_at: Timestamp,
    /// The name of the reporter's token.
    pub reported_by: String,
    /// Reports of the same artifacts after those of another token.
    #[sqlx(skip)]
    pub confirmations: Vec<Confirmation>,
    /// When it was last confirmed; `None` while it is current.
    pub confirmed_at: Option<Timestamp>,
    /// When the next snapshot superseded it.
    pub superseded_at: Option<Timestamp>,
    /// The environment's compliance when it was received; `None` if it was not evaluated.
    pub compliance: Option<Compliance>,
    /// The latest periods without reports that began while it was current, newest first.
    #[sqlx(skip)]
    pub gaps: Vec<ReportGap>,
    /// Number of those after which the same artifacts were reported.
    #[sqlx(skip)]
    pub gaps_within: i64,
    /// Their total length.
    #[sqlx(skip)]
    pub sum_within: Duration,
}

/// The reports of a token that confirmed a snapshot which another token had reported before.
#[derive(Debug, Clone)]
pub struct Confirmation {
    /// The name of the token.
    pub reported_by: String,
    /// Its first report.
    pub first_at: Timestamp,
    /// The start of its latest uninterrupted reports.
    pub last_at: Timestamp,
}

/// An artifact that started or exited with a snapshot. The columns in the order of `changes`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct SnapshotChange {
    pub snapshot: i64,
    #[serde(deserialize_with = "flag")]
    pub exited: bool,
    #[sqlx(rename = "fingerprint")]
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub artifact: Fingerprint,
    pub name: String,
    /// Number of artifacts that started, or exited, with this snapshot.
    pub total: i64,
}

/// A period without reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow, Serialize, utoipa::ToSchema)]
pub struct ReportGap {
    #[sqlx(rename = "from_at")]
    pub from: Timestamp,
    #[sqlx(rename = "to_at")]
    pub to: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOrder {
    NewestFirst,
    OldestFirst,
}

/// Some events of an environment.
#[derive(Debug)]
pub struct SelectedEvents<'a> {
    pub times: Range<Timestamp>,
    /// Only events that affect one of these artifacts.
    pub artifacts: Option<&'a BTreeSet<Fingerprint>>,
    pub order: EventOrder,
    pub offset: i64,
    pub limit: i64,
}

#[derive(sqlx::FromRow)]
struct GapRow {
    snapshot: i64,
    #[sqlx(flatten)]
    gap: ReportGap,
    number_within: i64,
    #[sqlx(try_from = "Micros")]
    sum_within: Duration,
}

impl AvailableSnapshots {
    /// The time for which the content of a snapshot is read: its receipt, or the retention horizon if that is later.
    #[must_use]
    pub fn view_time(&self, snapshot: &Snapshot) -> Timestamp {
        self.horizon_at.map_or(snapshot.received_at, |horizon| horizon.max(snapshot.received_at))
    }

    /// Whether the artifacts that exited with a snapshot are still stored.
    #[must_use]
    pub fn has_exits(&self, snapshot: &Snapshot) -> bool {
        self.horizon_at.is_none_or(|horizon| horizon <= snapshot.received_at)
    }
}

impl Snapshot {
    /// The period without reports that ended with the next snapshot.
    #[must_use]
    pub fn gap_at_end(&self) -> Option<ReportGap> {
        self.gaps.iter().copied().find(|gap| self.is_at_end(gap))
    }

    /// Whether a period without reports ended with the next snapshot.
    #[must_use]
    pub fn is_at_end(&self, gap: &ReportGap) -> bool {
        self.superseded_at == Some(gap.to)
    }

    /// The end of the time in which it was current: the next snapshot, or the last report before a gap; `None` while it is
    /// current. `validity` is that of the environment.
    #[must_use]
    pub fn ended_at(&self, validity: &Validity, now: Timestamp) -> Option<Timestamp> {
        match self.superseded_at {
            Some(superseded) => Some(self.gap_at_end().map_or(superseded, |gap| gap.from)),
            None => validity.last_report_at.filter(|_| validity.is_silent(now)),
        }
    }

    /// For how long it was current, if it ended then.
    #[must_use]
    pub fn duration(&self, ended_at: Option<Timestamp>, now: Timestamp) -> Duration {
        ended_at.unwrap_or(now.max(self.received_at)).distance(self.received_at)
    }
}

/// The snapshots whose artifacts are complete. Snapshots before the horizon are excluded even if they are not
/// removed yet.
pub async fn available_snapshots(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
) -> Result<AvailableSnapshots, Error> {
    const SELECT: &str = "
        SELECT e.horizon_at,
               (SELECT s.snapshot FROM snapshots s
                WHERE s.organization = $1 AND s.environment = $2
                  AND (s.superseded_at IS NULL OR s.superseded_at > COALESCE(e.horizon_at, 0))
                ORDER BY s.snapshot LIMIT 1) AS first
        FROM environments e WHERE e.organization = $1 AND e.id = $2";
    Ok(fetch_one!(tenant.tx, SELECT, tenant.name, environment))
}

/// The snapshots from one number to another, inclusive, newest first.
pub async fn snapshots(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    first: i64,
    last: i64,
) -> Result<Vec<Snapshot>, Error> {
    const SELECT: &str = "
        SELECT snapshot, received_at, reported_by, confirmed_at, superseded_at, compliance FROM snapshots
        WHERE organization = $1 AND environment = $2 AND snapshot >= $3 AND snapshot <= $4
        ORDER BY snapshot DESC";
    const CONFIRMATIONS: &str = "
        SELECT snapshot, reported_by, first_at, last_at FROM confirmations
        WHERE organization = $1 AND environment = $2 AND snapshot >= $3 AND snapshot <= $4
        ORDER BY first_at, reported_by LIMIT 1000";
    const GAPS: &str = "
        SELECT snapshot, from_at, to_at, number_within, sum_within FROM (
          SELECT snapshot, from_at, to_at, SUM(is_within) OVER (PARTITION BY snapshot) AS number_within,
                 CAST(SUM(is_within * (to_at - from_at)) OVER (PARTITION BY snapshot) AS BIGINT) AS sum_within,
                 ROW_NUMBER() OVER (PARTITION BY snapshot ORDER BY from_at DESC) AS place
          FROM (
            SELECT s.snapshot, g.from_at, g.to_at,
                   CASE WHEN g.to_at = s.superseded_at THEN 0 ELSE 1 END AS is_within
            FROM snapshots s CROSS JOIN gaps g
            WHERE s.organization = $1 AND s.environment = $2 AND s.snapshot >= $3 AND s.snapshot <= $4
              AND g.organization = $1 AND g.environment = $2 AND g.from_at >= s.received_at
              AND g.from_at < COALESCE(s.superseded_at, 9223372036854775807)) AS a) AS b
        WHERE place <= $5 ORDER BY from_at DESC";
    let mut snapshots: Vec<Snapshot> = fetch_all!(tenant.tx, SELECT, tenant.name, environment, first, last);
    let confirmations: Vec<(i64, String, Timestamp, Timestamp)> =
        fetch_all!(tenant.tx, CONFIRMATIONS, tenant.name, environment, first, last);
    let gaps: Vec<GapRow> = fetch_all!(tenant.tx, GAPS, tenant.name, environment, first, last, MAX_GAPS);
    for (number, reported_by, first_at, last_at) in confirmations {
        if let Some(snapshot) = snapshots.iter_mut().find(|snapshot| snapshot.number == number) {
            snapshot.confirmations.push(Confirmation { reported_by, first_at, last_at });
        }
    }
    for row in gaps {
        if let Some(snapshot) = snapshots.iter_mut().find(|snapshot| snapshot.number == row.snapshot) {
            (snapshot.gaps_within, snapshot.sum_within) = (row.number_within, row.sum_within);
            snapshot.gaps.push(row.gap);
        }
    }
    Ok(snapshots)
}

/// The artifacts that started or exited with these snapshots, newest first without omissions. At most `limit` of each
/// kind per snapshot, by name.
pub async fn changes(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    snapshots: &[Snapshot],
    limit: usize,
) -> Result<Vec<SnapshotChange>, Error> {
    let (Some(last), Some(first)) = (snapshots.first(), snapshots.last()) else { return Ok(Vec::new()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // An artifact that exited with a snapshot ended when the snapshot was received.
    Ok(rows!(
        tenant.tx,
        "snapshot, exited, hex(fingerprint), name, total",
        "SELECT snapshot, exited, fingerprint, name, total FROM (
           SELECT first_snapshot AS snapshot, FALSE AS exited, fingerprint, name,
                  COUNT(*) OVER (PARTITION BY first_snapshot) AS total,
                  ROW_NUMBER() OVER (PARTITION BY first_snapshot ORDER BY name, fingerprint) AS place
           FROM artifact_runs
           WHERE organization = $1 AND environment = $2 AND first_snapshot >= $3 AND first_snapshot <= $4
           UNION ALL
           SELECT last_snapshot + 1, TRUE, fingerprint, name,
                  COUNT(*) OVER (PARTITION BY last_snapshot),
                  ROW_NUMBER() OVER (PARTITION BY last_snapshot ORDER BY name, fingerprint)
           FROM artifact_runs
           WHERE organization = $1 AND environment = $2 AND ended_at IS NOT NULL AND ended_at >= $5
             AND ended_at <= $6) AS c
         WHERE place <= $7 ORDER BY snapshot, exited, place",
        |query| {
            let query = query.bind(tenant.name).bind(environment).bind(first.number).bind(last.number);
            query.bind(first.received_at).bind(last.received_at).bind(limit)
        }
    ))
}

/// The scaling events while one of these snapshots was current, oldest first: the latest `limit` per snapshot,
/// and more if their times are equal. Each with whether the snapshot has earlier ones.
pub async fn scalings(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    first: i64,
    last: i64,
    limit: i64,
) -> Result<Vec<(Content, bool)>, Error> {
    const SELECT: &str = "
        SELECT v.content, EXISTS (
                 SELECT 1 FROM events b
                 WHERE b.organization = $1 AND b.environment = $2 AND b.kind = 'ON_SCALED_ARTIFACT'
                   AND b.occurred_at >= p.received_at AND b.occurred_at < p.since)
        FROM (
          SELECT s.received_at, COALESCE(s.superseded_at, 9223372036854775807) AS until_at,
                 (SELECT MIN(x.occurred_at) FROM (
                    SELECT e.occurred_at FROM events e
                    WHERE e.organization = $1 AND e.environment = $2 AND e.kind = 'ON_SCALED_ARTIFACT'
                      AND e.occurred_at >= s.received_at
                      AND e.occurred_at < COALESCE(s.superseded_at, 9223372036854775807)
                    ORDER BY e.occurred_at DESC LIMIT $5) AS x) AS since
          FROM snapshots s
          WHERE s.organization = $1 AND s.environment = $2 AND s.snapshot >= $3 AND s.snapshot <= $4) AS p
          JOIN events v ON v.organization = $1 AND v.environment = $2 AND v.kind = 'ON_SCALED_ARTIFACT'
            AND v.occurred_at >= p.since AND v.occurred_at < p.until_at
        ORDER BY v.occurred_at, v.id";
    let rows: Vec<(Json<Content>, bool)> =
        fetch_all!(tenant.tx, SELECT, tenant.name, environment, first, last, limit);
    Ok(rows.into_iter().map(|(Json(event), is_truncated)| (event, is_truncated)).collect())
}

/// The gaps that ended after the start of a range, and at or before its end, oldest first, each with the snapshot that
/// was current at its start. At most 1,000.
pub async fn gaps_ended(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    range: Range<Timestamp>,
) -> Result<Vec<(i64, ReportGap)>, Error> {
    const SELECT: &str = "
        SELECT COALESCE((SELECT s.snapshot FROM snapshots s
                         WHERE s.organization = $1 AND s.environment = $2 AND s.received_at <= g.from_at
                         ORDER BY s.received_at DESC LIMIT 1), 0), g.from_at, g.to_at
        FROM gaps g WHERE g.organization = $1 AND g.environment = $2 AND g.to_at > $3 AND g.to_at <= $4
        ORDER BY g.from_at LIMIT 1000";
    let rows: Vec<(i64, Timestamp, Timestamp)> =
        fetch_all!(tenant.tx, SELECT, tenant.name, environment, range.start, range.end);
    Ok(rows.into_iter().map(|(snapshot, from, to)| (snapshot, ReportGap { from, to })).collect())
}

/// The events of an environment.
pub async fn events(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    selected: SelectedEvents<'_>,
) -> Result<Vec<Content>, Error> {
    let SelectedEvents { times, artifacts, order, offset, limit } = selected;
    let order = match order {
        EventOrder::NewestFirst => "DESC",
        EventOrder::OldestFirst => "ASC",
    };
    let (affected, wanted) = match tenant.tx {
        Transaction::Sqlite(_) => ("json_each(content, '$.artifacts') a", "SELECT value FROM json_each($7)"),
        Transaction::Postgres(_) => (
            "json_array_elements(content::json -> 'artifacts') AS a (value)",
            "SELECT json_array_elements_text($7::json)",
        ),
    };
    let select = AssertSqlSafe(format!(
        "SELECT content FROM events
         WHERE organization = $1 AND environment = $2 AND occurred_at >= $3 AND occurred_at < $4
           AND kind NOT IN ('ON_CHECKPOINT', 'ON_SILENT_ENV', 'ON_REPORTING_ENV', 'ON_NON_COMPLIANT_ARTIFACT', 'ON_TEST')
           AND ($7 IS NULL OR kind NOT IN ('ON_COMPLIANT_ENV', 'ON_NON_COMPLIANT_ENV')
                AND EXISTS (SELECT 1 FROM {affected} WHERE a.value ->> 'fingerprint' IN ({wanted})))
         ORDER BY occurred_at {order}, id {order} LIMIT $5 OFFSET $6"
    ));
    let wanted = artifacts.map(json).transpose()?;
    let rows: Vec<Json<Content>> = fetch_scalars!(
        tenant.tx,
        select,
        tenant.name,
        environment,
        times.start,
        times.end,
        limit,
        offset,
        wanted.as_deref()
    );
    Ok(rows.into_iter().map(|Json(event)| event).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn snapshot(number: i64, received: i64, superseded: Option<i64>) -> Snapshot {
        Snapshot {
            number,
            received_at: at(received),
            reported_by: "agent".into(),
            confirmations: Vec::new(),
            confirmed_at: None,
            superseded_at: superseded.map(at),
            compliance: None,
            gaps: Vec::new(),
            gaps_within: 0,
            sum_within: Duration::ZERO,
        }
    }

    #[test]
    fn snapshot_is_current_until_a_gap_at_its_end_or_its_successor() {
        let status = |silent_after| {
            let silent_after = Duration::from_secs(silent_after);
            Validity { last_report_at: Some(at(900)), silent_after, compliant_until: None }
        };
        let (silent, reporting) = (status(99), status(100));
        let between = |(from, to)| ReportGap { from: at(from), to: at(to) };
        let closed = snapshot(1, 0, Some(100));
        let gaps = |all: &[(i64, i64)]| Snapshot {
            gaps: all.iter().copied().map(between).collect(),
            ..closed.clone()
        };
        let with_gaps = gaps(&[(60, 100), (30, 40), (10, 20)]);
        assert_eq!(with_gaps.gap_at_end(), Some(between((60, 100))));
        let period = |snapshot: &Snapshot, validity: Validity| {
            let ended = snapshot.ended_at(&validity, at(1_000));
            (snapshot.duration(ended, at(1_000)).as_secs(), ended.is_none())
        };
        assert_eq!(period(&with_gaps, reporting), (60, false));
        assert_eq!(gaps(&[(30, 40), (10, 20)]).gap_at_end(), None);
        assert_eq!(period(&closed, reporting), (100, false));
        assert_eq!(period(&snapshot(2, 100, None), reporting), (900, true));
        assert_eq!(period(&snapshot(2, 100, None), silent), (800, false));
    }

    #[test]
    fn exits_before_the_horizon_are_unknown() {
        let exits = |horizon: Option<i64>| {
            let available = AvailableSnapshots { first: Some(1), horizon_at: horizon.map(at) };
            [snapshot(2, 20, None), snapshot(1, 10, Some(20))].map(|snapshot| available.has_exits(&snapshot))
        };
        assert_eq!(exits(None), [true, true]);
        assert_eq!(exits(Some(10)), [true, true]);
        assert_eq!(exits(Some(11)), [true, false]);
    }
}
