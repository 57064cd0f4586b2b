//! The difference of two snapshots: artifacts in the first, in the second, and in both.

use std::cmp::Ordering;

use crate::engine::selected_snapshot::Artifacts;
use crate::layout::parts::pagination::{Pagination, ROWS_PER_PAGE};
use crate::resources::environments::pages::running::Verdicts;
use model::Fingerprint;

/// The most important difference of an artifact, in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// The artifact is only in the first snapshot.
    OnlyFrom,
    /// The artifact is only in the second snapshot.
    OnlyTo,
    /// The number of pods differs.
    Pods,
    /// The number of pods is equal, the verdict differs.
    Verdict,
    Same,
}

/// An artifact of either snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiffRow<'a> {
    pub(crate) difference: Difference,
    pub(crate) artifact: Fingerprint,
    /// The name in the second snapshot, or else in the first.
    pub(crate) name: &'a str,
    /// The name in the first snapshot, if it differs.
    pub(crate) former_name: Option<&'a str>,
    /// The number of pods in the first and in the second snapshot.
    pub(crate) pods: (Option<usize>, Option<usize>),
}

/// What ran in one of the snapshots, and the verdicts on it.
#[derive(Clone, Copy)]
pub(crate) struct DiffSide<'a> {
    pub(crate) artifacts: &'a Artifacts,
    pub(crate) verdicts: Verdicts<'a>,
}

#[derive(Debug)]
pub(crate) struct DiffPage<'a> {
    pub(crate) rows: &'a [DiffRow<'a>],
    pub(crate) pagination: Pagination,
}

impl Difference {
    pub(crate) const ALL: [Self; 5] = [Self::OnlyFrom, Self::OnlyTo, Self::Pods, Self::Verdict, Self::Same];
}

/// All artifacts of both snapshots, sorted by difference and name.
pub(crate) fn rows<'a>(from: DiffSide<'a>, to: DiffSide<'a>) -> Vec<DiffRow<'a>> {
    let DiffSide { artifacts: from, verdicts: from_verdicts } = from;
    let DiffSide { artifacts: to, verdicts: to_verdicts } = to;
    let removed = from.keys().filter(|artifact| !to.contains_key(artifact));
    let row = |artifact: &Fingerprint| {
        let (before, after) = (from.get(artifact), to.get(artifact));
        let (name, _) = after.or(before)?;
        let difference = match (before, after) {
            (_, None) => Difference::OnlyFrom,
            (None, _) => Difference::OnlyTo,
            (Some((_, before)), Some((_, after))) if before.len() != after.len() => Difference::Pods,
            _ if from_verdicts.compliance(artifact) != to_verdicts.compliance(artifact) => {
                Difference::Verdict
            }
            _ => Difference::Same,
        };
        let former_name = before.map(|(name, _)| &**name).filter(|former| *former != &**name);
        let pods = (before.map(|(_, pods)| pods.len()), after.map(|(_, pods)| pods.len()));
        Some(DiffRow { difference, artifact: *artifact, name, former_name, pods })
    };
    let mut rows: Vec<_> = removed.chain(to.keys()).filter_map(row).collect();
    rows.sort_unstable_by(order);
    rows
}

fn order(one: &DiffRow<'_>, other: &DiffRow<'_>) -> Ordering {
    (one.difference, one.name, one.artifact).cmp(&(other.difference, other.name, other.artifact))
}

