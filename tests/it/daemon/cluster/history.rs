//! Which pods were live, and from when to when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// Whether somebody was told of a life.
pub struct Told {
    /// Which life: its place among all of them.
    number: AtomicUsize,
    is_told: AtomicBool,
}

impl Told {
    /// Somebody is.
    pub fn tell(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }
}

/// In the order in which they began.
#[derive(Default)]
pub struct Lives(Vec<(Arc<Told>, Life)>);

impl Lives {
    /// Goes on with the life that is open, or ends it, or begins one: the one that is open then. `versions`
    /// is what may be said of the pod now.
    pub fn change(
        &mut self,
        open: Option<Arc<Told>>,
        is_live: bool,
        versions: impl IntoIterator<Item = Reported>,
        now: Instant,
    ) -> Option<Arc<Told>> {
        let mut versions = versions.into_iter().filter(|version| !version.digests.is_empty()).peekable();
        let open = match (open, versions.peek()) {
            (Some(open), _) => open,
            (None, None) => return None,
            (None, Some(first)) => {
                let told = Arc::new(Told { number: self.0.len().into(), is_told: AtomicBool::default() });
                let pod = first.identity();
                let life = Life { pod, versions: BTreeSet::new(), from: now, to: None, was_told: false };
                self.0.push((Arc::clone(&told), life));
                told
            }
        };
        let life = &mut self.0[open.number.load(Ordering::Relaxed)].1;
        life.versions.extend(versions);
        if is_live {
            return Some(open);
        }
        life.to = Some(now);
        None
    }

    pub fn forget_ended(&mut self) {
        self.0.retain(|(_, life)| life.to.is_none());
        for (number, (told, _)) in self.0.iter().enumerate() {
            told.number.store(number, Ordering::Relaxed);
        }
    }

    pub fn all(&self) -> Vec<Life> {
        let with = |(told, life): &(Arc<Told>, Life)| Life {
            was_told: told.is_told.load(Ordering::Relaxed),
            ..life.clone()
        };
        self.0.iter().map(with).collect()
    }
}
