//! Lists that come in pages (interface, "Pagination"), or bare where a service knows none.

use std::collections::HashSet;
use std::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::raw_response::{Kept, optional_whole};
use crate::domain::model::Page as Asked;

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// Its items, in the service's order.
    pub data: Vec<Kept<T>>,
    /// Where it lies, as far as the service says so.
    pub pagination: Option<Pagination>,
    /// Everything but the items.
    rest: Value,
}

/// Where a page lies in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Pagination {
    /// How many items the whole list has.
    #[serde(default, deserialize_with = "optional_whole")]
    pub total: Option<u64>,
    /// How many pages there are.
    #[serde(default, deserialize_with = "optional_whole")]
    pub page_count: Option<u64>,
}

/// An item that can be told from the others of its list.
pub trait Identified {
    /// What tells it from them.
    type Identity: Hash + Eq;

    /// That of this one.
    fn identity(&self) -> Self::Identity;
}

/// A way through all pages of a list, which may change meanwhile.
///
/// What is added in front moves an item to the next page, where it is met again: it is taken once. A page
/// that brings nothing new is the last, whatever the service says of others.
#[derive(Debug)]
pub struct Walk<I> {
    seen: HashSet<I>,
    page: Option<u32>,
    per_page: u32,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Page<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Listed {
            Bare(Vec<Value>),
            Page(serde_json::Map<String, Value>),
        }
        use serde::de::Error;

        let read = |data: Value| {
            let read = |e: serde_path_to_error::Error<_>| D::Error::custom(format!("data{e}"));
            serde_path_to_error::deserialize::<_, Vec<Kept<T>>>(data).map_err(read)
        };
        match Listed::deserialize(deserializer)? {
            Listed::Bare(data) => Ok(Self { data: read(data.into())?, pagination: None, rest: json!({}) }),
            Listed::Page(mut page) => {
                let data = page.remove("data").ok_or_else(|| D::Error::missing_field("data"))?;
                let pagination = page.get("pagination").cloned().unwrap_or_default();
                Ok(Self {
                    data: read(data)?,
                    pagination: serde_path_to_error::deserialize(pagination)
                        .map_err(|e| D::Error::custom(format!("pagination.{e}")))?,
                    rest: page.into(),
                })
            }
        }
    }
}

impl<T> Page<T> {
    /// All that was sent, as `{"data": […], …}`, bare lists too.
    #[must_use]
    pub fn into_sent(self) -> Value {
        let Self { data, mut rest, .. } = self;
        if let Value::Object(rest) = &mut rest {
            rest.insert("data".to_owned(), data.into_iter().map(|item| item.sent).collect());
        }
        rest
    }

    /// One page of all these items.
    #[must_use]
    pub fn of(data: Vec<Kept<T>>) -> Self {
        Self { data, pagination: None, rest: json!({}) }
    }
}

impl<I: Hash + Eq> Walk<I> {
    /// From the first page on, in pages of so many.
    #[must_use]
    pub fn new(per_page: u32) -> Self {
        Self { seen: HashSet::new(), page: Some(1), per_page }
    }

    /// The page to ask for; `None` at the end.
    #[must_use]
    pub fn next(&self) -> Option<Asked> {
        Asked::new(Some(self.page?.into()), Some(self.per_page.into())).ok()
    }

    /// Takes the page that was asked for: what is new of it.
    pub fn take<T: Identified<Identity = I>>(&mut self, page: Page<T>) -> Vec<Kept<T>> {
        let is_last = page.is_last(self.page.unwrap_or(u32::MAX), self.per_page);
        let mut new = page.data;
        new.retain(|item| self.seen.insert(item.known.identity()));
        self.page = self.page.filter(|_| !is_last && !new.is_empty()).and_then(|page| page.checked_add(1));
        new
    }
}

impl<T> Page<T> {
    fn is_last(&self, page: u32, per_page: u32) -> bool {
        let Some(Pagination { total, page_count, .. }) = self.pagination else { return true };
        match (page_count, total) {
            (Some(count), _) => u64::from(page) >= count,
            (None, Some(total)) => u64::from(page) * u64::from(per_page) >= total,
            (None, None) => self.data.len() < per_page as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Deserialize)]
    struct Item {
        id: u32,
    }

