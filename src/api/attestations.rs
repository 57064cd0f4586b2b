//! Operation 2: list the attestations of a flow.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::Error;
use super::page::{Identified, Page};
use super::raw_response::time;
use super::span::Span;
use crate::domain::model::{self, FlowName, Timestamp};

/// An attestation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attestation {
    /// Its identifier.
    pub attestation_id: String,
    /// Its name.
    pub attestation_name: Option<String>,
    /// Its kind.
    pub attestation_type: Option<String>,
    /// Whether it passes.
    pub is_compliant: Option<bool>,
    /// The name of the reporter's token.
    pub reported_by: Option<String>,
    /// When the service received it.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
}

impl Identified for Attestation {
    type Identity = String;

    fn identity(&self) -> String {
        self.attestation_id.clone()
    }
}

impl Client {
    /// GETs a page of the attestations of a flow, newest first: `/attestations/{org}/{flow_name}`.
    pub async fn attestations(
        &self,
        flow: &FlowName,
        span: Span,
        page: model::Page,
    ) -> Result<Page<Attestation>, Error> {
        let path = ["attestations", self.organization().as_str(), flow.as_str()];
        self.send(self.request(Method::GET, &path).within(span).page(page)).await
    }
}
