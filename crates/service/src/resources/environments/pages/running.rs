//! Running artifacts as rows: merged, searched, counted and divided into pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::layout::parts::filter::Filter;
use crate::layout::parts::format::severity;
use crate::layout::parts::pagination::{Pagination, ROWS_PER_PAGE};
use model::owner::Owner;
use model::{Fingerprint, Timestamp};
use rules::compliance::{Compliance, ComplianceCounts};
use rules::environment_status::Verdict;
use store::environments::contents::PodGroup;

/// An artifact that runs or ran in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningRow {
    pub(crate) artifact: Fingerprint,
    /// Under which it runs.
    pub(crate) images: BTreeSet<String>,
    pub(crate) workloads: BTreeSet<Workload>,
    pub(crate) pods: i64,
    /// Start of the oldest pod.
    pub(crate) since: Timestamp,
    /// A pod whose name matches the search text.
    pub(crate) matching_pod: Option<String>,
    /// The tokens that reported the pods first.
    pub(crate) reporters: BTreeSet<String>,
}

/// A top-level owner of pods, or the pods of a namespace without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) owner: Option<Owner>,
}

#[derive(Debug)]
pub(crate) struct RunningPage {
    /// What does not comply first, then what is unknown.
    pub(crate) rows: Vec<RunningRow>,
    pub(crate) pagination: Pagination,
    /// The number of rows on all pages.
    pub(crate) total: usize,
    /// Counts all rows that match the search, whatever their verdict.
    pub(crate) counts: ComplianceCounts,
    /// Whether several tokens reported the pods of the environment.
    pub(crate) has_several_reporters: bool,
}

/// Stored verdicts, and whether they are still valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdicts<'a> {
    pub(crate) stored: &'a HashMap<Fingerprint, Verdict>,
    pub(crate) is_confirmed: bool,
}

impl Verdicts<'_> {
    /// The verdict to show: an unconfirmed `COMPLIANT` becomes `UNKNOWN`.
    pub(crate) fn compliance(&self, artifact: &Fingerprint) -> Compliance {
        let stored = self.stored.get(artifact).map_or(Compliance::Unknown, |verdict| verdict.compliance);
        stored.confirmed(self.is_confirmed)
    }
}

impl RunningRow {
    /// The first of the image's names.
    pub(crate) fn image(&self) -> &str {
        self.images.first().map(String::as_str).unwrap_or_default()
    }

    /// Whether the row matches a search text, which is in lower case.
    fn matches(&self, query: &str) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(query);
        let digits = query.strip_prefix("sha256:").unwrap_or(query);
        let is_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        self.matching_pod.is_some()
            || self.images.iter().any(|image| contains(image))
            || self.workloads.iter().any(|workload| {
                let owner = workload.owner.as_ref();
                contains(&workload.namespace)
                    || owner.is_some_and(|owner| contains(&owner.to_string()) || contains(&owner.short()))
            })
            || is_digits && self.artifact.to_string().starts_with(digits)
    }
}

/// One row for each artifact of the pod groups.
pub(crate) fn rows(groups: Vec<PodGroup>) -> Vec<RunningRow> {
    let mut rows: BTreeMap<Fingerprint, RunningRow> = BTreeMap::new();
    for PodGroup { namespace, digests, owners, pods, since, found, reported_by } in groups {
        let workload = Workload { namespace, owner: Owner::new(&owners) };
        // A pod counts once, though it may run the artifact under several names.
        let mut of_pods: BTreeMap<Fingerprint, BTreeSet<String>> = BTreeMap::new();
        for (image, artifact) in digests {
            of_pods.entry(artifact).or_default().insert(image.into());
        }
        for (artifact, mut images) in of_pods {
            let row = rows.entry(artifact).or_insert_with(|| RunningRow {
                artifact,
                images: BTreeSet::new(),
                workloads: BTreeSet::new(),
                pods: 0,
                since,
                matching_pod: None,
                reporters: BTreeSet::new(),
            });
            row.images.append(&mut images);
            row.workloads.insert(workload.clone());
            row.pods += pods;
            row.since = row.since.min(since);
            row.matching_pod = row.matching_pod.take().or_else(|| found.clone());
            row.reporters.insert(reported_by.clone());
        }
    }
    rows.into_values().collect()
}

/// The rows that match a filter, limited to its page.
pub(crate) fn page(rows: &[RunningRow], verdicts: Verdicts<'_>, filter: &Filter) -> RunningPage {
    let text = filter.q.to_lowercase();
    let mut counts = ComplianceCounts::default();
    let mut selected = Vec::new();
    for row in rows.iter().filter(|row| text.is_empty() || row.matches(&text)) {
        let compliance = verdicts.compliance(&row.artifact);
        counts.add(compliance, 1);
        if filter.compliance.is_none_or(|wanted| wanted == compliance) {
            selected.push((compliance, row));
        }
    }
    selected.sort_unstable_by(|one, other| place(one).cmp(&place(other)));
    let mut reporters = rows.iter().flat_map(|row| &row.reporters);
    let first = reporters.next();
    let has_several_reporters = reporters.any(|reporter| Some(reporter) != first);
    let total = selected.len();
    let pagination = Pagination::new(total, ROWS_PER_PAGE, filter.page);
    let rows = selected.into_iter().skip(pagination.offset).take(ROWS_PER_PAGE);
    let rows = rows.map(|(_, row)| row.clone()).collect();
    RunningPage { rows, pagination, total, counts, has_several_reporters }
}

