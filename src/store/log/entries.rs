//! Makes the entries of a transaction's changes.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use super::pending::PendingLog;
use super::rows::RowKind;
use crate::domain::evidence::log::environment_change::{ChangedEnvironment, EnvironmentChange};
use crate::domain::evidence::log::{Kind, NewEntry, record_hash};
use crate::store::transaction::{fetch_all, fetch_for_all};
use crate::store::{Error, Transaction};

/// An environment of a change.
#[derive(sqlx::FromRow)]
struct EnvironmentRow {
    id: Uuid,
    organization: String,
    name: String,
}

impl Transaction {
    /// Appends the pending changes to the logs of their organizations, which are locked in the order of their names.
    pub(in crate::store) async fn append_log(&mut self) -> Result<(), Error> {
        let PendingLog { mut rows, environments, removals, declared } = std::mem::take(self.log());
        let mut entries: BTreeMap<String, Vec<NewEntry>> = BTreeMap::new();
        let mut now = 0;
        if let Some((organizations, at)) = declared {
            now = at;
            entries.extend(organizations.into_iter().map(|organization| (organization, Vec::new())));
            let declared = self.declared_rows(at).await?;
            rows.splice(0..0, declared.into_iter().map(|(kind, id)| (kind, id, None)));
        }
        let mut known = BTreeSet::new();
        rows.retain(|(kind, id, _)| known.insert((*kind, *id)));
        for (kind, id, at) in rows {
            if let Some((organization, entry)) = self.row_entry(kind, id, at).await? {
                entries.entry(organization).or_default().push(entry);
            }
        }
        for (organization, entry) in self.environment_entries(environments).await? {
            entries.entry(organization).or_default().push(entry);
        }
        for (organization, at, removal) in removals {
            let (id, record_hash) = (removal.id(), record_hash(&removal.record()));
            entries.entry(organization).or_default().push(NewEntry {
                at,
                kind: Kind::Removal,
                id,
                record_hash,
            });
        }
        for (organization, new) in entries {
            self.append(&organization, new, now).await?;
        }
        Ok(())
    }

    /// The entry of a row, as it is stored, and its organization. `None` for a row without an organization.
    async fn row_entry(
        &mut self,
        kind: Kind,
        id: Uuid,
        at: Option<i64>,
    ) -> Result<Option<(String, NewEntry)>, Error> {
        let Some(row_kind) = RowKind::find(kind) else { return Ok(None) };
        let Some(mut record) = self.row_record(row_kind, kind, id).await? else { return Ok(None) };
        self.add_related(kind, id, &mut record).await?;
        let organization = record.get("organization").and_then(|organization| organization.as_str());
        let Some(organization) = organization.map(str::to_owned) else { return Ok(None) };
        let stored = || record.get(row_kind.time(kind)).and_then(serde_json::Value::as_i64);
        let at = at.or_else(stored).unwrap_or_default();
        let record_hash = record_hash(&record.into());
        Ok(Some((organization, NewEntry { at, kind, id: id.to_string(), record_hash })))
    }

    async fn environment_entries(
        &mut self,
        mut changes: BTreeMap<(Uuid, i64), EnvironmentChange>,
    ) -> Result<Vec<(String, NewEntry)>, Error> {
        // A constant statement, for a report, is prepared once per connection.
        const ONE: &str = "SELECT id, organization, name FROM environments WHERE id = $1";
        changes.retain(|_, change| !change.is_empty());
        let ids: BTreeSet<Uuid> = changes.keys().map(|(id, _)| *id).collect();
        let rows: Vec<EnvironmentRow> = if let (1, Some(id)) = (ids.len(), ids.first()) {
            fetch_all!(self, ONE, id)
        } else {
            fetch_for_all!(
                self,
                |query| query.push("SELECT id, organization, name FROM environments WHERE id IN"),
                ids,
                ""
            )
        };
        let rows: BTreeMap<Uuid, EnvironmentRow> = rows.into_iter().map(|row| (row.id, row)).collect();
        let entry = |((id, at), change): ((Uuid, i64), EnvironmentChange)| {
            let EnvironmentRow { organization, name, .. } = rows.get(&id)?;
            let id = id.to_string();
            let environment = ChangedEnvironment { id: &id, organization, name };
            let record_hash = record_hash(&change.record(&environment, at));
            Some((organization.clone(), NewEntry { at, kind: Kind::Environment, id, record_hash }))
        };
        Ok(changes.into_iter().filter_map(entry).collect())
    }
}
