//! The changes of each snapshot of an environment: artifacts that started, exited or were scaled.

use std::collections::BTreeMap;

use crate::domain::evidence::notification::Content;
use crate::domain::model::Fingerprint;
use crate::service::intervals::SnapshotGaps;
use crate::store::search::Artifact;
use crate::store::timeline::{AvailableSnapshots, Change, Snapshot};

/// Maximum number of artifacts per list: started, exited, scaled.
pub(crate) const MAX_LISTED: i64 = 8;

/// Maximum number of scaling events per snapshot. Events with the time of the last one are read in addition.
pub(crate) const MAX_SCALINGS: i64 = 50;

/// A snapshot and its changes.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotChanges {
    pub(crate) snapshot: Snapshot,
    pub(crate) started: ArtifactList,
    /// `None` if the retention has removed them.
    pub(crate) exited: Option<ArtifactList>,
    pub(crate) scaled: Vec<Scaling>,
    /// The number of points in time that `scaled` covers, if earlier ones were left out.
    pub(crate) truncated_to: Option<i64>,
    pub(crate) gaps: SnapshotGaps,
}

/// The first artifacts of a list, and the total.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArtifactList {
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) total: i64,
}

/// An artifact whose number of pods changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scaling {
    pub(crate) artifact: Fingerprint,
    pub(crate) name: String,
    /// The number of pods before the first change.
    pub(crate) before: i64,
    /// The number of pods after the last change.
    pub(crate) after: i64,
    /// The number of changes.
    pub(crate) steps: usize,
}

/// Rows that the store returned for a page of the timeline.
#[derive(Debug)]
pub(crate) struct TimelineRows {
    pub(crate) snapshots: Vec<(Snapshot, SnapshotGaps)>,
    pub(crate) changes: Vec<Change>,
    pub(crate) scalings: Vec<(Content, bool)>,
}

/// Joins the rows: each snapshot with its changes.
pub(crate) fn snapshot_changes(rows: TimelineRows, available: &AvailableSnapshots) -> Vec<SnapshotChanges> {
    let mut changes: BTreeMap<(i64, bool), ArtifactList> = BTreeMap::new();
    for Change { snapshot, exited, artifact: fingerprint, name, total } in rows.changes {
        let listed = changes.entry((snapshot, exited)).or_default();
        listed.artifacts.push(Artifact { fingerprint, name });
        listed.total = total;
    }
    let mut scalings: BTreeMap<i64, Vec<(Content, bool)>> = BTreeMap::new();
    for (content, is_truncated) in rows.scalings {
        scalings.entry(content.snapshot_index).or_default().push((content, is_truncated));
    }
    let join = |(snapshot, gaps): (Snapshot, SnapshotGaps)| {
        let number = snapshot.number;
        let is_complete = available.horizon_at.is_none_or(|horizon| horizon <= snapshot.received_at);
        let mut listed = |exited| changes.remove(&(number, exited)).unwrap_or_default();
        let (started, exited) = (listed(false), listed(true));
        let scalings = scalings.remove(&number).unwrap_or_default();
        SnapshotChanges {
            started,
            exited: is_complete.then_some(exited),
            truncated_to: truncated_to(&scalings),
            scaled: scaled(scalings),
            gaps,
            snapshot,
        }
    };
    rows.snapshots.into_iter().map(join).collect()
}

/// The number of points in time of these events, if earlier ones were left out.
fn truncated_to(scalings: &[(Content, bool)]) -> Option<i64> {
    let times = scalings.chunk_by(|(one, _), (other, _)| one.occurred_at == other.occurred_at).count();
    scalings.first().filter(|(_, is_truncated)| *is_truncated).and_then(|_| i64::try_from(times).ok())
}

