//! Namespaces of an environment, whether annotations exclude pods, and the scope of the lists that cover them.
//!
//! `agent` builds one [`Selection`] per environment. The live set filters its snapshots by it, and `cluster`
//! lists the [`Scope`] that covers all selections.

use std::collections::BTreeSet;
use std::fmt;

use regex::Regex;

use super::labels::LabelSelector;
use model::{NamespaceName, Workload};

/// Maximum number of namespaces that are listed and watched individually; each uses one connection.
const MAX_NAMESPACES: usize = 50;

/// The namespaces of one environment: named, matched or labeled ones without excluded ones. Without names,
/// patterns and a label selector, all namespaces are selected.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    names: BTreeSet<NamespaceName>,
    patterns: Vec<Regex>,
    label_selector: Option<LabelSelector>,
    except_names: BTreeSet<NamespaceName>,
    except_patterns: Vec<Regex>,
    exclusion: Exclusion,
}

/// Whether an annotation excludes pods ([`EXCLUDE`](super::pod::EXCLUDE)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exclusion {
    /// The annotation has no effect: whoever may create pods must not be able to hide them.
    #[default]
    Ignored,
    Permitted,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the namespace \"{0}\" is both named and excluded")]
pub struct Contradiction(NamespaceName);

impl Selection {
    /// Selects and excludes namespaces by name, or by a regular expression that matches any part of the name.
    ///
    /// # Errors
    ///
    /// [`Contradiction`] if a namespace is both named and excluded.
    pub fn new(
        names: BTreeSet<NamespaceName>,
        patterns: Vec<Regex>,
        except_names: BTreeSet<NamespaceName>,
        except_patterns: Vec<Regex>,
    ) -> Result<Self, Contradiction> {
        let selection = Self { names, patterns, except_names, except_patterns, ..Self::default() };
        match selection.names.iter().find(|name| !selection.selects(name.as_str())) {
            Some(name) => Err(Contradiction(name.clone())),
            None => Ok(selection),
        }
    }

    /// Also selects the namespaces whose labels match.
    #[must_use]
    pub fn with_labels(self, label_selector: Option<LabelSelector>) -> Self {
        Self { label_selector, ..self }
    }

    #[must_use]
    pub fn with_exclusion(self, exclusion: Exclusion) -> Self {
        Self { exclusion, ..self }
    }

    #[must_use]
    pub fn exclusion(&self) -> Exclusion {
        self.exclusion
    }

    /// Whether labels decide about any namespace.
    #[must_use]
    pub fn has_label_selector(&self) -> bool {
        self.label_selector.is_some()
    }

    #[must_use]
    pub fn names(&self) -> &BTreeSet<NamespaceName> {
        &self.names
    }

    /// Whether a pod in this namespace belongs to the environment, whatever the labels of the namespace are.
    #[must_use]
    pub fn selects(&self, namespace: &str) -> bool {
        let all = self.names.is_empty() && self.patterns.is_empty() && self.label_selector.is_none();
        (all || contains(&self.names, &self.patterns, namespace)) && !self.excludes(namespace)
    }

    /// The selector that decides about this namespace, unless its name does.
    #[must_use]
    pub fn label_selector_for(&self, namespace: &str) -> Option<&LabelSelector> {
        self.label_selector.as_ref().filter(|_| !self.selects(namespace) && !self.excludes(namespace))
    }

    fn excludes(&self, namespace: &str) -> bool {
        contains(&self.except_names, &self.except_patterns, namespace)
    }

    fn is_plain(&self) -> bool {
        self.patterns.is_empty()
            && self.label_selector.is_none()
            && self.except_names.is_empty()
            && self.except_patterns.is_empty()
    }
}

impl Exclusion {
    #[must_use]
    pub fn applies_to(self, workload: &Workload) -> bool {
        self == Self::Permitted && workload.is_excluded
    }
}

/// `any namespace`, `the namespace "a"`, `the namespaces "a", "b"`.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_plain(), self.names.len()) {
            (true, 0) => f.write_str("any namespace"),
            (true, _) => f.write_str(&quoted(&self.names)),
            (false, _) => f.write_str("the selected namespaces"),
        }
    }
}

fn contains(names: &BTreeSet<NamespaceName>, patterns: &[Regex], namespace: &str) -> bool {
    names.iter().any(|name| name.as_str() == namespace) || patterns.iter().any(|p| p.is_match(namespace))
}

