//! Read the log: an extension of the interface.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use crate::domain::evidence::log::verification::{RecordedEntry, RowCounts};

/// A page of the log.
#[derive(Debug, Clone, Deserialize)]
pub struct LogPage {
    /// Its entries, oldest first.
    pub entries: Vec<RecordedEntry>,
    /// The checkpoint of the whole log, as a note.
    pub checkpoint: String,
    /// On the last page: the numbers of stored rows.
    pub rows: Option<RowCounts>,
}

impl Client {
    /// GETs the entries of the log after this one: `/log/{org}`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a page.
    pub async fn log(&self, after: i64) -> Result<LogPage, Error> {
        let request = self.request(Method::GET, &["log", self.organization().as_str()]);
        self.send(request.with("after", &after.to_string())).await
    }
}
