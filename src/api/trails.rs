//! Operation 1: list trails.

use http::Method;
use serde::Deserialize;

use super::client::Client;
use super::error::{Error, Request};
use super::page::{Identified, Page};
use super::raw_response::{null_is_default, time};
use crate::domain::model::{self, Fingerprint, FlowName, Timestamp};

/// A trail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Trail {
    /// Its name in its flow.
    pub name: String,
    /// Its flow.
    #[serde(default, deserialize_with = "null_is_default")]
    pub flow: Flow,
    /// Whether it meets the requirements of its flow.
    pub is_compliant: Option<bool>,
    /// The commit that it is about.
    pub git_commit_info: Option<Commit>,
    /// The name of the first reporter's token.
    pub created_by: Option<String>,
    /// When its last attestation was received.
    #[serde(default, deserialize_with = "time")]
    pub last_modified_at: Option<Timestamp>,
}

/// The flow of a trail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Flow {
    /// Its name.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
}

/// The commit of a trail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Commit {
    /// Its hash.
    pub sha1: Option<String>,
}

/// Filters of a list of trails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// By flow.
    pub flow: Option<FlowName>,
    /// By key and value of a tag of the flow.
    pub tag: Option<(String, String)>,
    /// By attested artifact.
    pub fingerprint: Option<Fingerprint>,
}

impl Identified for Trail {
    type Identity = (String, String);

    fn identity(&self) -> (String, String) {
        (self.flow.name.clone(), self.name.clone())
    }
}

impl Client {
    /// GETs a page of the trails of the organization, newest first: `/trails/{org}`.
    pub async fn trails(&self, filter: &Filter, page: model::Page) -> Result<Page<Trail>, Error> {
        self.send(self.trails_request(filter).page(page)).await
    }

    fn trails_request(&self, Filter { flow, tag, fingerprint }: &Filter) -> Request {
        let mut request = self.request(Method::GET, &["trails", self.organization().as_str()]);
        if let Some(flow) = flow {
            request = request.with("flow", flow.as_str());
        }
        if let Some((key, value)) = tag {
            request = request.with("flow_tag", &format!("{key}={value}"));
        }
        if let Some(fingerprint) = fingerprint {
            request = request.with("fingerprint", &fingerprint.to_string());
        }
        request
    }
}
