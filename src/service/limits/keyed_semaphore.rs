//! Concurrency limits per key: per token for reads, per organization for reads, writes and memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// A semaphore per key, created on first use. Keys are tokens or organizations, so their number is bounded.
#[derive(Debug)]
pub(crate) struct KeyedSemaphore<Key> {
    /// Permits per key.
    pub(crate) each: u32,
    semaphores: Mutex<HashMap<Key, Arc<Semaphore>>>,
}

impl<Key: Eq + Hash> KeyedSemaphore<Key> {
    /// A semaphore with this many permits for each key, at least one.
    pub(crate) fn new(each: u32) -> Self {
        Self { each: each.max(1), semaphores: Mutex::default() }
    }

    /// The semaphore of a key.
    pub(crate) fn get(&self, key: Key) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        let semaphore = semaphores.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.each as usize)));
        Arc::clone(semaphore)
    }

    /// The number of keys so far.
    pub(crate) fn keys(&self) -> usize {
        self.semaphores.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
