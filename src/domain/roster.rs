//! The live set: every artifact that was listed, in report order, and what was left out.
//!
//! `agent` fills a [`Gathering`] while a list is read and turns it into a [`Roster`] when the list
//! is complete. Each environment's report is a [`Snapshot`] of it: ranges over the shared set, no
//! copy.

use std::collections::{BTreeMap, HashSet};
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use super::collapse::{Collapsed, ContainerSkip, PodSkip};
use super::model::{Artifact, Workload};
use super::selection::Selection;

/// Counts of what was seen in a namespace, and why part of it is not in the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods in any phase.
    pub pods: u64,
    /// Pods left out.
    pub skipped_pods: BTreeMap<PodSkip, u64>,
    /// Containers left out of pods that live.
    pub skipped_containers: BTreeMap<ContainerSkip, u64>,
    /// Containers known by their image's configuration digest alone.
    pub config_digests: u64,
}

/// A list that is being read.
#[derive(Debug, Default)]
pub struct Gathering {
    artifacts: Vec<Artifact>,
    tallies: BTreeMap<Arc<str>, Tally>,
    workloads: HashSet<Arc<Workload>>,
}

/// A complete list.
#[derive(Debug, Default)]
pub struct Roster {
    artifacts: Vec<Artifact>,
    tallies: BTreeMap<Arc<str>, Tally>,
}

/// The part of a roster that one environment reports.
#[derive(Debug, Clone)]
pub struct Snapshot {
    roster: Arc<Roster>,
    ranges: Vec<Range<usize>>,
    /// The sum over the selected namespaces.
    pub tally: Tally,
}

impl Gathering {
    /// Counts a pod of this namespace that could not be read.
    pub fn add_unreadable(&mut self, namespace: &str) {
        let artifact = Err(PodSkip::Unreadable);
        self.add(namespace, Collapsed { artifact, skipped: Vec::new(), config_digests: 0 });
    }

    /// Takes in what became of one pod of this namespace.
    pub fn add(&mut self, namespace: &str, collapsed: Collapsed) {
        let shared_name = match self.tallies.get_key_value(namespace) {
            Some((name, _)) => Arc::clone(name),
            None => namespace.into(),
        };
        let tally = self.tallies.entry(Arc::clone(&shared_name)).or_default();
        tally.pods += 1;
        tally.config_digests += u64::from(collapsed.config_digests);
        for skip in collapsed.skipped {
            *tally.skipped_containers.entry(skip).or_default() += 1;
        }
        match collapsed.artifact {
            Ok(artifact) => {
                let workload = self.shared(artifact.workload);
                self.artifacts.push(Artifact { namespace: shared_name, workload, ..artifact });
            }
            Err(skip) => *tally.skipped_pods.entry(skip).or_default() += 1,
        }
    }

    /// Forgets one namespace, or all, because its list begins again.
    pub fn forget(&mut self, namespace: Option<&str>) {
        let stays = |n: &str| namespace.is_some_and(|gone| gone != n);
        self.artifacts.retain(|a| stays(&a.namespace));
        self.tallies.retain(|n, _| stays(n));
    }

    /// The complete set, and the artifacts that a later one of the same name replaced: a cluster
    /// has none of these, a file may.
    #[must_use]
    pub fn finish(mut self) -> (Roster, Vec<Artifact>) {
        // The sort is stable and, on a list that came in order, a single pass.
        self.artifacts.sort_by(Artifact::report_order);
        let mut replaced = Vec::new();
        self.artifacts.dedup_by(|later, kept| {
            let same = later.report_order(kept).is_eq();
            if same {
                replaced.push(std::mem::replace(kept, later.clone()));
            }
            same
        });
        self.artifacts.shrink_to_fit();
        (Roster { artifacts: self.artifacts, tallies: self.tallies }, replaced)
    }

    /// The one copy of what many pods have in common.
    fn shared(&mut self, workload: Arc<Workload>) -> Arc<Workload> {
        if let Some(known) = self.workloads.get(&workload) {
            return Arc::clone(known);
        }
        self.workloads.insert(Arc::clone(&workload));
        workload
    }
}

impl Roster {
    /// Whether any pod was seen in this namespace, in whatever phase.
    #[must_use]
    pub fn has_seen(&self, namespace: &str) -> bool {
        self.tallies.contains_key(namespace)
    }

    /// What one environment reports.
    #[must_use]
    pub fn select(self: &Arc<Self>, selection: &Selection) -> Snapshot {
        let mut tally = Tally::default();
        for (_, part) in self.tallies.iter().filter(|(namespace, _)| selection.takes(namespace)) {
            tally += part;
        }
        // In report order a namespace's artifacts are neighbours.
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for neighbours in self.artifacts.chunk_by(|a, b| a.namespace == b.namespace) {
            let end = start + neighbours.len();
            if neighbours.first().is_some_and(|a| selection.takes(&a.namespace)) {
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => ranges.push(start..end),
                }
            }
            start = end;
        }
        Snapshot { roster: Arc::clone(self), ranges, tally }
    }
}

