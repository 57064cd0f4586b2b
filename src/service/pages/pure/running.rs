//! What runs, as rows: grouped, searched, counted, and cut into pages. Pure.

use std::collections::HashMap;

use super::filter::Filter;
use crate::domain::evidence::compliance::Compliance;
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, OwnerReference, Timestamp};
use crate::service::pages::parts::pagination::{Paged, ROWS};
use crate::store::environment_contents::Ran;

/// An artifact that an owner's pods run in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) namespace: String,
    /// The owner's kind and name; empty for pods of their own.
    pub(crate) owner: String,
    pub(crate) image: String,
    pub(crate) artifact: Fingerprint,
    pub(crate) pods: i64,
    /// Since when the first of the pods runs.
    pub(crate) since: Timestamp,
    /// A pod whose name holds what is searched for.
    pub(crate) found: Option<String>,
}

/// How many rows there are of each verdict, whichever of them are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    compliant: usize,
    unknown: usize,
    non_compliant: usize,
}

/// The verdicts, in the order in which they are told.
pub(crate) const WORST_FIRST: [Compliance; 3] =
    [Compliance::NonCompliant, Compliance::Unknown, Compliance::Compliant];

/// A page of rows.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    /// The rows, those of one namespace and owner together.
    pub(crate) runs: Vec<&'a Run>,
    pub(crate) paged: Paged,
    /// How many rows all pages have.
    pub(crate) total: usize,
    /// What the search finds.
    pub(crate) counts: Counts,
}

/// Verdicts, and whether what they say still holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdicts<'a> {
    pub(crate) kept: &'a HashMap<Fingerprint, Verdict>,
    pub(crate) is_confirmed: bool,
}

impl Verdicts<'_> {
    /// What can be said of an artifact.
    pub(crate) fn of(&self, artifact: &Fingerprint) -> Compliance {
        let kept = self.kept.get(artifact).map_or(Compliance::Unknown, |verdict| verdict.compliance);
        kept.confirmed(self.is_confirmed)
    }
}

impl Run {
    fn place(&self) -> (&str, &str, &str, &Fingerprint) {
        (&self.namespace, &self.owner, &self.image, &self.artifact)
    }

    /// What is shown under one heading.
    pub(crate) fn group(&self) -> (&str, &str) {
        (&self.namespace, &self.owner)
    }

    /// Whether a search, in lower case, finds it.
    fn is_found(&self, searched: &str) -> bool {
        let holds = |text: &str| text.to_lowercase().contains(searched);
        let digits = searched.strip_prefix("sha256:").unwrap_or(searched);
        let is_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        self.found.is_some()
            || [&self.namespace, &self.owner, &self.image].into_iter().any(|text| holds(text))
            || is_digits && self.artifact.to_string().starts_with(digits)
    }
}

/// What ran, in order, each artifact of an owner once.
pub(crate) fn rows(ran: Vec<Ran>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::with_capacity(ran.len());
    for Ran { namespace, digests, owners, pods, since, found } in ran {
        let owner = owner(&owners);
        runs.extend(digests.into_iter().map(|(image, artifact)| Run {
            namespace: namespace.clone(),
            owner: owner.clone(),
            image: image.into(),
            artifact,
            pods,
            since,
            found: found.clone(),
        }));
    }
    runs.sort_unstable_by(|one, other| one.place().cmp(&other.place()));
    // An owner that was replaced by another of its name, or one whose pods run it beside different things.
    runs.dedup_by(|next, kept| {
        let is_same = next.place() == kept.place();
        if is_same {
            kept.pods += next.pods;
            kept.since = kept.since.min(next.since);
            kept.found = kept.found.take().or(next.found.take());
        }
        is_same
    });
    runs
}

