//! Lists that come in pages: one of them, or all.

use clap::Args;
use serde_json::Value;

use crate::agent::counted;
use crate::api::{Identified, Kept, Page, Pagination, Walk};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, Progress, Table};
use crate::cli::whole;
use crate::domain::model;

#[derive(Debug, Args)]
pub(super) struct Pages {
    /// Which page, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(1..=u32::MAX))]
    page: u32,
    /// How many a page has, 500 at most (default: 20; of all pages 100)
    #[arg(long, value_name = "N", value_parser = whole(1..=500_u32))]
    per_page: Option<u32>,
    /// All pages, one after the other
    #[arg(long, conflicts_with = "page")]
    all: bool,
}

/// How much is read at most: a list that a service makes up need have no end.
#[derive(Debug, Clone, Copy)]
struct Most {
    items: usize,
    /// That they take in memory, in MiB.
    mebibytes: usize,
}

const MOST: Most = Most { items: 500_000, mebibytes: 1_024 };

/// A list that is too long.
#[derive(Debug, thiserror::Error)]
enum Endless {
    #[error("the service lists more than {0} of what is asked for, and says that there are more")]
    Items(usize),
    #[error("what the service lists takes more than {0} MiB of memory")]
    Mebibytes(usize),
}

/// How many a page has where all are read.
const MANY: u32 = 100;

impl Pages {
    /// Lists what `ask` gets: one page, or all of them. `kind` is one of its items in words, and `asked` says
    /// which were asked for, where that is not all.
    pub(super) async fn list<T: Identified>(
        &self,
        output: &Output,
        kind: &str,
        asked: &str,
        ask: impl AsyncFn(model::Page) -> Result<Page<T>, Failure>,
        table: impl Fn(&[Kept<T>]) -> Table,
    ) -> Result<(), Failure> {
        let page =
            if self.all { Page::of(self.every(kind, ask, MOST).await?) } else { ask(self.asked()).await? };
        let (table, seen) = (table(&page.data), self.seen(&page, kind, asked));
        let sent: Value = page.into_sent();
        output.print(&sent, || table)?;
        // Below the table, where a long one is read.
        if let Some(seen) = seen {
            tracing::info!("{seen}");
        }
        Ok(())
    }

    /// What a page does not say of itself: that it is none, or one of several.
    fn seen<T>(&self, page: &Page<T>, kind: &str, asked: &str) -> Option<String> {
        if page.data.is_empty() {
            return Some(match self.page {
                1 => format!("there is no {kind}{asked}"),
                page => format!("page {page} has no {kind}{asked}"),
            });
        }
        let Pagination { page_count, total, .. } = page.pagination?;
        let count = page_count.filter(|count| *count > 1)?;
        let of = total.map(|total| format!(", {} in all", counted(total, kind))).unwrap_or_default();
        Some(format!("page {} of {count}{of}; --page N shows another, --all all of them", self.page))
    }

    fn asked(&self) -> model::Page {
        model::Page::new(Some(self.page.into()), self.per_page.map(i64::from)).unwrap_or_default()
    }

    async fn every<T: Identified>(
        &self,
        kind: &str,
        ask: impl AsyncFn(model::Page) -> Result<Page<T>, Failure>,
        most: Most,
    ) -> Result<Vec<Kept<T>>, Failure> {
        let progress = Progress::begin();
        let (mut walk, mut all) = (Walk::new(self.per_page.unwrap_or(MANY)), Vec::new());
        let mut bytes = 0;
        while let Some(next) = walk.next() {
            let page = ask(next).await?;
            let of = page.pagination.and_then(|pagination| pagination.total);
            let new = walk.take(page);
            bytes += new.iter().map(Kept::size).sum::<usize>();
            all.extend(new);
            most.holds(all.len(), bytes)?;
            let read = counted(all.len() as u64, kind);
            progress.moved(of.map_or_else(|| read.clone(), |of| format!("{read} of {of}")));
        }
        Ok(all)
    }
}

impl Most {
    /// Whether so many items, which take so many bytes, are not more.
    fn holds(self, items: usize, bytes: usize) -> Result<(), Failure> {
        let endless = match self {
            Self { items: most, .. } if items > most => Endless::Items(most),
            Self { mebibytes, .. } if bytes >> 20 >= mebibytes => Endless::Mebibytes(mebibytes),
            _ => return Ok(()),
        };
        let hint = "ask for less at a time, by --page or by what it can be narrowed by".to_owned();
        Err(Failure::new(endless, Some(hint), Exit::Unreachable))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Item {
        id: i64,
    }

    impl Identified for Item {
        type Identity = i64;

        fn identity(&self) -> i64 {
            self.id
        }
    }

    /// What comes of a list without an end, of which each page has two items that hold this much.
    async fn endless(text: usize, most: Most) -> Failure {
        let ask = async |asked: model::Page| {
            assert!(asked.offset() < 1_000, "it ends");
            let data = [0, 1].map(|n| json!({"id": asked.offset() + n, "text": "x".repeat(text)}));
            let page = json!({"data": data, "pagination": {"page_count": 90_000_000_000_000_u64}});
            Ok(serde_json::from_value::<Page<Item>>(page).unwrap())
        };
        let pages = Pages { page: 1, per_page: Some(2), all: true };
        pages.every("trail", ask, most).await.map(|all| all.len()).unwrap_err()
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_one_by_its_items_or_by_what_they_take() {
        let most = Most { items: 100, mebibytes: 2 };
        for (text, says) in [(1_000, "more than 100 of what"), (100_000, "takes more than 2 MiB of memory")] {
            let failure = endless(text, most).await;
            assert_eq!(failure.exit(), Exit::Unreachable);
            assert!(failure.causes()[0].contains(says), "{failure:?}");
            assert!(failure.hint().unwrap().starts_with("ask for less at a time"));
        }
    }
}
