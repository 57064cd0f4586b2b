//! Names that become segments of a request path.

use crate::checked_text;
use crate::escape::{Escaped, needs_escape};
use crate::repository::remote::decoded_name;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} name \"{}\": {problem}", Escaped(input))]
pub struct InvalidName {
    what: &'static str,
    input: String,
    problem: &'static str,
}

checked_text! {
    /// The organization that owns reports and attestations: `{org}` of every operation.
    OrganizationName, InvalidName, |name| check("organization", name, path_segment)
}

checked_text! {
    /// An environment: `{env_name}` of operation 7.
    EnvironmentName, InvalidName, |name| check("environment", name, interface_name)
}

checked_text! {
    /// A flow: `{flow_name}`.
    FlowName, InvalidName, |name| check("flow", name, flow_name)
}

checked_text! {
    PolicyName, InvalidName, |name| check("policy", name, path_segment)
}

checked_text! {
    /// A token that is created at runtime.
    TokenName, InvalidName, |name| check("token", name, path_segment)
}

checked_text! {
    /// A trail: `{trail_name}` of operation 5.
    TrailName, InvalidName, |name| check("trail", name, interface_name)
}

checked_text! {
    /// A repository: `{repo_name}` of operation 4, which may contain slashes. One that was copied from a URL is decoded.
    RepositoryName, InvalidName, |name| check("repository", decoded_name(&name), repository_name)
}

checked_text! {
    /// A Kubernetes namespace: an RFC 1123 label (Kubernetes documentation, "Object Names and IDs").
    NamespaceName, InvalidName, |name| check("namespace", name, rfc_1123_label)
}

fn check(
    what: &'static str,
    name: String,
    check: fn(&str) -> Result<(), &'static str>,
) -> Result<String, InvalidName> {
    match check(&name) {
        Ok(()) => Ok(name),
        Err(problem) => Err(InvalidName { what, input: name, problem }),
    }
}

/// Limit for a name, in bytes: the maximum of file names, and short enough for any database index.
const MAX_NAME_BYTES: usize = 255;

/// Limit for a repository with its owners, in bytes.
const MAX_REPOSITORY_BYTES: usize = 1000;

/// Checks one segment of a path. Some proxies split at a `/` even if it is encoded, and every URL parser removes
/// `.` and `..` (RFC 3986 section 5.2.4).
fn path_segment(name: &str) -> Result<(), &'static str> {
    if name.contains(['/', '\\']) {
        return Err("expected a name without a slash");
    }
    any_segment(name)
}

/// Checks segments that are separated by slashes, for example `owner/name`.
fn repository_name(name: &str) -> Result<(), &'static str> {
    if name.contains("://") {
        return Err("expected a name with its owners, for example acme/cart, got a URL");
    }
    if name.contains("//") || name.starts_with('/') || name.ends_with('/') {
        return Err("expected a name with its owners, for example acme/cart, got an empty part");
    }
    name.split('/').try_for_each(any_segment)?;
    if name.len() > MAX_REPOSITORY_BYTES {
        return Err("expected at most 1000 bytes");
    }
    Ok(())
}

fn any_segment(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_NAME_BYTES {
        Err("expected at most 255 bytes")
    } else if name.is_empty() {
        Err("expected a name, got an empty text")
    } else if name == "." || name == ".." {
        Err("expected a name, got a relative path")
    } else if name.contains(needs_escape) {
        Err("expected a name without control or invisible characters")
    } else if name.trim() != name {
        Err("expected a name without leading or trailing white space")
    } else {
        Ok(())
    }
}

fn flow_name(name: &str) -> Result<(), &'static str> {
    if name.contains('/') {
        return Err("expected a flow name, which has no slash, got a repository name");
    }
    interface_name(name)
}

/// Checks the interface's pattern for names of flows (Limits), `^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$`. The same for environments
/// and trails: their names cannot be confused with each other, and need no encoding in a path.
fn interface_name(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_NAME_BYTES {
        return Err("expected at most 255 bytes");
    }
    let mut bytes = name.bytes();
    let has_valid_start = bytes.next().is_some_and(|first| first.is_ascii_alphanumeric());
    if has_valid_start && bytes.all(|b| b.is_ascii_alphanumeric() || b".-_~".contains(&b)) {
        Ok(())
    } else {
        Err("expected a letter or digit, then letters, digits, '.', '-', '_' or '~'")
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
        Err("expected 1 to 63 lowercase letters, digits and hyphens, without a leading or trailing hyphen")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_is_unsafe_in_a_path_or_misleading_is_rejected_with_the_reason() {
        for (input, reason) in [
            ("", "empty"),
            (".", "relative path"),
            ("..", "relative path"),
            ("a/b", "slash"),
            ("a\\b", "slash"),
            ("a\nb", "control or invisible characters"),
            ("prod\u{202e}", "control or invisible characters"),
            ("pr\u{200b}od", "control or invisible characters"),
            ("prod\u{e0041}", "control or invisible characters"),
            ("\u{600}1", "control or invisible characters"),
            ("a ", "white space"),
            (&"a".repeat(256), "at most 255 bytes"),
        ] {
            let error = input.parse::<PolicyName>().unwrap_err().to_string();
            assert!(error.contains(reason), "{input:?}: {error}");
            assert!(error.starts_with("invalid policy name \""), "{error}");
            assert!(!error.contains(|c| c == '\n' || needs_escape(c)), "{error:?}");
            assert!(input.parse::<OrganizationName>().is_err() && input.parse::<TokenName>().is_err());
        }
    }

    #[test]
    fn other_names_are_accepted_unchanged() {
        for input in ["prod", "prod eu-1", "...", "прод", "100%", "a?b#c", "\u{2764}\u{fe0f}"] {
            assert_eq!(input.parse::<PolicyName>().unwrap().as_str(), input);
        }
    }

    #[test]
    fn repository_name_may_contain_owners() {
        for good in ["cart", "acme/cart", "group/sub/cart", "100%/ä"] {
            assert_eq!(good.parse::<RepositoryName>().unwrap().as_str(), good);
        }
        let copied: RepositoryName = "acme/Web%20Shop/cart".parse().unwrap();
        assert_eq!(copied.as_str(), "acme/Web Shop/cart");
        let deep = vec!["a".repeat(255); 4].join("/");
        for bad in ["", "/", "a/", "/a", "a//b", "a/../b", "a/%2e%2e/b", "a/b\n", "a/b\u{202e}", &deep] {
            assert!(bad.parse::<RepositoryName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn namespace_must_be_an_rfc_1123_label() {
        let longest = "n".repeat(63);
        for good in ["a", "kube-system", "0", &longest] {
            assert_eq!(good.parse::<NamespaceName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "../pods", "ns*", &"n".repeat(64)] {
            assert!(bad.parse::<NamespaceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn environment_flow_and_trail_must_match_the_interface_pattern() {
        fn parsed<T: std::str::FromStr<Err = InvalidName> + ToString>(
            name: &str,
        ) -> Result<String, InvalidName> {
            name.parse().map(|name: T| name.to_string())
        }
        let longest = "a".repeat(255);
        for kind in [parsed::<EnvironmentName>, parsed::<FlowName>, parsed::<TrailName>] {
            for good in ["a", "9", "shop.cart_v2~x-1", &longest] {
                assert_eq!(kind(good).as_deref(), Ok(good));
            }
            let long = "a".repeat(256);
            for bad in ["", ".a", "-a", "..", "a b", "a/b", "ä", "a\n", "a#1", "a%20b", "a\u{202e}", &long] {
                assert!(kind(bad).is_err(), "{bad:?}");
            }
        }
    }
}