/// Who owns a pod: its controller, or the first owner.
fn owner(owners: &[OwnerReference]) -> String {
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let Some(owner) = controller.or(owners.first()) else { return String::new() };
    let words = [owner.kind.as_deref(), owner.name.as_deref()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What a filter leaves, cut to its page.
pub(crate) fn shown<'a>(runs: &'a [Run], verdicts: Verdicts<'_>, filter: &Filter) -> Shown<'a> {
    let searched = filter.q.to_lowercase();
    let mut counts = Counts::default();
    let mut left = Vec::new();
    for run in runs.iter().filter(|run| searched.is_empty() || run.is_found(&searched)) {
        let compliance = verdicts.of(&run.artifact);
        counts.add(compliance);
        if filter.compliance.is_none_or(|wanted| wanted == compliance) {
            left.push(run);
        }
    }
    let total = left.len();
    let paged = Paged::of(total, ROWS, filter.page);
    let runs = left.into_iter().skip(paged.passed).take(ROWS).collect();
    Shown { runs, paged, total, counts }
}

/// The verdicts of all rows.
pub(crate) fn all(runs: &[Run], verdicts: Verdicts<'_>) -> Counts {
    let mut counts = Counts::default();
    for run in runs {
        counts.add(verdicts.of(&run.artifact));
    }
    counts
}

impl Counts {
    fn add(&mut self, compliance: Compliance) {
        match compliance {
            Compliance::Compliant => self.compliant += 1,
            Compliance::Unknown => self.unknown += 1,
            Compliance::NonCompliant => self.non_compliant += 1,
        }
    }

    /// How many rows there are of this verdict.
    pub(crate) fn of(self, compliance: Compliance) -> usize {
        match compliance {
            Compliance::Compliant => self.compliant,
            Compliance::Unknown => self.unknown,
            Compliance::NonCompliant => self.non_compliant,
        }
    }

    /// The worst of all.
    pub(crate) fn worst(self) -> Option<Compliance> {
        WORST_FIRST.into_iter().find(|compliance| self.of(*compliance) > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn artifact(number: u8) -> Fingerprint {
        Fingerprint::from([number; 32])
    }

    fn owned(kind: &str, name: &str, controller: Option<bool>) -> OwnerReference {
        serde_json::from_value(serde_json::json!({"kind": kind, "name": name, "controller": controller}))
            .unwrap()
    }

    fn ran(namespace: &str, owner: &str, image: &str, number: u8, pods: i64) -> Ran {
        let owners = if owner.is_empty() { Vec::new() } else { vec![owned("ReplicaSet", owner, Some(true))] };
        Ran {
            namespace: namespace.to_owned(),
            digests: BTreeMap::from([(image.into(), artifact(number))]),
            owners,
            pods,
            since: Timestamp::from_micros(pods),
            found: None,
        }
    }

    fn filter(q: &str, compliance: Option<Compliance>, page: usize) -> Filter {
        Filter { q: q.to_owned(), compliance, at: None, page }
    }

    #[test]
    fn an_artifact_of_an_owner_is_one_row_in_order() {
        let all = vec![ran("b", "x", "i:1", 1, 3), ran("a", "y", "i:1", 1, 1), ran("b", "x", "i:1", 1, 2)];
        let rows = rows(all);
        let told: Vec<_> = rows
            .iter()
            .map(|run| (run.namespace.as_str(), run.owner.as_str(), run.pods, run.since.micros()))
            .collect();
        assert_eq!(told, [("a", "ReplicaSet y", 1, 1), ("b", "ReplicaSet x", 5, 2)]);
    }

    #[test]
    fn the_owner_is_the_controller_or_the_first() {
        assert_eq!(owner(&[]), "");
        assert_eq!(owner(&[owned("A", "a", None), owned("B", "b", Some(true))]), "B b");
        assert_eq!(owner(&[owned("A", "a", None), owned("B", "b", Some(false))]), "A a");
    }

    #[test]
    fn a_search_looks_at_names_and_at_the_start_of_digests() {
        let mut found = ran("other", "", "z:1", 3, 1);
        found.found = Some("cart-5".to_owned());
        let rows =
            rows(vec![ran("shop", "web", "registry/Cart:1", 0xab, 1), ran("shop", "", "web:1", 2, 1), found]);
        let none = HashMap::new();
        let verdicts = Verdicts { kept: &none, is_confirmed: true };
        let total = |q: &str| {
            shown(&rows, verdicts, &filter(q, None, 1)).runs.iter().filter(|run| run.found.is_none()).count()
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
        // What the database found by a pod's name stays.
        assert_eq!(shown(&rows, verdicts, &filter("cart-5", None, 1)).total, 1);
    }

    #[test]
    fn verdicts_are_counted_and_pages_end_with_the_last() {
        let rows = rows((0..=250).map(|n| ran("n", &format!("o{n:03}"), "i", n, 1)).collect());
        let verdict = |compliance| Verdict { compliance, is_allowed: false, reasons: Vec::new() };
        let kept = HashMap::from([
            (artifact(0), verdict(Compliance::NonCompliant)),
            (artifact(1), verdict(Compliance::Compliant)),
        ]);
        let verdicts = Verdicts { kept: &kept, is_confirmed: true };
        let last = shown(&rows, verdicts, &filter("", None, 9));
        assert_eq!((last.paged.page, last.paged.pages, last.total, last.runs.len()), (3, 3, 251, 51));
        let counted = [Compliance::Compliant, Compliance::Unknown, Compliance::NonCompliant];
        assert_eq!(counted.map(|compliance| last.counts.of(compliance)), [1, 249, 1]);
        assert_eq!(last.counts.worst(), Some(Compliance::NonCompliant));
        assert_eq!(shown(&rows, verdicts, &filter("", Some(Compliance::Compliant), 1)).total, 1);
        // What nobody confirms is not shown as compliant, and not found as such.
        let silent = Verdicts { is_confirmed: false, ..verdicts };
        let none = shown(&rows, silent, &filter("", Some(Compliance::Compliant), 1));
        assert_eq!((none.total, none.runs.len(), none.counts.of(Compliance::NonCompliant)), (0, 0, 1));
        assert_eq!(Counts::default().worst(), None);
    }
}
