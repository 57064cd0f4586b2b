//! The changes of a transaction, which become entries of the log when it commits.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::types::Uuid;

use crate::domain::evidence::log::environment_change::{EnvironmentChange, NewSnapshot};
use crate::domain::evidence::log::{Kind, Removal};
use crate::domain::model::Timestamp;

/// The changes of a transaction.
#[derive(Default)]
pub(in crate::store) struct PendingLog {
    /// Inserted rows.
    pub(super) rows: Vec<(Kind, Uuid)>,
    /// Changes of environments, by their identifiers and times.
    pub(super) environments: BTreeMap<(Uuid, i64), EnvironmentChange>,
    pub(super) removals: Vec<(String, i64, Removal)>,
    /// Organizations of which declared rows were opened or closed at a time.
    pub(super) declared: Option<(BTreeSet<String>, i64)>,
}

impl PendingLog {
    /// Adds an inserted row.
    pub(in crate::store) fn row(&mut self, kind: Kind, id: Uuid) {
        self.rows.push((kind, id));
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
