//! An environment's snapshots, as one after the other: what changed with each, how long it held, and the silences
//! between. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::paged::Paged;
use super::present::Present;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::domain::notification::Content;
use crate::store::search::Artifact;
use crate::store::timeline::{Change, Kept, Silence, Snapshot};

/// How many snapshots a page has.
pub(super) const SNAPSHOTS: i64 = 20;

/// As many artifacts as are listed of those that started with a snapshot, and of the others.
pub(super) const LISTED: i64 = 8;

/// As many events as are looked at of those that scaled something while a snapshot held, and those of the same moment.
pub(super) const SCALINGS: i64 = 50;

/// As many silences as are told of a snapshot.
pub(super) const SILENCES: i64 = 5;

/// A snapshot, and what changed with it.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) snapshot: Snapshot,
    pub(super) started: Listed,
    /// `None`: that was removed.
    pub(super) exited: Option<Listed>,
    pub(super) scaled: Vec<Scaled>,
    /// Of how many moments that is, where more was scaled before.
    pub(super) latest: Option<i64>,
    pub(super) silent: Silent,
}

/// Some artifacts, and how many there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    pub(super) artifacts: Vec<Artifact>,
    pub(super) total: i64,
}

/// An artifact that came to run in another number of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) artifact: Fingerprint,
    pub(super) name: String,
    /// In how many pods it ran before the first time.
    pub(super) before: i64,
    /// In how many it ran after the last.
    pub(super) after: i64,
    /// How often that changed.
    pub(super) times: usize,
}

/// The silences of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Silent {
    /// The one that the next snapshot ended.
    pub(super) at_its_end: Option<(Timestamp, Timestamp)>,
    /// The latest of those after which the same was reported.
    pub(super) within: Vec<(Timestamp, Timestamp)>,
    /// How many of those there are.
    pub(super) total: i64,
    /// How long they are together.
    pub(super) sum: Duration,
}

/// Until when a snapshot held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) span: Duration,
    /// Whether it still does.
    pub(super) goes_on: bool,
}

/// Which page of the snapshots from one number to another is asked for, the last of them first, and its numbers.
pub(super) fn paged(first: i64, last: i64, asked: usize) -> (Paged, (i64, i64)) {
    let each = usize::try_from(SNAPSHOTS).unwrap_or(usize::MAX);
    let paged = Paged::of(usize::try_from(last - first + 1).unwrap_or_default(), each, asked);
    let last = last - i64::try_from(paged.passed).unwrap_or(i64::MAX);
    (paged, ((last - SNAPSHOTS + 1).max(first), last))
}

/// The page that a snapshot is on.
pub(super) fn page_of(number: i64, last: i64) -> usize {
    usize::try_from((last - number) / SNAPSHOTS).unwrap_or_default() + 1
}

/// What was read of a page's snapshots.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) changes: Vec<Change>,
    pub(super) scalings: Vec<(Content, bool)>,
    pub(super) silences: Vec<Silence>,
}

