//! Pods of which something is said that cannot be: times, and names.

use super::*;

#[test]
fn a_pod_keeps_its_creation_time_whatever_an_event_says() {
    let mut roster = listed([pod("a", "x", 1)]);
    for created_at in [None, Some(-1), Some(253_402_300_800), Some(2)] {
        let applied = roster.apply(None, PodView { created_at, ..pod("a", "x", 1) });
        assert_eq!(applied, Applied::default());
        assert_eq!(roster.snapshot(0, vec![]).iter().map(|a| a.created_at).collect::<Vec<_>>(), [1]);
    }
    // Of one that was never seen with a time nothing can be said.
    let unknown = roster.apply(None, PodView { created_at: None, ..pod("a", "y", 1) });
    assert_eq!(unknown.left_out, Some(PodSkip::Unreadable));
}

/// A report that held it as it was is then enough.
#[test]
fn a_pod_departs_with_the_creation_time_that_is_known_whatever_its_end_says() {
    let created = |created_at| PodView { created_at, ..pod("a", "x", 1) };
    for created_at in [Some(1), None, Some(-1), Some(2), Some(253_402_300_800)] {
        let mut roster = listed([pod("a", "x", 1)]);
        let reported = roster.revision(0);
        let gone = roster.remove(None, &created(created_at)).unwrap();
        assert_eq!((shown(&gone), gone.since <= reported), ("a/x#1: 1".to_owned(), true), "{created_at:?}");
        let mut roster = listed([pod("a", "x", 1)]);
        let ended = roster.apply(None, ended(created(created_at))).departures;
        assert_eq!(ended.iter().map(shown).collect::<Vec<_>>(), ["a/x#1: 1"]);
        assert!(ended.iter().all(|gone| gone.since <= reported), "{created_at:?}");
    }
}

#[test]
fn a_name_that_no_pod_can_have_is_counted_and_spoils_no_report() {
    let mut roster = listed([pod("a", "x", 1)]);
    for (namespace, name) in [("a", "y\0"), ("a", &"y".repeat(254)), ("a\u{1b}", "y"), ("", "y"), ("a", "")] {
        roster.apply(None, pod(namespace, name, 1));
    }
    assert_eq!(roster.snapshot(0, vec![]).iter().count(), 1);
    assert_eq!((roster.tally(0).skipped_pods, roster.lost()), ([(PodSkip::Unreadable, 3)].into(), 2));
}

#[test]
fn what_no_pod_can_have_departs_with_none_that_is_first_heard_of_when_it_is_deleted() {
    let mut roster = listed([]);
    for gone in [pod("a", "y\0", 1), pod("a\n", "y", 1), pod("a", "", 1), pod("a", "y", -1)] {
        assert_eq!(roster.remove(None, &gone), None, "{gone:?}");
    }
    assert_eq!(shown(&roster.remove(None, &pod("a", "y", 1)).unwrap()), "a/y#1: 1");
}
