//! Configuration of environments, and the file of `--config` that lists several.
//!
//! Called by `cli`. Values are parsed here, so that errors name their key and line.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use regex::Regex;
use serde::{Deserialize, Deserializer};

use crate::live::confirmation::Emptiness;
use crate::live::labels::LabelSelector;
use crate::live::selection::{Contradiction, Exclusion, Selection};
use client::IfUnknown;
use model::escape::Escaped;
use model::yaml;
use model::{EnvironmentName, NamespaceName};
use runtime::files::{quoted, read_up_to};

#[derive(Debug, Clone)]
pub struct EnvironmentConfig {
    pub name: EnvironmentName,
    /// The pods that belong to it.
    pub selection: Selection,
    /// Whether it may be reported without pods.
    pub empty: Emptiness,
    pub if_unknown: IfUnknown,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to read configuration file {}", quoted(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("configuration file {} is empty", quoted(.0))]
    Empty(PathBuf),
    /// Invalid value or unknown key; the cause has the line.
    #[error("invalid configuration file {}, at {}", quoted(.0), Escaped(.1))]
    Invalid(PathBuf, String, #[source] Box<serde_saphyr::Error>),
    #[error("configuration file {} lists no environment", quoted(.0))]
    NoEnvironment(PathBuf),
    /// An environment excludes a namespace that it names.
    #[error("invalid configuration file {}: environment \"{}\"", quoted(.0), Escaped(.1.as_str()))]
    Contradiction(PathBuf, EnvironmentName, #[source] Contradiction),
    #[error("configuration file {} lists environment \"{}\" twice", quoted(.0), Escaped(.1.as_str()))]
    Duplicate(PathBuf, EnvironmentName),
}

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file. `docs/reference/configuration.md` takes the descriptions of the keys from here.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Config {
    /// Environments, at least one, each listed once.
    environments: Vec<Entry>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    /// Name of the environment at the service: a letter or digit, then letters, digits, ".", "-", "_" or "~", at most 255.
    name: Parsed<EnvironmentName>,
    /// Namespaces to report. If every environment uses only this key to select namespaces, each namespace
    /// is listed separately (at most 50), and a Role in each is sufficient.
    #[serde(default)]
    namespaces: Vec<Parsed<NamespaceName>>,
    /// Also report the namespaces whose name matches one of these regular expressions.
    #[serde(default)]
    namespaces_regex: Vec<Parsed<Regex>>,
    /// Also report the namespaces whose labels match this selector, such as `team=a,env in (prod,test),!legacy`.
    #[serde(default)]
    namespace_selector: Option<Parsed<LabelSelector>>,
    /// Namespaces to exclude.
    #[serde(default)]
    exclude_namespaces: Vec<Parsed<NamespaceName>>,
    /// Exclude the namespaces whose name matches one of these regular expressions.
    #[serde(default)]
    exclude_namespaces_regex: Vec<Parsed<Regex>>,
    /// Report the environment even if its namespaces contain no pods or do not exist.
    #[serde(default)]
    allow_empty: bool,
    /// Exclude pods with the annotation `supercargo.dev/exclude: "true"`, and report their number.
    #[serde(default)]
    allow_exclusion: bool,
    /// Create the environment if the service does not know it. The token must be allowed to.
    #[serde(default)]
    create: bool,
}

/// A value that is deserialized by its `FromStr`, so that the error contains its position in the file.
struct Parsed<T>(T);

/// Reads the YAML or JSON file of `--config`. Absent or empty lists of namespaces select all.
///
/// # Errors
///
/// [`ConfigError`] for an unreadable file, an unknown key, an invalid value, no environment, or a
/// duplicate.
pub fn read_config(path: &Path) -> Result<Vec<EnvironmentConfig>, ConfigError> {
    let bytes = read_up_to(MAX_BYTES, path).map_err(|e| ConfigError::Unreadable(path.to_owned(), e))?;
    if yaml::is_empty(&bytes) {
        return Err(ConfigError::Empty(path.to_owned()));
    }
    let config: Config = yaml::read(&bytes).map_err(|yaml::YamlError { path: key, source }| {
        ConfigError::Invalid(path.to_owned(), key, source)
    })?;
    if config.environments.is_empty() {
        return Err(ConfigError::NoEnvironment(path.to_owned()));
    }
    let mut seen = BTreeSet::new();
    config
        .environments
        .into_iter()
        .map(|entry| {
            let name = entry.name.0.clone();
            let environment =
                entry.into_environment().map_err(|e| ConfigError::Contradiction(path.to_owned(), name, e))?;
            if seen.insert(environment.name.clone()) {
                Ok(environment)
            } else {
                Err(ConfigError::Duplicate(path.to_owned(), environment.name))
            }
        })
        .collect()
}

impl Entry {
    fn into_environment(self) -> Result<EnvironmentConfig, Contradiction> {
        fn all<T, C: FromIterator<T>>(parsed: Vec<Parsed<T>>) -> C {
            parsed.into_iter().map(|p| p.0).collect()
        }
        let selection = Selection::new(
            all(self.namespaces),
            all(self.namespaces_regex),
            all(self.exclude_namespaces),
            all(self.exclude_namespaces_regex),
        )?;
        let exclusion = if self.allow_exclusion { Exclusion::Permitted } else { Exclusion::Ignored };
        let selection = selection.with_labels(self.namespace_selector.map(|selector| selector.0));
        let selection = selection.with_exclusion(exclusion);
        let empty = if self.allow_empty { Emptiness::Allowed } else { Emptiness::Withheld };
        let if_unknown = if self.create { IfUnknown::Create } else { IfUnknown::Reject };
        Ok(EnvironmentConfig { name: self.name.0, selection, empty, if_unknown })
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|error: T::Err| {
            // A regex error is a drawing in several lines; its last line is the message.
            let message = error.to_string();
            match message.lines().last().and_then(|last| last.strip_prefix("error: ")) {
                Some(last) => serde::de::Error::custom(format_args!("\"{}\": {last}", Escaped(&text))),
                None => serde::de::Error::custom(message),
            }
        })
    }
}

#[cfg(feature = "schema")]
impl<T> schemars::JsonSchema for Parsed<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "text".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// The JSON Schema of the file.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Config).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<EnvironmentConfig>, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_config(file.path())
    }

    #[test]
    fn config_keys_of_the_public_service_s_reporter_are_read() {
        let environments = read(
            "environments:\n\
             - name: prod\n  namespaces: [shop, pay]\n  namespacesRegex: ['^team-']\n  \
               excludeNamespaces: [team-x]\n  excludeNamespacesRegex: ['-dev$']\n  \
               namespaceSelector: env in (prod)\n\
             - name: batch\n  allowEmpty: true\n  allowExclusion: true\n  create: true\n",
        )
        .unwrap();
        let [prod, batch] = environments.as_slice() else { panic!("{environments:?}") };
        assert_eq!(
            (prod.name.as_str(), prod.empty, prod.if_unknown),
            ("prod", Emptiness::Withheld, IfUnknown::Reject)
        );
        let taken = ["shop", "pay", "team-a", "team-x", "team-a-dev", "kube-system"]
            .map(|n| prod.selection.selects(n));
        assert_eq!(taken, [true, true, true, false, false, false]);
        assert!(prod.selection.label_selector_for("kube-system").is_some());
        assert_eq!(
            (batch.name.as_str(), batch.empty, batch.if_unknown),
            ("batch", Emptiness::Allowed, IfUnknown::Create)
        );
        assert!(batch.selection.selects("anything"));
        let exclusion = [prod, batch].map(|environment| environment.selection.exclusion());
        assert_eq!(exclusion, [Exclusion::Ignored, Exclusion::Permitted]);
    }

    #[test]
    fn config_error_names_the_position() {
        for (text, expected) in [
            ("environments: []", "lists no environment"),
            ("environments:\n- name: a\n- name: a\n", "lists environment \"a\" twice"),
            ("environments:\n- name: a\n  namespace: [x]\n", "namespace"),
            ("environments:\n- name: a\n  namespaces: x\n", "line 3"),
            ("environments:\n- name: a\n  namespaces: [A_b]\n", "line 3"),
            ("environments:\n- name: a\n  namespaces:\n", "line 3"),
            ("environments:\n- name: ..\n", "expected a letter or digit"),
            ("environments:\n- namespaces: [x]\n", "name"),
            ("environments:\n- name: a\n  namespacesRegex: ['(']\n", "line 3"),
            ("environments:\n- name: a\n  namespacesRegex: ['(']\n", "unclosed group"),
            ("environments:\n- name: a\n  namespaceSelector: team in a\n", "line 3"),
            ("environments:\n- name: a\n  namespaceSelector: ''\n", "invalid key \"\""),
            ("environments:\n- name: a\n  allowEmpty: perhaps\n", "line 3"),
            ("environment:\n- name: a\n", "environment"),
            ("", "is empty"),
            ("# environments:\n", "at the top level"),
            ("{", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            let message = runtime::error_causes::describe(&error);
            assert!(message.contains(expected) && !message.contains("\\n"), "{text:?}: {message}");
        }
    }
}
