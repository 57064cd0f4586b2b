//! List the audit log: an extension of the interface.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::page::{Identified, Page};
use super::raw_response::time;
use super::span::Span;
use crate::domain::model::{self, Timestamp};

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditEntry {
    /// Its identifier.
    pub id: String,
    /// When the change was made.
    #[serde(default, deserialize_with = "time")]
    pub at: Option<Timestamp>,
    /// The token, or the bootstrap file.
    pub actor: String,
    /// The change.
    pub change: String,
}

impl Identified for AuditEntry {
    type Identity = String;

    fn identity(&self) -> String {
        self.id.clone()
    }
}

impl Client {
    /// GETs a page of the audit log, newest first: `/audit/{org}`.
    pub async fn audit(&self, span: Span, page: model::Page) -> Result<Page<AuditEntry>, Error> {
        let request = self.request(Method::GET, &["audit", self.organization().as_str()]);
        self.send(request.within(span).page(page)).await
    }
}
