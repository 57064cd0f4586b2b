//! The commands that read: `list`, `get`, `diff`, `search`, `download`, `export` and `verify`.
//!
//! The response is printed as JSON or YAML, or its columns as a table. Transient failures are retried.

mod access_review;
mod actions;
mod approvals;
mod columns;
mod common;
mod diff;
mod download;
mod get;
mod list;
mod live;
mod pages;
mod period;
mod search;
mod statement;

pub(super) use self::approvals::decide;
pub(super) use self::columns::{Column, Format, Objects, at, fields, items, reason_text, table, text};
pub(super) use self::common::{Common, Requests, client, organization, warn};
pub(super) use self::diff::Diff;
pub(super) use self::download::Download;
pub(super) use self::get::Get;
pub(super) use self::list::List;
#[cfg(feature = "service")]
pub(super) use self::live::row;
pub(super) use self::search::Search;
pub(super) use self::statement::{Export, Verify};