fn quoted(names: &BTreeSet<NamespaceName>) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("the namespace{plural} {}", names.join(", "))
}

/// Scope of the lists and watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All pods of the cluster; requires a `ClusterRole`.
    Cluster,
    /// The pods of these namespaces; requires a `Role` in each.
    Namespaces(BTreeSet<NamespaceName>),
}

/// `all namespaces`, `the namespace "a"`, `the namespaces "a", "b"`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespaces(names) => f.write_str(&quoted(names)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} namespaces are named, but the agent watches at most {MAX_NAMESPACES} individually")]
pub struct TooManyNamespaces(pub usize);

impl Scope {
    /// The smallest scope that covers all selections: individual namespaces if every selection has names
    /// only, otherwise the cluster.
    ///
    /// # Errors
    ///
    /// [`TooManyNamespaces`] if the names exceed the maximum.
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
        if namespaces.len() > MAX_NAMESPACES {
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
    fn selection_contains_named_or_matched_namespaces_without_excluded_ones() {
        let everything = Selection::default();
        let named = Selection { names: names(["shop"]), ..Default::default() };
        let mixed = Selection {
            names: names(["kube-system"]),
            patterns: patterns(&["^team-"]),
            except_names: names(["team-x"]),
            except_patterns: patterns(&["-dev$"]),
            ..Default::default()
        };
        let rest = Selection { except_patterns: patterns(&["^kube-"]), ..Default::default() };
        for (selection, selected, other) in [
            (everything, &["shop", "kube-system"][..], &[][..]),
            (named, &["shop"], &["shop-2", "sho", ""]),
            (mixed, &["kube-system", "team-a"], &["team-x", "team-a-dev", "shop", "my-team-a"]),
            (rest, &["shop"], &["kube-system"]),
        ] {
            assert!(selected.iter().all(|n| selection.selects(n)), "{selection:?}");
            assert!(!other.iter().any(|n| selection.selects(n)), "{selection:?}");
        }
    }

    #[test]
    fn labels_decide_about_namespaces_that_are_neither_named_nor_excluded() {
        let excluded = Selection { except_names: names(["team-x"]), ..Default::default() };
        let labeled = Selection { names: names(["shop"]), ..excluded }.with_labels("team".parse().ok());
        let decided = ["shop", "team-x", "pay"]
            .map(|name| (labeled.selects(name), labeled.label_selector_for(name).is_some()));
        assert_eq!(decided, [(true, false), (false, false), (false, true)]);
    }

    #[test]
    fn namespace_named_and_excluded_is_a_contradiction() {
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
    fn selection_is_displayed() {
        let of = |names: BTreeSet<_>| Selection { names, ..Default::default() }.to_string();
        assert_eq!(of(names([])), "any namespace");
        assert_eq!(of(names(["a"])), "the namespace \"a\"");
        assert_eq!(of(names(["b", "a"])), "the namespaces \"a\", \"b\"");
        let matched = Selection { patterns: patterns(&["x"]), ..Default::default() };
        assert_eq!(matched.to_string(), "the selected namespaces");
    }

    #[test]
    fn scope_is_the_cluster_unless_all_selections_have_names_only() {
        let shop = Selection { names: names(["shop"]), ..Default::default() };
        let batch = Selection { names: names(["batch", "shop"]), ..Default::default() };
        let one_by_one = Scope::covering([&shop, &batch]).unwrap();
        assert_eq!(one_by_one, Scope::Namespaces(names(["batch", "shop"])));

        let matched = Selection { patterns: patterns(&["x"]), ..shop.clone() };
        let excluding = Selection { except_names: names(["x"]), ..shop.clone() };
        let labeled = shop.clone().with_labels("team".parse().ok());
        for wide in [matched, excluding, labeled, Selection::default()] {
            assert_eq!(Scope::covering([&shop, &wide]), Ok(Scope::Cluster));
        }
    }

    #[test]
    fn at_most_fifty_namespaces_are_listed_individually() {
        let of = |n: usize| Selection {
            names: (0..n).map(|i| format!("ns-{i}").parse().unwrap()).collect(),
            ..Default::default()
        };
        assert!(matches!(Scope::covering([&of(50)]), Ok(Scope::Namespaces(n)) if n.len() == 50));
        assert_eq!(Scope::covering([&of(51)]), Err(TooManyNamespaces(51)));
    }
}
