//! Reads the pods and verdicts of one environment, now or at a point in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros};
use crate::database::like_pattern::anywhere;
use crate::database::rows::{Bytes, Id, converted, rows};
use crate::database::transaction::{fetch_for_all, fetch_one};
use crate::policies::verdicts::VerdictRow;
use crate::{Error, Tenant, Transaction};
use model::owner::Owner;
use model::{Fingerprint, OwnerReference, Timestamp};
use rules::environment_status::Verdict;
use rules::event::NamespacedOwner;
use rules::history_coverage::ReportHistory;
use rules::snapshot::report::Pod;

/// The pods of one namespace with the same digests and owners that one token reported. The columns in the order of
/// `pod_groups`.
#[derive(Debug, Clone, sqlx::FromRow, Deserialize)]
pub struct PodGroup {
    pub namespace: String,
    /// Image names, and the digest under each.
    #[sqlx(try_from = "Json<BTreeMap<Box<str>, Fingerprint>>")]
    #[serde(deserialize_with = "converted::<_, Json<BTreeMap<Box<str>, Fingerprint>>, _>")]
    pub digests: BTreeMap<Box<str>, Fingerprint>,
    #[sqlx(try_from = "Json<Vec<OwnerReference>>")]
    #[serde(deserialize_with = "converted::<_, Json<Vec<OwnerReference>>, _>")]
    pub owners: Vec<OwnerReference>,
    pub pods: i64,
    /// When the first of them started.
    #[serde(deserialize_with = "converted::<_, Micros, _>")]
    pub since: Timestamp,
    /// The first pod whose name contains the search text.
    pub found: Option<String>,
    /// The name of the token that reported them first.
    pub reported_by: String,
}

/// The columns in the order of `verdicts`.
#[derive(sqlx::FromRow, Deserialize)]
struct VerdictIdRow {
    fingerprint: Bytes,
    #[sqlx(flatten)]
    verdict: VerdictRow,
}

/// The part that the pods of one owner share.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct PodWorkload {
    pub hash: Fingerprint,
    /// Image names, and the digest under each.
    #[sqlx(try_from = "Json<BTreeMap<Box<str>, Fingerprint>>")]
    pub digests: BTreeMap<Box<str>, Fingerprint>,
    #[sqlx(try_from = "Json<Vec<OwnerReference>>")]
    pub owners: Vec<OwnerReference>,
}

/// A pod and the identifier of its row, with the columns in this order.
#[derive(sqlx::FromRow, Deserialize)]
pub(crate) struct PodRow {
    id: Id,
    namespace: String,
    pod: String,
    created_at: i64,
    workload: Bytes,
}

impl PodRow {
    pub(crate) fn parse(self) -> (Pod, Uuid) {
        let (namespace, name) = (self.namespace.into(), self.pod.into());
        let created_at = Timestamp::from_micros(self.created_at);
        (Pod { namespace, name, created_at, workload: self.workload.0 }, self.id.0)
    }
}

#[derive(sqlx::FromRow)]
struct HistoryRow {
    first_report_at: Option<Timestamp>,
    last_report_at: Option<Timestamp>,
    horizon_at: Option<Timestamp>,
    snapshot: Option<i64>,
    gap_from: Option<Timestamp>,
    gap_to: Option<Timestamp>,
}

/// A point in time as a query parameter; now is later than any end.
fn as_of(at: Option<Timestamp>) -> i64 {
    at.map_or(i64::MAX, Timestamp::micros)
}

/// The pods of an environment, now or at a point in time. Finds pods whose names contain `searched`.
pub async fn pod_groups(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: Option<Timestamp>,
    searched: &str,
) -> Result<Vec<PodGroup>, Error> {
    let searched = searched.to_lowercase();
    // An empty pattern finds no pod.
    let pattern = if searched.is_empty() { searched } else { anywhere(&searched) };
    // Running and ended pods have an index each. The CROSS JOIN makes SQLite look up only the workloads of these
    // pods; it would read all workloads otherwise.
    Ok(rows!(
        tenant.tx,
        "namespace, digests, owners, pods, since, found, reported_by",
        "SELECT r.namespace, w.digests, w.owners, r.pods, r.since, r.found, r.reported_by
         FROM (SELECT namespace, workload, COUNT(*) AS pods, MIN(started_at) AS since,
                      MIN(CASE WHEN LOWER(pod) LIKE $4 ESCAPE '!' THEN pod END) AS found, reported_by
               FROM (SELECT * FROM pod_runs
                     WHERE organization = $1 AND environment = $2 AND started_at <= $3 AND ended_at IS NULL
                     UNION ALL
                     SELECT * FROM pod_runs
                     WHERE organization = $1 AND environment = $2 AND started_at <= $3 AND ended_at IS NOT NULL
                       AND ended_at > $3) p
               GROUP BY namespace, workload, reported_by) r
           CROSS JOIN workloads w
         WHERE w.organization = $1 AND w.hash = r.workload",
        |query| query.bind(tenant.name).bind(environment).bind(as_of(at)).bind(&*pattern)
    ))
}

