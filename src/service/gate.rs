//! Who may change what verdicts rest on, before a connection is taken for it.
//!
//! The database has a lock for that, by organization. Whoever waits there holds a connection meanwhile, and a
//! few of those would keep every other organization from the database; so they wait here, as far as they are in
//! one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A gate for each organization that was asked for: no more than there are.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<HashMap<String, Arc<RwLock<()>>>>);

impl Gates {
    fn of(&self, organization: &str) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(organization) {
            return Arc::clone(gate);
        }
        Arc::clone(gates.entry(organization.to_owned()).or_default())
    }

    /// Lets others through who share it as well: reports.
    pub(super) async fn share(&self, organization: &str) -> OwnedRwLockReadGuard<()> {
        self.of(organization).read_owned().await
    }

    /// Lets nobody else through: attestations, and the bootstrap file.
    pub(super) async fn hold(&self, organization: &str) -> OwnedRwLockWriteGuard<()> {
        self.of(organization).write_owned().await
    }
}
