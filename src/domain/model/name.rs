//! Names that become a segment of a request's path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::escape::Visible;

/// A name that cannot be used, with what was expected of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{}\" {problem}", Visible(input))]
pub struct InvalidName {
    what: &'static str,
    input: String,
    problem: &'static str,
}

/// Declares a newtype over a checked `String`.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The name as it was given, not percent-encoded.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(input: &str) -> Result<Self, InvalidName> {
                match $check(input) {
                    Ok(()) => Ok(Self(input.to_owned())),
                    Err(problem) => Err(InvalidName { what: $what, input: input.to_owned(), problem }),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The organization that owns what is reported: `{org}` of every operation.
    OrganizationName, "organization", path_segment
}

name! {
    /// An environment: `{env_name}` of operation 7.
    EnvironmentName, "environment", path_segment
}

name! {
    /// A flow: `{flow_name}`, of the pattern that the interface gives under Limits,
    /// `^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$`.
    FlowName, "flow", flow_name
}

name! {
    /// A trail: `{trail_name}` of operation 5.
    TrailName, "trail", path_segment
}

name! {
    /// A repository: `{repo_name}` of operation 4, which may hold slashes.
    RepositoryName, "repository", repository_name
}

name! {
    /// A Kubernetes namespace: an RFC 1123 label, which is what the API server accepts as one
    /// (Kubernetes documentation, "Object Names and IDs").
    NamespaceName, "namespace", rfc_1123_label
}

/// What a name may take, in bytes: the length of a file's name, and short enough for any index.
const LONGEST: usize = 255;

/// What a repository's name may take with its owners, in bytes.
const LONGEST_REPOSITORY: usize = 1000;

/// What one segment of a path can hold without changing its meaning on the way: a `/`, even
/// encoded, is split by some proxies, and `.` and `..` are removed by every URL parser (RFC 3986
/// section 5.2.4).
fn path_segment(name: &str) -> Result<(), &'static str> {
    if name.contains(['/', '\\']) {
        return Err("holds a slash; a name without one was expected");
    }
    any_segment(name)
}

/// Segments with a slash between them, as `owner/name`.
fn repository_name(name: &str) -> Result<(), &'static str> {
    if name.contains("://") {
        return Err("is a URL; a name with its owners, as acme/cart, was expected");
    }
    if name.contains("//") || name.starts_with('/') || name.ends_with('/') {
        return Err("has an empty part; a name with its owners, as acme/cart, was expected");
    }
    name.split('/').try_for_each(any_segment)?;
    no_longer_than(LONGEST_REPOSITORY, name)
}

fn any_segment(name: &str) -> Result<(), &'static str> {
    no_longer_than(LONGEST, name)?;
    if name.is_empty() {
        Err("is empty; a name was expected")
    } else if name == "." || name == ".." {
        Err("is a relative path; a name was expected")
    } else if name.chars().any(char::is_control) {
        Err("holds a control character; a name without one was expected")
    } else if name.trim() != name {
        Err("begins or ends with white space; a name without it was expected")
    } else {
        Ok(())
    }
}

fn no_longer_than(most: usize, name: &str) -> Result<(), &'static str> {
    if name.len() > most {
        Err("is too long; at most 255 bytes were expected, or 1,000 for a repository with its owners")
    } else {
        Ok(())
    }
}

fn flow_name(name: &str) -> Result<(), &'static str> {
    no_longer_than(LONGEST, name)?;
    if name.contains('/') {
        return Err("holds a slash, as a repository's name does; a flow's has none");
    }
    let mut bytes = name.bytes();
    let begins_well = bytes.next().is_some_and(|first| first.is_ascii_alphanumeric());
    if begins_well && bytes.all(|b| b.is_ascii_alphanumeric() || b".-_~".contains(&b)) {
        Ok(())
    } else {
        Err("was expected to be a letter or digit, then letters, digits, '.', '-', '_' or '~'")
    }
}

fn rfc_1123_label(name: &str) -> Result<(), &'static str> {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=63).contains(&name.len())
        && name.bytes().all(inside)
        && !name.starts_with('-')
        && !name.ends_with('-')
    {
        Ok(())
    } else {
        Err(
            "was expected to be 1 to 63 lowercase letters, digits and hyphens, without a hyphen at either end",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_path_would_not_carry_is_refused_with_the_name_and_the_reason() {
        for (input, reason) in [
            ("", "is empty"),
            (".", "relative path"),
            ("..", "relative path"),
            ("a/b", "slash"),
            ("a\\b", "slash"),
            ("a\nb", "control character"),
            ("a ", "white space"),
            (&"a".repeat(256), "too long"),
        ] {
            let error = input.parse::<EnvironmentName>().unwrap_err().to_string();
            assert!(error.contains(reason), "{input:?}: {error}");
            assert!(error.starts_with("environment \""), "{error}");
            assert!(!error.contains('\n'), "{error:?}");
            assert!(input.parse::<OrganizationName>().is_err());
        }
    }

    #[test]
    fn other_names_are_kept_as_they_are() {
        for input in ["prod", "prod eu-1", "...", "прод", "100%", "a?b#c"] {
            assert_eq!(input.parse::<EnvironmentName>().unwrap().as_str(), input);
        }
    }

    #[test]
    fn a_repository_is_named_with_its_owners() {
        for good in ["cart", "acme/cart", "group/sub/cart", "100%/ä"] {
            assert_eq!(good.parse::<RepositoryName>().unwrap().as_str(), good);
        }
        let deep = vec!["a".repeat(255); 4].join("/");
        for bad in ["", "/", "a/", "/a", "a//b", "a/../b", "a/b\n", &deep] {
            assert!(bad.parse::<RepositoryName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_is_an_rfc_1123_label() {
        let longest = "n".repeat(63);
        for good in ["a", "kube-system", "0", &longest] {
            assert_eq!(good.parse::<NamespaceName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "../pods", "ns*", &"n".repeat(64)] {
            assert!(bad.parse::<NamespaceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_flow_name_follows_the_interface_s_pattern() {
        for good in ["a", "9", "shop.cart_v2~x-1"] {
            assert_eq!(good.parse::<FlowName>().unwrap().to_string(), good);
        }
        for bad in ["", ".a", "-a", "a b", "a/b", "ä", "a\n"] {
            assert!(bad.parse::<FlowName>().is_err(), "{bad:?}");
        }
    }
}
