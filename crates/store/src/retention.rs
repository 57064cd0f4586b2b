//! Removes rows that are past their retention, in batches.
//!
//! Called periodically by `service::maintenance::retention`. docs/guides/operating.md lists every table, and what removes its
//! rows.

use std::time::Duration;

use sqlx::types::Uuid;

use crate::database::columns::Micros;
use crate::database::from_row::all_scalars;
use crate::database::transaction::{
    execute, fetch_all, fetch_optional, fetch_optional_scalar, fetch_scalars, for_all, on,
};
use crate::{Error, Tenant, Transaction};
use model::log::Removal;
use model::{Fingerprint, Timestamp};

/// The retention of an organization's rows; `None` for unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, sqlx::FromRow)]
pub struct OrganizationRetention {
    /// The retention of the history of its environments.
    #[sqlx(try_from = "Micros")]
    pub history: Option<Duration>,
    /// The retention of attached files, from the latest attestation of each.
    #[sqlx(try_from = "Micros")]
    pub attachments: Option<Duration>,
    #[sqlx(try_from = "Micros")]
    pub audit: Option<Duration>,
}

impl OrganizationRetention {
    /// Describes it for the audit log.
    pub(crate) fn describe(&self) -> String {
        let describe = |retention: Option<Duration>| match retention.map(|span| span.as_secs()) {
            None => "unlimited".to_owned(),
            Some(seconds) if seconds % 86_400 == 0 => format!("{}d", seconds / 86_400),
            Some(seconds) => format!("{seconds}s"),
        };
        let [history, attachments, audit] = [self.history, self.attachments, self.audit].map(describe);
        format!(
            "the retention of the history is {history}, of attached files {attachments}, of the audit log {audit}"
        )
    }
}

/// The retention that the bootstrap file declares.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct CurrentRetention {
    pub(crate) id: Uuid,
    #[sqlx(flatten)]
    pub(crate) retention: OrganizationRetention,
}

/// A batch of an environment's history that was removed.
#[derive(Debug, Clone)]
pub struct RemovedHistory {
    pub rows: u64,
    /// The workloads of the removed pods.
    pub workloads: Vec<Fingerprint>,
}

/// Maximum number of rows per table and transaction, so that reports can be recorded in between.
const MAX_BATCH: i64 = 5_000;

/// Maximum number of workloads per batch. Their removal excludes reports of the organization.
pub const MAX_WORKLOADS: usize = 1_000;

/// Maximum number of attached files per batch, of up to 10 MiB each. Their removal excludes reports and attestations of
/// the organization.
const MAX_ATTACHMENTS: i64 = 50;

/// Removes pods that ended before the horizon, and returns their workloads. Running pods stay, however old.
const REMOVE_PODS: &str = "
    DELETE FROM pod_runs WHERE organization = $1 AND id IN
    (SELECT id FROM pod_runs WHERE organization = $1 AND environment = $2 AND ended_at < $3 LIMIT $4)
    RETURNING workload";

