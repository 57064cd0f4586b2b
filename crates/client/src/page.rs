//! Parses pages of lists (interface, "Pagination"), or bare lists of a service without pagination.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::raw_response::optional_integer;
use model::{Fingerprint, Page as PageRequest};

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Objects, in the service's order.
    pub items: Vec<Value>,
    /// `None` if this page is the whole list.
    pub pagination: Option<Pagination>,
    /// All fields except `data`.
    rest: Map<String, Value>,
}

/// The size of a list, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Pagination {
    /// Number of items.
    #[serde(default, deserialize_with = "optional_integer")]
    pub total: Option<u64>,
    /// Number of pages.
    #[serde(default, deserialize_with = "optional_integer")]
    pub page_count: Option<u64>,
}

/// Reads all pages of a list that may change meanwhile.
///
/// New items at the start move others to the next page: duplicates are dropped. A page without new items is the last,
/// regardless of the pagination.
#[derive(Debug)]
pub struct PageWalker {
    seen: HashSet<Fingerprint>,
    page: Option<u32>,
    per_page: u32,
}

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let (data, pagination, rest) = match Value::deserialize(deserializer)? {
            Value::Object(mut page) => {
                let data = page.remove("data").ok_or_else(|| D::Error::missing_field("data"))?;
                let pagination = page.get("pagination").cloned().unwrap_or_default();
                let pagination = serde_path_to_error::deserialize(pagination)
                    .map_err(|e| D::Error::custom(format!("pagination.{e}")))?;
                (data, pagination, page)
            }
            data => (data, Some(Pagination::default()), Map::new()),
        };
        let items = serde_path_to_error::deserialize::<_, Vec<Map<String, Value>>>(data)
            .map_err(|e| D::Error::custom(format!("data{e}")))?;
        Ok(Self { items: items.into_iter().map(Value::Object).collect(), pagination, rest })
    }
}

impl Page {
    /// A single page with these items.
    #[must_use]
    pub fn from_items(items: Vec<Value>) -> Self {
        Self { items, pagination: None, rest: Map::new() }
    }

    /// The unparsed page as `{"data": […], …}`, also for a bare list.
    #[must_use]
    pub fn into_raw(mut self) -> Value {
        self.rest.insert("data".to_owned(), self.items.into());
        self.rest.into()
    }

    fn is_last(&self, page: u32, per_page: u32) -> bool {
        let Some(Pagination { total, page_count }) = self.pagination else { return true };
        match (page_count, total) {
            (Some(count), _) => u64::from(page) >= count,
            (None, Some(total)) => u64::from(page) * u64::from(per_page) >= total,
            (None, None) => self.items.len() < per_page as usize,
        }
    }
}

impl PageWalker {
    /// Starts at the first page.
    #[must_use]
    pub fn new(per_page: u32) -> Self {
        Self { seen: HashSet::new(), page: Some(1), per_page }
    }

    /// The page to request; `None` at the end.
    #[must_use]
    pub fn next(&self) -> Option<PageRequest> {
        PageRequest::new(Some(self.page?.into()), Some(self.per_page.into())).ok()
    }

    /// Accepts the requested page, and returns its new items, by what identifies them.
    pub fn accept(&mut self, page: Page, identity: impl Fn(&Value) -> Value) -> Vec<Value> {
        let is_last = page.is_last(self.page.unwrap_or(u32::MAX), self.per_page);
        let mut new = page.items;
        let mut is_new = |item: &Value| {
            let identity = identity(item).to_string();
            self.seen.insert(Fingerprint::from_content(identity.as_bytes()))
        };
        new.retain(&mut is_new);
        self.page = self.page.filter(|_| !is_last && !new.is_empty()).and_then(|page| page.checked_add(1));
        new
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(ids: &[u32], pagination: &Value) -> Page {
        let data: Vec<_> = ids.iter().map(|id| json!({"id": id, "new": true})).collect();
        serde_json::from_value(json!({"data": data, "pagination": pagination})).unwrap()
    }

    /// The items that are read from a service, and the number of requests.
    fn walk(mut respond: impl FnMut(u64) -> Page) -> (Vec<u64>, u64) {
        let (mut walk, mut read, mut requests) = (PageWalker::new(2), Vec::new(), 0);
        while let Some(next) = walk.next() {
            requests += 1;
            assert!(requests < 10, "it ends");
            let number = u64::try_from(next.offset() / next.size()).unwrap() + 1;
            read.extend(
                walk.accept(respond(number), |item| item["id"].clone())
                    .iter()
                    .map(|item| item["id"].as_u64().unwrap()),
            );
        }
        (read, requests)
    }

    #[test]
    fn unknown_fields_of_a_page_are_kept_and_a_bare_list_is_a_page() {
        let sent =
            json!({"data": [{"id": 1, "new": true}], "pagination": {"total": 1.0, "page": 1}, "more": [2]});
        let page: Page = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(page.pagination, Some(Pagination { total: Some(1), page_count: None }));
        assert_eq!(page.into_raw(), sent);
        let bare: Page = serde_json::from_value(json!([{"id": 1}])).unwrap();
        assert_eq!(bare.pagination, Some(Pagination::default()));
        assert_eq!(bare.into_raw(), json!({"data": [{"id": 1}]}));
    }

    #[test]
    fn invalid_page_is_rejected_with_the_path() {
        let read = |value| serde_json::from_value::<Page>(value).unwrap_err().to_string();
        assert_eq!(read(json!({})), "missing field `data`");
        assert_eq!(
            read(json!({"data": [{"id": 1}, 2]})),
            "data[1]: invalid type: integer `2`, expected a map"
        );
        assert_eq!(read(json!(["x"])), "data[0]: invalid type: string \"x\", expected a map");
        let odd = json!({"data": [], "pagination": {"total": -1}});
        assert_eq!(read(odd), "pagination.total: expected a non-negative integer, got -1");
    }

    #[test]
    fn items_of_a_changing_list_are_read_once() {
        let pagination = |count: u64| json!({"page_count": count});
        let pages = |number| match number {
            1 => page(&[5, 4], &pagination(3)),
            // An item was added.
            2 => page(&[4, 3], &pagination(3)),
            3 => page(&[2, 1], &pagination(3)),
            _ => panic!("{number}"),
        };
        assert_eq!(walk(pages), (vec![5, 4, 3, 2, 1], 3));
        // The list became shorter.
        let shrinks =
            |number| if number == 1 { page(&[2, 1], &pagination(9)) } else { page(&[], &json!(null)) };
        assert_eq!(walk(shrinks), (vec![2, 1], 2));
        // The pagination announces pages without new items.
        assert_eq!(walk(|_| page(&[2, 1], &pagination(u64::MAX))), (vec![2, 1], 2));
    }

    #[test]
    fn short_page_is_the_last_without_a_page_count() {
        let total = |number| page(if number == 1 { &[3, 2] } else { &[1] }, &json!({"total": 3}));
        assert_eq!(walk(total), (vec![3, 2, 1], 2));
        let uncounted = |number| page(if number == 1 { &[3, 2] } else { &[1] }, &json!({}));
        assert_eq!(walk(uncounted), (vec![3, 2, 1], 2));
        assert_eq!(walk(|_| page(&[1, 2], &json!(null))), (vec![1, 2], 1));
        assert_eq!(walk(|_| serde_json::from_value(json!([{"id": 1}])).unwrap()), (vec![1], 1));
    }
}