    impl Identified for Item {
        type Identity = u32;

        fn identity(&self) -> u32 {
            self.id
        }
    }

    fn page(ids: &[u32], pagination: &Value) -> Page<Item> {
        let data: Vec<_> = ids.iter().map(|id| json!({"id": id, "new": true})).collect();
        serde_json::from_value(json!({"data": data, "pagination": pagination})).unwrap()
    }

    /// What is read of a service that answers so, page by page.
    fn walk(mut answer: impl FnMut(u64) -> Page<Item>) -> (Vec<u32>, u64) {
        let (mut walk, mut read, mut asked) = (Walk::new(2), Vec::new(), 0);
        while let Some(next) = walk.next() {
            asked += 1;
            assert!(asked < 10, "it ends");
            let number = u64::try_from(next.offset() / next.size()).unwrap() + 1;
            read.extend(walk.take(answer(number)).into_iter().map(|item| item.known.id));
        }
        (read, asked)
    }

    #[test]
    fn a_page_keeps_what_it_does_not_know_and_a_bare_list_is_one_page() {
        let sent =
            json!({"data": [{"id": 1, "new": true}], "pagination": {"total": 1.0, "page": 1}, "more": [2]});
        let page: Page<Item> = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(page.pagination, Some(Pagination { total: Some(1), page_count: None }));
        assert_eq!(page.into_sent(), sent);
        let bare: Page<Item> = serde_json::from_value(json!([{"id": 1}])).unwrap();
        assert_eq!(bare.pagination, None);
        assert_eq!(bare.into_sent(), json!({"data": [{"id": 1}]}));
    }

    #[test]
    fn what_is_wrong_with_a_page_is_named() {
        let read = |value| serde_json::from_value::<Page<Item>>(value).unwrap_err().to_string();
        assert_eq!(read(json!({})), "missing field `data`");
        assert_eq!(read(json!({"data": [{"id": 1}, {}]})), "data[1]: missing field `id`");
        assert_eq!(read(json!([{"id": "x"}])), "data[0]: id: invalid type: string \"x\", expected u32");
        let odd = json!({"data": [], "pagination": {"total": -1}});
        assert_eq!(read(odd), "pagination.total: -1 is no whole number from 0");
    }

    #[test]
    fn all_pages_are_read_and_each_item_once_though_the_list_grows() {
        let of = |count: u64| json!({"page_count": count});
        let pages = |number| match number {
            1 => page(&[5, 4], &of(3)),
            // One more came meanwhile.
            2 => page(&[4, 3], &of(3)),
            3 => page(&[2, 1], &of(3)),
            _ => panic!("{number}"),
        };
        assert_eq!(walk(pages), (vec![5, 4, 3, 2, 1], 3));
        // It shrank.
        let shrinks = |number| if number == 1 { page(&[2, 1], &of(9)) } else { page(&[], &json!(null)) };
        assert_eq!(walk(shrinks), (vec![2, 1], 2));
        // It says that there is ever more, and there is not.
        assert_eq!(walk(|_| page(&[2, 1], &of(u64::MAX))), (vec![2, 1], 2));
    }

    #[test]
    fn where_a_service_does_not_count_its_pages_a_short_one_is_the_last() {
        let total = |number| page(if number == 1 { &[3, 2] } else { &[1] }, &json!({"total": 3}));
        assert_eq!(walk(total), (vec![3, 2, 1], 2));
        let neither = |number| page(if number == 1 { &[3, 2] } else { &[1] }, &json!({}));
        assert_eq!(walk(neither), (vec![3, 2, 1], 2));
        assert_eq!(walk(|_| page(&[1, 2], &json!(null))), (vec![1, 2], 1));
        assert_eq!(walk(|_| serde_json::from_value(json!([{"id": 1}])).unwrap()), (vec![1], 1));
    }
}
