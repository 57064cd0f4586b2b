//! Normalizes image names, so that an image has the same name with every runtime.
//!
//! Follows the package `reference` of the distribution project: `normalize.go` for short names, `regexp.go`
//! for the grammar.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use model::DIGEST_PATTERN;

/// `domain/path[:tag][@digest]` of the grammar, with a mandatory domain.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let part = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    let pattern = format!(
        r"\A(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/{part}(?:/{part})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:{DIGEST_PATTERN})?\z"
    );
    // Never `None`: the pattern is constant, and the tests below compile it.
    Regex::new(&pattern).ok()
});

/// Adds the registry, and `library/` for Docker Hub. Adds no tag. A name outside the grammar is unchanged.
pub(super) fn normalize(name: &str) -> Cow<'_, str> {
    let full = with_registry(name);
    if REFERENCE.as_ref().is_some_and(|grammar| grammar.is_match(&full)) { full } else { Cow::Borrowed(name) }
}

/// The normalized name without tag and digest.
pub(super) fn repository(name: &str) -> String {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let mut name = normalize(name).into_owned();
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    if let Some(colon) = name.get(path..).and_then(|last| last.find(':')) {
        name.truncate(path + colon);
    }
    name
}

fn with_registry(name: &str) -> Cow<'_, str> {
    let (registry, path) = match name.split_once('/') {
        Some(("index.docker.io", path)) => ("docker.io", path),
        Some((first, path)) if first == "localhost" || first.contains(['.', ':']) => (first, path),
        _ => ("docker.io", name),
    };
    let library = if registry == "docker.io" && !path.contains('/') { "library/" } else { "" };
    if name.len() == registry.len() + 1 + path.len() && library.is_empty() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("{registry}/{library}{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

    #[test]
    fn short_names_are_normalized() {
        for (name, full) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("team/app", "docker.io/team/app"),
            ("team/sub/app:2", "docker.io/team/sub/app:2"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/team/app", "docker.io/team/app"),
            ("docker.io/library/nginx", "docker.io/library/nginx"),
            ("localhost/dev/build:dirty", "localhost/dev/build:dirty"),
            ("localhost:5000/app", "localhost:5000/app"),
            ("reg:5000/app", "reg:5000/app"),
            ("registry.example.com/shop/cart:2.0.0", "registry.example.com/shop/cart:2.0.0"),
            ("[::1]:5000/app", "[::1]:5000/app"),
        ] {
            assert_eq!(normalize(name), full);
        }
        assert_eq!(normalize(&format!("nginx@sha256:{H}")), format!("docker.io/library/nginx@sha256:{H}"));
    }

    #[test]
    fn repository_has_no_tag_or_digest() {
        for (name, expected) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.27", "docker.io/library/nginx"),
            (&format!("index.docker.io/library/nginx:1@sha256:{H}"), "docker.io/library/nginx"),
            ("reg:5000/app", "reg:5000/app"),
            ("reg:5000/app:1", "reg:5000/app"),
            ("[::1]:5000/app", "[::1]:5000/app"),
            ("Nginx:1", "Nginx"),
            (":", ""),
        ] {
            assert_eq!(repository(name), expected, "{name}");
        }
    }

    #[test]
    fn name_outside_the_grammar_is_unchanged() {
        let long_tag = format!("nginx:{}", "t".repeat(129));
        for name in [
            "",
            "Nginx",
            "team/App",
            "образ",
            "a b",
            "nginx:",
            "a//b",
            "/a",
            "-a/b",
            "nginx\n",
            ":",
            "@",
            &long_tag,
        ] {
            assert_eq!(normalize(name), name);
        }
    }
}
