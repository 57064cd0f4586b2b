//! The environments that are reported to, and the file that lists several.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use regex::Regex;
use serde::{Deserialize, Deserializer};

use crate::domain::escape::Visible;
use crate::domain::live::confirmation::Emptiness;
use crate::domain::live::selection::{Contradiction, Selection};
use crate::domain::model::{EnvironmentName, NamespaceName};
use crate::process::files::read_up_to;
use crate::process::yaml;

/// One environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Its name at the service.
    pub name: EnvironmentName,
    /// The namespaces that belong to it.
    pub selection: Selection,
    /// What to do when these hold no pods.
    pub empty: Emptiness,
}

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("the configuration file \"{}\" cannot be read", shown(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    /// There is nothing in it.
    #[error("the configuration file \"{}\" is empty", shown(.0))]
    Empty(PathBuf),
    /// It does not say what is expected at a key, on the line that the cause says.
    #[error("the configuration file \"{}\" cannot be used, at {}", shown(.0), Visible(.1))]
    Invalid(PathBuf, String, #[source] Box<serde_saphyr::Error>),
    /// It lists no environment.
    #[error("the configuration file \"{}\" lists no environment", shown(.0))]
    None(PathBuf),
    /// An environment names what it excludes.
    #[error("the configuration file \"{}\" cannot be used for the environment \"{}\"", shown(.0), Visible(.1.as_str()))]
    Contradiction(PathBuf, EnvironmentName, #[source] Contradiction),
    /// It lists one twice.
    #[error("the configuration file \"{}\" lists the environment \"{}\" twice", shown(.0), Visible(.1.as_str()))]
    Twice(PathBuf, EnvironmentName),
}

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The file, key by key. What is said of each is in `docs/configuration.md`.
#[derive(Deserialize)]
#[cfg_attr(all(test, feature = "service"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Config {
    /// The environments, one at least, each once.
    environments: Vec<Entry>,
}

#[derive(Deserialize)]
#[cfg_attr(all(test, feature = "service"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    /// Its name at the service: 1 to 255 bytes, without a slash, a control character, or white space at either end.
    name: Parsed<EnvironmentName>,
    /// Namespaces to report. Where every environment has this key, and none has another one about
    /// namespaces, they are listed one by one, 50 at most, and a Role in each is enough.
    #[serde(default)]
    namespaces: Vec<Parsed<NamespaceName>>,
    /// Report the namespaces in whose name one of these expressions is found, too.
    #[serde(default)]
    namespaces_regex: Vec<Parsed<Regex>>,
    /// Namespaces to leave out.
    #[serde(default)]
    exclude_namespaces: Vec<Parsed<NamespaceName>>,
    /// Leave out the namespaces in whose name one of these expressions is found.
    #[serde(default)]
    exclude_namespaces_regex: Vec<Parsed<Regex>>,
    /// Report it also where no pod is in its namespaces, or these do not exist.
    #[serde(default)]
    allow_empty: bool,
}

/// A value that is read by its `FromStr`, so that the error carries the place in the file.
struct Parsed<T>(T);

/// Reads the file of `--config`: YAML, or JSON. Lists of namespaces that are absent or empty select
/// all.
///
/// # Errors
///
/// [`ConfigError`] for a file that cannot be read, holds a key or a value that is not known, lists no
/// environment, or one twice.
pub fn read_config(path: &Path) -> Result<Vec<Environment>, ConfigError> {
    let bytes = read_up_to(MOST_BYTES, path).map_err(|e| ConfigError::Unreadable(path.to_owned(), e))?;
    if yaml::is_empty(&bytes) {
        return Err(ConfigError::Empty(path.to_owned()));
    }
    let config: Config = yaml::read(&bytes)
        .map_err(|yaml::Misread { place, source }| ConfigError::Invalid(path.to_owned(), place, source))?;
    if config.environments.is_empty() {
        return Err(ConfigError::None(path.to_owned()));
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
                Err(ConfigError::Twice(path.to_owned(), environment.name))
            }
        })
        .collect()
}

impl Entry {
    fn into_environment(self) -> Result<Environment, Contradiction> {
        fn all<T, C: FromIterator<T>>(parsed: Vec<Parsed<T>>) -> C {
            parsed.into_iter().map(|p| p.0).collect()
        }
        let selection = Selection::new(
            all(self.namespaces),
            all(self.namespaces_regex),
            all(self.exclude_namespaces),
            all(self.exclude_namespaces_regex),
        )?;
        let empty = if self.allow_empty { Emptiness::Allowed } else { Emptiness::Withheld };
        Ok(Environment { name: self.name.0, selection, empty })
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|error: T::Err| {
            // An expression's error draws where it is wrong, in several lines, and says how in the last.
            let drawn = error.to_string();
            match drawn.lines().last().and_then(|last| last.strip_prefix("error: ")) {
                Some(said) => serde::de::Error::custom(format_args!("\"{}\": {said}", Visible(&text))),
                None => serde::de::Error::custom(drawn),
            }
        })
    }
}

#[cfg(all(test, feature = "service"))]
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
#[cfg(all(test, feature = "service"))]
pub(crate) fn schema() -> serde_json::Value {
    schemars::schema_for!(Config).to_value()
}

fn shown(path: &Path) -> String {
    Visible(&path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Environment>, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_config(file.path())
    }

    #[test]
    fn the_keys_of_the_public_service_s_reporter_are_read() {
        let environments = read(
            "environments:\n\
             - name: prod\n  namespaces: [shop, pay]\n  namespacesRegex: ['^team-']\n  \
               excludeNamespaces: [team-x]\n  excludeNamespacesRegex: ['-dev$']\n\
             - name: batch\n  allowEmpty: true\n",
        )
        .unwrap();
        let [prod, batch] = environments.as_slice() else { panic!("{environments:?}") };
        assert_eq!((prod.name.as_str(), prod.empty), ("prod", Emptiness::Withheld));
        let taken =
            ["shop", "pay", "team-a", "team-x", "team-a-dev", "kube-system"].map(|n| prod.selection.takes(n));
        assert_eq!(taken, [true, true, true, false, false, false]);
        assert_eq!((batch.name.as_str(), batch.empty), ("batch", Emptiness::Allowed));
        assert!(batch.selection.takes("anything"));
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (text, says) in [
            ("environments: []", "lists no environment"),
            ("environments:\n- name: a\n- name: a\n", "lists the environment \"a\" twice"),
            ("environments:\n- name: a\n  namespace: [x]\n", "namespace"),
            ("environments:\n- name: a\n  namespaces: x\n", "line 3"),
            ("environments:\n- name: a\n  namespaces: [A_b]\n", "line 3"),
            ("environments:\n- name: a\n  namespaces:\n", "line 3"),
            ("environments:\n- name: ..\n", "relative path"),
            ("environments:\n- namespaces: [x]\n", "name"),
            ("environments:\n- name: a\n  namespacesRegex: ['(']\n", "line 3"),
            ("environments:\n- name: a\n  namespacesRegex: ['(']\n", "unclosed group"),
            ("environments:\n- name: a\n  allowEmpty: perhaps\n", "line 3"),
            ("environment:\n- name: a\n", "environment"),
            ("", "is empty"),
            ("# environments:\n", "at its top level"),
            ("{", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            let all = crate::process::error_causes::said_once(&error).join("; ");
            assert!(all.contains(says) && !all.contains("\\n"), "{text:?}: {all}");
        }
    }
}