/// The order of rows: what does not comply first, then by workload.
fn place<'a>(
    (compliance, row): &(Compliance, &'a RunningRow),
) -> (u8, Option<&'a Workload>, &'a str, &'a Fingerprint) {
    (severity(*compliance), row.workloads.first(), row.image(), &row.artifact)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn group(namespace: &str, owner: &str, image: &str, number: u8, pods: i64) -> PodGroup {
        let references = serde_json::json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner}]);
        let owners = if owner.is_empty() { Vec::new() } else { serde_json::from_value(references).unwrap() };
        PodGroup {
            namespace: namespace.to_owned(),
            digests: BTreeMap::from([(image.into(), artifact(number))]),
            owners,
            pods,
            since: Timestamp::from_micros(pods),
            found: None,
            reported_by: String::new(),
        }
    }

    fn filter(q: &str, compliance: Option<Compliance>, page: usize) -> Filter {
        Filter { q: q.to_owned(), compliance, at: None, page }
    }

    #[test]
    fn artifact_is_one_row_with_its_workloads_and_names() {
        let mut sidecar = group("a", "y", "i:1", 1, 1);
        sidecar.digests.insert("i:2".into(), artifact(1));
        let groups =
            vec![group("b", "x-7d9f8b6c5d", "i:1", 1, 3), sidecar, group("b", "x-66b6c48dd5", "i:1", 1, 2)];
        let rows = rows(groups);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let owner = |workload: &Workload| workload.owner.as_ref().map(Owner::short).unwrap_or_default();
        let workloads: Vec<_> =
            row.workloads.iter().map(|workload| (workload.namespace.as_str(), owner(workload))).collect();
        assert_eq!(workloads, [("a", "rs/y".to_owned()), ("b", "deploy/x".to_owned())]);
        let images: Vec<_> = row.images.iter().map(String::as_str).collect();
        assert_eq!((images.as_slice(), row.pods, row.since.micros()), (["i:1", "i:2"].as_slice(), 6, 1));
    }

    #[test]
    fn search_matches_names_and_prefixes_of_digests() {
        let mut by_pod = group("other", "", "z:1", 3, 1);
        by_pod.found = Some("cart-5".to_owned());
        let rows = rows(vec![
            group("shop", "web", "registry/Cart:1", 0xab, 1),
            group("shop", "", "web:1", 2, 1),
            by_pod,
        ]);
        let none = HashMap::new();
        let verdicts = Verdicts { stored: &none, is_confirmed: true };
        let total = |q: &str| {
            page(&rows, verdicts, &filter(q, None, 1))
                .rows
                .iter()
                .filter(|row| row.matching_pod.is_none())
                .count()
        };
        for (q, expected) in [
            ("", 2),
            ("shop", 2),
            ("CART", 1),
            ("replicaset", 1),
            ("web", 2),
            ("abab", 1),
            ("sha256:abab", 1),
            ("baba", 0),
            ("nowhere", 0),
        ] {
            assert_eq!(total(q), expected, "{q}");
        }
        // Rows that the store found by the name of a pod are kept.
        assert_eq!(page(&rows, verdicts, &filter("cart-5", None, 1)).total, 1);
    }

    #[test]
    fn verdicts_are_counted_and_the_page_number_is_limited() {
        let rows = rows((0..=250).map(|n| group("n", &format!("o{n:03}"), "i", n, 1)).collect());
        let verdict = |compliance| Verdict { compliance, is_allowed: false, reasons: Vec::new() };
        let stored = HashMap::from([
            (artifact(0), verdict(Compliance::NonCompliant)),
            (artifact(1), verdict(Compliance::Compliant)),
        ]);
        let verdicts = Verdicts { stored: &stored, is_confirmed: true };
        let last = page(&rows, verdicts, &filter("", None, 9));
        assert_eq!(
            (last.pagination.page, last.pagination.pages, last.total, last.rows.len()),
            (3, 3, 251, 51)
        );
        assert_eq!(last.counts, ComplianceCounts { compliant: 1, unknown: 249, non_compliant: 1 });
        assert_eq!(page(&rows, verdicts, &filter("", Some(Compliance::Compliant), 1)).total, 1);
        // An unconfirmed verdict is not counted or found as compliant.
        let silent = Verdicts { is_confirmed: false, ..verdicts };
        let none = page(&rows, silent, &filter("", Some(Compliance::Compliant), 1));
        assert_eq!((none.total, none.rows.len(), none.counts.non_compliant), (0, 0, 1));
    }
}