/// The top-level owners of the pods that run these artifacts at a point in time.
pub async fn owners(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: Timestamp,
    artifacts: &BTreeSet<Fingerprint>,
) -> Result<BTreeMap<Fingerprint, BTreeSet<NamespacedOwner>>, Error> {
    let digests = match tenant.tx {
        Transaction::Sqlite(_) => "json_each(w.digests)",
        Transaction::Postgres(_) => "json_each_text(w.digests::json)",
    };
    let rows: Vec<(String, String, Json<Vec<OwnerReference>>)> = fetch_for_all!(
        tenant.tx,
        |query| {
            // Running and ended pods have an index each.
            query.push("SELECT r.namespace, d.value, w.owners FROM (");
            query.push("SELECT namespace, workload FROM pod_runs WHERE organization = ");
            query.push_bind(tenant.name).push(" AND environment = ").push_bind(environment);
            query.push(" AND ended_at IS NULL AND started_at <= ").push_bind(at.micros());
            query.push(" UNION SELECT namespace, workload FROM pod_runs WHERE organization = ");
            query.push_bind(tenant.name).push(" AND environment = ").push_bind(environment);
            query.push(" AND started_at <= ").push_bind(at.micros());
            query.push(" AND ended_at IS NOT NULL AND ended_at > ").push_bind(at.micros());
            query.push(") r CROSS JOIN workloads w CROSS JOIN ").push(digests);
            query.push(" d WHERE w.organization = ").push_bind(tenant.name);
            query.push(" AND w.hash = r.workload AND d.value IN (");
        },
        artifacts.iter().map(Fingerprint::to_string),
        ")"
    );
    let mut owners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (namespace, digest, Json(references)) in rows {
        let fingerprint = Fingerprint::from_hex(&digest).ok_or(Error::Unreadable("digests"))?;
        if let Some(owner) = Owner::new(&references) {
            owners.entry(fingerprint).or_default().insert(NamespacedOwner { namespace, owner });
        }
    }
    Ok(owners)
}

/// The pods of an environment at a point in time, by namespace and name, and their workloads by hash.
pub async fn pods(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: Timestamp,
) -> Result<(Vec<Pod>, HashMap<Fingerprint, PodWorkload>), Error> {
    const SELECT: &str = "SELECT hash, digests, owners FROM workloads WHERE organization = ? AND hash IN (?)";
    let rows: Vec<PodRow> = rows!(
        tenant.tx,
        "hex(id), namespace, pod, created_at, hex(workload)",
        // Running and ended pods have an index each.
        "SELECT id, namespace, pod, created_at, workload FROM pod_runs
         WHERE organization = $1 AND environment = $2 AND started_at <= $3 AND ended_at IS NULL
         UNION ALL
         SELECT id, namespace, pod, created_at, workload FROM pod_runs
         WHERE organization = $1 AND environment = $2 AND started_at <= $3 AND ended_at IS NOT NULL AND ended_at > $3",
        |query| query.bind(tenant.name).bind(environment).bind(at.micros())
    );
    let mut pods: Vec<Pod> = rows.into_iter().map(|row| row.parse().0).collect();
    // Sorted here: the database's order depends on its locale.
    pods.sort_unstable();
    let hashes: BTreeSet<Fingerprint> = pods.iter().map(|pod| pod.workload).collect();
    let workloads: Vec<PodWorkload> = fetch_for_all!(tenant.tx, SELECT, hashes.iter().copied(), tenant.name);
    Ok((pods, workloads.into_iter().map(|workload| (workload.hash, workload)).collect()))
}

/// The verdicts of an environment, now or at a point in time. Artifacts without a verdict were not evaluated.
pub async fn verdicts(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: Option<Timestamp>,
) -> Result<HashMap<Fingerprint, Verdict>, Error> {
    let rows: Vec<VerdictIdRow> = rows!(
        tenant.tx,
        "hex(fingerprint), json_array(compliance, is_allowed, reasons)",
        // Current and ended verdicts have an index each; earlier ones are not read.
        "SELECT fingerprint, compliance, is_allowed, reasons
         FROM (SELECT * FROM verdicts
               WHERE organization = $1 AND environment = $2 AND from_at <= $3 AND until_at IS NULL
               UNION ALL
               SELECT * FROM verdicts
               WHERE organization = $1 AND environment = $2 AND from_at <= $3 AND until_at IS NOT NULL
                 AND until_at > $3) v",
        |query| query.bind(tenant.name).bind(environment).bind(as_of(at))
    );
    Ok(rows.into_iter().map(|row| (row.fingerprint.0, row.verdict.into())).collect())
}

/// The history of an environment around a point in time.
pub async fn history(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    at: Timestamp,
) -> Result<ReportHistory, Error> {
    // The ends of a gap are excluded: a report was received at each.
    const SELECT: &str = "
        SELECT e.last_report_at, e.horizon_at,
               (SELECT s.received_at FROM snapshots s WHERE s.organization = $1 AND s.environment = $2
                ORDER BY s.snapshot LIMIT 1) AS first_report_at,
               (SELECT s.snapshot FROM snapshots s
                WHERE s.organization = $1 AND s.environment = $2 AND s.received_at <= $3
                  AND (s.superseded_at IS NULL OR s.superseded_at > $3)
                ORDER BY s.received_at DESC LIMIT 1) AS snapshot,
               g.from_at AS gap_from, g.to_at AS gap_to
        FROM environments e
          LEFT JOIN gaps g ON g.organization = $1 AND g.environment = $2 AND g.to_at > $3
            AND g.from_at = (SELECT MAX(x.from_at) FROM gaps x
                             WHERE x.organization = $1 AND x.environment = $2 AND x.from_at < $3)
        WHERE e.organization = $1 AND e.id = $2
        LIMIT 1";
    let HistoryRow { first_report_at, last_report_at, horizon_at, snapshot, gap_from, gap_to } =
        fetch_one!(tenant.tx, SELECT, tenant.name, environment, at);
    Ok(ReportHistory { first_report_at, last_report_at, horizon_at, snapshot, gap: gap_from.zip(gap_to) })
}
