//! Records reports: environments, their snapshots and gaps.
//!
//! Whoever records a report, a heartbeat, an evaluation or a silence of an environment locks its row, and uses the time
//! `now.after(changed_at)`, which it stores there. So no two records have the same time, whatever the clocks of
//! replicas.

use std::num::TryFromIntError;
use std::time::Duration;

use sqlx::types::Uuid;

use crate::database::columns::{Json, Micros, json, micros};
use crate::database::transaction::{execute, fetch_optional};
use crate::{Error, Store, Tenant, Transaction};
use model::log::environment_change::NewSnapshot;
use model::reason::Reason;
use model::{Fingerprint, Timestamp};
use rules::absence::ExpectedArtifacts;
use rules::compliance::Compliance;

/// An environment whose row is locked until the transaction ends.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct LockedEnvironment {
    pub id: Uuid,
    /// Time without reports that makes a gap; `None` for the service's default.
    #[sqlx(try_from = "Micros")]
    pub silent_after: Option<Duration>,
    pub last_report_at: Option<Timestamp>,
    /// The name of the token that reported it last.
    pub reported_by: Option<String>,
    /// The content hash of the last report.
    pub report_hash: Option<Fingerprint>,
    /// The number of the current snapshot; 0 before the first.
    pub snapshot: i64,
    /// Its compliance as of the last evaluation.
    pub compliance: Compliance,
    /// The latest time of its records.
    pub changed_at: Timestamp,
    /// The declared limits of its number of artifacts.
    #[sqlx(flatten, try_from = "LimitsRow")]
    pub expected: ExpectedArtifacts,
    /// Why it ran too few artifacts at the last evaluation, if it did.
    #[sqlx(try_from = "Json<Option<Reason>>")]
    pub absence: Option<Reason>,
    /// Whether reports that exclude pods are rejected.
    pub forbids_exclusion: bool,
    /// Since when reports are rejected.
    pub archived_at: Option<Timestamp>,
    /// Whether it is queued for evaluation.
    pub is_queued: bool,
    /// Whether the verdicts of its artifacts are those that an evaluation would give now: it is not queued for evaluation, no
    /// verdict expires, and it was counted when it was last evaluated.
    pub is_evaluated: bool,
}

/// What to do about an environment that another transaction has locked.
#[derive(Debug, Clone, Copy)]
pub enum IfLocked {
    Wait,
    Skip,
}

/// A received report, without its content.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedReport<'a> {
    /// When it was received.
    pub at: Timestamp,
    /// The name of the token.
    pub reported_by: &'a str,
    /// The hash of its bytes, its sender and its number of excluded pods.
    pub body_hash: Fingerprint,
    /// The hash of its content, independent of order and formatting.
    pub report_hash: Fingerprint,
    /// Number of pods that its agent excluded.
    pub excluded_pods: u32,
}

const CONFIRM: &str = "
    UPDATE environments
    SET last_report_at = CASE WHEN last_report_at >= $1 THEN last_report_at + 1 ELSE $1 END,
        changed_at = CASE WHEN changed_at >= $1 THEN changed_at + 1 ELSE $1 END
    WHERE organization = $2 AND name = $3 AND body_hash = $4 AND reported_by = $5
      AND last_report_at >= $1 - COALESCE(silent_after, $6) AND archived_at IS NULL
      AND NOT (forbids_exclusion AND excluded_pods > 0)";

const CREATE: &str = "
    INSERT INTO environments (id, organization, name, created_at, created_by_token, snapshot)
    VALUES ($1, $2, $3, $4, $5, 0)
    ON CONFLICT DO NOTHING";

#[derive(sqlx::FromRow)]
struct LimitsRow {
    min_artifacts: Option<i64>,
    max_drop_percent: Option<i64>,
    reference_artifacts: Option<i64>,
}

/// Selects the columns of [`LockedEnvironment`].
macro_rules! select_environment {
    ($end:literal) => {
        concat!(
            "SELECT id, silent_after, last_report_at, reported_by, report_hash, snapshot, compliance, changed_at,
                    min_artifacts, max_drop_percent, reference_artifacts, absence, forbids_exclusion, archived_at,
                    EXISTS (SELECT 1 FROM evaluation_queue q
                            WHERE q.organization = e.organization AND q.environment = e.id) AS is_queued,
                    compliance IS NOT NULL AND evaluate_at IS NULL AND compliant_until IS NULL
                      AND NOT EXISTS (SELECT 1 FROM evaluation_queue q
                                      WHERE q.organization = e.organization AND q.environment = e.id) AS is_evaluated
             FROM environments e WHERE organization = $1 AND name = $2",
            $end
        )
    };
}

