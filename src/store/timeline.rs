//! Reads the snapshots of one environment, and the changes and events between them.

use std::time::Duration;

use serde::Deserialize;
use sqlx::types::Uuid;

use super::columns::{Json, Micros};
use super::from_row::all_from_rows;
use super::rows::{Bytes, converted, flag, rows};
use super::transaction::{fetch_all, fetch_one, on};
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::notification::Content;
use crate::domain::model::{Fingerprint, Timestamp};

/// The snapshots that retention has not removed.
#[derive(Debug, Clone, Copy)]
pub struct AvailableSnapshots {
    /// The number of the first; `None` before the first report.
    pub first: Option<i64>,
    /// Retention removed everything that ended before this time.
    pub horizon_at: Option<Timestamp>,
}

/// A snapshot, without its artifacts.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Snapshot {
    /// Its number.
    #[sqlx(rename = "snapshot")]
    pub number: i64,
    /// When it was received.
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
pub struct Change {
    /// The snapshot.
    pub snapshot: i64,
    /// Whether it exited.
    #[serde(deserialize_with = "flag")]
    pub exited: bool,
    /// The artifact.
    #[sqlx(rename = "fingerprint")]
    #[serde(deserialize_with = "converted::<_, Bytes, _>")]
    pub artifact: Fingerprint,
    /// The image's name.
    pub name: String,
    /// Number of artifacts that started, or exited, with this snapshot.
    pub total: i64,
}

/// An interval without reports.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Gap {
    /// The snapshot that was current at its start.
    pub snapshot: i64,
    /// The last report before it.
    #[sqlx(rename = "from_at")]
    pub from: Timestamp,
    /// The first report after it.
    #[sqlx(rename = "to_at")]
    pub to: Timestamp,
    /// Number of gaps of this snapshot.
    pub total: i64,
    /// Total length of the gaps of this snapshot.
    #[sqlx(try_from = "Micros")]
    pub sum: Duration,
}

impl Transaction {
    /// The snapshots whose artifacts are complete. Snapshots before the horizon are excluded even if they are not
    /// removed yet.
    pub async fn available_snapshots(
        &mut self,
        organization: &str,
        environment: Uuid,
    ) -> Result<AvailableSnapshots, Error> {
        const SELECT: &str = "
            SELECT e.horizon_at,
                   (SELECT s.snapshot FROM snapshots s
                    WHERE s.organization = $1 AND s.environment = $2
                      AND (s.superseded_at IS NULL OR s.superseded_at > COALESCE(e.horizon_at, 0))
                    ORDER BY s.snapshot LIMIT 1)
            FROM environments e WHERE e.organization = $1 AND e.id = $2";
        let (horizon_at, first) = fetch_one!(self, SELECT, organization, environment);
        Ok(AvailableSnapshots { first, horizon_at })
    }

    /// The snapshots from one number to another, inclusive, newest first.
    pub async fn snapshots(
        &mut self,
        organization: &str,
        environment: Uuid,
        (first, last): (i64, i64),
    ) -> Result<Vec<Snapshot>, Error> {
        const SELECT: &str = "
            SELECT snapshot, received_at, reported_by, confirmed_at, superseded_at, compliance FROM snapshots
            WHERE organization = $1 AND environment = $2 AND snapshot >= $3 AND snapshot <= $4
            ORDER BY snapshot DESC";
        const CONFIRMATIONS: &str = "
            SELECT snapshot, reported_by, first_at, last_at FROM confirmations
            WHERE organization = $1 AND environment = $2 AND snapshot >= $3 AND snapshot <= $4
            ORDER BY first_at, reported_by LIMIT 1000";
        let mut snapshots: Vec<Snapshot> = fetch_all!(self, SELECT, organization, environment, first, last);
        let confirmations: Vec<(i64, String, Timestamp, Timestamp)> =
            fetch_all!(self, CONFIRMATIONS, organization, environment, first, last);
        for (number, reported_by, first_at, last_at) in confirmations {
            if let Some(snapshot) = snapshots.iter_mut().find(|snapshot| snapshot.number == number) {
                snapshot.confirmations.push(Confirmation { reported_by, first_at, last_at });
            }
        }
        Ok(snapshots)
    }

