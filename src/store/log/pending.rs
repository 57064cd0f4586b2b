//! The changes of a transaction, which become entries of the log when it commits.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::domain::evidence::log::environment_change::{EnvironmentChange, NewSnapshot};
use crate::domain::evidence::log::{Kind, Removal};
use crate::domain::model::Timestamp;

/// The changes of a transaction.
#[derive(Default)]
pub(in crate::store) struct PendingLog {
    /// Inserted and closed rows, and changed ones with the time of the change.
    pub(super) rows: Vec<(Kind, Uuid, Option<i64>)>,
    /// Changes of environments, by their identifiers and times.
    pub(super) environments: BTreeMap<(Uuid, i64), EnvironmentChange>,
    pub(super) removals: Vec<(String, i64, Removal)>,
    /// Organizations of which declared rows were opened or closed at a time.
    pub(super) declared: Option<(BTreeSet<String>, i64)>,
}

impl PendingLog {
    /// Adds a row that was inserted or closed.
    pub(in crate::store) fn row(&mut self, kind: Kind, id: Uuid) {
        self.rows.push((kind, id, None));
    }

    /// Adds a row of a kind whose rows change, when it is inserted or changed.
    pub(in crate::store) fn revision(&mut self, kind: Kind, id: Uuid, at: Timestamp) {
        self.rows.push((kind, id, Some(at.micros())));
    }

    /// The change of an environment at a time.
    pub(in crate::store) fn environment(
        &mut self,
        environment: Uuid,
        at: Timestamp,
    ) -> &mut EnvironmentChange {
        self.environments.entry((environment, at.micros())).or_default()
    }

    /// The snapshot that was started for an environment, if there is one with this number.
    pub(in crate::store) fn snapshot(&mut self, environment: Uuid, number: i64) -> Option<&mut NewSnapshot> {
        let changes = self.environments.range_mut((environment, i64::MIN)..=(environment, i64::MAX));
        let snapshots = changes.filter_map(|(_, change)| change.snapshot.as_mut());
        snapshots.into_iter().find(|snapshot| snapshot.number == number)
    }

    /// Adds a removal by the retention.
    pub(in crate::store) fn removal(&mut self, organization: &str, removal: Removal, now: Timestamp) {
        self.removals.push((organization.to_owned(), now.micros(), removal));
    }

    /// Adds the declared rows of organizations that were opened or closed at a time, and starts their logs.
    pub(in crate::store) fn declared<'a>(
        &mut self,
        organizations: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) {
        let organizations = organizations.into_iter().map(str::to_owned).collect();
        self.declared = Some((organizations, now.micros()));
    }
}
