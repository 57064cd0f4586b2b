//! Appends to the logs of organizations, and reads them with the records as they are stored now.
//!
//! The functions that write records add their changes to `PendingLog`; [`Transaction::commit`] appends the
//! entries as its last step. The row of the log's head is locked last, and only until the commit.
//!
//! A new table or column of a record needs a kind or a field. Rows of a kind with `Kind::is_revised` change in place:
//! each change is a revision, and the last one must match.

mod attestation;
mod contradictions;
#[cfg(test)]
mod coverage;
mod entries;
pub(crate) mod environment;
pub mod reading;
mod rows;

use sqlx::types::Uuid;

use crate::database::transaction::{execute, fetch_optional, fetch_scalars, insert};
use crate::{Error, Tenant, Transaction};
use model::Timestamp;
use model::log::{Entry, Head, Kind, NewEntry, record_hash, start_record};

pub use reading::LogPage;

/// Appends entries to the log of an organization, which starts with its first entry.
pub async fn append(tenant: &mut Tenant<'_>, new: Vec<NewEntry>, at: i64) -> Result<(), Error> {
    const CREATE: &str = "
        INSERT INTO log_heads (organization, size, hash, checkpoint_size, checkpoint_at) VALUES ($1, 0, $2, 0, 0)
        ON CONFLICT DO NOTHING";
    const UPDATE: &str = "UPDATE log_heads SET size = $1, hash = $2 WHERE organization = $3";
    let mut head = match lock_log(tenant).await? {
        Some(head) if new.is_empty() && head.size > 0 => return Ok(()),
        Some(head) => head,
        None => {
            execute!(tenant.tx, CREATE, tenant.name, Head::EMPTY.hash);
            lock_log(tenant).await?.ok_or(Error::Unreadable("the head of a log"))?
        }
    };
    let mut entries = Vec::with_capacity(new.len() + 1);
    if head.size == 0 {
        let at = new.iter().map(|new| new.at).min().unwrap_or(at);
        let record_hash = record_hash(&start_record(tenant.name));
        entries.push(head.append(NewEntry {
            at,
            kind: Kind::Start,
            id: tenant.name.to_owned(),
            record_hash,
        }));
    }
    entries.extend(new.into_iter().map(|new| head.append(new)));
    insert_entries(tenant, &entries).await?;
    execute!(tenant.tx, UPDATE, head.size, head.hash, tenant.name);
    Ok(())
}

/// Locks the end of a log; `None` if the log does not exist.
async fn lock_log(tenant: &mut Tenant<'_>) -> Result<Option<Head>, Error> {
    const HEAD: &str = "SELECT size, hash FROM log_heads WHERE organization = $1";
    const LOCK: &str = "SELECT size, hash FROM log_heads WHERE organization = $1 FOR UPDATE";
    let lock = if matches!(tenant.tx, Transaction::Sqlite(_)) { HEAD } else { LOCK };
    Ok(fetch_optional!(tenant.tx, lock, tenant.name))
}

async fn insert_entries(tenant: &mut Tenant<'_>, entries: &[Entry]) -> Result<(), Error> {
    // A constant statement is prepared once per connection.
    const INSERT: &str = "
        INSERT INTO log_entries (organization, sequence, at, kind, record, record_hash, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    if let [entry] = entries {
        let Entry { sequence, at, kind, id, record_hash, hash } = entry;
        execute!(tenant.tx, INSERT, tenant.name, sequence, at, kind, id, record_hash, hash);
        return Ok(());
    }
    insert!(
        tenant.tx,
        "INSERT INTO log_entries (organization, sequence, at, kind, record, record_hash, hash) ",
        "",
        entries,
        |values, entry| {
            values.push_bind(tenant.name).push_bind(entry.sequence).push_bind(entry.at);
            values.push_bind(&entry.kind).push_bind(&entry.id);
            values.push_bind(entry.record_hash).push_bind(entry.hash);
        }
    );
    Ok(())
}

/// The organizations whose log has new entries since its last checkpoint, which was written before a time.
pub async fn due_checkpoints(transaction: &mut Transaction, before: Timestamp) -> Result<Vec<String>, Error> {
    const SELECT: &str = "
        SELECT o.name FROM organizations o JOIN log_heads h ON h.organization = o.name
        WHERE h.size > h.checkpoint_size AND h.checkpoint_at < $1 ORDER BY o.name";
    Ok(fetch_scalars!(transaction, SELECT, before))
}

/// Takes the checkpoint of a log, and returns its end. `None` if another replica took it meanwhile.
pub async fn take_checkpoint(
    tenant: &mut Tenant<'_>,
    before: Timestamp,
    now: Timestamp,
) -> Result<Option<Head>, Error> {
    const TAKE: &str = "
        UPDATE log_heads SET checkpoint_size = size, checkpoint_at = $1
        WHERE organization = $2 AND size > checkpoint_size AND checkpoint_at < $3 RETURNING size, hash";
    Ok(fetch_optional!(tenant.tx, TAKE, now, tenant.name, before))
}

/// The identifier of a row in an entry; `None` if it is not a UUID.
fn row_id(id: &str) -> Option<Uuid> {
    Uuid::parse_str(id).ok()
}
