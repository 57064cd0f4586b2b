//! Whether a namespace exists: what a list of its pods does not say.

use http::StatusCode;

use super::connect::Cluster;
use super::document::Kind;
use super::error::{Error, Right};
use super::protobuf;
use super::status::{ACCEPT, Encoding};
use crate::domain::live::confirmation::Existence;
use crate::domain::model::NamespaceName;

/// The largest answer that is read, in bytes: an API server takes no larger object.
const MOST_BYTES: usize = 4 * 1024 * 1024;

impl Cluster {
    /// Asks whether a namespace exists: [`Existence::Exists`] or [`Existence::Missing`]. The right to get it is
    /// enough, and a `Role` in it grants that.
    ///
    /// # Errors
    ///
    /// [`Error`] where the API server does not say.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Existence, Error> {
        let path = format!("/api/v1/namespaces/{name}");
        let request = self.request(&path, Right::GetNamespace(name.clone()));
        match self.get(request.clone(), &path, ACCEPT).await {
            Ok(mut answer) => {
                let mut start = Vec::new();
                while start.len() < MOST_BYTES
                    && let Some(frame) = self.frame(&request, &mut answer.body, self.patience().frame).await?
                {
                    start.extend_from_slice(&frame);
                }
                if kind(answer.encoding, &start).as_deref() == Some("Namespace") {
                    return Ok(Existence::Exists);
                }
                Err(Error::Garbled { request, problem: "it is no Namespace".into() })
            }
            Err(Error::Answered { status: StatusCode::NOT_FOUND, .. }) => Ok(Existence::Missing),
            Err(error) => Err(error),
        }
    }
}

/// The kind of object that an answer holds.
fn kind(encoding: Encoding, body: &[u8]) -> Option<String> {
    match encoding {
        Encoding::Protobuf => protobuf::kind(body),
        Encoding::Json => serde_json::from_slice::<Kind>(body).ok()?.kind,
        Encoding::Other => None,
    }
}
