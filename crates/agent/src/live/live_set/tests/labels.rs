//! Environments that select namespaces by labels.

use proptest::prelude::*;

use super::*;

const NAMESPACES: [&str; 3] = ["pay", "shop", "ops"];

/// Three environments: by the label `team`, by the label `tier` except in `ops`, and by the name `shop`.
fn by_labels() -> LiveSet {
    let except = ["ops".parse().unwrap()].into();
    let tier = Selection::new([].into(), vec![], except, vec![]).unwrap();
    let selections = vec![
        Selection::default().with_labels("team".parse().ok()),
        tier.with_labels("tier".parse().ok()),
        only("shop"),
    ];
    LiveSet::new(selections, Counting::All)
}

fn namespace(name: &str, labels: &[&str]) -> NamespaceView {
    let labels = labels.iter().map(|label| ((*label).to_owned(), "x".to_owned())).collect();
    NamespaceView { name: name.to_owned(), labels }
}

fn reports(live_set: &LiveSet) -> [Vec<String>; 3] {
    [0, 1, 2].map(|n| names(&live_set.snapshot(n, vec![])))
}

#[test]
fn pods_move_in_one_revision_with_the_labels_of_their_namespace() {
    let mut live_set = by_labels();
    let none: [&str; 0] = [];
    for (of, name) in [("pay", "a"), ("pay", "b"), ("shop", "a")] {
        live_set.apply(None, pod(of, name, 1));
    }
    // Labels are not known: the pods are kept, and belong to no environment by labels.
    assert_eq!(reports(&live_set), [&none[..], &none, &["shop/a"]]);
    assert!(live_set.awaits_labels("pay") && live_set.awaits_labels("shop") && !live_set.has_seen_any(0));
    let before = live_set.latest();

    live_set.apply_namespace(&namespace("pay", &["team"]));
    assert_eq!(reports(&live_set), [&["pay/a", "pay/b"][..], &none, &["shop/a"]]);
    assert!(live_set.latest() > before && live_set.revision(2) <= before);
    assert_eq!(
        (live_set.revision(0), live_set.selected_since(0, "pay")),
        (live_set.latest(), Some(live_set.latest()))
    );
    assert!(live_set.has_seen_any(0) && !live_set.has_seen_any(1) && !live_set.awaits_labels("pay"));

    let since = live_set.latest();
    live_set.apply_namespace(&namespace("pay", &["team", "other"]));
    assert_eq!((live_set.latest(), live_set.selected_since(0, "pay")), (since, Some(since)));

    live_set.apply_namespace(&namespace("pay", &["tier"]));
    assert_eq!(reports(&live_set), [&none[..], &["pay/a", "pay/b"], &["shop/a"]]);
    assert_eq!((live_set.revision(0), live_set.revision(1)), (live_set.latest(), live_set.latest()));
    // Excluded, or selected by name.
    live_set.apply_namespace(&namespace("ops", &["tier"]));
    live_set.apply(None, pod("ops", "a", 1));
    assert_eq!((live_set.selected_since(1, "ops"), live_set.selected_since(0, "ops")), (None, None));
    assert_eq!(live_set.selected_since(2, "shop"), Some(Revision::default()));
}

#[test]
fn namespace_that_a_list_lacks_is_forgotten_without_its_pods() {
    let mut live_set = by_labels();
    live_set.begin_namespaces();
    live_set.apply_namespace(&namespace("pay", &["team"]));
    assert!(!live_set.are_namespaces_listed());
    assert_eq!(live_set.complete_namespaces(), RelistDiff { added: 1, ..RelistDiff::default() });
    assert!(live_set.are_namespaces_listed());
    live_set.apply(None, pod("pay", "a", 1));
    let mut relist = || {
        live_set.begin_namespaces();
        let removed = live_set.complete_namespaces().removed;
        let departure = live_set.remove(None, &pod("pay", "a", 1));
        (removed, departure.is_some(), live_set.selected_since(0, "pay").is_some())
    };
    assert_eq!(relist(), (0, true, true));
    assert_eq!(relist(), (1, false, false));
    assert!(live_set.awaits_labels("pay"));
}

#[test]
fn unreadable_namespace_keeps_its_environments_and_counts_where_its_labels_may_match() {
    let mut live_set = by_labels();
    live_set.apply_namespace(&namespace("pay", &["team"]));
    let unattributed = |live_set: &LiveSet| [0, 1, 2].map(|n| live_set.unattributed(n));
    live_set.begin_namespaces();
    // The second environment excludes `ops`, the third has no label selector.
    for name in [Some("pay"), Some("ops"), Some("ops"), None] {
        live_set.add_unreadable_namespace(name);
    }
    assert_eq!(unattributed(&live_set), [0, 0, 0], "an incomplete list does not count");
    assert_eq!(live_set.complete_namespaces().removed, 0);
    assert!(live_set.selected_since(0, "pay").is_some() && live_set.awaits_labels("ops"));
    assert_eq!(unattributed(&live_set), [3, 2, 0]);
    // The counts of the last list apply until the next one is complete.
    live_set.begin_namespaces();
    live_set.add_unreadable_namespace(Some("pay"));
    assert_eq!(unattributed(&live_set), [3, 2, 0]);
    live_set.complete_namespaces();
    assert_eq!(unattributed(&live_set), [1, 1, 0]);
    live_set.apply_namespace(&namespace("pay", &["team"]));
    assert_eq!(unattributed(&live_set), [0, 0, 0]);
    live_set.add_unreadable_namespace(Some("new"));
    assert_eq!(unattributed(&live_set), [1, 1, 0]);
    live_set.remove_namespace("new");
    assert_eq!(unattributed(&live_set), [0, 0, 0]);
}

proptest! {
    #[test]
    fn order_of_labels_and_pods_does_not_change_reports(
        steps in proptest::collection::vec((0..3_usize, 0..4_usize, any::<bool>()), 0..40),
    ) {
        let (mut moved, mut settled) = (by_labels(), by_labels());
        let label = |live_set: &mut LiveSet, (n, what, _): (usize, usize, bool)| {
            let labels = [&[][..], &["team"], &["tier"], &["team", "tier"]][what];
            live_set.apply_namespace(&namespace(NAMESPACES[n], labels));
        };
        let change = |live_set: &mut LiveSet, (n, what, _): (usize, usize, bool)| {
            let pod = pod(NAMESPACES[n], "a", 1);
            match what {
                0 => drop(live_set.remove(None, &pod)),
                1 => drop(live_set.apply(None, ended(pod))),
                _ => drop(live_set.apply(None, pod)),
            }
        };
        for step in &steps {
            if step.2 { label(&mut moved, *step) } else { change(&mut moved, *step) }
        }
        steps.iter().filter(|step| step.2).for_each(|step| label(&mut settled, *step));
        steps.iter().filter(|step| !step.2).for_each(|step| change(&mut settled, *step));
        prop_assert_eq!(reports(&moved), reports(&settled));
        for n in 0..3 {
            prop_assert_eq!(moved.tally(n), settled.tally(n));
        }
    }
}