    /// The artifacts that started or exited with these snapshots, which were received between two times. At most
    /// `limit` of each kind per snapshot, by name.
    pub async fn changes(
        &mut self,
        organization: &str,
        environment: Uuid,
        (first, last): (i64, i64),
        (from, to): (Timestamp, Timestamp),
        limit: i64,
    ) -> Result<Vec<Change>, Error> {
        // An artifact that exited with a snapshot ended when the snapshot was received.
        Ok(rows!(
            self,
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
                let query = query.bind(organization).bind(environment).bind(first).bind(last);
                query.bind(from.micros()).bind(to.micros()).bind(limit)
            }
        ))
    }

    /// The scaling events while one of these snapshots was current, oldest first: the latest `limit` per snapshot,
    /// and more if their times are equal. Each with whether the snapshot has earlier ones.
    pub async fn scalings(
        &mut self,
        organization: &str,
        environment: Uuid,
        (first, last): (i64, i64),
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
        let rows: Vec<(String, bool)> =
            fetch_all!(self, SELECT, organization, environment, first, last, limit);
        let read = |(text, is_cut): (String, bool)| {
            Ok((serde_json::from_str(&text).map_err(|_| Error::Unreadable("an event"))?, is_cut))
        };
        rows.into_iter().map(read).collect()
    }

    /// The gaps that started while one of these snapshots was current, newest first, at most `limit` per snapshot.
    pub async fn gaps(
        &mut self,
        organization: &str,
        environment: Uuid,
        (first, last): (i64, i64),
        limit: i64,
    ) -> Result<Vec<Gap>, Error> {
        const SELECT: &str = "
            SELECT snapshot, from_at, to_at, total, sum FROM (
              SELECT s.snapshot, g.from_at, g.to_at, COUNT(*) OVER (PARTITION BY s.snapshot) AS total,
                     CAST(SUM(g.to_at - g.from_at) OVER (PARTITION BY s.snapshot) AS BIGINT) AS sum,
                     ROW_NUMBER() OVER (PARTITION BY s.snapshot ORDER BY g.from_at DESC) AS place
              FROM snapshots s JOIN gaps g ON g.organization = s.organization AND g.environment = s.environment
                AND g.from_at >= s.received_at AND g.from_at < COALESCE(s.superseded_at, 9223372036854775807)
              WHERE s.organization = $1 AND s.environment = $2 AND s.snapshot >= $3 AND s.snapshot <= $4) AS c
            WHERE place <= $5 ORDER BY from_at DESC";
        Ok(fetch_all!(self, SELECT, organization, environment, first, last, limit))
    }

    /// The gaps that ended after one time, and at or before another, oldest first, each with the snapshot that was current
    /// at its start. At most 1,000.
    pub async fn gaps_ended(
        &mut self,
        organization: &str,
        environment: Uuid,
        (after, until): (Timestamp, Timestamp),
    ) -> Result<Vec<(i64, Timestamp, Timestamp)>, Error> {
        const SELECT: &str = "
            SELECT COALESCE((SELECT s.snapshot FROM snapshots s
                             WHERE s.organization = $1 AND s.environment = $2 AND s.received_at <= g.from_at
                             ORDER BY s.received_at DESC LIMIT 1), 0), g.from_at, g.to_at
            FROM gaps g WHERE g.organization = $1 AND g.environment = $2 AND g.to_at > $3 AND g.to_at <= $4
            ORDER BY g.from_at LIMIT 1000";
        Ok(fetch_all!(self, SELECT, organization, environment, after, until))
    }

    /// The events of an environment at or after one time, and before another, newest first or oldest first.
    pub async fn events(
        &mut self,
        organization: &str,
        environment: Uuid,
        (from, until): (Timestamp, Timestamp),
        is_oldest_first: bool,
        (offset, limit): (i64, i64),
    ) -> Result<Vec<Content>, Error> {
        let order = if is_oldest_first { "ASC" } else { "DESC" };
        let rows: Vec<(Json<Content>,)> = on!(self, |connection| {
            let mut query = sqlx::QueryBuilder::new("SELECT content FROM events WHERE organization = ");
            query.push_bind(organization).push(" AND environment = ").push_bind(environment);
            query.push(
                " AND kind NOT IN ('ON_CHECKPOINT', 'ON_SILENT_ENV', 'ON_REPORTING_ENV') AND occurred_at >= ",
            );
            query.push_bind(from.micros()).push(" AND occurred_at < ").push_bind(until.micros());
            query.push(format!(" ORDER BY occurred_at {order}, id {order} LIMIT ")).push_bind(limit);
            query.push(" OFFSET ").push_bind(offset);
            query.build().fetch_all(connection).await.and_then(all_from_rows)?
        });
        Ok(rows.into_iter().map(|(Json(event),)| event).collect())
    }
}
