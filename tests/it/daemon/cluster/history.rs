//! Which pods were live, and from when to when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::daemon::reported::{Identity, Reported};

/// The time for which a pod was live: it ran, and one of its containers had a digest.
#[derive(Debug, Clone)]
pub struct Life {
    pub pod: Identity,
    /// What it ran, at one time or another.
    pub versions: BTreeSet<Reported>,
    pub from: Instant,
    /// `None` while it goes on.
    pub to: Option<Instant>,
    /// Whether it was in any list or event that was sent while it was live.
    pub was_told: bool,
}

/// Each life is known by the flag that says whether it was told.
#[derive(Default)]
pub struct Lives(Vec<(Arc<AtomicBool>, Life)>);

impl Lives {
    /// Goes on with the life that is open, or ends it, or begins one: the flag of the one that is open
    /// then. `versions` is what may be said of the pod now.
    pub fn change(
        &mut self,
        open: Option<Arc<AtomicBool>>,
        is_live: bool,
        versions: impl IntoIterator<Item = Reported>,
        now: Instant,
    ) -> Option<Arc<AtomicBool>> {
        let mut versions = versions.into_iter().filter(|version| !version.digests.is_empty()).peekable();
        let open = match (open, versions.peek()) {
            (Some(open), _) => open,
            (None, None) => return None,
            (None, Some(first)) => {
                let (told, pod) = (Arc::<AtomicBool>::default(), first.identity());
                let life = Life { pod, versions: BTreeSet::new(), from: now, to: None, was_told: false };
                self.0.push((Arc::clone(&told), life));
                told
            }
        };
        let life = self.of(&open);
        life.versions.extend(versions);
        if is_live {
            return Some(open);
        }
        life.to = Some(now);
        None
    }

    fn of(&mut self, flag: &Arc<AtomicBool>) -> &mut Life {
        &mut self.0.iter_mut().rev().find(|(told, _)| Arc::ptr_eq(told, flag)).expect("a life").1
    }

    pub fn all(&self) -> Vec<Life> {
        let with = |(told, life): &(Arc<AtomicBool>, Life)| Life {
            was_told: told.load(Ordering::Relaxed),
            ..life.clone()
        };
        self.0.iter().map(with).collect()
    }
}
