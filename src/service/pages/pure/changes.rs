//! What changed with each snapshot of an environment: what started, exited and was scaled. Pure.

use std::collections::BTreeMap;

use super::intervals::Silent;
use crate::domain::evidence::notification::Content;
use crate::domain::model::Fingerprint;
use crate::store::search::Artifact;
use crate::store::timeline::{Change, Kept, Silence, Snapshot};

/// As many artifacts as are listed of those that started with a snapshot, and of the others.
pub(crate) const LISTED: i64 = 8;

/// As many events as are looked at of those that scaled something while a snapshot held, and those of the same moment.
pub(crate) const SCALINGS: i64 = 50;

/// A snapshot, and what changed with it.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) snapshot: Snapshot,
    pub(crate) started: Listed,
    /// `None`: that was removed.
    pub(crate) exited: Option<Listed>,
    pub(crate) scaled: Vec<Scaled>,
    /// Of how many moments that is, where more was scaled before.
    pub(crate) latest: Option<i64>,
    pub(crate) silent: Silent,
}

/// Some artifacts, and how many there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) total: i64,
}

/// An artifact that came to run in another number of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scaled {
    pub(crate) artifact: Fingerprint,
    pub(crate) name: String,
    /// In how many pods it ran before the first time.
    pub(crate) before: i64,
    /// In how many it ran after the last.
    pub(crate) after: i64,
    /// How often that changed.
    pub(crate) times: usize,
}

/// What was read of a page's snapshots.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) changes: Vec<Change>,
    pub(crate) scalings: Vec<(Content, bool)>,
    pub(crate) silences: Vec<Silence>,
}

/// The snapshots, each with what belongs to it.
pub(crate) fn changes(read: Read, kept: &Kept) -> Vec<Changed> {
    let mut changes: BTreeMap<(i64, bool), Listed> = BTreeMap::new();
    for Change { snapshot, exited, artifact: fingerprint, name, total } in read.changes {
        let listed = changes.entry((snapshot, exited)).or_default();
        listed.artifacts.push(Artifact { fingerprint, name });
        listed.total = total;
    }
    let mut scalings: BTreeMap<i64, Vec<(Content, bool)>> = BTreeMap::new();
    for (content, is_cut) in read.scalings {
        scalings.entry(content.snapshot_index).or_default().push((content, is_cut));
    }
    let of = |snapshot: Snapshot| {
        let number = snapshot.number;
        let is_whole = kept.horizon_at.is_none_or(|horizon| horizon <= snapshot.received_at);
        let mut listed = |exited| changes.remove(&(number, exited)).unwrap_or_default();
        let (started, exited) = (listed(false), listed(true));
        let scalings = scalings.remove(&number).unwrap_or_default();
        Changed {
            started,
            exited: is_whole.then_some(exited),
            latest: latest(&scalings),
            scaled: scaled(scalings),
            silent: Silent::of(&snapshot, &read.silences),
            snapshot,
        }
    };
    read.snapshots.into_iter().map(of).collect()
}

/// Of how many moments these are, where there were others before.
fn latest(scalings: &[(Content, bool)]) -> Option<i64> {
    let moments = scalings.chunk_by(|(one, _), (other, _)| one.occurred_at == other.occurred_at).count();
    scalings.first().filter(|(_, is_cut)| *is_cut).and_then(|_| i64::try_from(moments).ok())
}

/// Each artifact once, by name: from how many pods before the first time to how many after the last.
fn scaled(scalings: Vec<(Content, bool)>) -> Vec<Scaled> {
    let mut all: BTreeMap<Fingerprint, Scaled> = BTreeMap::new();
    for concerned in scalings.into_iter().flat_map(|(content, _)| content.artifacts) {
        let (artifact, before) = (concerned.fingerprint, concerned.pods_before.unwrap_or_default());
        let new = || Scaled { artifact, name: String::new(), before, after: before, times: 0 };
        let scaled = all.entry(artifact).or_insert_with(new);
        scaled.name = concerned.name;
        scaled.after = concerned.pods;
        scaled.times += 1;
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|one, other| (&one.name, one.artifact).cmp(&(&other.name, other.artifact)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::event::Concerned;
    use crate::domain::evidence::notification::{Cause, CauseKind};
    use crate::domain::model::Trigger;
    use crate::service::pages::pure::intervals::tests::{at, snapshot};

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn scaling(snapshot_index: i64, pods: &[(u8, i64, i64)]) -> Content {
        let concerned = |&(number, before, after): &(u8, i64, i64)| Concerned {
            fingerprint: artifact(number),
            name: format!("image:{number}"),
            compliance: "UNKNOWN".into(),
            reasons: Vec::new(),
            pods: after,
            pods_before: Some(before),
        };
        Content {
            trigger: Trigger::ScaledArtifact,
            occurred_at: at(0),
            organization: "acme".into(),
            environment: "prod".into(),
            snapshot_index,
            compliance: "UNKNOWN".into(),
            cause: Cause { kind: CauseKind::Report, by: None },
            artifacts: pods.iter().map(concerned).collect(),
            artifacts_total: pods.len(),
        }
    }

    #[test]
    fn each_snapshot_has_what_changed_with_it_and_what_was_removed_is_not_told_as_none() {
        let change = |snapshot, exited, number, total| Change {
            snapshot,
            exited,
            artifact: artifact(number),
            name: String::new(),
            total,
        };
        let read = |horizon: Option<i64>| {
            let read = Read {
                snapshots: vec![snapshot(2, 20, None), snapshot(1, 10, Some(20))],
                changes: vec![change(1, false, 1, 9), change(2, false, 2, 1), change(2, true, 1, 1)],
                scalings: vec![(scaling(2, &[(3, 1, 2)]), false)],
                silences: Vec::new(),
            };
            changes(read, &Kept { first: Some(1), horizon_at: horizon.map(at) })
        };
        let all = read(None);
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.started.total, one.exited.as_ref().map(|exited| exited.total), one.scaled.len()))
            .collect();
        assert_eq!(told, [(1, Some(1), 1), (9, Some(0), 0)]);
        let exited =
            |horizon| -> Vec<bool> { read(horizon).iter().map(|one| one.exited.is_some()).collect() };
        assert_eq!(exited(Some(10)), [true, true]);
        assert_eq!(exited(Some(11)), [true, false]);
    }

    #[test]
    fn an_artifact_that_is_scaled_often_is_told_once() {
        let scalings = [scaling(1, &[(2, 1, 3), (1, 5, 4)]), scaling(1, &[(2, 3, 1)])];
        let told = scaled(scalings.map(|content| (content, false)).into());
        let told: Vec<_> = told.iter().map(|s| (s.name.as_str(), s.before, s.after, s.times)).collect();
        assert_eq!(told, [("image:1", 5, 4, 1), ("image:2", 1, 1, 2)]);
    }

    #[test]
    fn what_is_left_off_was_scaled_at_other_moments() {
        let at = |seconds, is_cut| (Content { occurred_at: at(seconds), ..scaling(1, &[(1, 1, 2)]) }, is_cut);
        // One report may be many events.
        assert_eq!(latest(&vec![at(1, false); 60]), None);
        assert_eq!(latest(&[at(1, true), at(1, true), at(2, true), at(3, true)]), Some(3));
        assert_eq!(latest(&[]), None);
    }
}
