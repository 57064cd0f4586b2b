//! Two snapshots side by side: what ran in one, in the other, in both. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::running::Verdicts;
use crate::domain::model::Fingerprint;
use crate::service::pages::parts::pagination::{Paged, ROWS};
use crate::store::timeline::Workload;

/// What ran at a moment: each artifact under the first of its names, and in how many pods.
pub(crate) type Artifacts = BTreeMap<Fingerprint, (Box<str>, i64)>;

/// How an artifact's being in two snapshots differs, in the order in which that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// It ran in the first alone.
    OnlyFrom,
    /// It ran in the second alone.
    OnlyTo,
    /// It ran in both, in another number of pods.
    Pods,
    /// It ran in as many pods, and was judged otherwise.
    Verdict,
    /// It ran in both, and nothing differs.
    Same,
}

/// An artifact of either snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) difference: Difference,
    pub(crate) artifact: Fingerprint,
    /// Its name in the second, or else in the first.
    pub(crate) name: &'a str,
    /// Another name that it had in the first.
    pub(crate) was: Option<&'a str>,
    /// In how many pods it ran in the first, and in the second.
    pub(crate) pods: (Option<i64>, Option<i64>),
}

/// A page of rows.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) rows: &'a [Row<'a>],
    pub(crate) paged: Paged,
}

impl Difference {
    pub(crate) const ALL: [Self; 5] = [Self::OnlyFrom, Self::OnlyTo, Self::Pods, Self::Verdict, Self::Same];
}

/// What ran at either of two moments, a pod counted once for each artifact in it.
pub(crate) fn artifacts(workloads: Vec<Workload>) -> (Artifacts, Artifacts) {
    let (mut from, mut to) = (Artifacts::new(), Artifacts::new());
    for Workload { digests, pods } in workloads {
        let mut once: BTreeMap<Fingerprint, Box<str>> = BTreeMap::new();
        for (name, artifact) in digests {
            // Names are in order: this is the first.
            once.entry(artifact).or_insert(name);
        }
        for (artifact, name) in once {
            count(&mut from, artifact, &name, pods.0);
            count(&mut to, artifact, &name, pods.1);
        }
    }
    (from, to)
}

fn count(artifacts: &mut Artifacts, artifact: Fingerprint, name: &str, pods: i64) {
    if pods > 0 {
        let (known, sum) = artifacts.entry(artifact).or_insert_with(|| (name.into(), 0));
        if name < &**known {
            *known = name.into();
        }
        *sum += pods;
    }
}

/// All artifacts of both, those that differ first, and by name.
pub(crate) fn rows<'a>(
    (from, from_verdicts): (&'a Artifacts, Verdicts<'_>),
    (to, to_verdicts): (&'a Artifacts, Verdicts<'_>),
) -> Vec<Row<'a>> {
    let gone = from.keys().filter(|artifact| !to.contains_key(artifact));
    let row = |artifact: &Fingerprint| {
        let (before, after) = (from.get(artifact), to.get(artifact));
        let (name, _) = after.or(before)?;
        let difference = match (before, after) {
            (_, None) => Difference::OnlyFrom,
            (None, _) => Difference::OnlyTo,
            (Some((_, before)), Some((_, after))) if before != after => Difference::Pods,
            _ if from_verdicts.of(artifact) != to_verdicts.of(artifact) => Difference::Verdict,
            _ => Difference::Same,
        };
        let was = before.map(|(name, _)| &**name).filter(|was| *was != &**name);
        let pods = (before.map(|(_, pods)| *pods), after.map(|(_, pods)| *pods));
        Some(Row { difference, artifact: *artifact, name, was, pods })
    };
    let mut rows: Vec<_> = gone.chain(to.keys()).filter_map(row).collect();
    rows.sort_unstable_by(order);
    rows
}

fn order(one: &Row<'_>, other: &Row<'_>) -> Ordering {
    (one.difference, one.name, one.artifact).cmp(&(other.difference, other.name, other.artifact))
}

