//! Reads resources of which commands print all fields, or a table: operations beyond the interface.

use http::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::client::Client;
use super::error::{Error, Request};
use super::page::{Identified, Page};
use crate::domain::evidence::envelope::Envelope;
use crate::domain::model::{self, EnvironmentSnapshot};

/// A JSON object.
pub type Object = Map<String, Value>;

/// An item of a list: an object, of which only its JSON is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    identity: String,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { identity: serde_json::to_string(&Object::deserialize(deserializer)?).unwrap_or_default() })
    }
}

/// Two items are the same if all of their fields are.
impl Identified for Item {
    type Identity = String;

    fn identity(&self) -> String {
        self.identity.clone()
    }
}

impl Client {
    /// GETs an object: `/{kind}/{org}/…`.
    pub async fn object(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Object, Error> {
        self.send(self.resource(path, query)).await
    }

    /// GETs a list: all of it, or a page.
    pub async fn items(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        page: Option<model::Page>,
    ) -> Result<Page<Item>, Error> {
        let request = self.resource(path, query);
        match page {
            None => self.send(request).await,
            Some(page) => Ok(self.send::<Page<Item>>(request.page(page)).await?.with_unknown_size()),
        }
    }

    /// GETs a signed statement about what ran: `/snapshots/{org}/{env_name}/{snapshot}/statement`.
    pub async fn statement(&self, of: &EnvironmentSnapshot) -> Result<Envelope, Error> {
        let expression = of.expression.to_string();
        self.send(self.resource(&["snapshots", of.environment.as_str(), &expression, "statement"], &[])).await
    }

    /// `path` is the kind of resource, and the segments after the organization.
    fn resource(&self, path: &[&str], query: &[(&str, &str)]) -> Request {
        let (kind, rest) = path.split_first().unwrap_or((&"", &[]));
        let path = [&[*kind, self.organization().as_str()], rest].concat();
        let request = self.request(Method::GET, &path);
        query.iter().fold(request, |request, (name, value)| request.with(name, value))
    }
}
