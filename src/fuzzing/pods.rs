//! Targets `watch` and `pods`: watch responses in both encodings, and the output of `kubectl get pods`.

use super::checks::{assert_printable, with_file};
use super::report;
use crate::cluster::{PodName, PodsFile, Unreadable, WatchEvent, fuzzing};
use crate::domain::live::collapse::Counting;
use crate::domain::live::live_set::LiveSet;
use crate::domain::live::selection::Selection;
use crate::process::error_causes;

pub(super) fn watch_target(bytes: &[u8]) {
    let mut live_set = empty();
    let mut departures = Vec::new();
    // Departures are recorded only after a complete list.
    live_set.begin(None);
    live_set.complete(None, |_| unreachable!("the live set is empty"));
    fuzzing::watch(bytes, |event| match event {
        WatchEvent::Applied(Ok(pod)) => departures.extend(live_set.apply(None, pod).departures),
        WatchEvent::Applied(Err(unreadable)) => unread(&mut live_set, &unreadable),
        WatchEvent::Deleted(pod) => departures.extend(live_set.remove(None, &pod)),
        WatchEvent::DeletedByName(PodName { namespace, name }) => {
            departures.extend(live_set.remove_named(None, &namespace, &name));
        }
        _ => {}
    });
    report::assert_accepted(
        &live_set,
        departures.iter().map(|departure| departure.artifact.clone()).collect(),
    );
    live_set.begin(None);
    live_set.complete(None, |departure| departures.push(departure));
    report::assert_accepted(&live_set, departures.into_iter().map(|departure| departure.artifact).collect());
}

pub(super) fn file_target(bytes: &[u8]) {
    let mut live_set = empty();
    let read = with_file(bytes, |path| {
        PodsFile::Path(path.to_owned()).read(&mut |pod| match pod {
            Ok(pod) => drop(live_set.apply(None, pod)),
            Err(unreadable) => unread(&mut live_set, &unreadable),
        })
    });
    match read {
        Ok(()) => report::assert_accepted(&live_set, vec![]),
        Err(error) => assert_printable(&error_causes::describe(&error)),
    }
}

fn empty() -> LiveSet {
    LiveSet::new(vec![Selection::default()], Counting::All)
}

fn unread(live_set: &mut LiveSet, Unreadable { pod, problem, .. }: &Unreadable) {
    assert_printable(problem);
    live_set.unreadable(None, pod.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str())));
}
