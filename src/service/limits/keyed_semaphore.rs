//! How much of what all share one of them may take at a time: a token of what is read, an organization of what is
//! written.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// So many places for each that was asked for: no more of these than there are tokens, or organizations.
#[derive(Debug)]
pub(crate) struct Places<Key> {
    /// How many.
    pub(crate) each: u32,
    of: Mutex<HashMap<Key, Arc<Semaphore>>>,
}

impl<Key: Eq + Hash> Places<Key> {
    /// So many for each.
    pub(crate) fn new(each: u32) -> Self {
        Self { each: each.max(1), of: Mutex::default() }
    }

    /// The places of one.
    pub(crate) fn of(&self, key: Key) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let places = of.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.each as usize)));
        Arc::clone(places)
    }
}
