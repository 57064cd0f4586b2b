//! Confirms that an environment without pods is empty rather than misconfigured.
//!
//! A namespace that does not exist, for example because its name is misspelt, lists as empty. `agent` calls
//! [`confirm`] before it reports an environment, in `--once` runs and in the daemon, and looks up namespaces.

use super::selection::Selection;
use model::NamespaceName;

/// Whether an environment may be reported as empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emptiness {
    /// Probably a mistake: withhold reports.
    Withheld,
    /// Report it as empty: `--allow-empty`, `allowEmpty`.
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// A pod was seen in it, or the API server returned it.
    Exists,
    /// The API server returned 404.
    Missing,
    /// The lookup failed, for example because of missing permissions.
    Unknown,
    /// The pods come from a file, which has none of this namespace.
    NotInFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub artifacts: usize,
    /// Whether a pod in any phase was seen.
    pub has_pods: bool,
    /// Unreadable pods that may belong to it, and unreadable namespaces that its label selector may match.
    pub unreadable: u64,
}

/// Why an environment is not reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    #[error("the namespace \"{0}\" does not exist")]
    NoSuchNamespace(NamespaceName),
    #[error("the file has no pods in the namespace \"{0}\"")]
    NotInFile(NamespaceName),
    /// A named namespace has no pods and may not exist.
    #[error("the namespace \"{0}\" has no pods, and its existence cannot be verified")]
    Unconfirmed(NamespaceName),
    #[error("failed to list the pods of the namespace \"{0}\"")]
    NotListed(NamespaceName),
    #[error("failed to list the labels of namespaces")]
    NoLabels,
    /// There are only unreadable pods or namespaces.
    #[error("no artifacts; {0} listed pods or namespaces that may belong to the environment cannot be read")]
    Unreadable(u64),
    #[error("no pods in {0}")]
    NoPods(String),
}

impl Withheld {
    /// The metric label.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoSuchNamespace(_) => "no_such_namespace",
            Self::NotInFile(_) => "not_in_file",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::NotListed(_) => "not_listed",
            Self::NoLabels => "no_labels",
            Self::Unreadable(_) => "unreadable",
            Self::NoPods(_) => "no_pods",
        }
    }

    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) | Self::NoLabels => None,
            Self::NoPods(_) => {
                Some("if this is intended, set --allow-empty, or allowEmpty in the configuration file")
            }
            _ => Some(
                "check the name; if it is intended to be empty, set --allow-empty, or allowEmpty in the configuration file",
            ),
        }
    }
}

/// Confirms that an environment contains no pods besides the observed ones.
///
/// # Errors
///
/// [`Withheld`] if it may contain others.
pub fn confirm(
    selection: &Selection,
    emptiness: Emptiness,
    facts: Facts,
    existence: impl Fn(&NamespaceName) -> Existence,
) -> Result<(), Withheld> {
    if facts.artifacts == 0 && facts.unreadable > 0 {
        return Err(Withheld::Unreadable(facts.unreadable));
    }
    if emptiness == Emptiness::Allowed {
        return Ok(());
    }
    for name in selection.names() {
        match existence(name) {
            Existence::Exists => {}
            Existence::Missing => return Err(Withheld::NoSuchNamespace(name.clone())),
            Existence::Unknown => return Err(Withheld::Unconfirmed(name.clone())),
            Existence::NotInFile => return Err(Withheld::NotInFile(name.clone())),
        }
    }
    if facts.has_pods { Ok(()) } else { Err(Withheld::NoPods(selection.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::Emptiness as Empty;
    use super::Existence as Is;
    use super::*;

    #[test]
    fn empty_environment_is_reported_only_if_confirmed() {
        let name = |n: &str| n.parse::<NamespaceName>().unwrap();
        let named = Selection::new([name("a")].into(), vec![], [].into(), vec![]).unwrap();
        let everything = Selection::default();
        let full = Facts { artifacts: 1, has_pods: true, unreadable: 0 };
        let ended = Facts { artifacts: 0, ..full };
        let empty = Facts { has_pods: false, ..ended };
        let garbled = Facts { unreadable: 2, ..ended };
        let table = [
            (&everything, Empty::Withheld, full, Is::Unknown, Ok(())),
            (&everything, Empty::Withheld, ended, Is::Unknown, Ok(())),
            (&everything, Empty::Withheld, empty, Is::Unknown, Err(Withheld::NoPods("any namespace".into()))),
            (&everything, Empty::Allowed, empty, Is::Unknown, Ok(())),
            (&everything, Empty::Allowed, garbled, Is::Unknown, Err(Withheld::Unreadable(2))),
            (&everything, Empty::Withheld, Facts { unreadable: 2, ..full }, Is::Unknown, Ok(())),
            (&named, Empty::Withheld, full, Is::Exists, Ok(())),
            (&named, Empty::Withheld, empty, Is::Exists, Err(Withheld::NoPods("the namespace \"a\"".into()))),
            (&named, Empty::Withheld, empty, Is::Missing, Err(Withheld::NoSuchNamespace(name("a")))),
            (&named, Empty::Withheld, empty, Is::Unknown, Err(Withheld::Unconfirmed(name("a")))),
            (&named, Empty::Withheld, empty, Is::NotInFile, Err(Withheld::NotInFile(name("a")))),
            (&named, Empty::Allowed, empty, Is::Missing, Ok(())),
        ];
        for (n, (selection, emptiness, facts, existence, expected)) in table.into_iter().enumerate() {
            assert_eq!(confirm(selection, emptiness, facts, |_| existence), expected, "{n}");
        }
    }
}
