//! Which namespaces belong to an environment, and what has to be listed to see them.
//!
//! `agent` builds one [`Selection`] for each environment; the roster cuts its snapshots by it, and
//! `cluster` lists the [`Scope`] that covers them all.

use std::collections::BTreeSet;

use regex::Regex;

use super::model::NamespaceName;

/// How many namespaces are listed, and later watched, one by one: each holds a connection of its
/// own.
pub const MOST_NAMESPACES: usize = 50;

/// The namespaces of one environment: those named or matched, less those excluded. With neither
/// names nor patterns it starts from all.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Namespaces by name.
    pub names: BTreeSet<NamespaceName>,
    /// Namespaces in whose name the expression is found; it is not anchored.
    pub patterns: Vec<Regex>,
    /// Namespaces left out by name.
    pub except_names: BTreeSet<NamespaceName>,
    /// Namespaces left out by expression.
    pub except_patterns: Vec<Regex>,
}

impl Selection {
    /// Whether a pod in this namespace belongs to the environment.
    #[must_use]
    pub fn takes(&self, namespace: &str) -> bool {
        let named = |names: &BTreeSet<NamespaceName>| names.iter().any(|n| n.as_str() == namespace);
        let matched = |patterns: &[Regex]| patterns.iter().any(|p| p.is_match(namespace));
        let all = self.names.is_empty() && self.patterns.is_empty();
        (all || named(&self.names) || matched(&self.patterns))
            && !named(&self.except_names)
            && !matched(&self.except_patterns)
    }

    fn only_names(&self) -> Option<&BTreeSet<NamespaceName>> {
        let plain =
            self.patterns.is_empty() && self.except_names.is_empty() && self.except_patterns.is_empty();
        (plain && !self.names.is_empty()).then_some(&self.names)
    }
}

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All pods of the cluster; a `ClusterRole` must allow it.
    Cluster,
    /// The pods of these namespaces; a `Role` in each is enough.
    Namespaces(BTreeSet<NamespaceName>),
}

/// More namespaces are named than are listed one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} namespaces are named, and at most {MOST_NAMESPACES} are listed one by one")]
pub struct TooManyNamespaces(pub usize);

impl Scope {
    /// The least that covers every selection: namespaces one by one where all are named, the
    /// cluster as soon as one selection has an expression, an exclusion, or nothing.
    ///
    /// # Errors
    ///
    /// [`TooManyNamespaces`] where more than [`MOST_NAMESPACES`] are named.
    pub fn covering<'a>(
        selections: impl IntoIterator<Item = &'a Selection>,
    ) -> Result<Self, TooManyNamespaces> {
        let mut namespaces = BTreeSet::new();
        for selection in selections {
            let Some(names) = selection.only_names() else { return Ok(Self::Cluster) };
            namespaces.extend(names.iter().cloned());
        }
        if namespaces.len() > MOST_NAMESPACES {
            return Err(TooManyNamespaces(namespaces.len()));
        }
        Ok(Self::Namespaces(namespaces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<NamespaceName> {
        names.into_iter().map(|n| n.parse().unwrap()).collect()
    }

    fn patterns(patterns: &[&str]) -> Vec<Regex> {
        patterns.iter().map(|p| Regex::new(p).unwrap()).collect()
    }

    #[test]
    fn a_selection_takes_what_is_named_or_matched_and_not_excluded() {
        let everything = Selection::default();
        let named = Selection { names: names(["shop"]), ..Default::default() };
        let mixed = Selection {
            names: names(["kube-system"]),
            patterns: patterns(&["^team-"]),
            except_names: names(["team-x"]),
            except_patterns: patterns(&["-dev$"]),
        };
        let rest = Selection { except_patterns: patterns(&["^kube-"]), ..Default::default() };
        for (selection, taken, left) in [
            (everything, &["shop", "kube-system"][..], &[][..]),
            (named, &["shop"], &["shop-2", "sho", ""]),
            (mixed, &["kube-system", "team-a"], &["team-x", "team-a-dev", "shop", "my-team-a"]),
            (rest, &["shop"], &["kube-system"]),
        ] {
            assert!(taken.iter().all(|n| selection.takes(n)), "{selection:?}");
            assert!(!left.iter().any(|n| selection.takes(n)), "{selection:?}");
        }
    }

    #[test]
    fn only_exact_names_can_do_without_the_right_to_list_the_cluster() {
        let shop = Selection { names: names(["shop"]), ..Default::default() };
        let batch = Selection { names: names(["batch", "shop"]), ..Default::default() };
        let one_by_one = Scope::covering([&shop, &batch]).unwrap();
        assert_eq!(one_by_one, Scope::Namespaces(names(["batch", "shop"])));

        let matched = Selection { patterns: patterns(&["x"]), ..shop.clone() };
        let excluding = Selection { except_names: names(["x"]), ..shop.clone() };
        for wide in [matched, excluding, Selection::default()] {
            assert_eq!(Scope::covering([&shop, &wide]), Ok(Scope::Cluster));
        }
    }

    #[test]
    fn fifty_namespaces_are_listed_one_by_one_and_no_more() {
        let of = |n: usize| Selection {
            names: (0..n).map(|i| format!("ns-{i}").parse().unwrap()).collect(),
            ..Default::default()
        };
        assert!(matches!(Scope::covering([&of(50)]), Ok(Scope::Namespaces(n)) if n.len() == 50));
        assert_eq!(Scope::covering([&of(51)]), Err(TooManyNamespaces(51)));
    }
}
