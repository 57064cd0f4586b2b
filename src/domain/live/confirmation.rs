//! Whether what would be missing from a report is not there, or only not seen.
//!
//! A namespace that does not exist lists as empty, and so does one whose name was misspelt. `agent`
//! asks here before an environment is reported, in the one shot and in the daemon; what the API server
//! says of a namespace is looked up by `agent`.

use super::selection::Selection;
use crate::domain::model::NamespaceName;

/// Whether an environment without pods is one by intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emptiness {
    /// It is more likely a mistake, so nothing is reported.
    Withheld,
    /// It is reported as empty: `--allow-empty`, `allowEmpty`.
    Allowed,
}

/// Whether a namespace is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// A pod was seen in it, or the API server says so.
    Exists,
    /// The API server says that it is not.
    Missing,
    /// The API server does not say.
    Unsaid,
    /// There is only a file, which cannot say.
    NotInFile,
}

/// What was seen of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Artifacts that it would report.
    pub artifacts: usize,
    /// Whether any pod was seen in it, in whatever phase.
    pub has_pods: bool,
    /// Pods that cannot be read and may be in it.
    pub unreadable: u64,
}

/// Why an environment is not reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// A namespace that it names is not there.
    #[error("the namespace \"{0}\" does not exist")]
    NoSuchNamespace(NamespaceName),
    /// A namespace that it names is not in the file.
    #[error("no pod in the file is in the namespace \"{0}\"")]
    NotInFile(NamespaceName),
    /// Nobody can say whether a namespace that it names is there.
    #[error("no pod is in the namespace \"{0}\", and whether it exists cannot be told")]
    Unconfirmed(NamespaceName),
    /// The list of one of its namespaces failed.
    #[error("the pods of the namespace \"{0}\" cannot be listed")]
    NotListed(NamespaceName),
    /// There are pods that cannot be read, and no other.
    #[error("it has no artifact, and {0} of the listed pods, which may be in it, cannot be read")]
    Unreadable(u64),
    /// No pod is in its namespaces.
    #[error("no pod is in {0}")]
    NoPods(String),
}

impl Withheld {
    /// The label of a metric.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoSuchNamespace(_) => "no_such_namespace",
            Self::NotInFile(_) => "not_in_file",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::NotListed(_) => "not_listed",
            Self::Unreadable(_) => "unreadable",
            Self::NoPods(_) => "no_pods",
        }
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) => None,
            Self::NoPods(_) => {
                Some("if that is intended, give --allow-empty, or allowEmpty in the configuration file")
            }
            _ => Some(
                "check the name; if it is intended, give --allow-empty, or allowEmpty in the configuration file",
            ),
        }
    }
}

/// Confirms that there is no more in an environment than was seen.
///
/// # Errors
///
/// [`Withheld`] where that would be a guess.
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
            Existence::Unsaid => return Err(Withheld::Unconfirmed(name.clone())),
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
    fn emptiness_is_never_a_guess() {
        let name = |n: &str| n.parse::<NamespaceName>().unwrap();
        let named = Selection::new([name("a")].into(), vec![], [].into(), vec![]).unwrap();
        let everything = Selection::default();
        let full = Facts { artifacts: 1, has_pods: true, unreadable: 0 };
        let ended = Facts { artifacts: 0, ..full };
        let empty = Facts { has_pods: false, ..ended };
        let garbled = Facts { unreadable: 2, ..ended };
        let table = [
            (&everything, Empty::Withheld, full, Is::Unsaid, Ok(())),
            (&everything, Empty::Withheld, ended, Is::Unsaid, Ok(())),
            (&everything, Empty::Withheld, empty, Is::Unsaid, Err(Withheld::NoPods("any namespace".into()))),
            (&everything, Empty::Allowed, empty, Is::Unsaid, Ok(())),
            (&everything, Empty::Allowed, garbled, Is::Unsaid, Err(Withheld::Unreadable(2))),
            (&everything, Empty::Withheld, Facts { unreadable: 2, ..full }, Is::Unsaid, Ok(())),
            (&named, Empty::Withheld, full, Is::Exists, Ok(())),
            (&named, Empty::Withheld, empty, Is::Exists, Err(Withheld::NoPods("the namespace \"a\"".into()))),
            (&named, Empty::Withheld, empty, Is::Missing, Err(Withheld::NoSuchNamespace(name("a")))),
            (&named, Empty::Withheld, empty, Is::Unsaid, Err(Withheld::Unconfirmed(name("a")))),
            (&named, Empty::Withheld, empty, Is::NotInFile, Err(Withheld::NotInFile(name("a")))),
            (&named, Empty::Allowed, empty, Is::Missing, Ok(())),
        ];
        for (n, (selection, emptiness, facts, existence, expected)) in table.into_iter().enumerate() {
            assert_eq!(confirm(selection, emptiness, facts, |_| existence), expected, "{n}");
        }
    }
}
