//! Looks up whether a namespace exists. A list of its pods does not tell: it is empty in both cases.

use http::StatusCode;

use super::connect::Cluster;
use super::document::Kind;
use super::error::{Error, Permission};
use super::protobuf;
use super::status::{ACCEPT, Encoding};
use crate::domain::live::confirmation::Existence;
use crate::domain::model::NamespaceName;

/// Maximum size of a response, in bytes. API servers do not store larger objects.
const MAX_BYTES: usize = 4 * 1024 * 1024;

impl Cluster {
    /// Returns [`Existence::Exists`] or [`Existence::Missing`]. Requires permission to get the namespace, which
    /// a `Role` in it can grant.
    ///
    /// # Errors
    ///
    /// [`Error`] for any response other than the namespace or 404.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Existence, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, Permission::GetNamespace(name.clone()));
        match self.get(request.clone(), &path, ACCEPT).await {
            Ok(mut response) => {
                let mut start = Vec::new();
                while start.len() < MAX_BYTES
                    && let Some(frame) =
                        self.frame(&request, &mut response.body, self.timeouts().frame).await?
                {
                    start.extend_from_slice(&frame);
                }
                if kind(response.encoding, &start).as_deref() == Some("Namespace") {
                    return Ok(Existence::Exists);
                }
                Err(Error::UnexpectedResponse { request, problem: "expected a Namespace".into() })
            }
            Err(Error::Answered { status: StatusCode::NOT_FOUND, .. }) => Ok(Existence::Missing),
            Err(error) => Err(error),
        }
    }
}

/// The kind of the object in a response.
fn kind(encoding: Encoding, body: &[u8]) -> Option<String> {
    match encoding {
        Encoding::Protobuf => protobuf::kind(body),
        Encoding::Json => serde_json::from_slice::<Kind>(body).ok()?.kind,
        Encoding::Other => None,
    }
}
