//! Pods with invalid creation times and names.

use super::*;

#[test]
fn creation_time_does_not_change() {
    let mut live_set = listed([pod("a", "x", 1)]);
    for created_at in [None, Some(-1), Some(253_402_300_800), Some(2)] {
        let applied = live_set.apply(None, PodView { created_at, ..pod("a", "x", 1) });
        assert_eq!(applied, ApplyResult::default());
        assert_eq!(live_set.snapshot(0, vec![]).iter().map(|a| a.created_at).collect::<Vec<_>>(), [1]);
    }
    // A pod without any creation time is skipped.
    let unknown = live_set.apply(None, PodView { created_at: None, ..pod("a", "y", 1) });
    assert_eq!(unknown.skip, Some(PodSkip::Unreadable));
}

/// An accepted report with the previous state then contains the departure.
#[test]
fn departure_keeps_the_known_creation_time() {
    let created = |created_at| PodView { created_at, ..pod("a", "x", 1) };
    for created_at in [Some(1), None, Some(-1), Some(2), Some(253_402_300_800)] {
        let mut live_set = listed([pod("a", "x", 1)]);
        let reported = live_set.revision(0);
        let gone = live_set.remove(None, &created(created_at)).unwrap();
        assert_eq!(
            (describe(&gone), gone.since <= reported),
            ("a/x#1: 1".to_owned(), true),
            "{created_at:?}"
        );
        let mut live_set = listed([pod("a", "x", 1)]);
        let ended = live_set.apply(None, ended(created(created_at))).departures;
        assert_eq!(ended.iter().map(describe).collect::<Vec<_>>(), ["a/x#1: 1"]);
        assert!(ended.iter().all(|gone| gone.since <= reported), "{created_at:?}");
    }
}

#[test]
fn pod_with_invalid_name_is_counted_and_not_reported() {
    let mut live_set = listed([pod("a", "x", 1)]);
    for (namespace, name) in [("a", "y\0"), ("a", &"y".repeat(254)), ("a\u{1b}", "y"), ("", "y"), ("a", "")] {
        live_set.apply(None, pod(namespace, name, 1));
    }
    assert_eq!(live_set.snapshot(0, vec![]).iter().count(), 1);
    assert_eq!(
        (live_set.tally(0).skipped_pods, live_set.unattributed(0)),
        ([(PodSkip::Unreadable, 3)].into(), 2)
    );
}

#[test]
fn unknown_pod_with_invalid_fields_does_not_depart() {
    let mut live_set = listed([]);
    for gone in [pod("a", "y\0", 1), pod("a\n", "y", 1), pod("a", "", 1), pod("a", "y", -1)] {
        assert_eq!(live_set.remove(None, &gone), None, "{gone:?}");
    }
    assert_eq!(describe(&live_set.remove(None, &pod("a", "y", 1)).unwrap()), "a/y#1: 1");
}