/// Removes other rows that ended before the horizon. A snapshot is received before it is superseded, and a gap starts
/// before it ends: these conditions bound the range of an index.
const REMOVALS: [&str; 7] = [
    "DELETE FROM artifact_runs WHERE organization = $1 AND environment = $2 AND (fingerprint, first_snapshot) IN
     (SELECT fingerprint, first_snapshot FROM artifact_runs
      WHERE organization = $1 AND environment = $2 AND ended_at < $3 LIMIT $4)",
    "DELETE FROM confirmations WHERE organization = $1 AND environment = $2 AND (snapshot, reported_by) IN
     (SELECT c.snapshot, c.reported_by
      FROM environments e JOIN confirmations c ON c.organization = e.organization AND c.environment = e.id
      WHERE e.organization = $1 AND e.id = $2 AND c.snapshot < e.snapshot AND c.last_at < $3 LIMIT $4)",
    "DELETE FROM snapshots WHERE organization = $1 AND environment = $2 AND snapshot IN
     (SELECT snapshot FROM snapshots
      WHERE organization = $1 AND environment = $2 AND received_at < $3 AND superseded_at < $3 LIMIT $4)",
    "DELETE FROM verdicts WHERE organization = $1 AND environment = $2 AND (fingerprint, from_at) IN
     (SELECT fingerprint, from_at FROM verdicts
      WHERE organization = $1 AND environment = $2 AND until_at < $3 LIMIT $4)",
    // Pending notifications stay.
    "DELETE FROM notifications WHERE organization = $1 AND id IN
     (SELECT n.id FROM notifications n JOIN events e ON e.organization = n.organization AND e.id = n.event
      WHERE e.organization = $1 AND e.environment = $2 AND e.occurred_at < $3
        AND (n.sent_at IS NOT NULL OR n.dropped_at IS NOT NULL) LIMIT $4)",
    "DELETE FROM events WHERE organization = $1 AND id IN
     (SELECT e.id FROM events e WHERE e.organization = $1 AND e.environment = $2 AND e.occurred_at < $3
        AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.organization = e.organization AND n.event = e.id)
      LIMIT $4)",
    "DELETE FROM gaps WHERE organization = $1 AND environment = $2 AND from_at IN
     (SELECT from_at FROM gaps
      WHERE organization = $1 AND environment = $2 AND from_at < $3 AND to_at < $3 LIMIT $4)",
];

/// The environments with a limited retention and their organizations, also closed ones.
pub async fn environments(transaction: &mut Transaction) -> Result<Vec<(Uuid, String)>, Error> {
    const SELECT: &str = "
        SELECT e.id, e.organization
        FROM retentions r JOIN environments e ON e.organization = r.organization
        WHERE r.closed_at IS NULL AND r.history IS NOT NULL";
    Ok(fetch_all!(transaction, SELECT))
}

/// The names of all organizations, also of closed ones.
pub async fn organizations(transaction: &mut Transaction) -> Result<Vec<String>, Error> {
    Ok(fetch_scalars!(transaction, "SELECT name FROM organizations ORDER BY name"))
}

/// The current retention of an organization.
pub async fn of_organization(tenant: &mut Tenant<'_>) -> Result<OrganizationRetention, Error> {
    Ok(current(tenant).await?.map(|current| current.retention).unwrap_or_default())
}

/// The same, which no bootstrap file changes until the end of the transaction: in the log, a removal precedes the end of its
/// retention.
pub async fn locked(tenant: &mut Tenant<'_>) -> Result<OrganizationRetention, Error> {
    const LOCK: &str = "SELECT name FROM organizations WHERE name = $1 FOR NO KEY UPDATE";
    if let Transaction::Postgres(transaction) = tenant.tx {
        // SQLite has a single writer.
        sqlx::query(LOCK).bind(tenant.name).fetch_optional(&mut **transaction).await?;
    }
    // A statement of its own, which finds what was committed while the other one waited.
    of_organization(tenant).await
}

/// The open row of an organization; `None` if everything is kept.
pub(crate) async fn current(tenant: &mut Tenant<'_>) -> Result<Option<CurrentRetention>, Error> {
    const SELECT: &str = "
        SELECT id, history, attachments, audit FROM retentions WHERE organization = $1 AND closed_at IS NULL";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name))
}

