//! Concurrency limits per organization: requests, reads, writes and memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// A semaphore per organization, created on first use.
#[derive(Debug)]
pub(crate) struct KeyedSemaphore {
    /// Permits per organization.
    pub(crate) each: u32,
    semaphores: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl KeyedSemaphore {
    /// A semaphore with this many permits for each organization, at least one.
    pub(crate) fn new(each: u32) -> Self {
        Self { each: each.max(1), semaphores: Mutex::default() }
    }

    pub(crate) fn get(&self, organization: &str) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = semaphores.get(organization) {
            return Arc::clone(semaphore);
        }
        let semaphore = Arc::new(Semaphore::new(self.each as usize));
        semaphores.insert(organization.to_owned(), Arc::clone(&semaphore));
        semaphore
    }
}
