//! The times during which pods were live.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::daemon::support::reported_pod::{Identity, ReportedPod};

/// The time during which a pod was live: running, with at least one digest.
#[derive(Debug, Clone)]
pub struct Lifetime {
    pub pod: Identity,
    /// All combinations of digests that it ran.
    pub versions: BTreeSet<ReportedPod>,
    pub from: Instant,
    /// `None` while the pod is live.
    pub to: Option<Instant>,
    /// Whether a list or event with the pod was sent while it was live.
    pub was_sent: bool,
}

/// Whether a lifetime was sent to a client.
pub struct SentFlag {
    /// Index of the lifetime.
    number: usize,
    is_sent: AtomicBool,
}

impl SentFlag {
    pub fn mark_sent(&self) {
        self.is_sent.store(true, Ordering::Relaxed);
    }
}

/// All lifetimes, in the order of their start.
#[derive(Default)]
pub struct Lifetimes(Vec<(Arc<SentFlag>, Lifetime)>);

impl Lifetimes {
    /// Continues, ends or starts a lifetime, and returns the open one. `versions` are the valid reports of the pod.
    pub fn change(
        &mut self,
        open: Option<Arc<SentFlag>>,
        is_live: bool,
        versions: impl IntoIterator<Item = ReportedPod>,
        now: Instant,
    ) -> Option<Arc<SentFlag>> {
        let mut versions = versions.into_iter().filter(|version| !version.digests.is_empty()).peekable();
        let open = match (open, versions.peek()) {
            (Some(open), _) => open,
            (None, None) => return None,
            (None, Some(first)) => {
                let sent = Arc::new(SentFlag { number: self.0.len(), is_sent: AtomicBool::default() });
                let pod = first.identity();
                let lifetime =
                    Lifetime { pod, versions: BTreeSet::new(), from: now, to: None, was_sent: false };
                self.0.push((Arc::clone(&sent), lifetime));
                sent
            }
        };
        let lifetime = &mut self.0[open.number].1;
        lifetime.versions.extend(versions);
        if is_live {
            return Some(open);
        }
        lifetime.to = Some(now);
        None
    }

    pub fn all(&self) -> Vec<Lifetime> {
        let to_life = |(sent, lifetime): &(Arc<SentFlag>, Lifetime)| Lifetime {
            was_sent: sent.is_sent.load(Ordering::Relaxed),
            ..lifetime.clone()
        };
        self.0.iter().map(to_life).collect()
    }
}