/// Removes a batch of the history before a horizon. Records the horizon only if rows were removed; otherwise the
/// history is still complete.
pub async fn remove_before(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<RemovedHistory, Error> {
    const RECORD: &str = "
        UPDATE environments SET horizon_at = $3
        WHERE organization = $1 AND id = $2 AND (horizon_at IS NULL OR horizon_at < $3)";
    let mut workloads: Vec<Fingerprint> =
        fetch_scalars!(tenant.tx, REMOVE_PODS, tenant.name, environment, horizon, MAX_BATCH);
    let mut rows = workloads.len() as u64;
    workloads.sort_unstable();
    workloads.dedup();
    for removal in REMOVALS {
        rows += execute!(tenant.tx, removal, tenant.name, environment, horizon, MAX_BATCH);
    }
    // Only the first batch changes the horizon.
    if rows > 0 && execute!(tenant.tx, RECORD, tenant.name, environment, horizon) > 0 {
        let subject = Removal::history(&environment.to_string());
        tenant.tx.log().removal(tenant.name, &Removal { subject, before: horizon.micros() }, now);
    }
    Ok(RemovedHistory { rows, workloads })
}

/// The next workloads of an organization after one, in order, at most [`MAX_WORKLOADS`].
pub async fn workloads_after(
    tenant: &mut Tenant<'_>,
    last: Option<Fingerprint>,
) -> Result<Vec<Fingerprint>, Error> {
    const SELECT: &str =
        "SELECT hash FROM workloads WHERE organization = $1 AND hash > $2 ORDER BY hash LIMIT $3";
    let last = last.map_or(Vec::new(), |hash| hash.bytes().to_vec());
    let limit = i64::try_from(MAX_WORKLOADS).unwrap_or(i64::MAX);
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name, &last, limit))
}