impl TryFrom<LimitsRow> for ExpectedArtifacts {
    type Error = TryFromIntError;

    fn try_from(row: LimitsRow) -> Result<Self, TryFromIntError> {
        let limit = |number: Option<i64>| number.map(u32::try_from).transpose();
        Ok(Self {
            min_artifacts: limit(row.min_artifacts)?,
            max_drop: limit(row.max_drop_percent)?,
            reference: limit(row.reference_artifacts)?,
        })
    }
}

/// Confirms the last report if its bytes, its sender and its token are the same, there is no gap since, and it excludes no
/// pods that it must not. Returns whether it did. The time never goes back: a later report may be recorded first. A power failure may lose the
/// update on SQLite; the next report repeats it.
///
/// # Errors
///
/// Returns [`Error::Busy`] if other writes of this process take too long on SQLite.
pub async fn confirm(
    store: &Store,
    organization: &str,
    environment: &str,
    body_hash: Fingerprint,
    reported_by: &str,
    at: Timestamp,
    silent_after: Duration,
) -> Result<bool, Error> {
    macro_rules! confirm {
        ($pool:expr) => {
            sqlx::query(CONFIRM)
                .bind(at.micros())
                .bind(organization)
                .bind(environment)
                .bind(body_hash.bytes().as_slice())
                .bind(reported_by)
                .bind(micros(silent_after))
                .execute($pool)
                .await?
                .rows_affected()
        };
    }
    let rows = match store {
        Store::Sqlite(pools) => {
            let (heartbeats, _permit) = pools.heartbeats().await?;
            confirm!(heartbeats)
        }
        // Waits for the row lock while a report of the environment is being recorded.
        Store::Postgres(pools) => {
            let mut transaction = pools.write().await?;
            let rows = confirm!(&mut *transaction);
            if rows > 0 {
                Transaction::Postgres(transaction).commit().await?;
            }
            rows
        }
    };
    Ok(rows > 0)
}

/// Locks the environment until the transaction ends; `None` if it does not exist, or is to be skipped. SQLite has a
/// single writer; PostgreSQL locks the row.
pub async fn lock(
    tenant: &mut Tenant<'_>,
    name: &str,
    if_locked: IfLocked,
) -> Result<Option<LockedEnvironment>, Error> {
    let select = match (&tenant.tx, if_locked) {
        (Transaction::Sqlite(_), _) => select_environment!(""),
        (Transaction::Postgres(_), IfLocked::Wait) => select_environment!(" FOR NO KEY UPDATE"),
        (Transaction::Postgres(_), IfLocked::Skip) => select_environment!(" FOR NO KEY UPDATE SKIP LOCKED"),
    };
    Ok(fetch_optional!(tenant.tx, select, tenant.name, name))
}

/// Creates the environment, and locks it. Another request may have created it meanwhile.
pub async fn create(
    tenant: &mut Tenant<'_>,
    name: &str,
    token: Fingerprint,
    now: Timestamp,
) -> Result<LockedEnvironment, Error> {
    execute!(tenant.tx, CREATE, crate::new_id(), tenant.name, name, now, token);
    let created = lock(tenant, name, IfLocked::Wait).await?;
    created.ok_or(Error::Unreadable("an environment"))
}

/// Sets the description of an environment.
pub async fn describe(tenant: &mut Tenant<'_>, name: &str, description: &str) -> Result<(), Error> {
    const UPDATE: &str = "UPDATE environments SET description = $1 WHERE organization = $2 AND name = $3";
    execute!(tenant.tx, UPDATE, description, tenant.name, name);
    Ok(())
}

/// Archives an environment, or restores it with `None`. Returns whether it was archived, or was not, before.
pub async fn set_archived(
    tenant: &mut Tenant<'_>,
    name: &str,
    archived_at: Option<Timestamp>,
) -> Result<bool, Error> {
    const UPDATE: &str = "
        UPDATE environments SET archived_at = $1
        WHERE organization = $2 AND name = $3 AND (archived_at IS NULL) = ($1 IS NOT NULL)";
    Ok(execute!(tenant.tx, UPDATE, archived_at, tenant.name, name) > 0)
}

