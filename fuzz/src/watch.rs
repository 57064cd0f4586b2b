//! Responses of a watch.

use super::{assert_printable, report};
use agent::cluster::{PodName, Unreadable, WatchEvent, fuzzing};
use agent::live::collapse::Counting;
use agent::live::live_set::LiveSet;
use agent::live::selection::Selection;

/// A response, in both encodings.
pub fn watch(bytes: &[u8]) {
    let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
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

fn unread(live_set: &mut LiveSet, Unreadable { pod, problem, .. }: &Unreadable) {
    assert_printable(problem);
    live_set.unreadable(None, pod.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str())));
}