/// Each scaled artifact once, sorted by name, with the number of pods before the first and after the last change.
fn scaled(scalings: Vec<(Content, bool)>) -> Vec<Scaling> {
    let mut all: BTreeMap<Fingerprint, Scaling> = BTreeMap::new();
    for affected in scalings.into_iter().flat_map(|(content, _)| content.artifacts) {
        let (artifact, before) = (affected.fingerprint, affected.pods_before);
        let new = || Scaling { artifact, name: String::new(), before, after: before, steps: 0 };
        let scaled = all.entry(artifact).or_insert_with(new);
        scaled.name = affected.name;
        scaled.after = affected.pods;
        scaled.steps += 1;
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|one, other| (&one.name, one.artifact).cmp(&(&other.name, other.artifact)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::event::AffectedArtifact;
    use crate::domain::evidence::notification::{Cause, CauseKind};
    use crate::domain::model::Trigger;
    use crate::service::intervals::tests::{at, snapshot};

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn scaling(snapshot_index: i64, pods: &[(u8, i64, i64)]) -> Content {
        let affected = |&(number, before, after): &(u8, i64, i64)| AffectedArtifact {
            fingerprint: artifact(number),
            name: format!("image:{number}"),
            compliance: "UNKNOWN".into(),
            reasons: Vec::new(),
            pods: after,
            pods_before: before,
            owners: Vec::new(),
        };
        Content {
            trigger: Trigger::ScaledArtifact,
            occurred_at: at(0),
            organization: "acme".into(),
            environment: "prod".into(),
            snapshot_index,
            compliance: "UNKNOWN".into(),
            absence: None,
            silent_since: None,
            cause: Cause { kind: CauseKind::Report, by: None },
            artifacts: pods.iter().map(affected).collect(),
            artifacts_total: pods.len(),
        }
    }

    #[test]
    fn changes_are_joined_and_removed_exits_are_unknown() {
        let change = |snapshot, exited, number, total| Change {
            snapshot,
            exited,
            artifact: artifact(number),
            name: String::new(),
            total,
        };
        let join = |horizon: Option<i64>| {
            let rows = TimelineRows {
                snapshots: [snapshot(2, 20, None), snapshot(1, 10, Some(20))]
                    .map(|snapshot| (snapshot, SnapshotGaps::default()))
                    .into(),
                changes: vec![change(1, false, 1, 9), change(2, false, 2, 1), change(2, true, 1, 1)],
                scalings: vec![(scaling(2, &[(3, 1, 2)]), false)],
            };
            snapshot_changes(rows, &AvailableSnapshots { first: Some(1), horizon_at: horizon.map(at) })
        };
        let all = join(None);
        let totals: Vec<_> = all
            .iter()
            .map(|one| (one.started.total, one.exited.as_ref().map(|exited| exited.total), one.scaled.len()))
            .collect();
        assert_eq!(totals, [(1, Some(1), 1), (9, Some(0), 0)]);
        let exited =
            |horizon| -> Vec<bool> { join(horizon).iter().map(|one| one.exited.is_some()).collect() };
        assert_eq!(exited(Some(10)), [true, true]);
        assert_eq!(exited(Some(11)), [true, false]);
    }

    #[test]
    fn repeated_scaling_of_an_artifact_is_one_row() {
        let scalings = [scaling(1, &[(2, 1, 3), (1, 5, 4)]), scaling(1, &[(2, 3, 1)])];
        let scaled = scaled(scalings.map(|content| (content, false)).into());
        let rows: Vec<_> = scaled.iter().map(|s| (s.name.as_str(), s.before, s.after, s.steps)).collect();
        assert_eq!(rows, [("image:1", 5, 4, 1), ("image:2", 1, 1, 2)]);
    }

    #[test]
    fn truncation_is_counted_in_points_in_time() {
        let at = |seconds, is_truncated| {
            (Content { occurred_at: at(seconds), ..scaling(1, &[(1, 1, 2)]) }, is_truncated)
        };
        // One report may cause many events.
        assert_eq!(truncated_to(&vec![at(1, false); 60]), None);
        assert_eq!(truncated_to(&[at(1, true), at(1, true), at(2, true), at(3, true)]), Some(3));
        assert_eq!(truncated_to(&[]), None);
    }
}