pub(crate) fn total(rows: &[DiffRow<'_>], difference: Difference) -> usize {
    rows.iter().filter(|row| row.difference == difference).count()
}

/// A page of the rows with one difference, or of all rows.
pub(crate) fn page<'a>(rows: &'a [DiffRow<'a>], only: Option<Difference>, number: usize) -> DiffPage<'a> {
    let start = only.map_or(0, |only| rows.partition_point(|row| row.difference < only));
    let end = only.map_or(rows.len(), |only| rows.partition_point(|row| row.difference <= only));
    let rows = rows.get(start..end).unwrap_or_default();
    let pagination = Pagination::new(rows.len(), ROWS_PER_PAGE, number);
    DiffPage { rows: rows.chunks(ROWS_PER_PAGE).nth(pagination.page - 1).unwrap_or_default(), pagination }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use model::Timestamp;
    use rules::compliance::Compliance;
    use rules::environment_status::Verdict;
    use rules::snapshot::report::Pod;

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn artifacts(listed: &[(&str, u8, usize)]) -> Artifacts {
        let pod = Pod {
            namespace: "".into(),
            name: "".into(),
            created_at: Timestamp::EPOCH,
            workload: Fingerprint::from([0; 32]),
        };
        let listed = listed.iter();
        listed
            .map(|&(name, number, pods)| (artifact(number), (name.into(), vec![pod.clone(); pods])))
            .collect()
    }

    fn verdicts(bad: &[u8]) -> HashMap<Fingerprint, Verdict> {
        let verdict = Verdict { compliance: Compliance::NonCompliant, ..Verdict::UNKNOWN };
        bad.iter().map(|number| (artifact(*number), verdict.clone())).collect()
    }

    #[test]
    fn each_artifact_has_one_row_with_its_most_important_difference() {
        let from = artifacts(&[
            ("gone", 1, 1),
            ("scaled", 2, 1),
            ("evaluated", 3, 1),
            ("old-tag", 4, 1),
            ("same", 5, 2),
        ]);
        let to = artifacts(&[
            ("scaled", 2, 3),
            ("evaluated", 3, 1),
            ("new-tag", 4, 1),
            ("same", 5, 2),
            ("new", 6, 4),
        ]);
        let (good, bad) = (verdicts(&[]), verdicts(&[2, 3]));
        let (good, bad) =
            (Verdicts { stored: &good, is_confirmed: true }, Verdicts { stored: &bad, is_confirmed: true });
        let rows =
            rows(DiffSide { artifacts: &from, verdicts: good }, DiffSide { artifacts: &to, verdicts: bad });
        let summary: Vec<_> =
            rows.iter().map(|row| (row.difference, row.name, row.former_name, row.pods)).collect();
        assert_eq!(
            summary,
            [
                (Difference::OnlyFrom, "gone", None, (Some(1), None)),
                (Difference::OnlyTo, "new", None, (None, Some(4))),
                (Difference::Pods, "scaled", None, (Some(1), Some(3))),
                (Difference::Verdict, "evaluated", None, (Some(1), Some(1))),
                (Difference::Same, "new-tag", Some("old-tag"), (Some(1), Some(1))),
                (Difference::Same, "same", None, (Some(2), Some(2))),
            ]
        );
        assert_eq!(Difference::ALL.map(|difference| total(&rows, difference)), [1, 1, 1, 1, 2]);
        for difference in Difference::ALL {
            let page = page(&rows, Some(difference), 1);
            assert_eq!(page.rows.len(), total(&rows, difference), "{difference:?}");
            assert!(page.rows.iter().all(|row| row.difference == difference));
        }
    }

    #[test]
    fn page_number_is_limited_to_the_last_page() {
        let to: Vec<_> = (0..=250).map(|number| ("x", number, 1)).collect();
        let (from, to) = (Artifacts::new(), artifacts(&to));
        let none = HashMap::new();
        let verdicts = Verdicts { stored: &none, is_confirmed: true };
        let rows = rows(DiffSide { artifacts: &from, verdicts }, DiffSide { artifacts: &to, verdicts });
        let last = page(&rows, None, usize::MAX);
        assert_eq!((last.pagination.page, last.pagination.pages, last.rows.len()), (3, 3, 51));
        let none = page(&rows, Some(Difference::Same), 2);
        assert_eq!((none.pagination.page, none.pagination.pages, none.rows.len()), (1, 1, 0));
    }
}