/// The workloads among these, at most [`MAX_WORKLOADS`], that no pod refers to.
pub async fn orphaned_workloads(
    tenant: &mut Tenant<'_>,
    hashes: &[Fingerprint],
) -> Result<Vec<Fingerprint>, Error> {
    if hashes.is_empty() {
        return Ok(Vec::new());
    }
    Ok(on!(tenant.tx, |connection| {
        let mut query = sqlx::QueryBuilder::new("WITH candidates (hash) AS (");
        query.push_values(hashes, |mut values, hash| {
            values.push_bind(*hash);
        });
        // One index lookup per workload on PostgreSQL too, whatever its statistics.
        query.push(
            ") SELECT hash FROM candidates WHERE hash IS DISTINCT FROM
               (SELECT p.workload FROM pod_runs p WHERE p.organization = ",
        );
        query.push_bind(tenant.name).push(" AND p.workload >= hash ORDER BY p.workload LIMIT 1)");
        query.build().persistent(false).fetch_all(connection).await.and_then(all_scalars)?
    }))
}

/// Removes the workloads among these, at most [`MAX_WORKLOADS`], that no pod refers to, and returns their number.
/// The caller has locked the organization's verdicts exclusively: a report that finds a workload relies on it until
/// it is committed.
pub async fn remove_orphaned_workloads(
    tenant: &mut Tenant<'_>,
    hashes: &[Fingerprint],
) -> Result<u64, Error> {
    let orphans = orphaned_workloads(tenant, hashes).await?;
    if orphans.is_empty() {
        return Ok(0);
    }
    Ok(on!(tenant.tx, |connection| {
        // Pairs: without statistics, PostgreSQL would otherwise read all workloads of the organization.
        let mut query = sqlx::QueryBuilder::new("DELETE FROM workloads WHERE (organization, hash) IN (");
        query.push_values(&orphans, |mut values, hash| {
            values.push_bind(tenant.name).push_bind(*hash);
        });
        query.push(")").build().persistent(false).execute(connection).await?.rows_affected()
    }))
}

/// A batch of attached files whose latest attestation was received before the horizon.
pub async fn expired_attachments(
    tenant: &mut Tenant<'_>,
    horizon: Timestamp,
) -> Result<Vec<Fingerprint>, Error> {
    const SELECT: &str = "
        SELECT x.sha256 FROM attachments x
        WHERE x.organization = $1 AND x.created_at < $2
          AND COALESCE((SELECT MAX(a.created_at) FROM attestations a
                        WHERE a.organization = x.organization AND a.attachment = x.sha256), 0) < $2
        ORDER BY x.created_at LIMIT $3";
    Ok(fetch_scalars!(tenant.tx, SELECT, tenant.name, horizon, MAX_ATTACHMENTS))
}

/// Removes a batch of attached files whose latest attestation was received before the horizon, and returns their
/// number. Their hashes and sizes are kept. The caller has locked the organization's verdicts exclusively: an
/// attestation that finds its file relies on it until it is committed.
pub async fn remove_attachments(
    tenant: &mut Tenant<'_>,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<u64, Error> {
    const INSERT: &str = "
        INSERT INTO removed_attachments (organization, sha256, size, removed_at)
        SELECT organization, sha256, length(content), ? FROM attachments WHERE organization = ? AND sha256 IN (?)
        ON CONFLICT (organization, sha256) DO UPDATE SET removed_at = excluded.removed_at";
    const DELETE: &str = "DELETE FROM attachments WHERE organization = ? AND sha256 IN (?)";
    let expired = expired_attachments(tenant, horizon).await?;
    let keys = || expired.iter().copied();
    for_all!(tenant.tx, INSERT, keys(), now, tenant.name);
    crate::packages::remove(tenant, &expired).await?;
    let rows = for_all!(tenant.tx, DELETE, keys(), tenant.name);
    if rows > 0 {
        const RECORD: &str = "
            UPDATE organizations SET attachments_removed_before = $2
            WHERE name = $1 AND COALESCE(attachments_removed_before, 0) < $2 RETURNING name";
        record_removal(tenant.tx, RECORD, tenant.name, Removal::ATTACHMENTS, horizon, now).await?;
    }
    Ok(rows)
}

/// Records the time before which rows of an organization were removed, and an entry of the log if it is a new one.
async fn record_removal(
    transaction: &mut Transaction,
    record: &'static str,
    organization: &str,
    subject: &str,
    horizon: Timestamp,
    now: Timestamp,
) -> Result<(), Error> {
    let recorded: Option<String> = fetch_optional_scalar!(transaction, record, organization, horizon);
    if recorded.is_some() {
        let removal = Removal { subject: subject.to_owned(), before: horizon.micros() };
        transaction.log().removal(organization, &removal, now);
    }
    Ok(())
}

/// Removes a batch of an organization's audit entries before the horizon, and returns their number.
pub async fn remove_audit(tenant: &mut Tenant<'_>, horizon: Timestamp, now: Timestamp) -> Result<u64, Error> {
    const DELETE: &str = "
        DELETE FROM audit WHERE organization = $1 AND id IN
        (SELECT id FROM audit WHERE organization = $1 AND at < $2 ORDER BY at LIMIT $3)";
    let rows = execute!(tenant.tx, DELETE, tenant.name, horizon, MAX_BATCH);
    if rows > 0 {
        const RECORD: &str = "
            UPDATE organizations SET audit_removed_before = $2
            WHERE name = $1 AND COALESCE(audit_removed_before, 0) < $2 RETURNING name";
        record_removal(tenant.tx, RECORD, tenant.name, Removal::AUDIT, horizon, now).await?;
    }
    Ok(rows)
}

/// Removes a batch of the keys of requests that were received before the horizon, and returns their number.
pub async fn remove_idempotency_keys(tenant: &mut Tenant<'_>, horizon: Timestamp) -> Result<u64, Error> {
    const DELETE: &str = "
        DELETE FROM idempotency_keys WHERE organization = $1 AND (caller, idempotency_key) IN
        (SELECT caller, idempotency_key FROM idempotency_keys
         WHERE organization = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)";
    Ok(execute!(tenant.tx, DELETE, tenant.name, horizon, MAX_BATCH))
}

/// Removes a batch of notifications that were created before the horizon, and returns their number. Delivery ended
/// long before, except for targets that were closed: theirs are never sent.
pub async fn remove_notifications(tenant: &mut Tenant<'_>, horizon: Timestamp) -> Result<u64, Error> {
    // The order makes PostgreSQL use the index, whatever its statistics.
    const DELETE: &str = "
        DELETE FROM notifications WHERE organization = $1 AND id IN
        (SELECT id FROM notifications WHERE organization = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)";
    Ok(execute!(tenant.tx, DELETE, tenant.name, horizon, MAX_BATCH))
}
