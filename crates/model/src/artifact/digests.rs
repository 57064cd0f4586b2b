//! Image names and the digests that run under them.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Serialize, Serializer};

use crate::Fingerprint;

/// Image names and their digests, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digests(Box<[(Box<str>, Fingerprint)]>);

/// The digest at the end of a reference, in distribution's grammar.
pub const DIGEST_PATTERN: &str = "@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";

static PINNED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!(r"{DIGEST_PATTERN}\z")).ok());

impl Digests {
    /// Pins each name that has several digests (a tag that moved between two pulls), so that no digest is
    /// lost.
    #[must_use]
    pub fn from_images(mut images: Vec<(String, Fingerprint)>) -> Self {
        let (mut unique, mut shared) = (BTreeMap::new(), BTreeSet::new());
        while let Some((name, digest)) = images.pop() {
            // A pinned name may equal the name of another image with another digest; then both are pinned.
            // The loop ends because a name pinned to its own digest is final.
            if shared.contains(&name) {
                let pin = pinned(&name, digest);
                if pin != name {
                    images.push((pin, digest));
                    continue;
                }
            }
            match unique.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(digest);
                }
                Entry::Occupied(taken) if *taken.get() == digest => {}
                Entry::Occupied(taken) => {
                    let (name, other) = taken.remove_entry();
                    images.extend([(name.clone(), digest), (name.clone(), other)]);
                    shared.insert(name);
                }
            }
        }
        unique.into_iter().map(|(name, digest)| (name.into(), digest)).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Fingerprint)> {
        self.0.iter().map(|(name, digest)| (&**name, *digest))
    }
}

/// `name@sha256:H`, which replaces a digest at the end of the name. A suffix that only resembles a digest
/// stays part of the name.
fn pinned(name: &str, digest: Fingerprint) -> String {
    let old = PINNED.as_ref().and_then(|pinned| pinned.find(name));
    let repository = old.and_then(|old| name.get(..old.start())).unwrap_or(name);
    format!("{repository}@sha256:{digest}")
}

/// The last of several pairs with one name wins.
impl FromIterator<(Box<str>, Fingerprint)> for Digests {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Fingerprint)>>(pairs: I) -> Self {
        let sorted: BTreeMap<_, _> = pairs.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl Serialize for Digests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const H: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

    #[test]
    fn pin_replaces_an_older_pin() {
        let digest = H.parse().unwrap();
        assert_eq!(pinned("reg/m:stable", digest), format!("reg/m:stable@sha256:{H}"));
        assert_eq!(pinned(&format!("reg/m@sha512:{H}{H}"), digest), format!("reg/m@sha256:{H}"));
        // Without the suffix that is no digest, the last name would be a short name of another image.
        for odd in ["odd@name", "odd@reg:5000/app", "team/app:1@sha256:00ff"] {
            assert_eq!(pinned(odd, digest), format!("{odd}@sha256:{H}"));
        }
    }

    /// Each pinned name equals the name of the next image.
    #[test]
    fn chain_of_100_000_pins_is_resolved_in_one_pass() {
        const MANY: usize = 100_000;
        let digest = |n: usize| Fingerprint::from_hex(&format!("{n:064x}")).unwrap();
        let pin = |n: usize| format!("m@sha256:{n:064x}");
        let mut images: Vec<_> = (1..MANY).map(|n| (pin(n), digest(n + 1))).collect();
        images.extend([("m".to_owned(), digest(0)), ("m".to_owned(), digest(1))]);
        let digests = Digests::from_images(images);
        let pinned: Vec<_> = (0..=MANY).map(|n| (pin(n), digest(n))).collect();
        assert!(digests.iter().eq(pinned.iter().map(|(name, digest)| (name.as_str(), *digest))));
    }

    /// A simpler algorithm: pins all shared names at once, until no name is shared.
    fn pinned_by_rounds(mut images: BTreeSet<(String, Fingerprint)>) -> Digests {
        loop {
            let shares = |name: &str| images.iter().filter(|(other, _)| other == name).count() > 1;
            if !images.iter().any(|(name, _)| shares(name)) {
                return images.into_iter().map(|(name, digest)| (name.into(), digest)).collect();
            }
            let pin = |name: &str, digest| if shares(name) { pinned(name, digest) } else { name.into() };
            images = images.iter().map(|(name, digest)| (pin(name, *digest), *digest)).collect();
        }
    }

    /// Names that collide with pinned names.
    fn colliding_images() -> impl Strategy<Value = Vec<(String, Fingerprint)>> {
        let digest = || (0..6_usize).prop_map(|n| Fingerprint::from_hex(&format!("{n:064x}")).unwrap());
        let name = prop_oneof![
            1 => Just("m".to_owned()),
            1 => Just("m@sha256:00".to_owned()),
            4 => digest().prop_map(|digest| format!("m@sha256:{digest}")),
            1 => digest().prop_map(|digest| format!("m@sha256:{digest}").to_uppercase().replacen('M', "m", 1)),
        ];
        proptest::collection::vec((name, digest()), 0..10)
    }

    proptest! {
        #[test]
        fn pinning_one_by_one_equals_pinning_in_rounds(images in colliding_images()) {
            prop_assert_eq!(pinned_by_rounds(images.iter().cloned().collect()), Digests::from_images(images));
        }
    }
}
