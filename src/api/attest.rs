//! Operation 5: attest JUnit test results.

use http::Method;
use reqwest::multipart::{Form, Part};
use serde_json::Value;

use super::client::Client;
use super::error::{Error, Request};
use crate::domain::model::{FlowName, TrailName};

/// A file that is kept with an attestation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, without folders.
    pub name: String,
    /// What it holds.
    pub content: Vec<u8>,
}

impl Client {
    /// The request that [`Client::attest_junit`] makes.
    #[must_use]
    pub fn attest_junit_request(&self, flow: &FlowName, trail: &TrailName) -> Request {
        let organization = self.organization().as_str();
        let path = ["attestations", organization, flow.as_str(), "trail", trail.as_str(), "junit"];
        self.request(Method::POST, &path)
    }

    /// POSTs an attestation: `/attestations/{org}/{flow_name}/trail/{trail_name}/junit`, a form whose
    /// first part is `data_json`.
    ///
    /// # Errors
    ///
    /// [`Error`] for everything but a 2xx with no body or JSON.
    pub async fn attest_junit(
        &self,
        flow: &FlowName,
        trail: &TrailName,
        data: &Value,
        attachment: Option<Attachment>,
    ) -> Result<(), Error> {
        let data = data.to_string();
        let mut bytes = data.len();
        let mut form = Form::new().text("data_json", data);
        if let Some(Attachment { name, content }) = attachment {
            bytes += content.len();
            form = form.part("attachment_file", Part::bytes(content).file_name(name));
        }
        self.post_form(self.attest_junit_request(flow, trail), form, bytes as u64).await.map(|_| ())
    }
}
