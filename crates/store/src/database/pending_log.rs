//! The changes of a transaction, which become entries of the log when it commits.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use model::Timestamp;
use model::log::environment_change::{EnvironmentChange, NewSnapshot};
use model::log::{Kind, NewEntry, Removal, record_hash};

/// The changes of a transaction.
#[derive(Default)]
pub(crate) struct PendingLog {
    pub(crate) rows: Vec<PendingRow>,
    /// Changes of environments, by organization, identifier and time.
    pub(crate) environments: BTreeMap<(String, Uuid, i64), EnvironmentChange>,
    /// Removals by the retention, by organization.
    pub(crate) removals: Vec<(String, NewEntry)>,
    pub(crate) declared: Option<Declared>,
}

/// An inserted or closed row, or a changed one with the time of the change.
pub(crate) struct PendingRow {
    pub(crate) organization: String,
    pub(crate) kind: Kind,
    pub(crate) id: Uuid,
    pub(crate) at: Option<i64>,
}

/// The organizations of an applied bootstrap file.
pub(crate) struct Declared {
    /// Those whose logs start.
    pub(crate) organizations: BTreeSet<String>,
    /// Those of which declared rows were opened or closed at this time.
    pub(crate) changed: BTreeSet<String>,
    pub(crate) at: i64,
}

impl PendingLog {
    /// Adds a row that was inserted or closed.
    pub(crate) fn row(&mut self, organization: &str, kind: Kind, id: Uuid) {
        self.rows.push(PendingRow { organization: organization.to_owned(), kind, id, at: None });
    }

    /// Adds a row of a kind whose rows change, when it is inserted or changed.
    pub(crate) fn revision(&mut self, organization: &str, kind: Kind, id: Uuid, at: Timestamp) {
        let (organization, at) = (organization.to_owned(), Some(at.micros()));
        self.rows.push(PendingRow { organization, kind, id, at });
    }

    /// The change of an environment at a time.
    pub(crate) fn environment(
        &mut self,
        organization: &str,
        environment: Uuid,
        at: Timestamp,
    ) -> &mut EnvironmentChange {
        self.environments.entry((organization.to_owned(), environment, at.micros())).or_default()
    }

    /// The snapshot that was started for an environment, if there is one with this number.
    pub(crate) fn snapshot(
        &mut self,
        organization: &str,
        environment: Uuid,
        number: i64,
    ) -> Option<&mut NewSnapshot> {
        let key = |at| (organization.to_owned(), environment, at);
        let changes = self.environments.range_mut(key(i64::MIN)..=key(i64::MAX));
        let mut snapshots = changes.filter_map(|(_, change)| change.snapshot.as_mut());
        snapshots.find(|snapshot| snapshot.number == number)
    }

    pub(crate) fn removal(&mut self, organization: &str, removal: &Removal, now: Timestamp) {
        let (at, kind, id) = (now.micros(), Kind::Removal, removal.id());
        let record_hash = record_hash(&removal.record());
        self.removals.push((organization.to_owned(), NewEntry { at, kind, id, record_hash }));
    }

    /// Starts the logs of organizations, and adds the declared rows of changed ones that were opened or closed at this time.
    pub(crate) fn declared<'a>(
        &mut self,
        organizations: impl IntoIterator<Item = &'a str>,
        changed: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) {
        let organizations = organizations.into_iter().map(str::to_owned).collect();
        let changed = changed.into_iter().map(str::to_owned).collect();
        self.declared = Some(Declared { organizations, changed, at: now.micros() });
    }
}
