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
    /// Whether it is as its flow expects.
    #[serde(default)]
    pub is_compliant: Option<bool>,
    /// The commit that it is about.
    #[serde(default)]
    pub git_commit_info: Option<Commit>,
    /// Whose token began it.
    #[serde(default)]
    pub created_by: Option<String>,
    /// When something was last reported to it.
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
    #[serde(default)]
    pub sha1: Option<String>,
}

/// Which trails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of this flow.
    pub flow: Option<FlowName>,
    /// Those of flows with this tag: its key and its value.
    pub tag: Option<(String, String)>,
    /// Those that this artifact was reported to.
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
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 200 with the JSON that is expected.
    pub async fn trails(&self, filter: &Filter, page: model::Page) -> Result<Page<Trail>, Error> {
        self.get(self.trails_request(filter).page(page)).await
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
