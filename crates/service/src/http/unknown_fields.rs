//! Warns of fields that this version does not know, once per token and field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use model::Fingerprint;
use model::escape::{Escaped, shortened};

/// Maximum number of fields that are remembered per token. Further fields get no warning.
const MAX_FIELDS: usize = 32;

/// Maximum number of tokens that are remembered; more than any bootstrap file has.
const MAX_TOKENS: usize = 10_000;

/// Maximum length of the name of a field in a warning, in characters.
const MAX_NAME_CHARS: usize = 100;

/// The fields that the log has warned of, by token.
#[derive(Default)]
pub(crate) struct UnknownFieldWarnings(Mutex<BTreeMap<Fingerprint, BTreeSet<String>>>);

impl UnknownFieldWarnings {
    /// Warns of the fields of a request, unless an earlier request of its token had them.
    pub(crate) fn warn(&self, token: Fingerprint, name: &str, organization: &str, fields: Vec<String>) {
        for field in fields {
            let field = shortened(&field, MAX_NAME_CHARS);
            if self.is_new(token, &field) {
                let (token, field) = (Escaped(name), Escaped(&field));
                tracing::warn!(
                    token = %token, field = %field,
                    "{organization}: token \"{token}\" sends the field \"{field}\", which this version does not know"
                );
            }
        }
    }

    fn is_new(&self, token: Fingerprint, field: &str) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() == MAX_TOKENS && !warned.contains_key(&token) {
            warned.clear();
        }
        let fields = warned.entry(token).or_default();
        fields.len() < MAX_FIELDS && fields.insert(field.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_warned_once_per_field_up_to_the_maximum() {
        let warnings = UnknownFieldWarnings::default();
        let [one, other] = ["one", "other"].map(|token| Fingerprint::from_content(token.as_bytes()));
        assert!(warnings.is_new(one, "a"));
        assert!(!warnings.is_new(one, "a"));
        assert!(warnings.is_new(other, "a"));
        let warned = (0..100).filter(|n| warnings.is_new(one, &format!("f{n}"))).count();
        assert_eq!(warned, MAX_FIELDS - 1);
    }
}
