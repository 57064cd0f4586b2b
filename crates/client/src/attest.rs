//! Operation 5: attest JUnit test results; and bills of materials and signed evidence.

use bytes::Bytes;
use http::Method;
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use uuid::Uuid;

use super::body::{Progress, file};
use super::client::Client;
use super::error::Error;
use super::response::Receipt;
use model::{FlowName, TrailName};

/// A file that is stored with an attestation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, without folders.
    pub name: String,
    /// Its content.
    pub content: Bytes,
}

/// An attestation to send. Each retry sends the same one, by whose key the service recognizes a repetition.
#[derive(Debug, Clone)]
pub struct NewAttestation<'a> {
    kind: &'static str,
    flow: &'a FlowName,
    trail: &'a TrailName,
    data: String,
    file: Option<Attachment>,
    key: Uuid,
}

impl<'a> NewAttestation<'a> {
    /// `kind` is the last segment of the path: `junit`, or an extension of the interface.
    #[must_use]
    pub fn new(
        kind: &'static str,
        flow: &'a FlowName,
        trail: &'a TrailName,
        data: String,
        file: Option<Attachment>,
    ) -> Self {
        Self { kind, flow, trail, data, file, key: Uuid::now_v7() }
    }
}

impl Client {
    /// POSTs an attestation: `/attestations/{org}/{flow_name}/trail/{trail_name}/{kind}`, a form whose first part is
    /// `data_json`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx without a body or with JSON.
    pub async fn attest(&self, new: &NewAttestation<'_>) -> Result<Receipt, Error> {
        let NewAttestation { kind, flow, trail, data, file: attached, key } = new;
        let mut form = Form::new().text("data_json", data.clone());
        let length = attached.as_ref().map_or(0, |attached| attached.content.len() as u64);
        let progress = Progress::new(length);
        if let Some(Attachment { name, content }) = attached.clone() {
            let body = Body::wrap(file(content, progress.clone()));
            form = form.part("attachment_file", Part::stream_with_length(body, length).file_name(name));
        }
        let path = ["attestations", flow.as_str(), "trail", trail.as_str(), kind];
        // A string of structured fields (RFC 9651, section 3.3.3).
        let key = format!("\"{key}\"");
        let sent = self.post_form(self.request(Method::POST, &path), key, form, &progress).await?;
        Ok(sent.receipt)
    }
}
