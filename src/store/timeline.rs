//! The snapshots of one environment, and what changed with each, for people who look at them.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::types::Uuid;

use super::columns::duration;
use super::rows::{Bytes, rows};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::notification::Content;
use crate::domain::model::{Fingerprint, Timestamp};

/// Which snapshots are still there.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// The first; `None`: there is none yet.
    pub first: Option<i64>,
    /// What ended before this was removed.
    pub horizon_at: Option<Timestamp>,
}

/// A snapshot, without what ran.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its number.
    pub number: i64,
    /// When it was received.
    pub received_at: Timestamp,
    /// Whose token it came with.
    pub reported_by: String,
    /// When it was last confirmed; `None` while it is current.
    pub confirmed_at: Option<Timestamp>,
    /// When another took its place.
    pub superseded_at: Option<Timestamp>,
    /// How the environment stood once it was there; `None`: nobody decided that.
    pub compliance: Option<Compliance>,
}

/// An artifact that started or exited with a snapshot.
#[derive(Debug, Clone)]
pub struct Change {
    /// The snapshot.
    pub snapshot: i64,
    /// Whether it exited.
    pub exited: bool,
    /// The artifact.
    pub artifact: Fingerprint,
    /// The image's name.
    pub name: String,
    /// How many artifacts started, or exited, with this snapshot.
    pub total: i64,
}

/// A time without reports.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    /// The snapshot that was current when it began.
    pub snapshot: i64,
    /// The last report before it.
    pub from: Timestamp,
    /// The first report after it.
    pub to: Timestamp,
    /// How many of this snapshot there are.
    pub total: i64,
    /// How long they are together.
    pub sum: Duration,
}

/// Pods that run the same, at either of two moments.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Image names, and the digest under each.
    pub digests: BTreeMap<Box<str>, Fingerprint>,
    /// How many pods there were at the one moment, and at the other.
    pub pods: (i64, i64),
}

