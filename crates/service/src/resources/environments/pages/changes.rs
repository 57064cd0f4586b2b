//! The changes of each snapshot of an environment: artifacts that started, exited or were scaled.

use std::collections::BTreeMap;

use model::Fingerprint;
use rules::notification::Content;
use store::environments::timeline::SnapshotChange;
use store::search::Artifact;

/// Maximum number of artifacts per list: started, exited, scaled.
pub(crate) const MAX_LISTED: usize = 8;

/// Maximum number of scaling events per snapshot. Events with the time of the last one are read in addition.
pub(crate) const MAX_SCALINGS: i64 = 50;

#[derive(Debug, Default)]
pub(crate) struct SnapshotChanges {
    pub(crate) started: ArtifactList,
    pub(crate) exited: ArtifactList,
    pub(crate) scaled: Vec<Scaling>,
    /// The number of points in time that `scaled` covers, if earlier ones were left out.
    pub(crate) truncated_to: Option<usize>,
}

/// The first artifacts of a list, and the total.
#[derive(Debug, Default)]
pub(crate) struct ArtifactList {
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) total: i64,
}

/// An artifact whose number of pods changed.
#[derive(Debug)]
pub(crate) struct Scaling {
    pub(crate) artifact: Artifact,
    /// The number of pods before the first change.
    pub(crate) before: i64,
    /// The number of pods after the last change.
    pub(crate) after: i64,
    /// The number of changes.
    pub(crate) steps: usize,
}

/// The changes of each snapshot that has any. Each scaling event comes with whether the snapshot has earlier ones.
pub(crate) fn by_snapshot(
    changes: Vec<SnapshotChange>,
    scalings: &[(Content, bool)],
) -> BTreeMap<i64, SnapshotChanges> {
    let mut all: BTreeMap<i64, SnapshotChanges> = BTreeMap::new();
    for SnapshotChange { snapshot, exited, artifact: fingerprint, name, total } in changes {
        let changes = all.entry(snapshot).or_default();
        let list = if exited { &mut changes.exited } else { &mut changes.started };
        list.artifacts.push(Artifact { fingerprint, name });
        list.total = total;
    }
    for scalings in scalings.chunk_by(|(one, _), (next, _)| one.snapshot_index == next.snapshot_index) {
        let Some((first, is_truncated)) = scalings.first() else { continue };
        let changes = all.entry(first.snapshot_index).or_default();
        let times = scalings.chunk_by(|(one, _), (next, _)| one.occurred_at == next.occurred_at);
        changes.truncated_to = is_truncated.then(|| times.count());
        changes.scaled = scaled(scalings);
    }
    all
}

/// Each scaled artifact once, sorted by name, with the number of pods before the first and after the last change.
fn scaled(scalings: &[(Content, bool)]) -> Vec<Scaling> {
    let mut all: BTreeMap<Fingerprint, Scaling> = BTreeMap::new();
    for affected in scalings.iter().flat_map(|(event, _)| &event.artifacts) {
        let artifact = Artifact { fingerprint: affected.fingerprint, name: affected.name.clone() };
        let scaled = all.entry(affected.fingerprint).or_insert(Scaling {
            artifact: artifact.clone(),
            before: affected.pods_before,
            after: 0,
            steps: 0,
        });
        (scaled.artifact, scaled.after) = (artifact, affected.pods);
        scaled.steps += 1;
    }
    let mut all: Vec<_> = all.into_values().collect();
    let key = |scaling: &Scaling| (scaling.artifact.name.clone(), scaling.artifact.fingerprint);
    all.sort_by_cached_key(key);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Timestamp, Trigger};
    use rules::event::AffectedArtifact;
    use rules::notification::{Cause, CauseKind};

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
            occurred_at: Timestamp::EPOCH,
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
    fn changes_are_grouped_by_snapshot() {
        let change = |snapshot, exited, number, total| SnapshotChange {
            snapshot,
            exited,
            artifact: artifact(number),
            name: String::new(),
            total,
        };
        let changes = vec![change(1, false, 1, 9), change(2, false, 2, 1), change(2, true, 1, 1)];
        let all = by_snapshot(changes, &[(scaling(2, &[(3, 1, 2)]), false)]);
        let totals: Vec<_> = all
            .iter()
            .map(|(number, one)| (*number, one.started.total, one.exited.total, one.scaled.len()))
            .collect();
        assert_eq!(totals, [(1, 9, 0, 0), (2, 1, 1, 1)]);
    }

    #[test]
    fn repeated_scaling_of_an_artifact_is_one_row() {
        let scalings = [scaling(1, &[(2, 1, 3), (1, 5, 4)]), scaling(1, &[(2, 3, 1)])];
        let scaled = scaled(&scalings.map(|content| (content, false)));
        let rows: Vec<_> =
            scaled.iter().map(|s| (s.artifact.name.as_str(), s.before, s.after, s.steps)).collect();
        assert_eq!(rows, [("image:1", 5, 4, 1), ("image:2", 1, 1, 2)]);
    }

    #[test]
    fn truncation_is_counted_in_points_in_time() {
        let at = |micros, is_truncated| {
            let occurred_at = Timestamp::from_micros(micros);
            (Content { occurred_at, ..scaling(1, &[(1, 1, 2)]) }, is_truncated)
        };
        let truncated_to =
            |scalings: &[_]| by_snapshot(Vec::new(), scalings).remove(&1).and_then(|one| one.truncated_to);
        // One report may cause many events.
        assert_eq!(truncated_to(&vec![at(1, false); 60]), None);
        assert_eq!(truncated_to(&[at(1, true), at(1, true), at(2, true), at(3, true)]), Some(3));
        assert_eq!(truncated_to(&[]), None);
    }
}
