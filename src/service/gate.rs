//! Who may change what verdicts rest on, before a connection is taken for it.
//!
//! The database has a lock for that, by organization. Whoever waits there holds a connection meanwhile, and a
//! few of those would keep every other organization from the database; so they wait here, as far as they are in
//! one process. For the same reason only some of an organization's reports are confirmed or recorded at a time:
//! those of one environment wait for each other, and large ones take long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

/// A gate for each organization that was asked for: no more than there are.
#[derive(Debug)]
pub(super) struct Gates {
    sharing: usize,
    gates: Mutex<HashMap<String, Gate>>,
}

#[derive(Debug, Clone)]
struct Gate {
    lock: Arc<RwLock<()>>,
    places: Arc<Semaphore>,
}

/// A place among those who share a gate.
pub(super) type Place = Option<OwnedSemaphorePermit>;

impl Gates {
    /// Gates that so many share at a time.
    pub(super) fn new(sharing: usize) -> Self {
        Self { sharing: sharing.max(1), gates: Mutex::default() }
    }

    fn of(&self, organization: &str) -> Gate {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(organization) {
            return gate.clone();
        }
        let gate = Gate { lock: Arc::default(), places: Arc::new(Semaphore::new(self.sharing)) };
        gates.entry(organization.to_owned()).or_insert(gate).clone()
    }

    /// Waits for a place, and for nothing else: what a heartbeat writes is no reason for a verdict.
    pub(super) async fn place(&self, organization: &str) -> Place {
        self.of(organization).places.acquire_owned().await.ok()
    }

    /// Lets some others through who share it as well: reports.
    pub(super) async fn share(&self, organization: &str) -> (OwnedRwLockReadGuard<()>, Place) {
        // The place first: whoever wants the gate alone waits for those few who have one.
        let place = self.place(organization).await;
        (self.of(organization).lock.read_owned().await, place)
    }

    /// Lets nobody else through: attestations, and the bootstrap file.
    pub(super) async fn hold(&self, organization: &str) -> OwnedRwLockWriteGuard<()> {
        self.of(organization).lock.write_owned().await
    }
}
