//! Operation 5: attest JUnit test results; and bills of materials and signed evidence.

use bytes::Bytes;
use http::Method;
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use uuid::Uuid;

use super::body::{Progress, file};
use super::client::Client;
use super::error::Error;
use super::response::Success;
use model::{FlowName, TrailName};

/// A file that is stored with an attestation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, without folders.
    pub name: String,
    /// Its content.
    pub content: Bytes,
}

/// Identifies a request, by which the service recognizes a repetition.
#[derive(Debug, Clone)]
pub struct IdempotencyKey(Uuid);

/// What the service read of a bill of materials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillReceipt {
    /// Such as `CycloneDX 1.6, 123 packages`; `None` if it read nothing.
    pub bill: Option<String>,
    /// Why it did not.
    pub warning: Option<String>,
}

impl IdempotencyKey {
    /// A key for a new request. Retries of the request use the same.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Client {
    /// POSTs an attestation: `/attestations/{org}/{flow_name}/trail/{trail_name}/junit`, a form whose first part is
    /// `data_json`.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] unless the response is a 2xx without a body or with JSON.
    pub async fn attest_junit(
        &self,
        key: &IdempotencyKey,
        flow: &FlowName,
        trail: &TrailName,
        data: String,
        attachment: Option<Attachment>,
    ) -> Result<(), Error> {
        self.attest("junit", key, flow, trail, data, attachment).await.map(|_| ())
    }

    /// POSTs a bill of materials in the same way: `…/trail/{trail_name}/sbom`, an extension of the interface.
    ///
    /// # Errors
    ///
    /// As [`Self::attest_junit`].
    pub async fn attest_sbom(
        &self,
        key: &IdempotencyKey,
        flow: &FlowName,
        trail: &TrailName,
        data: String,
        file: Attachment,
    ) -> Result<BillReceipt, Error> {
        let Success { bill, warning, .. } = self.attest("sbom", key, flow, trail, data, Some(file)).await?;
        Ok(BillReceipt { bill, warning })
    }

    /// POSTs signed evidence in the same way: `…/trail/{trail_name}/bundle`, an extension of the interface. Returns what the
    /// service verified.
    ///
    /// # Errors
    ///
    /// As [`Self::attest_junit`].
    pub async fn attest_bundle(
        &self,
        key: &IdempotencyKey,
        flow: &FlowName,
        trail: &TrailName,
        data: String,
        file: Attachment,
    ) -> Result<Option<String>, Error> {
        self.attest("bundle", key, flow, trail, data, Some(file)).await.map(|success| success.signed)
    }

    async fn attest(
        &self,
        kind: &str,
        key: &IdempotencyKey,
        flow: &FlowName,
        trail: &TrailName,
        data: String,
        attachment: Option<Attachment>,
    ) -> Result<Success, Error> {
        let mut form = Form::new().text("data_json", data);
        let length = attachment.as_ref().map_or(0, |attachment| attachment.content.len() as u64);
        let progress = Progress::new(length);
        if let Some(Attachment { name, content }) = attachment {
            let body = Body::wrap(file(content, progress.clone()));
            form = form.part("attachment_file", Part::stream_with_length(body, length).file_name(name));
        }
        let path = ["attestations", flow.as_str(), "trail", trail.as_str(), kind];
        // A string of structured fields (RFC 9651, section 3.3.3).
        let key = format!("\"{}\"", key.0);
        self.post_form(self.request(Method::POST, &path), key, form, &progress).await
    }
}
