//! Pods: the answer of a watch, in either encoding, and a file that `kubectl` wrote.

use super::{in_file, is_told, report};
use crate::cluster::{Heard, PodName, PodsFile, Unreadable, fuzzing};
use crate::domain::live::collapse::Counting;
use crate::domain::live::live_set::Roster;
use crate::domain::live::selection::Selection;
use crate::process::error_causes;

pub(super) fn of_watch(bytes: &[u8]) {
    let mut roster = empty();
    let mut left = Vec::new();
    // After a list that is complete, all that happens is news.
    roster.begin(None);
    roster.complete(None, |_| unreachable!("nothing has come"));
    fuzzing::watch(bytes, |heard| match heard {
        Heard::Pod(Ok(pod)) => left.extend(roster.apply(None, pod).departures),
        Heard::Pod(Err(unreadable)) => unread(&mut roster, &unreadable),
        Heard::Gone(pod) => left.extend(roster.remove(None, &pod)),
        Heard::GoneByName(PodName { namespace, name }) => {
            left.extend(roster.remove_named(None, &namespace, &name));
        }
        _ => {}
    });
    report::of_roster(&roster, left.iter().map(|departure| departure.artifact.clone()).collect());
    roster.begin(None);
    roster.complete(None, |departure| left.push(departure));
    report::of_roster(&roster, left.into_iter().map(|departure| departure.artifact).collect());
}

pub(super) fn of_file(bytes: &[u8]) {
    let mut roster = empty();
    let read = in_file(bytes, |path| {
        PodsFile::Path(path.to_owned()).read(&mut |pod| match pod {
            Ok(pod) => drop(roster.apply(None, pod)),
            Err(unreadable) => unread(&mut roster, &unreadable),
        })
    });
    match read {
        Ok(()) => report::of_roster(&roster, vec![]),
        Err(error) => is_told(&error_causes::said_once(&error).join(": ")),
    }
}

fn empty() -> Roster {
    Roster::new(vec![Selection::default()], Counting::All)
}

fn unread(roster: &mut Roster, Unreadable { pod, problem }: &Unreadable) {
    is_told(problem);
    roster.unreadable(None, pod.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str())));
}
