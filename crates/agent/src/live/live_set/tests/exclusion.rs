//! Pods with the annotation that excludes them.

use super::*;
use crate::live::report::Report;
use crate::live::selection::Exclusion;
use client::ReportBody;

/// Two environments with all pods: the first permits exclusion, the second does not.
fn both() -> LiveSet {
    let permitted = Selection::default().with_exclusion(Exclusion::Permitted);
    let mut live_set = LiveSet::new(vec![permitted, Selection::default()], Counting::All);
    live_set.begin(None);
    live_set.complete(None, drop);
    live_set
}

fn excluded(pod: PodView) -> PodView {
    PodView { is_excluded: true, ..pod }
}

/// The artifacts and the number of excluded pods of both environments.
fn reported(live_set: &LiveSet, departed: &[Artifact]) -> [(Vec<String>, u64); 2] {
    [0, 1].map(|n| {
        let snapshot = live_set.snapshot(n, departed.to_vec());
        let (names, length) = (names(&snapshot), snapshot.len());
        assert_eq!(names.len(), length);
        (names, Report::new(snapshot).excluded_pods())
    })
}

fn all(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn excluded_pod_is_left_out_and_counted_only_where_exclusion_is_permitted() {
    let mut live_set = both();
    live_set.apply(None, pod("a", "x", 1));
    let applied = live_set.apply(None, excluded(pod("a", "y", 1)));
    assert_eq!(applied.skip, Some(PodSkip::Excluded));
    assert_eq!(reported(&live_set, &[]), [(all(&["a/x"]), 1), (all(&["a/x", "a/y"]), 0)]);
    let tally = live_set.tally(0);
    assert_eq!((tally.pods, tally.artifacts, tally.config_digests, tally.excluded()), (2, 1, 1, 1));
    live_set.remove(None, &excluded(pod("a", "y", 1)));
    assert_eq!(live_set.tally(0), live_set.tally(1));
}

#[test]
fn pod_that_is_not_reported_anyway_is_not_counted_as_excluded() {
    let mut live_set = both();
    let waiting = PodView { containers: vec![container("app", "")], ..pod("a", "new", 1) };
    for pod in [excluded(waiting), excluded(ended(pod("a", "old", 1)))] {
        live_set.apply(None, pod);
    }
    assert_eq!(live_set.tally(0).excluded(), 0);
    assert_eq!(live_set.tally(0), live_set.tally(1));
}

#[test]
fn annotated_pod_leaves_the_report_without_departing_and_returns() {
    let mut live_set = both();
    live_set.apply(None, pod("a", "x", 1));
    for is_excluded in [true, false] {
        let before = (live_set.revision(0), Report::new(live_set.snapshot(0, vec![])).hash());
        let applied = live_set.apply(None, PodView { is_excluded, ..pod("a", "x", 1) });
        assert_eq!(applied.departures, []);
        let (artifacts, excluded) = if is_excluded { (vec![], 1) } else { (all(&["a/x"]), 0) };
        assert_eq!(reported(&live_set, &[]), [(artifacts, excluded), (all(&["a/x"]), 0)]);
        let after = (live_set.revision(0), Report::new(live_set.snapshot(0, vec![])).hash());
        assert!(after.0 > before.0 && after.1 != before.1);
    }
}

#[test]
fn another_number_of_excluded_pods_is_another_report() {
    let mut live_set = both();
    live_set.apply(None, excluded(pod("a", "x", 1)));
    let one = Report::new(live_set.snapshot(0, vec![]));
    live_set.apply(None, excluded(pod("a", "y", 1)));
    let two = Report::new(live_set.snapshot(0, vec![]));
    assert!(one.chunks().eq(two.chunks()) && one.hash() != two.hash());
}

/// A pod between two reports must not be hidden from the number.
#[test]
fn excluded_pod_that_departed_is_counted_once() {
    let mut live_set = both();
    live_set.apply(None, excluded(pod("a", "job", 1)));
    let departure = live_set.remove(None, &excluded(ended(pod("a", "job", 1)))).unwrap();
    let unseen = live_set.remove(None, &excluded(ended(pod("a", "unseen", 1)))).unwrap();
    let departed = [departure.artifact.clone(), departure.artifact, unseen.artifact];
    assert_eq!(reported(&live_set, &departed), [(vec![], 2), (all(&["a/job", "a/unseen"]), 0)]);
}
