//! What runs in one environment, or ran at a moment, for people who look at it.

use std::collections::{BTreeMap, HashMap};

use sqlx::types::Uuid;

use super::columns::verdict;
use super::like_pattern::anywhere;
use super::rows::{Bytes, rows};
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, OwnerReference, Timestamp};

/// The pods of one namespace that run the same and have the same owners.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The namespace.
    pub namespace: String,
    /// Image names, and the digest under each.
    pub digests: BTreeMap<Box<str>, Fingerprint>,
    /// The owners.
    pub owners: Vec<OwnerReference>,
    /// How many pods.
    pub pods: i64,
    /// Since when the first of them runs.
    pub since: Timestamp,
    /// The first of those whose name holds what was searched for.
    pub found: Option<String>,
}

/// An entry of an allow-list.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// Why it is there.
    pub reason: String,
    /// Who put it there.
    pub author: String,
    /// When it ends.
    pub until: Option<Timestamp>,
}

impl Allowance {
    /// As rows have it; `until` is 0 where it does not end.
    fn read(reason: String, until: i64, author: String) -> Self {
        Self { reason, author, until: (until != 0).then(|| Timestamp::from_micros(until)) }
    }
}

/// What is recorded of an environment around a moment.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// What ended before this was removed.
    pub horizon_at: Option<Timestamp>,
    /// The first report that is still there.
    pub first_report_at: Option<Timestamp>,
    /// The snapshot that was current.
    pub snapshot: Option<i64>,
    /// The silence in which the moment lies.
    pub gap: Option<(Timestamp, Timestamp)>,
}

/// A moment as the database compares it; now is later than any end.
fn as_of(at: Option<Timestamp>) -> i64 {
    at.map_or(i64::MAX, Timestamp::micros)
}

