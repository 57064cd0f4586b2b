//! Reads and changes of any resource, as JSON.

use std::fmt::Display;

use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::Client;
use super::error::{Error, ServiceRequest};
use super::hint::Resource;
use super::page::Page;

/// An operation of the service, without its method.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    /// What the operation is about, for messages.
    pub about: Resource<'a>,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
}

impl<'a> Operation<'a> {
    /// `path` is the kind of resource, and the segments after the organization.
    #[must_use]
    pub fn new(about: Resource<'a>, path: &[&str]) -> Self {
        Self { about, path: path.iter().map(ToString::to_string).collect(), query: Vec::new() }
    }

    /// Adds a query parameter for each value.
    #[must_use]
    pub fn with(mut self, parameter: &'static str, values: impl IntoIterator<Item: Display>) -> Self {
        self.query.extend(values.into_iter().map(|value| (parameter, value.to_string())));
        self
    }
}

impl Client {
    /// GETs JSON.
    pub async fn get<T: DeserializeOwned>(&self, operation: &Operation<'_>) -> Result<T, Error> {
        self.send(self.request_of(Method::GET, operation), None, &[StatusCode::OK]).await
    }

    /// GETs a page of a list.
    pub async fn get_page(&self, operation: &Operation<'_>, page: model::Page) -> Result<Page, Error> {
        let page = operation.clone().with("page", [page.number()]).with("per_page", [page.size()]);
        self.get(&page).await
    }

    /// Sends a change, which the service answers with JSON.
    pub async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        operation: &Operation<'_>,
        body: Option<&Value>,
    ) -> Result<T, Error> {
        self.send(self.request_of(method, operation), body, &[StatusCode::OK, StatusCode::CREATED]).await
    }

    fn request_of(&self, method: Method, operation: &Operation<'_>) -> ServiceRequest {
        let path: Vec<_> = operation.path.iter().map(String::as_str).collect();
        let mut request = self.request(method, &path);
        if !operation.query.is_empty() {
            request.url.query_pairs_mut().extend_pairs(&operation.query);
        }
        request
    }
}
