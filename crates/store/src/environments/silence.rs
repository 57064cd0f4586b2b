//! Records the silence of declared environments, and reads their state for metrics.

use std::time::Duration;

use crate::database::columns::micros;
use crate::database::transaction::{execute, fetch_all};
use crate::environments::events::{NewEvent, Queued};
use crate::{Error, Transaction};
use model::Timestamp;
use rules::compliance::Compliance;

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct DeclaredEnvironment {
    pub organization: String,
    pub name: String,
    /// Its compliance as of the last evaluation.
    pub compliance: Compliance,
    /// Whether its silence is recorded.
    pub is_silent: bool,
    pub artifacts: i64,
    /// When it was last reported; `None` if never.
    pub last_report_at: Option<Timestamp>,
    /// Number of declared environments of open organizations.
    pub total: i64,
}

/// A declared environment whose silence began or ended, and was not recorded yet.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct SilenceChange {
    pub organization: String,
    pub name: String,
    /// The last report, or the creation if there is none.
    pub last_at: Timestamp,
    /// The start of the silence that ended; `None` if one began.
    pub silent_since: Option<Timestamp>,
}

/// Maximum number of changes that are read at a time.
pub const MAX_CHANGES: usize = 100;

/// The first declared environments of open organizations; organizations alternate.
pub async fn declared(transaction: &mut Transaction, limit: i64) -> Result<Vec<DeclaredEnvironment>, Error> {
    const SELECT: &str = "
        SELECT e.organization, e.name, e.compliance, e.silent_since IS NOT NULL AS is_silent,
               e.compliant_artifacts + e.unknown_artifacts + e.non_compliant_artifacts AS artifacts,
               e.last_report_at, COUNT(*) OVER () AS total
        FROM environments e JOIN organizations o ON o.name = e.organization
        WHERE e.is_declared AND o.closed_at IS NULL
        ORDER BY ROW_NUMBER() OVER (PARTITION BY e.organization ORDER BY e.name), e.organization
        LIMIT $1";
    Ok(fetch_all!(transaction, SELECT, limit))
}

/// The next declared environments after `last`, by organization and name, whose silence began or ended. `silent_after` is the service's default. No silence begins
/// until the service has been able to receive reports, `since` then, for as long. Silence ends only after another
/// report: the clock of a replica may be behind that of the replica that recorded the silence.
pub async fn changes(
    transaction: &mut Transaction,
    now: Timestamp,
    silent_after: Duration,
    since: Timestamp,
    last: Option<&SilenceChange>,
) -> Result<Vec<SilenceChange>, Error> {
    const SELECT: &str = "
        SELECT e.organization, e.name, COALESCE(e.last_report_at, e.created_at) AS last_at, e.silent_since
        FROM environments e JOIN organizations o ON o.name = e.organization
        WHERE e.is_declared AND o.closed_at IS NULL AND (e.organization, e.name) > ($5, $6)
          AND (e.silent_since IS NULL AND $1 - $3 > COALESCE(e.silent_after, $2)
                 AND ABS($1 - COALESCE(e.last_report_at, e.created_at)) > COALESCE(e.silent_after, $2)
               OR e.silent_since <> e.last_report_at
                 AND ABS($1 - e.last_report_at) <= COALESCE(e.silent_after, $2))
        ORDER BY e.organization, e.name LIMIT $4";
    let (organization, name) = last.map_or(("", ""), |last| (last.organization.as_str(), last.name.as_str()));
    let limit = i64::try_from(MAX_CHANGES).unwrap_or(i64::MAX);
    Ok(fetch_all!(transaction, SELECT, now, micros(silent_after), since, limit, organization, name))
}

/// Records a change of a locked environment, and its event. `None` if another replica has recorded it, or the
/// environment was reported since.
pub async fn record(
    transaction: &mut Transaction,
    change: &SilenceChange,
    event: NewEvent,
    at: Timestamp,
) -> Result<Option<Queued>, Error> {
    const UPDATE: &str = "
        UPDATE environments SET silent_since = $1, changed_at = $2
        WHERE organization = $3 AND id = $4 AND COALESCE(silent_since, 0) = $5
          AND COALESCE(last_report_at, created_at) = $6";
    let SilenceChange { organization, last_at, silent_since, .. } = change;
    let began = silent_since.is_none().then_some(*last_at);
    let before = silent_since.unwrap_or(Timestamp::EPOCH);
    if execute!(transaction, UPDATE, began, at, organization, event.environment, before, last_at) == 0 {
        return Ok(None);
    }
    crate::environments::events::insert(&mut transaction.of(organization), &[event], at).await.map(Some)
}
