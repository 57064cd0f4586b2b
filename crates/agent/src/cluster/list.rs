//! Queries and responses of lists: a page, or a whole list.
//!
//! Called by `watch`. Responses are decoded as they arrive, with one object in memory at a time.
//!
//! Only complete lists are used: a page that fails or is truncated, even on a connection without an error, fails the
//! whole list.

use std::time::Duration;

use kube::client::Body;

use super::connect::{Cluster, Response};
use super::error::{ClusterRequest, Error};
use super::messages::ListMeta;
use super::object::Object;
use super::protobuf::ListReader;
use super::status::{Encoding, message};
use super::unreadable::Unreadable;

/// Number of objects per page.
const PAGE_SIZE: u32 = 500;

/// Maximum size of a page in JSON, in bytes. JSON is buffered completely; API servers prefer protobuf.
const MAX_JSON_BYTES: usize = 64 * 1024 * 1024;

/// The query of the first page, or of the page for a continue token.
pub(super) fn page_query(token: Option<&str>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &PAGE_SIZE.to_string());
    if let Some(token) = token {
        query.append_pair("continue", token);
    }
    format!("?{}", query.finish())
}

/// Reads a response and returns the metadata of the list. `within` bounds the time between two frames.
pub(super) async fn read<T: Object>(
    cluster: &Cluster,
    request: &ClusterRequest,
    response: &mut Response,
    within: Duration,
    mut each: impl FnMut(Result<T::View, Unreadable>),
) -> Result<ListMeta, Error> {
    let mut each = |object: Result<T, Unreadable>| each(object.map(Into::into));
    let Response { encoding, body } = response;
    let invalid = |problem: String| Error::UnexpectedResponse { request: request.clone(), problem };
    match encoding {
        Encoding::Protobuf => {
            let mut reader = ListReader::default();
            while let Some(frame) = cluster.frame(request, body, within).await? {
                reader.feed(&frame, &mut each).map_err(|e| invalid(e.to_string()))?;
            }
            reader.finish().map_err(|e| invalid(e.to_string()))
        }
        Encoding::Json => {
            let mut json = Vec::new();
            while let Some(frame) = cluster.frame(request, body, within).await? {
                json.extend_from_slice(&frame);
                if json.len() > MAX_JSON_BYTES {
                    return Err(invalid(format!("JSON is longer than {MAX_JSON_BYTES} bytes")));
                }
            }
            T::read_json(&json, &mut each).map_err(invalid)
        }
        Encoding::Other => Err(unknown_encoding(cluster, request, body, within).await),
    }
}

/// The error for a successful response in an unknown encoding, with the start of its body.
pub(super) async fn unknown_encoding(
    cluster: &Cluster,
    request: &ClusterRequest,
    body: &mut Body,
    within: Duration,
) -> Error {
    match cluster.frame(request, body, within).await {
        Ok(start) => {
            let start =
                message(Encoding::Other, &start.unwrap_or_default(), |text| cluster.without_secrets(text));
            let problem = format!("expected Kubernetes protobuf or JSON, got \"{start}\"");
            Error::UnexpectedResponse { request: request.clone(), problem }
        }
        Err(error) => error,
    }
}
