//! Image names in full, so that one image has one name whatever the runtime wrote.
//!
//! The rules are those of the distribution project's reference grammar (its package `reference`:
//! `normalize.go` for what a short name means, `regexp.go` for what a name can be).

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::domain::model::Fingerprint;

/// A digest behind a name.
const DIGEST: &str = "@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";

static PINNED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!(r"{DIGEST}\z")).ok());

/// `domain/path[:tag][@digest]`, as distribution's grammar has it, with the domain present.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    let part = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    let pattern = format!(
        r"\A(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/{part}(?:/{part})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:{DIGEST})?\z"
    );
    // Never `None`: the pattern is constant, and the tests below compile it.
    Regex::new(&pattern).ok()
});

/// The name with its registry, and `library/` where Docker Hub leaves that out. No tag is invented,
/// and a name outside the grammar stays as it is.
pub(crate) fn in_full(name: &str) -> Cow<'_, str> {
    let full = with_registry(name);
    if REFERENCE.as_ref().is_some_and(|grammar| grammar.is_match(&full)) { full } else { Cow::Borrowed(name) }
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

/// `name@sha256:H`, in place of any digest that the name already ends in. What only looks like one is part of the
/// name, which is outside the grammar and stays so.
pub(crate) fn pinned(name: &str, digest: Fingerprint) -> String {
    let old = PINNED.as_ref().and_then(|pinned| pinned.find(name));
    let repository = old.and_then(|old| name.get(..old.start())).unwrap_or(name);
    format!("{repository}@sha256:{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

    #[test]
    fn short_names_are_written_in_full() {
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
            assert_eq!(in_full(name), full);
        }
        assert_eq!(in_full(&format!("nginx@sha256:{H}")), format!("docker.io/library/nginx@sha256:{H}"));
    }

    #[test]
    fn a_name_outside_the_grammar_stays_as_it_is() {
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
            assert_eq!(in_full(name), name);
        }
    }

    #[test]
    fn a_pin_replaces_an_older_one() {
        let digest = H.parse().unwrap();
        assert_eq!(pinned("reg/m:stable", digest), format!("reg/m:stable@sha256:{H}"));
        assert_eq!(pinned(&format!("reg/m@sha512:{H}{H}"), digest), format!("reg/m@sha256:{H}"));
        // Without what is no digest, the last would be a short name, which stands for another in full.
        for odd in ["odd@name", "odd@reg:5000/app", "team/app:1@sha256:00ff"] {
            assert_eq!(pinned(odd, digest), format!("{odd}@sha256:{H}"));
        }
    }
}
