//! Lists whose pages name the next one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cli::exit::{Exit, Failure};

/// The place in a list.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    after: Option<String>,
    seen: BTreeSet<String>,
}

/// Without it, a part of a list would look like all of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "a page of the list does not say which page is next: something else answers at the service's address"
)]
struct IncompleteList;

impl Cursor {
    /// The parameter `after` of the next page.
    pub(super) fn after(&self) -> Option<&String> {
        self.after.as_ref()
    }

    /// Moves behind a page. Returns whether there is another one.
    pub(super) fn advance(&mut self, page: &Value) -> Result<bool, Failure> {
        match page.get("next") {
            Some(Value::Null) => Ok(false),
            // A faulty service could return pages without end.
            Some(Value::String(next)) if self.seen.insert(next.clone()) => {
                self.after = Some(next.clone());
                Ok(true)
            }
            _ => Err(Failure::new(IncompleteList, None, Exit::Unreachable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_without_the_next_one_is_not_the_last() {
        let mut cursor = Cursor::default();
        assert!(cursor.advance(&json!({"next": "b"})).unwrap());
        assert_eq!(cursor.after().map(String::as_str), Some("b"));
        for page in [json!({}), json!({"next": 7}), json!({"next": "b"}), json!([])] {
            assert!(cursor.advance(&page).is_err(), "{page}");
        }
        assert!(!cursor.advance(&json!({"next": null})).unwrap());
    }
}
