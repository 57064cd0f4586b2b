//! Lists whose pages name the next one.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::columns::Objects;
use super::common::{Common, client};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use client::Operation;
use model::escape::Escaped;

/// A list as a whole.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    /// The other fields of its last page.
    fields: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Page {
    data: Objects,
    #[serde(deserialize_with = "next")]
    next: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Required, also if it is null: a page without it is not the last one.
fn next<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// Without an end, a part of a list would look like all of it.
#[derive(Debug, thiserror::Error)]
#[error("the list returns to the page after \"{0}\": something else answers at the service's address")]
struct EndlessList(String);

impl Common {
    /// Reads all pages of a list.
    pub(super) async fn read_list(
        &self,
        service: &ServiceOptions,
        operation: &Operation<'_>,
    ) -> Result<List, Failure> {
        let client = client(service)?;
        List::read(async |after| self.requests.get(&client, &operation.clone().with("after", after)).await)
            .await
    }
}

impl List {
    async fn read(fetch: impl AsyncFn(Option<String>) -> Result<Page, Failure>) -> Result<Self, Failure> {
        let (mut list, mut after, mut seen) = (Self::default(), None, BTreeSet::new());
        loop {
            let Page { data, next, fields } = fetch(after).await?;
            list.items.extend(data.0);
            list.fields = fields;
            let Some(next) = next else { return Ok(list) };
            if !seen.insert(next.clone()) {
                return Err(Failure::new(EndlessList(Escaped(&next).to_string()), None, Exit::Unreachable));
            }
            after = Some(next);
        }
    }

    /// As the service would answer without pages.
    pub(super) fn into_raw(self) -> Value {
        let mut raw = self.fields;
        raw.insert("data".to_owned(), self.items.into());
        raw.into()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    /// Serves these pages one after the other.
    async fn read(pages: &[Value]) -> Result<Value, Failure> {
        let (rest, before) = (RefCell::new(pages.iter()), RefCell::new(None));
        let list = List::read(async |after| {
            assert_eq!(after, before.take());
            let page = rest.borrow_mut().next().unwrap().clone();
            before.replace(page.get("next").and_then(Value::as_str).map(str::to_owned));
            serde_json::from_value(page).map_err(Failure::unexpected)
        });
        list.await.map(List::into_raw)
    }

    #[tokio::test]
    async fn list_has_the_items_of_all_pages_and_the_fields_of_the_last() {
        let pages = [
            json!({"data": [{"a": 1}], "next": "b", "matches": 7}),
            json!({"data": [{"a": 2}], "next": null, "matches": 8}),
        ];
        assert_eq!(read(&pages).await.unwrap(), json!({"data": [{"a": 1}, {"a": 2}], "matches": 8}));
    }

    #[tokio::test]
    async fn page_without_the_next_one_is_not_the_last() {
        for page in [json!({"data": []}), json!({"data": [], "next": 7}), json!({"next": null}), json!([])] {
            assert!(read(std::slice::from_ref(&page)).await.is_err(), "{page}");
        }
    }

    #[tokio::test]
    async fn list_without_end_is_rejected() {
        let page = json!({"data": [], "next": "b"});
        let failure = read(&[page.clone(), page]).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
        assert!(failure.causes()[0].contains("returns to the page after \"b\""), "{failure:?}");
    }
}
