//! Labels of namespaces, and selectors that match them.
//!
//! `cli` and `agent::environment` parse selectors, `cluster` decodes namespaces, and the live set compares them. The
//! grammar is that of `kubectl get -l` without numbers (Kubernetes documentation, "Labels and Selectors").

use std::collections::HashMap;
use std::str::FromStr;

use model::escape::Escaped;

/// Maximum length of the name in a key, and of a value, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// Maximum length of the prefix of a key, in bytes.
const MAX_PREFIX_BYTES: usize = 253;

/// The fields of a namespace that supercargo reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespaceView {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: HashMap<String, String>,
}

/// Requirements that the labels of a namespace have to meet, such as `team=a,env in (prod,test),!legacy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// `None` matches any value.
    values: Option<Vec<String>>,
    /// Met if the label does not exist or match.
    is_negated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid label selector \"{}\": {problem}; expected requirements such as team=a, env!=test, env in (prod,test), tier notin (db), team or !team, separated by commas",
    Escaped(input)
)]
pub struct InvalidSelector {
    input: String,
    problem: String,
}

impl LabelSelector {
    /// Whether these labels meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &HashMap<String, String>) -> bool {
        self.0.iter().all(|Requirement { key, values, is_negated }| {
            let has_value = |value| values.as_ref().is_none_or(|values| values.contains(value));
            labels.get(key).is_some_and(has_value) != *is_negated
        })
    }
}

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    fn from_str(input: &str) -> Result<Self, InvalidSelector> {
        let mut is_in_list = false;
        let requirements = input.split(|c| {
            is_in_list = c == '(' || is_in_list && c != ')';
            c == ',' && !is_in_list
        });
        let requirements: Result<_, _> = requirements.map(|text| Requirement::parse(text.trim())).collect();
        requirements.map(Self).map_err(|problem| InvalidSelector { input: input.to_owned(), problem })
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let (key, values, is_negated) = if let Some(key) = text.strip_prefix('!') {
            (key, None, true)
        } else if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            match head.trim_end().rsplit_once(char::is_whitespace) {
                Some((key, "in")) => (key, Some(values), false),
                Some((key, "notin")) => (key, Some(values), true),
                _ => return Err(format!("no operator \"in\" or \"notin\" in \"{}\"", Escaped(text))),
            }
        } else if let Some((key, value)) = text.split_once("!=") {
            (key, Some(value), true)
        } else if let Some((key, value)) = text.split_once('=') {
            (key, Some(value.strip_prefix('=').unwrap_or(value)), false)
        } else {
            (text, None, false)
        };
        let key = key.trim();
        if !is_key(key) {
            return Err(format!("invalid key \"{}\"", Escaped(key)));
        }
        let value = |value: &str| match value.trim() {
            value if value.is_empty() || is_name(value) => Ok(value.to_owned()),
            value => Err(format!("invalid value \"{}\"", Escaped(value))),
        };
        let values = values.map(|values| values.split(',').map(value).collect()).transpose()?;
        Ok(Self { key: key.to_owned(), values, is_negated })
    }
}

/// A name, or a DNS subdomain, a slash and a name.
fn is_key(key: &str) -> bool {
    let Some((prefix, name)) = key.split_once('/') else { return is_name(key) };
    let is_label =
        |label: &str| is_name(label) && !label.contains(|c: char| c == '_' || c.is_ascii_uppercase());
    prefix.len() <= MAX_PREFIX_BYTES && prefix.split('.').all(is_label) && is_name(name)
}

/// Letters, digits, '-', '_' and '.', with a letter or a digit at both ends.
fn is_name(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    let is_inner = |c: char| is_edge(c) || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(is_edge)
        && name.ends_with(is_edge)
        && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_matches_as_in_kubernetes() {
        let labels = [("team", "a"), ("env", "prod"), ("empty", ""), ("example.com/tier", "1.0_x-y")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (selector, is_matched) in [
            ("team=a", true),
            (" team == a ,\tenv = prod ", true),
            ("team=a,env=test", false),
            ("team!=b", true),
            ("team!=a", false),
            ("missing!=a", true),
            ("env in (prod, test),team", true),
            ("env in(prod)", true),
            ("env in (test)", false),
            ("missing in (a)", false),
            ("env notin (test,dev)", true),
            ("env notin (prod)", false),
            ("missing notin (a)", true),
            ("team", true),
            ("missing", false),
            ("!missing", true),
            ("! team", false),
            ("empty=", true),
            ("empty in ()", true),
            ("team in (a,)", true),
            ("team in ()", false),
            ("example.com/tier=1.0_x-y", true),
            // Operators are valid keys.
            ("in notin (in)", true),
        ] {
            assert_eq!(selector.parse::<LabelSelector>().unwrap().matches(&labels), is_matched, "{selector}");
        }
    }

    #[test]
    fn invalid_selector_is_rejected_with_its_problem() {
        let long = "a".repeat(64);
        for (selector, problem) in [
            ("", "invalid key \"\""),
            ("team=a,", "invalid key \"\""),
            (",team=a", "invalid key \"\""),
            ("!", "invalid key \"\""),
            ("=a", "invalid key \"\""),
            ("team a", "invalid key \"team a\""),
            ("!team=a", "invalid key \"team=a\""),
            ("team=a b", "invalid value \"a b\""),
            ("team===a", "invalid value \"=a\""),
            ("team=-a", "invalid value \"-a\""),
            ("team>1", "invalid key \"team>1\""),
            ("env in prod", "invalid key \"env in prod\""),
            ("env in (prod", "invalid key \"env in (prod\""),
            ("env of (prod)", "no operator \"in\" or \"notin\" in \"env of (prod)\""),
            ("(prod)", "no operator"),
            ("env in ((prod))", "invalid value \"(prod)\""),
            ("Example.com/tier", "invalid key"),
            ("example.com/a/b", "invalid key"),
            ("/a", "invalid key"),
            ("a/", "invalid key"),
            (&long, "invalid key"),
            (&format!("a={long}"), "invalid value"),
            ("\u{1b}[31m", "invalid key \"\\u{1b}[31m\""),
        ] {
            let error = selector.parse::<LabelSelector>().unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains('\u{1b}'), "{selector:?}: {error}");
            assert!(error.contains("expected requirements such as team=a"), "{error}");
        }
    }
}