impl Snapshot {
    /// How many artifacts it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The artifacts in report order, from the `n`th on.
    pub fn iter_from(&self, n: usize) -> impl Iterator<Item = &Artifact> {
        let mut before = n;
        self.ranges.iter().flat_map(move |range| {
            let skipped = before.min(range.len());
            before -= skipped;
            self.roster.artifacts.get(range.start + skipped..range.end).unwrap_or_default()
        })
    }
}

impl AddAssign<&Self> for Tally {
    fn add_assign(&mut self, other: &Self) {
        self.pods += other.pods;
        self.config_digests += other.config_digests;
        for (skip, n) in &other.skipped_pods {
            *self.skipped_pods.entry(*skip).or_default() += n;
        }
        for (skip, n) in &other.skipped_containers {
            *self.skipped_containers.entry(*skip).or_default() += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::collapse::{Counting, collapse};
    use crate::domain::pod::{ContainerView, PodView};
    use crate::domain::report::Report;

    fn pod(namespace: &str, name: &str, created_at: i64) -> PodView {
        let container =
            ContainerView { image: "app".into(), image_id: "ab".repeat(32), ..Default::default() };
        PodView {
            namespace: namespace.into(),
            name: name.into(),
            created_at: Some(created_at),
            containers: vec![container],
            ..Default::default()
        }
    }

    fn gather(pods: impl IntoIterator<Item = PodView>) -> Gathering {
        let mut gathering = Gathering::default();
        for pod in pods {
            gathering.add(&pod.namespace.clone(), collapse(pod, Counting::All));
        }
        gathering
    }

    fn names(snapshot: &Snapshot) -> Vec<String> {
        snapshot.iter_from(0).map(|a| format!("{}/{}", a.namespace, a.pod_name)).collect()
    }

    #[test]
    fn artifacts_come_in_the_order_of_namespace_slash_name() {
        let (roster, _) =
            gather([pod("b", "x", 1), pod("a", "y", 1), pod("a-b", "x", 1), pod("a", "x", 1)]).finish();
        let all = Arc::new(roster).select(&Selection::default());
        assert_eq!(names(&all), ["a-b/x", "a/x", "a/y", "b/x"]);
    }

    #[test]
    fn a_snapshot_holds_the_selected_namespaces_and_their_counts() {
        let empty = PodView { containers: vec![], ..pod("b", "new", 1) };
        let (roster, _) =
            gather([pod("a", "x", 1), pod("b", "x", 1), pod("b", "y", 1), empty, pod("c", "x", 1)]).finish();
        let roster = Arc::new(roster);
        let b = || ["b".parse().unwrap()].into();
        let except_b = Selection::new([].into(), vec![], b(), vec![]).unwrap();
        let only_b = Selection::new(b(), vec![], [].into(), vec![]).unwrap();
        assert_eq!(names(&roster.select(&except_b)), ["a/x", "c/x"]);
        let b = roster.select(&only_b);
        assert_eq!((names(&b), b.len()), (vec!["b/x".to_owned(), "b/y".to_owned()], 2));
        assert_eq!((b.tally.pods, &b.tally.skipped_pods), (3, &[(PodSkip::NotStarted, 1)].into()));
        let left = |n| roster.select(&except_b).iter_from(n).count();
        assert_eq!([left(0), left(1), left(2), left(3)], [2, 1, 0, 0]);
    }

    #[test]
    fn of_two_pods_with_one_name_the_later_counts_and_the_other_is_named() {
        let (roster, replaced) = gather([pod("a", "x", 1), pod("a", "w", 1), pod("a", "x", 2)]).finish();
        let all = Arc::new(roster).select(&Selection::default());
        assert_eq!(all.iter_from(0).map(|a| a.created_at).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(replaced.iter().map(|a| a.created_at).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_list_that_begins_again_leaves_nothing_behind() {
        let mut gathering = gather([pod("a", "x", 1), pod("b", "x", 1)]);
        gathering.forget(Some("a"));
        let (roster, _) = gathering.finish();
        assert!(!roster.has_seen("a") && roster.has_seen("b"));
        let mut gathering = gather([pod("a", "x", 1)]);
        gathering.forget(None);
        assert!(Arc::new(gathering.finish().0).select(&Selection::default()).is_empty());
    }

    #[test]
    fn pods_of_one_owner_share_what_they_have_in_common() {
        let (roster, _) = gather((0..100).map(|i| pod("a", &format!("web-{i}"), i))).finish();
        let distinct: HashSet<_> = roster.artifacts.iter().map(|a| Arc::as_ptr(&a.workload)).collect();
        assert_eq!(distinct.len(), 1);
    }

    proptest! {
        #[test]
        fn the_same_pods_in_any_order_give_the_same_bytes(
            pods in proptest::collection::btree_set(("[ab-]{1,3}", "[a-c.-]{1,3}"), 0..12)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>())
                .prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        ) {
            let bytes = |pods: &[(String, String)]| {
                let (roster, _) = gather(pods.iter().map(|(ns, name)| pod(ns, name, 1))).finish();
                Report::new(Arc::new(roster).select(&Selection::default())).chunks().flatten().collect::<Vec<u8>>()
            };
            prop_assert_eq!(bytes(&pods.0), bytes(&pods.1));
        }
    }
}
