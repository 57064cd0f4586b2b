//! Makes the entries of a transaction's changes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::database::pending_log::{Declared, PendingLog, PendingRow};
use crate::database::transaction::fetch_scalar;
use crate::log::rows::RowKind;
use crate::{Error, Transaction};
use model::log::environment_change::{ChangeRecord, EnvironmentChange};
use model::log::{Kind, NewEntry, record_hash};

impl Transaction {
    /// Appends the changes to the log of their organizations, and commits.
    ///
    /// # Errors
    ///
    /// Returns [`Error::InDoubt`] if the connection was lost during the commit. After any other error nothing was
    /// committed.
    pub async fn commit(mut self) -> Result<(), Error> {
        append_pending(&mut self).await?;
        self.commit_appended().await
    }
}

/// Appends the pending changes to the logs of their organizations, which are locked in the order of their names.
async fn append_pending(transaction: &mut Transaction) -> Result<(), Error> {
    let PendingLog { mut rows, environments, removals, declared } = std::mem::take(transaction.log());
    let mut entries: BTreeMap<String, Vec<NewEntry>> = BTreeMap::new();
    let mut now = 0;
    if let Some(Declared { organizations, changed, at }) = declared {
        now = at;
        entries.extend(organizations.into_iter().map(|organization| (organization, Vec::new())));
        let mut declared = Vec::new();
        for organization in changed {
            let opened_or_closed =
                crate::log::rows::declared_rows(&mut transaction.of(&organization), at).await?;
            declared.extend(opened_or_closed.into_iter().map(|(kind, id)| PendingRow {
                organization: organization.clone(),
                kind,
                id,
                at: None,
            }));
        }
        rows.splice(0..0, declared);
    }
    let mut known = BTreeSet::new();
    rows.retain(|row| known.insert((row.kind, row.id)));
    for row in rows {
        if let Some(entry) = row_entry(transaction, &row).await? {
            entries.entry(row.organization).or_default().push(entry);
        }
    }
    for (organization, entry) in environment_entries(transaction, environments).await? {
        entries.entry(organization).or_default().push(entry);
    }
    for (organization, entry) in removals {
        entries.entry(organization).or_default().push(entry);
    }
    for (organization, new) in entries {
        crate::log::append(&mut transaction.of(&organization), new, now).await?;
    }
    Ok(())
}

/// The entry of a row, as it is stored.
async fn row_entry(transaction: &mut Transaction, row: &PendingRow) -> Result<Option<NewEntry>, Error> {
    let PendingRow { organization, kind, id, at } = row;
    let (kind, id) = (*kind, *id);
    let Some(row_kind) = RowKind::find(kind) else { return Ok(None) };
    let Some(mut record) =
        crate::log::rows::row_record(&mut transaction.of(organization), row_kind, kind, id).await?
    else {
        return Ok(None);
    };
    crate::log::attestation::add_related(&mut transaction.of(organization), kind, id, &mut record).await?;
    let stored = || record.get(kind.time_column()?).and_then(serde_json::Value::as_i64);
    let at = at.or_else(stored).unwrap_or_default();
    let record_hash = record_hash(&record.into());
    Ok(Some(NewEntry { at, kind, id: id.to_string(), record_hash }))
}

async fn environment_entries(
    transaction: &mut Transaction,
    mut changes: BTreeMap<(String, Uuid, i64), EnvironmentChange>,
) -> Result<Vec<(String, NewEntry)>, Error> {
    // A constant statement, for a report, is prepared once per connection.
    const NAME: &str = "SELECT name FROM environments WHERE organization = $1 AND id = $2";
    changes.retain(|_, change| *change != EnvironmentChange::default());
    let mut names: BTreeMap<(String, Uuid), String> = BTreeMap::new();
    let mut entries = Vec::with_capacity(changes.len());
    for ((organization, id, at), change) in changes {
        let name = match names.entry((organization.clone(), id)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(fetch_scalar!(transaction, NAME, &organization, id)),
        };
        let id = id.to_string();
        let record =
            ChangeRecord { id: &id, organization: &organization, environment: name, at, change: &change };
        let record_hash = record_hash(&serde_json::json!(record));
        entries.push((organization, NewEntry { at, kind: Kind::Environment, id, record_hash }));
    }
    Ok(entries)
}
