//! Prints one page of a paginated list, or all pages.

use clap::Args;
use serde_json::Value;

use super::columns::{Column, identity, table};
use super::common::{Common, client};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::values::integer;
use client::{Operation, Page, PageWalker, Pagination};
use model::pluralize;

#[derive(Debug, Args)]
pub(crate) struct Pages {
    /// Page number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = integer(1..=u32::MAX))]
    page: u32,
    /// Items per page, at most 500 (default: 20, or 100 with --all)
    #[arg(long, value_name = "N", value_parser = integer(1..=500_u32))]
    per_page: Option<u32>,
    /// List all pages
    #[arg(long, conflicts_with = "page")]
    all: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Limit of a list, because a faulty service could return pages without end.
#[derive(Debug, Clone, Copy)]
struct ListLimit {
    items: usize,
    /// Memory use in MiB.
    mebibytes: usize,
}

const MAX_LIST: ListLimit = ListLimit { items: 500_000, mebibytes: 1_024 };

#[derive(Debug, thiserror::Error)]
enum ListTooLong {
    #[error("the list has more than {0} items")]
    Items(usize),
    #[error("the list needs more than {0} MiB of memory")]
    Mebibytes(usize),
}

/// Default page size with `--all`.
const PAGE_SIZE_FOR_ALL: u32 = 100;

impl Pages {
    /// Reads and prints a page, or all pages. `kind` names one item; `filter` describes the filter, if any.
    pub(super) async fn list(
        &self,
        service: &ServiceOptions,
        operation: &Operation<'_>,
        kind: &str,
        columns: &[Column],
        filter: &str,
    ) -> Result<(), Failure> {
        let client = client(service)?;
        let fetch = async |page| {
            let send = async || client.get_page(operation, page).await;
            self.common.requests.read(&client, operation.about, send).await
        };
        let page = if self.all {
            Page::from_items(self.fetch_all(columns, fetch, MAX_LIST).await?)
        } else {
            fetch(self.requested()).await?
        };
        let (table, note) = (table(columns, &page.items), self.note(&page, kind, filter));
        self.common.output.print(&page.into_raw(), || table)?;
        // Below the table, so that it stays visible after a long one.
        if let Some(note) = note {
            tracing::info!("{note}");
        }
        Ok(())
    }

    /// A note on an empty page, or on one of several pages.
    fn note(&self, page: &Page, kind: &str, filter: &str) -> Option<String> {
        if page.items.is_empty() {
            return Some(match self.page {
                1 => format!("no {kind} found{filter}"),
                page => format!("no {kind} found on page {page}{filter}"),
            });
        }
        let Pagination { page_count, total } = page.pagination?;
        let count = page_count.filter(|count| *count > 1)?;
        let total = total.map(|total| format!(", {} in total", pluralize(total, kind))).unwrap_or_default();
        Some(format!("page {} of {count}{total}; use --page N or --all for more", self.page))
    }

    fn requested(&self) -> model::Page {
        model::Page::new(Some(self.page.into()), self.per_page.map(i64::from)).unwrap_or_default()
    }

    async fn fetch_all(
        &self,
        columns: &[Column],
        fetch: impl AsyncFn(model::Page) -> Result<Page, Failure>,
        limit: ListLimit,
    ) -> Result<Vec<Value>, Failure> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        let mut walk = PageWalker::new(self.per_page.unwrap_or(PAGE_SIZE_FOR_ALL));
        while let Some(next) = walk.next() {
            let new = walk.accept(fetch(next).await?, |item| identity(columns, item));
            bytes += new.iter().map(size).sum::<usize>();
            all.extend(new);
            limit.check(all.len(), bytes)?;
        }
        Ok(all)
    }
}

/// Size of a B-tree node in bytes. An object has at least one per eleven fields.
const NODE_SIZE: usize = 11 * (size_of::<String>() + size_of::<Value>());

/// The approximate size of a value in memory, in bytes.
fn size(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => {
            let texts: usize = fields.iter().map(|(name, value)| name.len() + size(value)).sum();
            texts + NODE_SIZE * fields.len().div_ceil(11)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + content
}

impl ListLimit {
    /// Fails if the items or their bytes exceed the limit.
    fn check(self, items: usize, bytes: usize) -> Result<(), Failure> {
        let error = match self {
            Self { items: limit, .. } if items > limit => ListTooLong::Items(limit),
            Self { mebibytes, .. } if bytes >> 20 >= mebibytes => ListTooLong::Mebibytes(mebibytes),
            _ => return Ok(()),
        };
        let hint = "list one page at a time with --page, or add a filter".to_owned();
        Err(Failure::new(error, Some(hint), Exit::Unreachable))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};
    use serde_json::json;

    use super::*;

    /// Fetches pages without end, with two items of `text` bytes each.
    async fn endless(text: usize, limit: ListLimit) -> Failure {
        let fetch = async |page: model::Page| {
            assert!(page.offset() < 1_000, "the limit applies");
            let data = [0, 1].map(|n| json!({"id": page.offset() + n, "text": "x".repeat(text)}));
            let response = json!({"data": data, "pagination": {"page_count": 90_000_000_000_000_u64}});
            Ok(serde_json::from_value(response).unwrap())
        };
        let line =
            Pages::augment_args(Command::new("list")).get_matches_from(["list", "--all", "--per-page=2"]);
        let pages = Pages::from_arg_matches(&line).unwrap();
        pages.fetch_all(&[], fetch, limit).await.map(|all| all.len()).unwrap_err()
    }

    #[tokio::test]
    async fn endless_list_is_rejected_by_item_count_or_memory() {
        let limit = ListLimit { items: 100, mebibytes: 2 };
        for (text, message) in [(1_000, "more than 100 items"), (100_000, "more than 2 MiB of memory")] {
            let failure = endless(text, limit).await;
            assert_eq!(failure.exit(), Exit::Unreachable);
            assert!(failure.causes()[0].contains(message), "{failure:?}");
            assert!(failure.hint().unwrap().starts_with("list one page at a time"));
        }
    }

    #[test]
    fn size_includes_values_and_nodes_of_objects() {
        let size = |value: Value| size(&value);
        let text = size(json!("x".repeat(1_000)));
        assert!((1_000..1_100).contains(&text), "{text}");
        let (numbers, objects) = (size(json!([0, 0, 0])), size(json!([{"a": 0}, {"a": 0}, {"a": 0}])));
        assert!(numbers >= 3 * size_of::<Value>() && objects > 3 * 500, "{numbers} {objects}");
        assert_eq!(size(json!({"a": {"b": ["c"]}})) + 2, size(json!({"aa": {"b": ["cc"]}})));
    }
}
