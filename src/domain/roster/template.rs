//! What pods have in common, kept once.
//!
//! The pods of one `ReplicaSet` differ in name, uid and time alone; all else is one [`Template`] that
//! they share. The set asks here for each pod that it is given; templates that no pod has any more are
//! dropped from time to time.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::domain::collapse::Collapsed;

/// How many templates are kept before unused ones are looked for.
const FEW: usize = 64;

/// What a pod collapsed to, with its hash, so that it is hashed once.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) collapsed: Collapsed,
    hash: u64,
}

/// All templates in use, and a few that are no longer.
#[derive(Debug)]
pub(super) struct Templates {
    all: HashSet<Arc<Template>>,
    swept_at: usize,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.collapsed == other.collapsed
    }
}

impl Eq for Template {}

impl Hash for Template {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self { all: HashSet::new(), swept_at: FEW }
    }
}

impl Templates {
    /// The one template for this content.
    pub(super) fn of(&mut self, collapsed: Collapsed) -> Arc<Template> {
        let hash = self.all.hasher().hash_one(&collapsed);
        let template = Template { collapsed, hash };
        if let Some(known) = self.all.get(&template) {
            return Arc::clone(known);
        }
        if self.all.len() >= self.swept_at {
            self.all.retain(|template| Arc::strong_count(template) > 1);
            self.swept_at = FEW.max(2 * self.all.len());
            self.all.shrink_to(self.swept_at);
        }
        let template = Arc::new(template);
        self.all.insert(Arc::clone(&template));
        template
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
