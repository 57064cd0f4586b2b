//! Which namespaces belong to an environment, and what has to be listed to see them.
//!
//! `agent` builds one [`Selection`] for each environment; the roster cuts its snapshots by it, and
//! `cluster` lists the [`Scope`] that covers them all.

use std::collections::BTreeSet;
use std::fmt;

use regex::Regex;

use crate::domain::model::NamespaceName;

/// How many namespaces are listed, and later watched, one by one: each holds a connection of its
/// own.
const MOST_NAMESPACES: usize = 50;

/// The namespaces of one environment: those named or matched, less those excluded. With neither
/// names nor patterns it starts from all.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    names: BTreeSet<NamespaceName>,
    patterns: Vec<Regex>,
    except_names: BTreeSet<NamespaceName>,
    except_patterns: Vec<Regex>,
}

/// A namespace is both named and excluded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the namespace \"{0}\" is both named and excluded")]
pub struct Contradiction(NamespaceName);

impl Selection {
    /// Selects namespaces by name, or by an expression that is found anywhere in the name, and
    /// leaves others out in the same two ways.
    ///
    /// # Errors
    ///
    /// [`Contradiction`] where a namespace is named and left out.
    pub fn new(
        names: BTreeSet<NamespaceName>,
        patterns: Vec<Regex>,
        except_names: BTreeSet<NamespaceName>,
        except_patterns: Vec<Regex>,
    ) -> Result<Self, Contradiction> {
        let selection = Self { names, patterns, except_names, except_patterns };
        match selection.names.iter().find(|name| !selection.takes(name.as_str())) {
            Some(name) => Err(Contradiction(name.clone())),
            None => Ok(selection),
        }
    }

    /// The namespaces that are named.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<NamespaceName> {
        &self.names
    }

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

    fn is_plain(&self) -> bool {
        self.patterns.is_empty() && self.except_names.is_empty() && self.except_patterns.is_empty()
    }
}

/// `any namespace`, `the namespace "a"`, `the namespaces "a", "b"`.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_plain(), self.names.len()) {
            (true, 0) => f.write_str("any namespace"),
            (true, _) => f.write_str(&said(&self.names)),
            (false, _) => f.write_str("a namespace that its options select"),
        }
    }
}

fn said(names: &BTreeSet<NamespaceName>) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("the namespace{plural} {}", names.join(", "))
}

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All pods of the cluster; a `ClusterRole` must allow it.
    Cluster,
    /// The pods of these namespaces; a `Role` in each is enough.
    Namespaces(BTreeSet<NamespaceName>),
}

/// `all namespaces`, `the namespace "a"`, `the namespaces "a", "b"`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespaces(names) => f.write_str(&said(names)),
        }
    }
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
    /// [`TooManyNamespaces`] where more than 50 are named.
    pub fn covering<'a>(
        selections: impl IntoIterator<Item = &'a Selection>,
    ) -> Result<Self, TooManyNamespaces> {
        let mut namespaces = BTreeSet::new();
        for selection in selections {
            if selection.names.is_empty() || !selection.is_plain() {
                return Ok(Self::Cluster);
            }
            namespaces.extend(selection.names.iter().cloned());
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
    fn a_namespace_that_is_named_and_left_out_is_a_contradiction() {
        for (except_names, except_patterns) in [(&["pay"][..], &[][..]), (&[], &["^p"])] {
            let both = Selection::new(
                names(["pay", "shop"]),
                vec![],
                names(except_names.iter().copied()),
                patterns(except_patterns),
            );
            assert_eq!(both.unwrap_err(), Contradiction("pay".parse().unwrap()));
        }
    }

    #[test]
    fn a_selection_says_what_it_selects() {
        let of = |names: BTreeSet<_>| Selection { names, ..Default::default() }.to_string();
        assert_eq!(of(names([])), "any namespace");
        assert_eq!(of(names(["a"])), "the namespace \"a\"");
        assert_eq!(of(names(["b", "a"])), "the namespaces \"a\", \"b\"");
        let matched = Selection { patterns: patterns(&["x"]), ..Default::default() };
        assert_eq!(matched.to_string(), "a namespace that its options select");
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
