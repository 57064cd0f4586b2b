//! Lists that come in pages: one of them, or all.

use clap::Args;
use serde_json::Value;

use crate::agent::counted;
use crate::api::{Identified, Kept, Page, Pagination, Walk};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, Progress, Table};
use crate::domain::model;

#[derive(Debug, Args)]
pub(super) struct Pages {
    /// Which page, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page: u32,
    /// How many a page has, 500 at most (default: 20; of all pages 100)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    per_page: Option<u32>,
    /// All pages, one after the other
    #[arg(long, conflicts_with = "page")]
    all: bool,
}

/// How many are read at most: a list that a service makes up need have no end.
const MOST: usize = 500_000;

/// A list that is too long.
#[derive(Debug, thiserror::Error)]
#[error("the service lists more than {MOST} of what is asked for, and says that there are more")]
struct Endless;

/// How many a page has where all are read.
const MANY: u32 = 100;

impl Pages {
    /// Lists what `ask` gets: one page, or all of them. `kind` is one of its items in words.
    pub(super) async fn list<T: Identified>(
        &self,
        output: &Output,
        kind: &str,
        ask: impl AsyncFn(model::Page) -> Result<Page<T>, Failure>,
        table: impl Fn(&[Kept<T>]) -> Table,
    ) -> Result<(), Failure> {
        let page = if self.all { Page::of(self.every(kind, ask).await?) } else { ask(self.asked()).await? };
        match &page {
            Page { data, .. } if data.is_empty() && self.page > 1 => {
                tracing::info!("page {} has no {kind}", self.page);
            }
            Page { data, .. } if data.is_empty() => tracing::info!("there is no {kind}"),
            Page { pagination: Some(Pagination { page_count: Some(count), total, .. }), .. }
                if *count > 1 =>
            {
                let of = total.map(|total| format!(", {} in all", counted(total, kind))).unwrap_or_default();
                tracing::info!(
                    "page {} of {count}{of}; --page N shows another, --all all of them",
                    self.page
                );
            }
            _ => {}
        }
        let table = table(&page.data);
        let sent: Value = page.into_sent();
        output.print(&sent, || table)
    }

    fn asked(&self) -> model::Page {
        model::Page::new(Some(self.page.into()), self.per_page.map(i64::from)).unwrap_or_default()
    }

    async fn every<T: Identified>(
        &self,
        kind: &str,
        ask: impl AsyncFn(model::Page) -> Result<Page<T>, Failure>,
    ) -> Result<Vec<Kept<T>>, Failure> {
        let progress = Progress::begin();
        let (mut walk, mut all) = (Walk::new(self.per_page.unwrap_or(MANY)), Vec::new());
        while let Some(next) = walk.next() {
            let page = ask(next).await?;
            let of = page.pagination.and_then(|pagination| pagination.total);
            all.extend(walk.take(page));
            if all.len() > MOST {
                let hint =
                    Some("ask for less at a time, by --page or by what it can be narrowed by".to_owned());
                return Err(Failure::new(Endless, hint, Exit::Unreachable));
            }
            let read = counted(all.len() as u64, kind);
            progress.moved(of.map_or_else(|| read.clone(), |of| format!("{read} of {of}")));
        }
        Ok(all)
    }
}
