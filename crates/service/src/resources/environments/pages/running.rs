//! Running artifacts as rows: merged, searched, counted and divided into pages.

use std::collections::{BTreeSet, HashMap};

use crate::layout::parts::filter::Filter;
use crate::layout::parts::pagination::{Pagination, ROWS_PER_PAGE};
use model::owner::Owner;
use model::{Fingerprint, Timestamp};
use rules::compliance::{Compliance, ComplianceCounts};
use rules::environment_status::Verdict;
use store::environments::contents::PodGroup;

/// An artifact that the pods of one owner run in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningRow {
    pub(crate) namespace: String,
    /// Kind and name of the top-level owner; empty for pods without one.
    pub(crate) owner: String,
    pub(crate) image: String,
    pub(crate) artifact: Fingerprint,
    pub(crate) pods: i64,
    /// Start of the oldest pod.
    pub(crate) since: Timestamp,
    /// A pod whose name matches the search text.
    pub(crate) matching_pod: Option<String>,
    /// The tokens that reported the pods first.
    pub(crate) reporters: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct RunningPage {
    /// Rows of the same namespace and owner are adjacent.
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
    fn key(&self) -> (&str, &str, &str, &Fingerprint) {
        (&self.namespace, &self.owner, &self.image, &self.artifact)
    }

    /// Rows with the same group have one heading.
    pub(crate) fn group(&self) -> (&str, &str) {
        (&self.namespace, &self.owner)
    }

    /// Whether the row matches a search text, which is in lower case.
    fn matches(&self, query: &str) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(query);
        let digits = query.strip_prefix("sha256:").unwrap_or(query);
        let is_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        self.matching_pod.is_some()
            || [&self.namespace, &self.owner, &self.image].into_iter().any(|text| contains(text))
            || is_digits && self.artifact.to_string().starts_with(digits)
    }
}

/// Sorts the pod groups, and merges those with the same artifact and owner.
pub(crate) fn rows(groups: Vec<PodGroup>) -> Vec<RunningRow> {
    let mut rows: Vec<RunningRow> = Vec::with_capacity(groups.len());
    for PodGroup { namespace, digests, owners, pods, since, found, reported_by } in groups {
        let owner = Owner::new(&owners).map(|owner| owner.to_string()).unwrap_or_default();
        rows.extend(digests.into_iter().map(|(image, artifact)| RunningRow {
            namespace: namespace.clone(),
            owner: owner.clone(),
            image: image.into(),
            artifact,
            pods,
            since,
            matching_pod: found.clone(),
            reporters: BTreeSet::from([reported_by.clone()]),
        }));
    }
    rows.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
    // Several groups have the same key if an owner was recreated, or if its pods run different sets of images.
    rows.dedup_by(|next, kept| {
        let is_same = next.key() == kept.key();
        if is_same {
            kept.pods += next.pods;
            kept.since = kept.since.min(next.since);
            kept.matching_pod = kept.matching_pod.take().or(next.matching_pod.take());
            kept.reporters.append(&mut next.reporters);
        }
        is_same
    });
    rows
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
            selected.push(row);
        }
    }
    let mut reporters = rows.iter().flat_map(|row| &row.reporters);
    let first = reporters.next();
    let has_several_reporters = reporters.any(|reporter| Some(reporter) != first);
    let total = selected.len();
    let pagination = Pagination::new(total, ROWS_PER_PAGE, filter.page);
    let rows = selected.into_iter().skip(pagination.offset).take(ROWS_PER_PAGE).cloned().collect();
    RunningPage { rows, pagination, total, counts, has_several_reporters }
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
    fn rows_are_merged_by_owner_and_artifact_and_sorted() {
        let groups = vec![
            group("b", "x-7d9f8b6c5d", "i:1", 1, 3),
            group("a", "y", "i:1", 1, 1),
            group("b", "x-66b6c48dd5", "i:1", 1, 2),
        ];
        let rows = rows(groups);
        let summary: Vec<_> = rows
            .iter()
            .map(|row| (row.namespace.as_str(), row.owner.as_str(), row.pods, row.since.micros()))
            .collect();
        assert_eq!(summary, [("a", "ReplicaSet y", 1, 1), ("b", "Deployment x (inferred)", 5, 2)]);
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
