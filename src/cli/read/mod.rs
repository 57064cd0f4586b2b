//! The commands that read: `list`, `get`, `diff`, `search`, `download`, `export` and `verify`.
//!
//! The response is printed as JSON or YAML, or its columns as a table. Transient failures are retried.

mod access_review;
mod actions;
mod approvals;
mod columns;
mod common;
mod cursor;
mod diff;
mod digests;
mod digests_in_use;
mod download;
mod get;
mod list;
mod live;
mod packages;
mod pages;
mod period;
mod search;
mod snapshot;
mod statement;

pub(crate) use self::approvals::decide;
pub(crate) use self::columns::{Column, Format, Objects, at, fields, finding, items, state_of, table, text};
pub(crate) use self::common::{Common, Requests, client, organization, warn};
pub(crate) use self::diff::Diff;
pub(crate) use self::download::Subject;
pub(crate) use self::get::GetResource;
pub(crate) use self::list::ListResource;
#[cfg(feature = "service")]
pub(crate) use self::live::row;
#[cfg(feature = "service")]
pub(crate) use self::packages::{PACKAGES, coverage};
pub(crate) use self::search::{Search, conflict_line, evidence_lines};
pub(crate) use self::statement::{Export, Verify};