/// Records a report and the number of the current snapshot. The number is the same as before if the report confirms a
/// snapshot, which another token may have reported.
pub async fn record(
    tenant: &mut Tenant<'_>,
    environment: &LockedEnvironment,
    received: ReceivedReport<'_>,
    snapshot: i64,
) -> Result<(), Error> {
    const UPSERT: &str = "
        INSERT INTO confirmations (organization, environment, snapshot, reported_by, first_at, last_at)
        VALUES ($1, $2, $3, $4, $5, $5)
        ON CONFLICT (organization, environment, snapshot, reported_by) DO UPDATE SET last_at = excluded.last_at";
    const UPDATE: &str = "
        UPDATE environments
        SET last_report_at = $1, changed_at = $1, body_hash = $2, report_hash = $3, snapshot = $4, reported_by = $5,
            excluded_pods = $6
        WHERE organization = $7 AND id = $8";
    let ReceivedReport { at, reported_by, body_hash, report_hash, excluded_pods } = received;
    let is_by_another = environment.reported_by.as_deref().is_some_and(|last| last != reported_by);
    if is_by_another && snapshot == environment.snapshot {
        execute!(tenant.tx, UPSERT, tenant.name, environment.id, snapshot, reported_by, at);
    }
    execute!(
        tenant.tx,
        UPDATE,
        at,
        body_hash,
        report_hash,
        snapshot,
        reported_by,
        i64::from(excluded_pods),
        tenant.name,
        environment.id
    );
    Ok(())
}

/// Records why the environment runs too few artifacts, and the number that the next drop is compared with.
pub async fn record_absence(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    absence: Option<&Reason>,
    reference: Option<u32>,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE environments SET absence = $1, reference_artifacts = $2 WHERE organization = $3 AND id = $4";
    let absence = absence.map(json).transpose()?;
    execute!(tenant.tx, UPDATE, absence, reference.map(i64::from), tenant.name, environment);
    Ok(())
}

/// Records the environment's compliance when its current snapshot was received.
pub async fn record_compliance(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    snapshot: i64,
    compliance: Compliance,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE snapshots SET compliance = $1 WHERE organization = $2 AND environment = $3 AND snapshot = $4";
    execute!(tenant.tx, UPDATE, compliance.as_str(), tenant.name, environment, snapshot);
    if let Some(snapshot) = tenant.tx.log().snapshot(tenant.name, environment, snapshot) {
        snapshot.compliance = Some(compliance.as_str().to_owned());
    }
    Ok(())
}

pub async fn insert_gap(
    tenant: &mut Tenant<'_>,
    environment: Uuid,
    from: Timestamp,
    to: Timestamp,
) -> Result<(), Error> {
    const INSERT: &str =
        "INSERT INTO gaps (organization, environment, from_at, to_at) VALUES ($1, $2, $3, $4)";
    execute!(tenant.tx, INSERT, tenant.name, environment, from, to);
    tenant.tx.log().environment(tenant.name, environment, to).gap_from = Some(from.micros());
    Ok(())
}

/// Ends the current snapshot, which the last report confirmed, and starts another one.
pub async fn start_snapshot(
    tenant: &mut Tenant<'_>,
    environment: &LockedEnvironment,
    snapshot: i64,
    received: ReceivedReport<'_>,
) -> Result<(), Error> {
    const SUPERSEDE: &str = "
        UPDATE snapshots SET superseded_at = $1, confirmed_at = $2
        WHERE organization = $3 AND environment = $4 AND snapshot = $5";
    const INSERT: &str = "
        INSERT INTO snapshots (organization, environment, snapshot, received_at, reported_by, report_hash)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let LockedEnvironment { id, snapshot: last, last_report_at: confirmed, .. } = *environment;
    let ReceivedReport { at, reported_by, report_hash, .. } = received;
    let superseded = execute!(tenant.tx, SUPERSEDE, at, confirmed, tenant.name, id, last);
    execute!(tenant.tx, INSERT, tenant.name, id, snapshot, at, reported_by, report_hash);
    let change = tenant.tx.log().environment(tenant.name, id, at);
    if superseded > 0 {
        change.previous_confirmed_at = confirmed.map(Timestamp::micros);
    }
    change.snapshot = Some(NewSnapshot {
        number: snapshot,
        reported_by: reported_by.to_owned(),
        report_hash,
        compliance: None,
    });
    Ok(())
}