/// How many rows differ so.
pub(crate) fn total(rows: &[Row<'_>], difference: Difference) -> usize {
    rows.iter().filter(|row| row.difference == difference).count()
}

/// The rows that differ so, or all, cut to a page.
pub(crate) fn shown<'a>(rows: &'a [Row<'a>], only: Option<Difference>, page: usize) -> Shown<'a> {
    let start = only.map_or(0, |only| rows.partition_point(|row| row.difference < only));
    let end = only.map_or(rows.len(), |only| rows.partition_point(|row| row.difference <= only));
    let rows = rows.get(start..end).unwrap_or_default();
    let paged = Paged::of(rows.len(), ROWS, page);
    Shown { rows: rows.chunks(ROWS).nth(paged.page - 1).unwrap_or_default(), paged }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::domain::evidence::compliance::Compliance;
    use crate::domain::evidence::environment_status::Verdict;

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn workload(digests: &[(&str, u8)], from: i64, to: i64) -> Workload {
        let digests = digests.iter().map(|(name, number)| ((*name).into(), artifact(*number))).collect();
        Workload { digests, pods: (from, to) }
    }

    fn verdicts(bad: &[u8]) -> HashMap<Fingerprint, Verdict> {
        let verdict = Verdict { compliance: Compliance::NonCompliant, ..Verdict::UNKNOWN };
        bad.iter().map(|number| (artifact(*number), verdict.clone())).collect()
    }

    #[test]
    fn a_pod_counts_once_for_each_artifact_in_it_under_its_first_name() {
        let (from, to) =
            artifacts(vec![workload(&[("b", 1), ("c", 1), ("d", 2)], 3, 1), workload(&[("a", 1)], 2, 0)]);
        let told = |artifacts: &Artifacts| -> Vec<(String, i64)> {
            artifacts.values().map(|(name, pods)| (name.to_string(), *pods)).collect()
        };
        assert_eq!(told(&from), [("a".to_owned(), 5), ("d".to_owned(), 3)]);
        assert_eq!(told(&to), [("b".to_owned(), 1), ("d".to_owned(), 1)]);
    }

    #[test]
    fn each_artifact_of_either_is_told_once_with_what_differs_most() {
        let (from, to) = artifacts(vec![
            workload(&[("gone", 1)], 1, 0),
            workload(&[("scaled", 2)], 1, 3),
            workload(&[("judged", 3)], 1, 1),
            workload(&[("old-tag", 4)], 1, 0),
            workload(&[("new-tag", 4)], 0, 1),
            workload(&[("same", 5)], 2, 2),
            workload(&[("new", 6)], 0, 4),
        ]);
        let (good, bad) = (verdicts(&[]), verdicts(&[2, 3]));
        let (good, bad) =
            (Verdicts { kept: &good, is_confirmed: true }, Verdicts { kept: &bad, is_confirmed: true });
        let rows = rows((&from, good), (&to, bad));
        let told: Vec<_> = rows.iter().map(|row| (row.difference, row.name, row.was, row.pods)).collect();
        assert_eq!(
            told,
            [
                (Difference::OnlyFrom, "gone", None, (Some(1), None)),
                (Difference::OnlyTo, "new", None, (None, Some(4))),
                (Difference::Pods, "scaled", None, (Some(1), Some(3))),
                (Difference::Verdict, "judged", None, (Some(1), Some(1))),
                (Difference::Same, "new-tag", Some("old-tag"), (Some(1), Some(1))),
                (Difference::Same, "same", None, (Some(2), Some(2))),
            ]
        );
        assert_eq!(Difference::ALL.map(|difference| total(&rows, difference)), [1, 1, 1, 1, 2]);
        for difference in Difference::ALL {
            let shown = shown(&rows, Some(difference), 1);
            assert_eq!(shown.rows.len(), total(&rows, difference), "{difference:?}");
            assert!(shown.rows.iter().all(|row| row.difference == difference));
        }
    }

    #[test]
    fn pages_end_with_the_last() {
        let (from, to) = artifacts((0..=250).map(|number| workload(&[("x", number)], 0, 1)).collect());
        let none = HashMap::new();
        let verdicts = Verdicts { kept: &none, is_confirmed: true };
        let rows = rows((&from, verdicts), (&to, verdicts));
        let last = shown(&rows, None, usize::MAX);
        assert_eq!((last.paged.page, last.paged.pages, last.rows.len()), (3, 3, 51));
        let none = shown(&rows, Some(Difference::Same), 2);
        assert_eq!((none.paged.page, none.paged.pages, none.rows.len()), (1, 1, 0));
    }
}