impl Transaction {
    /// What runs in an environment, or ran at a moment; pods whose names hold `searched` are told.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn ran(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: Option<Timestamp>,
        searched: &str,
    ) -> Result<Vec<Ran>, Error> {
        type Row = (String, String, String, i64, i64, Option<String>);
        let searched = searched.to_lowercase();
        // No pod is told where nothing was searched for.
        let found = if searched.is_empty() { searched } else { anywhere(&searched) };
        // What runs and what ended since has an index each. Workloads are looked up for what ran: SQLite takes a CROSS
        // JOIN in the order in which it stands, and would read all that ever ran otherwise.
        let rows: Vec<Row> = rows!(
            self,
            "namespace, digests, owners, pods, since, found",
            "SELECT r.namespace, w.digests, w.owners, r.pods, r.since, r.found
             FROM (SELECT namespace, workload, COUNT(*) AS pods, MIN(started_at) AS since,
                          MIN(CASE WHEN LOWER(pod) LIKE $4 ESCAPE '!' THEN pod END) AS found
                   FROM (SELECT * FROM pod_runs WHERE environment = $1 AND started_at <= $3 AND ended_at IS NULL
                         UNION ALL
                         SELECT * FROM pod_runs
                         WHERE environment = $1 AND started_at <= $3 AND ended_at IS NOT NULL AND ended_at > $3) p
                   GROUP BY namespace, workload) r
               CROSS JOIN workloads w
             WHERE w.organization = $2 AND w.hash = r.workload",
            |query| query.bind(environment).bind(organization).bind(as_of(at)).bind(&*found)
        );
        let read = |(namespace, digests, owners, pods, since, found): Row| {
            Ok(Ran {
                namespace,
                digests: serde_json::from_str(&digests).map_err(|_| Error::Unreadable("digests"))?,
                owners: serde_json::from_str(&owners).map_err(|_| Error::Unreadable("owners"))?,
                pods,
                since: Timestamp::from_micros(since),
                found,
            })
        };
        rows.into_iter().map(read).collect()
    }

    /// The verdicts that hold in an environment, or held at a moment. What has none was not decided about.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn verdicts(
        &mut self,
        environment: Uuid,
        at: Option<Timestamp>,
    ) -> Result<HashMap<Fingerprint, Verdict>, Error> {
        let rows: Vec<(Bytes, String, i64, String)> = rows!(
            self,
            "hex(fingerprint), compliance, is_allowed, reasons",
            // In two parts, each of which has an index: one that held long ago is not looked at.
            "SELECT fingerprint, compliance, CAST(CASE WHEN is_allowed THEN 1 ELSE 0 END AS BIGINT) AS is_allowed,
                    reasons
             FROM (SELECT * FROM verdicts WHERE environment = $1 AND from_at <= $2 AND until_at IS NULL
                   UNION ALL
                   SELECT * FROM verdicts
                   WHERE environment = $1 AND from_at <= $2 AND until_at IS NOT NULL AND until_at > $2) v",
            |query| query.bind(environment).bind(as_of(at))
        );
        let read = |(Bytes(artifact), word, allowed, reasons): (_, String, i64, String)| {
            Ok((artifact, verdict(Some(&word), allowed != 0, Some(&reasons))?))
        };
        rows.into_iter().map(read).collect()
    }

    /// An environment's allow-list, or that of a moment. People write it: it is short enough to be read through.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn allow_list(
        &mut self,
        environment: Uuid,
        at: Option<Timestamp>,
    ) -> Result<HashMap<Fingerprint, Allowance>, Error> {
        // The same columns as those of verdicts, so that no more code has to be made for them.
        let rows: Vec<(Bytes, String, i64, String)> = rows!(
            self,
            "hex(fingerprint), reason, until, author",
            "SELECT a.fingerprint, a.reason, COALESCE(a.expires_at, 0) AS until, a.author
             FROM environments e JOIN allowances a ON a.organization = e.organization AND a.environment = e.name
             WHERE e.id = $1 AND a.created_at <= $2 AND (a.closed_at IS NULL OR a.closed_at > $2)",
            |query| query.bind(environment).bind(as_of(at))
        );
        let read =
            |(Bytes(artifact), reason, until, author)| (artifact, Allowance::read(reason, until, author));
        Ok(rows.into_iter().map(read).collect())
    }

    /// The entries of an artifact in all allow-lists of an organization, by environment.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn allowed(
        &mut self,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<HashMap<Uuid, Allowance>, Error> {
        const SELECT: &str = "
            SELECT e.id, a.reason, COALESCE(a.expires_at, 0), a.author
            FROM allowances a JOIN environments e ON e.organization = a.organization AND e.name = a.environment
            WHERE a.organization = $1 AND a.fingerprint = $2 AND a.closed_at IS NULL";
        let rows: Vec<(Uuid, String, i64, String)> = on!(self, |connection| {
            let select = sqlx::query_as(SELECT).bind(organization).bind(artifact.bytes().to_vec());
            select.fetch_all(connection).await?
        });
        let read =
            |(environment, reason, until, author)| (environment, Allowance::read(reason, until, author));
        Ok(rows.into_iter().map(read).collect())
    }

    /// What is recorded of an environment around a moment.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn around(&mut self, environment: Uuid, at: Timestamp) -> Result<Around, Error> {
        // Both ends of a silence were reported.
        const SELECT: &str = "
            SELECT e.horizon_at,
                   (SELECT s.received_at FROM snapshots s WHERE s.environment = e.id ORDER BY s.snapshot LIMIT 1),
                   (SELECT s.snapshot FROM snapshots s
                    WHERE s.environment = e.id AND s.received_at <= $2
                      AND (s.superseded_at IS NULL OR s.superseded_at > $2)
                    ORDER BY s.received_at DESC LIMIT 1),
                   g.from_at, g.to_at
            FROM environments e
              LEFT JOIN gaps g ON g.environment = e.id AND g.to_at > $2
                AND g.from_at = (SELECT MAX(x.from_at) FROM gaps x WHERE x.environment = e.id AND x.from_at < $2)
            WHERE e.id = $1
            LIMIT 1";
        type Row = (Option<i64>, Option<i64>, Option<i64>, Option<i64>, Option<i64>);
        let row: Row = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(environment).bind(at.micros()).fetch_one(connection).await?
        });
        let (horizon, first, snapshot, from, to) = row;
        let time = Timestamp::from_micros;
        Ok(Around {
            horizon_at: horizon.map(time),
            first_report_at: first.map(time),
            snapshot,
            gap: from.zip(to).map(|(from, to)| (time(from), time(to))),
        })
    }
}
