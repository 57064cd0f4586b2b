//! Operation 5: attest JUnit test results.

use bytes::Bytes;
use http::Method;
use reqwest::Body;
use reqwest::multipart::{Form, Part};

use super::body::{Progress, file};
use super::client::Client;
use super::error::{Error, Request};
use crate::domain::model::{FlowName, TrailName};

/// A file that is stored with an attestation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, without folders.
    pub name: String,
    /// Its content.
    pub content: Bytes,
}

impl Client {
    /// The request of [`Client::attest_junit`].
    #[must_use]
    pub fn attest_junit_request(&self, flow: &FlowName, trail: &TrailName) -> Request {
        let organization = self.organization().as_str();
        let path = ["attestations", organization, flow.as_str(), "trail", trail.as_str(), "junit"];
        self.request(Method::POST, &path)
    }

    /// POSTs an attestation: `/attestations/{org}/{flow_name}/trail/{trail_name}/junit`, a form whose first part is
    /// `data_json`. Calls `on_progress` with the length of each chunk of the attachment.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx without a body or with JSON.
    pub async fn attest_junit(
        &self,
        flow: &FlowName,
        trail: &TrailName,
        data: String,
        attachment: Option<Attachment>,
        on_progress: impl Fn(u64) + Send + Sync + Unpin + 'static,
    ) -> Result<(), Error> {
        let mut form = Form::new().text("data_json", data);
        let length = attachment.as_ref().map_or(0, |attachment| attachment.content.len() as u64);
        let progress = Progress::new(length);
        if let Some(Attachment { name, content }) = attachment {
            let body = Body::wrap(file(content, progress.clone(), on_progress));
            form = form.part("attachment_file", Part::stream_with_length(body, length).file_name(name));
        }
        self.post_form(self.attest_junit_request(flow, trail), form, &progress).await.map(|_| ())
    }
}