impl Transaction {
    /// Which snapshots are still there. One that is past the horizon may not be removed yet, though what ran in it
    /// is.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn kept_snapshots(&mut self, environment: Uuid) -> Result<Kept, Error> {
        const SELECT: &str = "
            SELECT e.horizon_at,
                   (SELECT s.snapshot FROM snapshots s
                    WHERE s.environment = e.id AND (s.superseded_at IS NULL OR s.superseded_at > COALESCE(e.horizon_at, 0))
                    ORDER BY s.snapshot LIMIT 1)
            FROM environments e WHERE e.id = $1";
        let (horizon, first): (Option<i64>, Option<i64>) =
            on!(self, |connection| sqlx::query_as(SELECT).bind(environment).fetch_one(connection).await?);
        Ok(Kept { first, horizon_at: horizon.map(Timestamp::from_micros) })
    }

    /// The snapshots from one number to another, both included, the newest first.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn snapshots(
        &mut self,
        environment: Uuid,
        (first, last): (i64, i64),
    ) -> Result<Vec<Snapshot>, Error> {
        type Row = (i64, i64, String, Option<i64>, Option<i64>, Option<String>);
        const SELECT: &str = "
            SELECT snapshot, received_at, reported_by, confirmed_at, superseded_at, compliance FROM snapshots
            WHERE environment = $1 AND snapshot >= $2 AND snapshot <= $3 ORDER BY snapshot DESC";
        let rows: Vec<Row> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(environment).bind(first).bind(last).fetch_all(connection).await?
        });
        let read = |(number, received, reported_by, confirmed, superseded, word): Row| {
            let compliance = word.as_deref().map(str::parse).transpose();
            Ok(Snapshot {
                number,
                received_at: Timestamp::from_micros(received),
                reported_by,
                confirmed_at: confirmed.map(Timestamp::from_micros),
                superseded_at: superseded.map(Timestamp::from_micros),
                compliance: compliance.map_err(|_| Error::Unreadable("how an environment stood"))?,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// What started and exited with each of these snapshots, which were received from one time to another: at most
    /// so many of either, by name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn changes(
        &mut self,
        environment: Uuid,
        (first, last): (i64, i64),
        (from, to): (Timestamp, Timestamp),
        most: i64,
    ) -> Result<Vec<Change>, Error> {
        // What exited with a snapshot ended when that was received.
        let rows: Vec<(i64, i64, Bytes, String, i64)> = rows!(
            self,
            "snapshot, exited, hex(fingerprint), name, total",
            "SELECT snapshot, exited, fingerprint, name, total FROM (
               SELECT first_snapshot AS snapshot, CAST(0 AS BIGINT) AS exited, fingerprint, name,
                      COUNT(*) OVER (PARTITION BY first_snapshot) AS total,
                      ROW_NUMBER() OVER (PARTITION BY first_snapshot ORDER BY name, fingerprint) AS place
               FROM artifact_runs WHERE environment = $1 AND first_snapshot >= $2 AND first_snapshot <= $3
               UNION ALL
               SELECT last_snapshot + 1, CAST(1 AS BIGINT), fingerprint, name,
                      COUNT(*) OVER (PARTITION BY last_snapshot),
                      ROW_NUMBER() OVER (PARTITION BY last_snapshot ORDER BY name, fingerprint)
               FROM artifact_runs
               WHERE environment = $1 AND ended_at IS NOT NULL AND ended_at >= $4 AND ended_at <= $5) AS c
             WHERE place <= $6 ORDER BY snapshot, exited, place",
            |query| {
                let query = query.bind(environment).bind(first).bind(last);
                query.bind(from.micros()).bind(to.micros()).bind(most)
            }
        );
        let change = |(snapshot, exited, Bytes(artifact), name, total)| Change {
            snapshot,
            exited: exited != 0,
            artifact,
            name,
            total,
        };
        Ok(rows.into_iter().map(change).collect())
    }

    /// The events that scaled artifacts while one of these snapshots was current, the earliest first: of each
    /// snapshot the latest so many, and those of the same moment. With each, whether there were others before those.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn scalings(
        &mut self,
        environment: Uuid,
        (first, last): (i64, i64),
        most: i64,
    ) -> Result<Vec<(Content, bool)>, Error> {
        const SELECT: &str = "
            SELECT v.content, EXISTS (
                     SELECT 1 FROM events b
                     WHERE b.environment = p.environment AND b.kind = 'ON_SCALED_ARTIFACT'
                       AND b.occurred_at >= p.received_at AND b.occurred_at < p.since)
            FROM (
              SELECT s.environment, s.received_at, COALESCE(s.superseded_at, 9223372036854775807) AS until_at,
                     (SELECT MIN(x.occurred_at) FROM (
                        SELECT e.occurred_at FROM events e
                        WHERE e.environment = s.environment AND e.kind = 'ON_SCALED_ARTIFACT'
                          AND e.occurred_at >= s.received_at
                          AND e.occurred_at < COALESCE(s.superseded_at, 9223372036854775807)
                        ORDER BY e.occurred_at DESC LIMIT $4) AS x) AS since
              FROM snapshots s WHERE s.environment = $1 AND s.snapshot >= $2 AND s.snapshot <= $3) AS p
              JOIN events v ON v.environment = p.environment AND v.kind = 'ON_SCALED_ARTIFACT'
                AND v.occurred_at >= p.since AND v.occurred_at < p.until_at
            ORDER BY v.occurred_at, v.id";
        let rows: Vec<(String, bool)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(environment).bind(first).bind(last);
            select.bind(most).fetch_all(connection).await?
        });
        let read = |(text, is_cut): (String, bool)| {
            Ok((serde_json::from_str(&text).map_err(|_| Error::Unreadable("an event"))?, is_cut))
        };
        rows.into_iter().map(read).collect()
    }

    /// The silences that began while one of these snapshots was current, the latest first: at most so many of each.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn silences(
        &mut self,
        environment: Uuid,
        (first, last): (i64, i64),
        most: i64,
    ) -> Result<Vec<Silence>, Error> {
        const SELECT: &str = "
            SELECT snapshot, from_at, to_at, total, together FROM (
              SELECT s.snapshot, g.from_at, g.to_at, COUNT(*) OVER (PARTITION BY s.snapshot) AS total,
                     CAST(SUM(g.to_at - g.from_at) OVER (PARTITION BY s.snapshot) AS BIGINT) AS together,
                     ROW_NUMBER() OVER (PARTITION BY s.snapshot ORDER BY g.from_at DESC) AS place
              FROM snapshots s JOIN gaps g ON g.environment = s.environment AND g.from_at >= s.received_at
                AND g.from_at < COALESCE(s.superseded_at, 9223372036854775807)
              WHERE s.environment = $1 AND s.snapshot >= $2 AND s.snapshot <= $3) AS c
            WHERE place <= $4 ORDER BY from_at DESC";
        let rows: Vec<(i64, i64, i64, i64, i64)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(environment).bind(first).bind(last);
            select.bind(most).fetch_all(connection).await?
        });
        let silence = |(snapshot, from, to, total, sum): (i64, i64, i64, i64, i64)| Silence {
            snapshot,
            from: Timestamp::from_micros(from),
            to: Timestamp::from_micros(to),
            total,
            sum: duration(sum),
        };
        Ok(rows.into_iter().map(silence).collect())
    }

    /// What ran in an environment at one moment or at another.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn ran_at_either(
        &mut self,
        organization: &str,
        environment: Uuid,
        (one, other): (Timestamp, Timestamp),
    ) -> Result<Vec<Workload>, Error> {
        // What runs and what ended since has an index each. Workloads are looked up for what ran: SQLite takes a CROSS
        // JOIN in the order in which it stands.
        let rows: Vec<(String, i64, i64)> = rows!(
            self,
            "digests, one, other",
            "SELECT w.digests, r.one, r.other
             FROM (SELECT workload,
                          SUM(CASE WHEN started_at <= $3 AND (ended_at IS NULL OR ended_at > $3) THEN 1 ELSE 0 END) AS one,
                          SUM(CASE WHEN started_at <= $4 AND (ended_at IS NULL OR ended_at > $4) THEN 1 ELSE 0 END) AS other
                   FROM (SELECT * FROM pod_runs WHERE environment = $1 AND started_at <= $6 AND ended_at IS NULL
                         UNION ALL
                         SELECT * FROM pod_runs
                         WHERE environment = $1 AND started_at <= $6 AND ended_at IS NOT NULL AND ended_at > $5
                           AND (started_at <= $5 OR ended_at > $6)) p
                   GROUP BY workload) r
               CROSS JOIN workloads w
             WHERE w.organization = $2 AND w.hash = r.workload",
            |query| {
                // From the earlier to the later: what ran at neither is left out before it is counted.
                let query = query.bind(environment).bind(organization).bind(one.micros()).bind(other.micros());
                query.bind(one.min(other).micros()).bind(one.max(other).micros())
            }
        );
        let read = |(digests, one, other): (String, i64, i64)| {
            let digests = serde_json::from_str(&digests).map_err(|_| Error::Unreadable("digests"))?;
            Ok(Workload { digests, pods: (one, other) })
        };
        rows.into_iter().map(read).collect()
    }
}