/// The snapshots, each with what belongs to it.
pub(super) fn turns(read: Read, kept: &Kept) -> Vec<Turn> {
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
    let turn = |snapshot: Snapshot| {
        let number = snapshot.number;
        let is_whole = kept.horizon_at.is_none_or(|horizon| horizon <= snapshot.received_at);
        let mut listed = |exited| changes.remove(&(number, exited)).unwrap_or_default();
        let (started, exited) = (listed(false), listed(true));
        let scalings = scalings.remove(&number).unwrap_or_default();
        Turn {
            started,
            exited: is_whole.then_some(exited),
            latest: latest(&scalings),
            scaled: scaled(scalings),
            silent: Silent::of(&snapshot, &read.silences),
            snapshot,
        }
    };
    read.snapshots.into_iter().map(turn).collect()
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

impl Silent {
    /// Those of a snapshot, among those of several.
    pub(super) fn of(snapshot: &Snapshot, silences: &[Silence]) -> Self {
        let mut silent = Self::default();
        for silence in silences.iter().filter(|silence| silence.snapshot == snapshot.number) {
            (silent.total, silent.sum) = (silence.total, silence.sum);
            if snapshot.superseded_at == Some(silence.to) {
                silent.at_its_end = Some((silence.from, silence.to));
            } else {
                silent.within.push((silence.from, silence.to));
            }
        }
        if let Some((from, to)) = silent.at_its_end {
            silent.total -= 1;
            silent.sum = silent.sum.saturating_sub(to.distance(from));
        }
        silent
    }
}

impl Held {
    /// How long a snapshot held: until another took its place, or until the last report before a silence.
    pub(super) fn of(snapshot: &Snapshot, silent: &Silent, present: Present) -> Self {
        let end = match (snapshot.superseded_at, silent.at_its_end) {
            (Some(_), Some((from, _))) => Some(from),
            (Some(superseded), None) => Some(superseded),
            (None, _) => present.validity.last_report_at.filter(|_| present.is_silent()),
        };
        let span = end.unwrap_or(present.now.max(snapshot.received_at)).distance(snapshot.received_at);
        Self { span, goes_on: end.is_none() }
    }
}

/// The moment at which a snapshot is looked at: when it was received, or the first of it of which all is still there.
pub(super) fn moment(snapshot: &Snapshot, kept: &Kept) -> Timestamp {
    kept.horizon_at.map_or(snapshot.received_at, |horizon| horizon.max(snapshot.received_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compliance::Compliance;
    use crate::domain::event::Concerned;
    use crate::domain::model::Trigger;
    use crate::domain::notification::{Cause, CauseKind};
    use crate::domain::validity::Validity;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn snapshot(number: i64, received: i64, superseded: Option<i64>) -> Snapshot {
        Snapshot {
            number,
            received_at: at(received),
            reported_by: "agent".into(),
            confirmed_at: None,
            superseded_at: superseded.map(at),
            compliance: None,
        }
    }

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

    fn silence(snapshot: i64, from: i64, to: i64, total: i64, sum: u64) -> Silence {
        Silence { snapshot, from: at(from), to: at(to), total, sum: Duration::from_secs(sum) }
    }

    #[test]
    fn pages_go_from_the_last_snapshot_to_the_first_that_is_kept() {
        for (first, last, page, expected) in [
            (1, 1, 1, (1, 1, (1, 1))),
            (1, 20, 1, (1, 1, (1, 20))),
            (1, 21, 1, (1, 2, (2, 21))),
            (1, 21, 2, (2, 2, (1, 1))),
            (1, 21, usize::MAX, (2, 2, (1, 1))),
            (7, 46, 2, (2, 2, (7, 26))),
        ] {
            let (Paged { page: is, pages, .. }, numbers) = paged(first, last, page);
            assert_eq!((is, pages, numbers), expected, "{first} to {last}, {page}");
            for number in numbers.0..=numbers.1 {
                assert_eq!(page_of(number, last), is, "{number}");
            }
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
            turns(read, &Kept { first: Some(1), horizon_at: horizon.map(at) })
        };
        let turns = read(None);
        let told: Vec<_> = turns
            .iter()
            .map(|turn| {
                (turn.started.total, turn.exited.as_ref().map(|exited| exited.total), turn.scaled.len())
            })
            .collect();
        assert_eq!(told, [(1, Some(1), 1), (9, Some(0), 0)]);
        let exited =
            |horizon| -> Vec<bool> { read(horizon).iter().map(|turn| turn.exited.is_some()).collect() };
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

    #[test]
    fn a_silence_stands_in_a_snapshot_or_at_its_end_and_a_snapshot_holds_until_it() {
        let present = |silent_after| {
            let silent_after = Duration::from_secs(silent_after);
            let validity = Validity { last_report_at: Some(at(900)), silent_after, compliant_until: None };
            Present { now: at(1_000), validity, decided: Compliance::Unknown }
        };
        let (quiet_now, present) = (present(99), present(100));
        let silences = [silence(1, 60, 100, 3, 60), silence(1, 30, 40, 3, 60), silence(1, 10, 20, 3, 60)];
        let closed = snapshot(1, 0, Some(100));
        let silent = Silent::of(&closed, &silences);
        assert_eq!((silent.at_its_end, silent.total, silent.sum.as_secs()), (Some((at(60), at(100))), 2, 20));
        assert_eq!(silent.within, [(at(30), at(40)), (at(10), at(20))]);
        let held = |snapshot: &Snapshot, silent: &Silent, present| {
            let Held { span, goes_on } = Held::of(snapshot, silent, present);
            (span.as_secs(), goes_on)
        };
        assert_eq!(held(&closed, &silent, present), (60, false));
        let quiet = Silent::default();
        assert_eq!(Silent::of(&snapshot(2, 100, None), &silences), quiet);
        assert_eq!(held(&closed, &quiet, present), (100, false));
        assert_eq!(held(&snapshot(2, 100, None), &quiet, present), (900, true));
        assert_eq!(held(&snapshot(2, 100, None), &quiet, quiet_now), (800, false));
    }
}
